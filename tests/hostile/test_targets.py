"""Full disks, read-only folders, interruptions, two at a time: existing files stay, and no other
file is left.
"""

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.command import TRANSPOSES, Xopt, files, types_in, write
from tests.hostile.cases import listed
from tests.hostile.process import finish, start, wait_for
from tests.support import parse, values_in

pytestmark = pytest.mark.slow

OLD = b"what was there before"
SLOW = """
import xoptim.graph.data_file as data_file, time
write = data_file._write_raw
def slow(*given):
    write(*given)
    open("progress", "a").close()
    time.sleep(0.05)
data_file._write_raw = slow
"""
PLAINLY = ("--patterns", "TransposeTranspose", "--no-verify", "-q")
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of POSIX")


def weighty(count: int = 40) -> None:
    """A model with ``count`` weights of 40 kB each, as ``model.onnx``."""
    nodes = [helper.make_node("Add", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(count)]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [10_000])
        for name in ("x0", f"x{count}")
    ]
    graph = helper.make_graph(nodes, "sum", ends[:1], ends[1:])
    graph.initializer.extend(
        numpy_helper.from_array(np.full(10_000, i, np.float32), f"w{i}") for i in range(count)
    )
    write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))


def old_files(*names: str) -> None:
    for name in names:
        Path(name).write_bytes(OLD)


READ_ONLY = "its folder is read-only; write somewhere else with -o FILE"


@listed(
    "target-full",
    "a full disk",
    "error: “cannot write …”; the target is as it was, no other file is left",
)
@posix
@pytest.mark.parametrize("more", [(), ("--external-data",)])
def test_a_full_disk(more: tuple[str, ...]) -> None:
    """No file may grow beyond 100 kB: writes that really fail, half-way."""
    weighty()
    old_files("out.onnx", "out.onnx.data")
    process = start(
        "model.onnx", "-o", "out.onnx", *PLAINLY, *more, limit=("RLIMIT_FSIZE", 100_000)
    )
    assert finish(process).error == f"cannot write 'out.onnx': {os.strerror(errno.EFBIG)}"
    assert files() == {"model.onnx", "out.onnx", "out.onnx.data"}
    assert Path("out.onnx").read_bytes() == Path("out.onnx.data").read_bytes() == OLD


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    words = [mount or "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if mount is None or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@listed(
    "target-full-disk",
    "a disk of 256 kB",
    "error: “cannot write …: No space left on device”; old files stay, no other file is left",
)
@posix
@pytest.mark.parametrize("more", [(), ("--external-data",)])
def test_a_small_disk(xopt: Xopt, small_disk: Path, more: tuple[str, ...]) -> None:
    weighty()
    target = small_disk / "out.onnx"
    target.write_bytes(OLD)
    error = xopt("model.onnx", "-o", target, *PLAINLY, *more).error
    assert error.startswith(f"cannot write '{target}': {os.strerror(errno.ENOSPC)}: ")
    assert [(path.name, path.read_bytes()) for path in small_disk.iterdir()] == [("out.onnx", OLD)]
    write(TRANSPOSES)
    assert xopt("model.onnx", "-o", target, *PLAINLY) == (0, "", "")
    assert types_in(target) == ["Relu"]


@listed(
    "target-read-only",
    "a folder that is read-only",
    "error: “cannot write …: its folder is read-only” (root may write everywhere)",
)
@posix
def test_a_folder_that_is_read_only(xopt: Xopt) -> None:
    write(TRANSPOSES)
    Path("folder").mkdir(mode=0o555)
    if os.access("folder", os.W_OK):
        pytest.skip("root may write everywhere")
    assert (
        xopt("model.onnx", "-o", "folder/out.onnx").error
        == f"cannot write 'folder/out.onnx': {READ_ONLY}"
    )


@listed(
    "target-read-only-disk",
    "a disk that is mounted read-only",
    "error: “cannot write …: its folder is read-only”",
)
@posix
def test_a_disk_that_is_read_only(xopt: Xopt, small_disk: Path) -> None:
    write(TRANSPOSES)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    target = small_disk / "out.onnx"
    assert xopt("model.onnx", "-o", target).error == f"cannot write '{target}': {READ_ONLY}"


@listed("target-folder", "a target that is a folder", "error: “… is a folder; give a file name”")
def test_a_target_that_is_a_folder(xopt: Xopt) -> None:
    write(TRANSPOSES)
    Path("folder").mkdir()
    assert values_in(xopt("model.onnx", "-o", "folder").error) == ["folder"]
    assert files() == {"model.onnx", "folder"}


@listed(
    "target-nowhere",
    "a target in a folder that is not there",
    "error: “the folder … does not exist; create it first”",
)
def test_a_target_in_a_folder_that_is_missing(xopt: Xopt) -> None:
    write(TRANSPOSES)
    assert values_in(xopt("model.onnx", "-o", "a/b.onnx").error) == ["a"]
    assert files() == {"model.onnx"}


@listed(
    "target-input",
    "a target that is the input, by another name",
    "error: “… is the input; use --in-place to overwrite it”",
)
@posix
def test_a_target_that_is_the_input(xopt: Xopt) -> None:
    given = write(TRANSPOSES).read_bytes()
    Path("link.onnx").symlink_to("model.onnx")
    os.link("model.onnx", "hard.onnx")
    for name in ("model.onnx", "./model.onnx", "link.onnx", "hard.onnx"):
        assert "--in-place" in xopt("model.onnx", "-o", name).error
    assert Path("model.onnx").read_bytes() == given


def interrupt(number: int, when: Callable[[], bool]) -> tuple[int, str]:
    """Start a long write, send a signal in the middle of it; returns how the process ended."""
    weighty()
    old_files("out.onnx", "out.onnx.data")
    process = start("model.onnx", "-o", "out.onnx", "--external-data", *PLAINLY, before=SLOW)
    try:
        wait_for(when)
        process.send_signal(number)
    finally:
        outcome = finish(process)
    assert Path("out.onnx").read_bytes() == Path("out.onnx.data").read_bytes() == OLD
    return outcome.code, outcome.err.strip()


@listed(
    "interrupted-write",
    "Ctrl-C while weights are written",
    "exit code 130, “interrupted; nothing was written”; the target is as it was, no other file is "
    "left",
)
@posix
def test_ctrl_c_while_weights_are_written() -> None:
    assert interrupt(signal.SIGINT, Path("progress").exists) == (
        130,
        "xopt: error: interrupted; nothing was written",
    )
    assert files() - {"out.onnx.data", "out.onnx.1.data"} == {"model.onnx", "out.onnx", "progress"}


@listed("terminated-write", "SIGTERM while weights are written", "the same, exit code 143")
@posix
def test_a_termination_while_weights_are_written() -> None:
    assert interrupt(signal.SIGTERM, Path("progress").exists) == (
        143,
        "xopt: error: terminated; nothing was written",
    )
    assert files() - {"out.onnx.data", "out.onnx.1.data"} == {"model.onnx", "out.onnx", "progress"}


@listed(
    "killed-write",
    "SIGKILL while weights are written",
    "the target is as it was; the temporary file, `.NAME.*.tmp`, can be deleted",
)
@posix
def test_a_kill_while_weights_are_written() -> None:
    assert interrupt(signal.SIGKILL, Path("progress").exists) == (-signal.SIGKILL, "")
    left = files() - {"model.onnx", "out.onnx", "out.onnx.data", "progress"}
    assert all(name.startswith(".out.onnx.") and name.endswith(".tmp") for name in left)


@listed(
    "ignored-signal",
    "Ctrl-C or SIGTERM in a process whose parent ignores them",
    "the run goes on, as with any program",
)
@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_the_parent_ignores(number: int) -> None:
    weighty(4)
    ignore = f"signal.signal({int(number)}, signal.SIG_IGN)"
    process = start(
        "model.onnx", "-o", "out.onnx", "--external-data", *PLAINLY, before=f"{ignore}\n{SLOW}"
    )
    try:
        wait_for(Path("progress").exists)
        process.send_signal(number)
    finally:
        outcome = finish(process)
    assert outcome == (0, "", "")
    assert files() - {"out.onnx.data", "out.onnx.1.data"} == {"model.onnx", "out.onnx", "progress"}


@listed(
    "interrupted-run",
    "Ctrl-C while onnxruntime runs a model that never ends",
    "exit code 130 at once; nothing is written",
)
@posix
def test_ctrl_c_while_a_model_runs() -> None:
    write(
        "agraph (float[2] x) => (float[2] y) { "
        "n = Constant <value = int64 {1152921504606846976}> () t = Constant <value = bool {1}> () "
        "y = Loop (n, t, x) <body = b (int64 i, bool k, float[2] a) "
        "=> (bool k2, float[2] c) { k2 = Identity(k) c = Neg(a) }> }"
    )
    mark = """
from xoptim.verification.runs.session import Session
call = Session._call
def marked(*arguments):
    open("progress", "a").close()
    return call(*arguments)
Session._call = marked
"""
    process = start("model.onnx", before=mark)
    try:
        wait_for(Path("progress").exists)
        process.send_signal(signal.SIGINT)
    finally:
        outcome = finish(process, 30)
    assert (outcome.code, outcome.err.strip()) == (
        130,
        "xopt: error: interrupted; nothing was written",
    )
    assert files() == {"model.onnx", "progress"}


@pytest.mark.slow
@listed(
    "two-writers",
    "two processes that write one target",
    "both succeed; the target is whole, and one of the two",
)
@posix
def test_two_processes_that_write_one_target() -> None:
    write(TRANSPOSES, "first.onnx")
    write(
        parse(
            "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) u = Transpose(t) "
            "y = Exp(u) }"
        ),
        "second.onnx",
    )
    processes = [
        start(name, "-o", "out.onnx", *PLAINLY) for name in ("first.onnx", "second.onnx") * 2
    ]
    assert [finish(process) for process in processes] == [(0, "", "")] * 4
    onnx.checker.check_model(onnx.load("out.onnx"))
    assert types_in("out.onnx") in (["Relu"], ["Exp"])
    assert files() == {"first.onnx", "second.onnx", "out.onnx"}


@pytest.mark.slow
@listed(
    "two-writers-weights",
    "two processes that write one target with weights in a file",
    "both succeed; model and weights fit each other",
)
@posix
def test_two_processes_that_write_one_target_and_its_weights(xopt: Xopt) -> None:
    """The same model twice, as two jobs of a build do: whichever file comes from whom, they fit."""
    weighty(10)
    words = ("model.onnx", "-o", "out.onnx", "--external-data", *PLAINLY)
    processes = [start(*words, before=SLOW) for _ in range(2)]
    assert [finish(process) for process in processes] == [(0, "", "")] * 2
    assert files() - {"out.onnx.data", "out.onnx.1.data"} == {"model.onnx", "out.onnx", "progress"}
    assert xopt("verify", "model.onnx", "out.onnx").code == 0


@pytest.mark.slow
@listed(
    "two-in-place",
    "two processes that overwrite a model in place",
    "both succeed; the model is whole",
)
@posix
def test_two_processes_in_place() -> None:
    write(TRANSPOSES)
    processes = [start("model.onnx", "--in-place", *PLAINLY) for _ in range(2)]
    assert [finish(process) for process in processes] == [(0, "", "")] * 2
    assert (types_in("model.onnx"), files()) == (["Relu"], {"model.onnx"})
