"""Whether a model is done depends on its content, the options that determine a result, and
versions.
"""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support import parse
from xoptim.batching import BatchOptions
from xoptim.batching.job import content_key, model_files


def external(folder: Path) -> Path:
    model = parse("agraph (float[4] x) => (float[4] y) { y = Add(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    onnx.save(
        model, folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0
    )
    return folder / "m.onnx"


def test_files_of_a_model(tmp_path: Path) -> None:
    model = external(tmp_path)
    assert model_files(model) == [model, tmp_path / "m.bin"]
    (tmp_path / "m.bin").unlink()
    assert model_files(model) == [model]
    model.write_bytes(b"damaged")
    assert model_files(model) == [model]


def test_times_and_places_do_not_count(tmp_path: Path) -> None:
    model = external(tmp_path)
    options = BatchOptions(jobs=2, timeout=3)
    before = content_key(model_files(model), options)
    os.utime(model, (0, 0))
    moved = model.rename(tmp_path / "n.onnx")
    assert content_key(model_files(moved), BatchOptions(scheduler="tcp://x")) == before


def test_contents_options_and_versions_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, rules, data = external(tmp_path), tmp_path / "rules.txt", tmp_path / "data"
    data.mkdir()
    (data / "input_0.pb").write_text("a")
    rules.write_text("a")
    options = BatchOptions(files=(rules, data))
    keys = [content_key(model_files(model), options)]

    def again(changed: BatchOptions = options) -> None:
        keys.append(content_key(model_files(model), changed))

    again(BatchOptions(files=(rules, data), arguments=("--inline",)))
    again(BatchOptions(files=(rules, data), memory=10**9))
    rules.write_text("b")
    again()
    (data / "input_0.pb").write_text("b")
    again()
    (data / "input_0.pb").rename(data / "input_1.pb")
    again()
    (tmp_path / "m.bin").write_bytes(bytes(16))
    again()
    monkeypatch.setenv("DROPPATTERN", "Gelu")
    again()
    monkeypatch.setattr("onnx.__version__", "0.0")
    again()
    assert len(set(keys)) == len(keys)
