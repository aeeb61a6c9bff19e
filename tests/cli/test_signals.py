"""Ctrl-C and SIGTERM at any moment: one line, the exit code of the signal, and a whole model."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.cli.command import files
from tests.support import parse

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="signals are passed on with means of Linux"),
]

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STEPS = ("os.chmod", "os.rename", "os.remove")
"""Events of what writes files.

The command below has nine of them: the model is in place from the fifth on.
"""
IN_PLACE = 5
IN_TIME = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
number, first = int(sys.argv[1]), int(sys.argv[2])
only = [each for each in sys.argv[3].split(",") if each]
parent, seen = os.getpid(), 0
def hook(event, _):
    global seen
    if os.getpid() == parent or (only and event not in only):
        return
    seen += 1
    if seen == first:
        os.kill(os.getpid(), number)
sys.addaudithook(hook)
sys.argv = ["xopt", *sys.argv[4:]]
from xoptim.cli.start import main
main()
"""
"""Sends a signal to the command at an event that Python audits: an import, an open file, a move,
...
"""
WORDS = ("model.onnx", "--in-place", "-q", "--external-data", "--report", "page.html")


@pytest.fixture(autouse=True)
def _model() -> None:
    proto = parse(
        "agraph (float[n,64] x) => (float[n,64] y) { t = Transpose(x) u = Transpose(t) "
        "v = MatMul(u, w) y = Relu(v) }"
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    onnx.save(
        proto,
        "model.onnx",
        save_as_external_data=True,
        location="model.onnx.data",
        size_threshold=0,
    )


def interrupted(
    number: signal.Signals, first: int, only: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", IN_TIME, str(int(number)), str(first), ",".join(only), *WORDS]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def check(done: subprocess.CompletedProcess[str], number: signal.Signals) -> None:
    """One line, the exit code of the signal, a whole model, and no other file than the line
    says.
    """
    assert done.returncode == 128 + number, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert line.startswith(f"xopt: error: {word}; ")
    model = onnx.load("model.onnx")
    assert numpy_helper.to_array(model.graph.initializer[0]).sum() == 64
    is_new = len(model.graph.node) == 2
    assert ("model.onnx' " in line or "model.onnx', " in line) == is_new, line
    assert ("nothing was written" in line) != is_new
    assert files() <= {
        "model.onnx",
        "model.onnx.data",
        *(("model.onnx.1.data", "page.html") if is_new else ()),
    }
    assert ("page.html" in line) == Path("page.html").exists()


@pytest.mark.parametrize("step", range(1, 10))
def test_at_each_step_that_writes(step: int) -> None:
    number = SIGNALS[step % 2]
    done = interrupted(number, step, STEPS)
    check(done, number)
    assert ("nothing was written" in done.stderr) == (step < IN_PLACE)


@pytest.mark.parametrize("event", [1, 30, 300, 3000, 6000, 9000, 12_000, 15_000, 18_000])
def test_while_the_command_is_loaded_and_works(event: int) -> None:
    number = SIGNALS[event % 2]
    check(interrupted(number, event), number)


def test_no_library_is_loaded_before_signals_are_passed_on() -> None:
    """A thread of a library would receive signals in place of the process that passes them on."""
    code = (
        "import os, sys\n"
        "import xoptim.cli.start\n"
        "from xoptim.cli import guard\n"
        "def command():\n"
        "    print([name for name in ('numpy', 'onnx', 'onnxruntime', 'click') if name in "
        "sys.modules])\n"
        "    print(os.getppid() == parent)\n"
        "parent = os.getpid()\n"
        "guard.guarded(command)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\nTrue\n"


@pytest.mark.parametrize("delay", [0.0, 0.3, 0.7, 1.2, 1.8])
@pytest.mark.parametrize("number", SIGNALS)
def test_after_some_time(number: signal.Signals, delay: float) -> None:
    """After the command handles signals; it may have ended before."""
    start = """import signal; signal.signal(signal.SIGINT, signal.default_int_handler)
from xoptim.cli.start import ENDING, main
handle = ENDING.at_once
def begin(report):
    handle(report)
    print("ready", flush=True)
ENDING.at_once = begin
main()"""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", start, *WORDS], **options) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    if process.returncode:
        check(subprocess.CompletedProcess(process.args, process.returncode, out, err), number)
    else:
        assert err == ""
        assert onnx.load("model.onnx").graph.node[0].op_type == "MatMul"


def test_an_exception_that_a_library_catches_is_raised_again() -> None:
    """As extensions do that are being imported."""
    code = (
        "import signal\n"
        "from xoptim.system.signals import ENDING, EndRequested\n"
        "ENDING.at_once(print); ENDING.by_exception()\n"
        "try:\n"
        "    with ENDING.reraised():\n"
        "        try:\n"
        "            signal.raise_signal(signal.SIGTERM)\n"
        "        except BaseException:\n"
        "            raise ImportError('initialization failed')\n"
        "except EndRequested as end:\n"
        "    print(end.word, end.code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("terminated 143\n", "")


def test_while_an_extension_is_imported() -> None:
    name = "onnxruntime.capi.onnxruntime_pybind11_state"
    code = (
        "import signal, sys\n"
        "from importlib.machinery import ExtensionFileLoader as Loader\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "exec_module = Loader.exec_module\n"
        "def interrupted(self, module):\n"
        f"    if module.__name__ == {name!r} and signal.getsignal(signal.SIGINT).__name__ == "
        "'_raise':\n"
        "        try:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "        except BaseException as error:\n"
        "            raise ImportError('initialization failed') from error\n"
        "    exec_module(self, module)\n"
        "Loader.exec_module = interrupted\n"
        f"sys.argv = ['xopt', *{WORDS!r}]\n"
        "from xoptim.cli.start import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    check(done, signal.SIGINT)


def test_an_exception_that_python_ignores_is_raised_again() -> None:
    """As in a destructor, or a callback of a weak reference."""
    code = (
        "import signal, time\n"
        "from xoptim.system.signals import ENDING, EndRequested\n"
        "ENDING.at_once(print); ENDING.by_exception()\n"
        "class Swallows:\n"
        "    def __del__(self): signal.raise_signal(signal.SIGTERM); time.sleep(0)\n"
        "try:\n"
        "    Swallows()\n"
        "    time.sleep(60)\n"
        "except EndRequested as end:\n"
        "    print(end.word, end.code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("terminated 143\n", "")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_command_that_does_not_react_is_killed(number: signal.Signals) -> None:
    """As in a kernel that does not return, or in code that holds Python's lock.

    Its temporary files are removed.
    """
    code = (
        "import signal, sys, tempfile, time\n"
        "from pathlib import Path\n"
        "from xoptim.cli import guard\n"
        "from xoptim.system.journal import JOURNAL, ScratchFolder\n"
        "guard._PATIENCE = 0.5\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def command():\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})\n"
        "    folder = ScratchFolder(); Path('left.tmp').write_bytes(b'x'); "
        "JOURNAL.note(Path('left.tmp'))\n"
        "    print(folder.name, flush=True); time.sleep(600)\n"
        "guard.guarded(command)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        process.send_signal(number)
        err = process.communicate(timeout=60)[1]
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert process.returncode == 128 + number
    assert err.startswith(f"xopt: error: {word}; nothing ")
    assert err.count("\n") == 1
    assert not folder.exists()
    assert files() == {"model.onnx", "model.onnx.data"}


def test_a_signal_that_the_parent_ignores_stays_ignored() -> None:
    """As in a background job of a shell."""
    start = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from xoptim.cli.start import "
        "main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", start, *WORDS], stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=120)[1]
    assert (process.returncode, err) == (0, "")


def test_what_a_crash_leaves_is_removed_and_told() -> None:
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "from xoptim.cli.guard import guarded\n"
        "def command():\n"
        "    from xoptim.graph.atomic_write import replace_file, temporary\n"
        "    replace_file(Path('done.txt'), b'new')\n"
        "    with temporary(Path('begun.txt')):\n"
        "        os.abort()\n"
        "guarded(command)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 128 + signal.SIGABRT
    assert f"; {str(Path('done.txt').absolute())!r} " in done.stderr
    assert done.stderr.count("\n") == 1
    assert files() == {"model.onnx", "model.onnx.data", "done.txt"}
