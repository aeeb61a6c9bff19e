import sys
from pathlib import Path

import pytest

from tests.plugged import CRASH, fake_package, needs
from tests.support import parse
from xoptim.targets.process import PlacementError, Question, ask
from xoptim.verification import ProviderUnavailable

MODEL = parse("agraph (float[2] x) => (float[2] y) { y = Relu(x) }")
MODEL.graph.node[0].name = "xopt_node_0"
DATA = MODEL.SerializeToString()


def test_the_parts_of_a_provider() -> None:
    answer, _ = ask(Question("place", "cpu", model=DATA), 60)
    assert (answer.parts, answer.error) == ((("CPUExecutionProvider", ("xopt_node_0",)),), "")


def test_a_model_that_is_refused() -> None:
    model = parse("agraph (float[2] x) => (float[2] y) { y = Nonsense(x) }")
    answer, _ = ask(Question("place", "cpu", model=model.SerializeToString()), 60)
    assert "Nonsense" in answer.error
    assert "\n" not in answer.error


def test_a_provider_that_onnxruntime_lacks() -> None:
    with pytest.raises(ProviderUnavailable, match="migraphx"):
        ask(Question("place", "migraphx", model=DATA), 60)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
@pytest.mark.parametrize("kind", ["place", "devices"])
def test_a_library_that_ends_the_process(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_package("qnn", CRASH, tmp_path, monkeypatch)
    answer, log = ask(Question(kind, "qnn", model=DATA), 60)  # type: ignore[arg-type]
    assert "SIGSEGV" in answer.error
    assert (answer.parts, log) == ((), [])


def test_a_library_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_package(
        "qnn",
        "import time\n\ndef get_library_path():\n    time.sleep(600)\n",
        tmp_path,
        monkeypatch,
    )
    with pytest.raises(PlacementError, match=r"'qnn' .* 0\.1 s$"):
        ask(Question("devices", "qnn"), 0.1)


def test_a_library_that_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "def get_library_path():\n"
        "    print('noise', flush=True)\n"
        "    raise OSError('no\\nlibrary')\n"
    )
    fake_package("qnn", text, tmp_path, monkeypatch)
    with pytest.raises(ProviderUnavailable, match=r"'qnn' .*: no library$"):
        ask(Question("devices", "qnn"), 60)


@needs("webgpu")
def test_the_log_says_why_a_node_is_left() -> None:
    model = parse("agraph (double[2] x) => (double[2] y) { y = Relu(x) }")
    model.graph.node[0].name = "xopt_node_0"
    _, log = ask(Question("place", "webgpu", True, model.SerializeToString()), 60)
    assert any("kernel" in line for line in log)
    answer, _ = ask(Question("devices", "webgpu", True), 60)
    assert answer.devices
