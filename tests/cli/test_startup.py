"""``--for startup``: the files, the summary, and what it excludes."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import xoptim
from tests.cli.command import Outcome, Xopt, files, write
from tests.support import parse
from xoptim.tuning.startup import NO_PREPACKING, StartupSearch
from xoptim.verification.runs.session_settings import SessionSettings

SETTINGS = "model.opt.onnx.session.json"
WRITTEN = {"model.onnx", "model.opt.onnx", "model.opt.onnx.data", SETTINGS}


pytestmark = pytest.mark.usefixtures("brief")


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No prepacking is chosen, whatever this machine measures."""

    def run(_: StartupSearch) -> SessionSettings:
        return SessionSettings(level="basic", reuse=True, entries=(NO_PREPACKING,))

    monkeypatch.setattr(StartupSearch, "run", run)


def write_layer() -> np.ndarray:
    """A MatMul whose weight is in the model; returns the weight."""
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model = parse("agraph (float[n,64] x) => (float[n,64] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(model, "model.onnx")
    return weight


@pytest.mark.usefixtures("unpacked")
def test_the_files(xopt: Xopt) -> None:
    weight = write_layer()
    code, out, err = xopt("model.onnx", "--for", "startup")
    assert (code, err) == (0, "")
    assert files() == WRITTEN
    summary = Outcome(code, out, err).summary
    assert summary["written"] == f"model.opt.onnx.data, {SETTINGS}, model.opt.onnx"
    assert summary["session"].endswith(": basic, no prepacking")
    settings = json.loads(Path(SETTINGS).read_text(encoding="utf-8"))
    assert settings["graph_optimization_level"] == "basic"
    assert settings["session_config_entries"] == dict([NO_PREPACKING])
    session = xoptim.session("model.opt.onnx")
    assert session.get_session_options().get_session_config_entry(NO_PREPACKING[0]) == "1"
    x = np.ones((3, 64), np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ weight, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("unpacked")
def test_the_weights_are_aligned_to_pages(xopt: Xopt) -> None:
    write_layer()
    xopt("model.onnx", "--for", "startup")
    (weight,) = onnx.load("model.opt.onnx", load_external_data=False).graph.initializer
    entries = {entry.key: entry.value for entry in weight.external_data}
    assert entries["location"] == "model.opt.onnx.data"
    assert int(entries["offset"]) % 4096 == 0


@pytest.mark.usefixtures("unpacked")
def test_as_json(xopt: Xopt) -> None:
    write_layer()
    written = xopt("model.onnx", "--for", "startup", "--json").json["written"]
    assert written == ["model.opt.onnx.data", SETTINGS, "model.opt.onnx"]


def test_the_measurement(xopt: Xopt) -> None:
    """Whatever this machine measures, the file can be read."""
    write_layer()
    assert xopt("model.onnx", "--for", "startup", "-q").code == 0
    assert xoptim.session("model.opt.onnx").get_inputs()[0].name == "x"


def test_the_values_of_the_measurement(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several sizes, also where nothing else runs the model."""
    sizes: list[object] = []

    def run(search: StartupSearch) -> SessionSettings:
        feeds = [baseline.runs[0].feeds["x"] for baseline in search.baselines]
        sizes.extend(np.shape(x) for x in feeds)  # type: ignore[arg-type]
        return SessionSettings(level="all")

    monkeypatch.setattr(StartupSearch, "run", run)
    write_layer()
    words = ("model.onnx", "--for", "startup", "--dim", "n=2,5")
    for more in ((), ("--no-verify",)):
        assert xopt(*words, *more).code == 0
        assert sizes == [(2, 64), (5, 64)]
        sizes.clear()


@pytest.mark.usefixtures("unpacked")
def test_in_place_and_without_writing(xopt: Xopt) -> None:
    write_layer()
    out = xopt("model.onnx", "--for", "startup", "--dry-run").out
    assert "session" not in out
    assert files() == {"model.onnx"}
    assert xopt("model.onnx", "--for", "startup", "--in-place").code == 0
    assert files() == {"model.onnx", "model.onnx.data", "model.onnx.session.json"}


@pytest.mark.usefixtures("unpacked")
def test_with_quantization(xopt: Xopt) -> None:
    """Quantization is for speed."""
    write_layer()
    assert xopt("model.onnx", "--for", "startup", "--precision", "float16").code == 0
    assert files() == WRITTEN


@pytest.mark.usefixtures("unpacked")
def test_a_refused_result_leaves_no_settings(xopt: Xopt) -> None:
    write("agraph (float[n,4] x) => (float[n,4] y) { a = Exp(x) b = Neg(a) y = Log(b) }")
    assert xopt("model.onnx", "--for", "startup", "--strict").code == 1
    assert files() == {"model.onnx"}


@pytest.mark.usefixtures("unpacked")
def test_files_that_are_damaged_later(xopt: Xopt) -> None:
    write_layer()
    xopt("model.onnx", "--for", "startup")
    text = Path(SETTINGS).read_text(encoding="utf-8")
    for damage, message in ((text[:20], "are damaged"), ("[]", "are damaged")):
        Path(SETTINGS).write_text(damage, encoding="utf-8")
        with pytest.raises(xoptim.XoptimError, match=message) as caught:
            xoptim.session("model.opt.onnx")
        assert "\n" not in str(caught.value)
    Path(SETTINGS).write_text(text, encoding="utf-8")
    Path("model.opt.onnx.data").unlink()
    with pytest.raises(xoptim.XoptimError, match="cannot load") as caught:
        xoptim.session("model.opt.onnx")
    assert "model.opt.onnx.data" in str(caught.value)
    assert "[ONNXRuntimeError]" not in str(caught.value)
