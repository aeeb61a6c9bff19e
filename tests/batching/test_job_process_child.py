"""The process of a model: its limit of memory, and its end when the batch ends."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and signals of Linux")
REPLACED = (
    "import runpy, sys, time; from xoptim.batching import child; "
    "runpy.run_module = lambda *_, **__: {}; child.main({!r})"
)


@pytest.mark.slow
def test_it_ends_when_the_batch_is_killed() -> None:
    code = REPLACED.format(
        "(child.WATCH.starts[0](), print(sys.argv, flush=True), time.sleep(300))",
        ["0", "model.onnx"],
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "['-c', 'model.onnx']\n"
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == -15


@pytest.mark.slow
def test_memory() -> None:
    allocate = "[print(len(bytearray(n << 20)), flush=True) for n in (64, 4096)]"
    words = [sys.executable, "-c", REPLACED.format(allocate, [str(2 << 30)])]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == f"{64 << 20}\n"
        assert "MemoryError" in process.stderr.read()
