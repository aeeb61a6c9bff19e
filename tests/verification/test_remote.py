import os
import signal
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.plugged import array, needs
from tests.support import parse
from xoptim.verification import LoadError, RunError, Session, SessionSettings
from xoptim.verification.runs.remote import RemoteSession

PLAIN = parse("agraph (float[a,3] x) => (float[a,3] y, int64[2] s) { y = Relu(x) s = Shape(x) }")
FEEDS = {"x": np.array([[-1, 2, 3]], np.float32)}


def remote(model: onnx.ModelProto | str = PLAIN) -> RemoteSession:
    source = model if isinstance(model, str) else model.SerializeToString()
    return RemoteSession(source, None, {}, SessionSettings())


def test_ports_and_results() -> None:
    session = remote()
    inputs, outputs, fed = session.ports
    assert [port.name for port in inputs] == ["x"]
    assert [(port.name, port.type) for port in outputs] == [
        ("y", "tensor(float)"),
        ("s", "tensor(int64)"),
    ]
    assert fed == {"x"}
    y, shape = session.run(FEEDS)
    assert np.array_equal(array(y), [[0, 2, 3]])
    assert np.array_equal(array(shape), [1, 3])


def test_results_of_types_that_numpy_lacks() -> None:
    model = parse("agraph (bfloat16[2] x) => (bfloat16[2] y) { y = Identity(x) }")
    (y,) = remote(model).run({"x": np.array([1, 2], ml_dtypes.bfloat16)})
    assert isinstance(y, np.ndarray)
    assert y.dtype == ml_dtypes.bfloat16


def test_a_file_with_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(PLAIN.SerializeToString())
    assert np.array_equal(array(remote("model.onnx").run(FEEDS)[0]), [[0, 2, 3]])


def test_a_model_that_is_refused() -> None:
    with pytest.raises(LoadError, match="Nonsense"):
        remote(parse("agraph (float[1] x) => (float[1] y) { y = Nonsense(x) }"))


def test_values_that_are_refused_leave_the_session() -> None:
    session = remote()
    with pytest.raises(RunError):
        session.run({"x": np.zeros(3, np.float32)})
    assert np.array_equal(array(session.run(FEEDS)[0]), [[0, 2, 3]])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_process_that_is_killed() -> None:
    session = remote()
    os.kill(session._child.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(RunError, match=r"'cpu' .*SIGKILL$"):
            session.run(FEEDS)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal 0")
def test_the_process_ends_with_the_session() -> None:
    session = remote()
    pid = session._child.pid
    os.kill(pid, 0)
    del session
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@needs("qnn")
def test_weights_that_replace_initializers() -> None:
    model = parse("agraph (float[3] x) => (float[3] y) <float[3] w = {1, 1, 1}> { y = Add(x, w) }")
    settings = SessionSettings(("qnn",), isolated=True)
    session = Session(model, settings, weights={"w": np.array([1, 2, 3], np.float32)})
    assert np.allclose(array(session.run({"x": np.zeros(3, np.float32)})[0]), [1, 2, 3])
