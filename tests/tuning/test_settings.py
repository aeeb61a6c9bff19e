"""The file with the settings of a session: round trip, damage, the session that it makes."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xoptim
from tests.support import parse
from xoptim.tuning import SettingsError, read_settings, settings_path
from xoptim.tuning.settings import settings_text
from xoptim.verification import ProviderUnavailable, SessionSettings
from xoptim.verification.errors import LoadError

TUNED = SessionSettings(
    ("cpu",),
    "extended",
    2,
    disabled_optimizers=("SkipLayerNormFusion", "GeluFusionL2"),
    memory_pattern=False,
    entries=(("session.intra_op.allow_spinning", "0"),),
)
RELU = "agraph (float[n] x) => (float[n] y) { y = Relu(x) }"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with settings next to it."""
    path = tmp_path / "model.onnx"
    path.write_bytes(parse(RELU).SerializeToString())
    settings_path(path).write_text(settings_text(TUNED), encoding="utf-8")
    return path


def test_round_trip(model: Path) -> None:
    found = read_settings(settings_path(model))
    assert settings_text(found) == settings_text(TUNED)
    assert found.providers == ("CPUExecutionProvider",)
    assert (found.level, found.threads, found.memory_pattern) == ("extended", 2, False)
    assert found.disabled_optimizers == TUNED.disabled_optimizers
    assert found.entries == TUNED.entries
    assert found.reuse


def test_a_session_has_the_settings(model: Path) -> None:
    session = xoptim.session(model)
    assert session.get_providers() == ["CPUExecutionProvider"]
    options = session.get_session_options()
    assert options.intra_op_num_threads == 2
    assert not options.enable_mem_pattern
    assert options.graph_optimization_level.name == "ORT_ENABLE_EXTENDED"
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    (y,) = session.run(None, {"x": np.array([-1, 2], np.float32)})
    assert y.tolist() == [0, 2]


def test_settings_that_are_missing(model: Path) -> None:
    settings_path(model).unlink()
    missing = rf"model\.onnx\.session\.json': {os.strerror(errno.ENOENT)}"
    with pytest.raises(SettingsError, match=missing):
        xoptim.session(str(model))


def test_a_model_that_is_missing(model: Path) -> None:
    model.unlink()
    with pytest.raises(LoadError, match=r"no model .*model\.onnx"):
        xoptim.session(model)


def test_a_model_that_cannot_be_loaded(model: Path) -> None:
    model.write_bytes(b"no model")
    with pytest.raises(LoadError, match="cannot load"):
        xoptim.session(model)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b"null", b"{}", b'{"version": 1}', b"[" * 100_000]
)
def test_files_that_are_not_settings(model: Path, content: bytes) -> None:
    settings_path(model).write_bytes(content)
    with pytest.raises(SettingsError, match=r"damaged: .*xopt tune"):
        xoptim.session(model)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("version", 2, "version 2 "),
        ("version", True, "'version' .* int"),
        ("providers", [], "must be strings"),
        ("providers", [1], "must be strings"),
        ("providers", "cpu", "'providers'"),
        ("graph_optimization_level", "most", "level 'most'"),
        ("intra_op_num_threads", -1, " 0 to 65536"),
        ("intra_op_num_threads", 1 << 80, " 0 to 65536"),
        ("intra_op_num_threads", 1.5, "'intra_op_num_threads'"),
        ("disabled_optimizers", [None], "must be strings"),
        ("enable_mem_pattern", 1, "'enable_mem_pattern'"),
        ("session_config_entries", {"a": 1}, "must be strings"),
        ("more", 1, "'more' is not known"),
    ],
)
def test_damaged_settings(model: Path, name: str, value: Any, message: str) -> None:
    path = settings_path(model)
    path.write_text(
        json.dumps({**json.loads(path.read_text(encoding="utf-8")), name: value}), encoding="utf-8"
    )
    with pytest.raises(SettingsError, match=message):
        read_settings(path)


def test_a_provider_that_is_not_here(model: Path) -> None:
    path = settings_path(model)
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(
        json.dumps({**values, "providers": ["AbacusExecutionProvider"]}), encoding="utf-8"
    )
    with pytest.raises(ProviderUnavailable, match="Abacus"):
        xoptim.session(model)
