"""Only `xoptim.system` asks which system it runs on, or uses what only some systems have."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta.sources import ROOT, Source, in_one_process, sources
from xoptim.cli.main import run

pytestmark = in_one_process

OWNER = "xoptim/system/"
MODULES = {"fcntl", "msvcrt", "pwd", "resource", "signal", "termios", "winreg"}
NAMES = {
    "os": {
        "name",
        "uname",
        "kill",
        "killpg",
        "fork",
        "waitpid",
        "getpgid",
        "setsid",
        "nice",
        "geteuid",
        "getuid",
        "sched_getaffinity",
        "sched_setaffinity",
        "cpu_count",
        "process_cpu_count",
        "sysconf",
        "replace",
        "rename",
        "link",
        "symlink",
        "chmod",
        "umask",
        "pread",
        "pwrite",
        "copy_file_range",
        "sendfile",
        "SEEK_DATA",
        "SEEK_HOLE",
    },
    "sys": {"platform", "getwindowsversion"},
    "platform": {"system", "machine", "processor", "release"},
    "ctypes": {"CDLL", "cdll", "windll"},
    "mmap": {"MAP_PRIVATE", "MAP_SHARED", "MAP_ANONYMOUS"},
    "Path": {"symlink_to", "hardlink_to"},
}
"""Names of modules (and of paths) that mean something else, or are missing, on some systems."""
PLACES = ("/proc/", "/sys/", "/dev/")
POPEN = {"start_new_session", "preexec_fn", "creationflags", "process_group"}


def found(source: Source) -> Iterator[str]:
    """The places of a file that depend on the system."""
    documented = {id(node.value) for node in source.nodes if isinstance(node, ast.Expr)}
    for node in source.nodes:
        for name in _names(node, documented):
            yield f"{source.path}:{getattr(node, 'lineno', 0)} {name}"


def _names(node: ast.AST, documented: set[int]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in MODULES)
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        yield from (module for _ in node.names[:1] if module in MODULES)
        yield from (
            f"{module}.{alias.name}" for alias in node.names if alias.name in NAMES.get(module, ())
        )
    elif isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.attr in NAMES.get(node.value.id, ()):
            yield f"{node.value.id}.{node.attr}"
        elif node.attr in NAMES["Path"]:
            yield node.attr
    elif isinstance(node, ast.Call):
        yield from (keyword.arg for keyword in node.keywords if keyword.arg in POPEN)
        if isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr"):
            yield from (
                f"{node.func.id}(os)"
                for each in node.args[:1]
                if isinstance(each, ast.Name) and each.id == "os"
            )
    elif (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documented
    ):
        yield from (
            node.value
            for _ in range(node.value.startswith(PLACES) or node.value in MODULES | POPEN)
        )


def test_other_rooms_do_not_ask_for_the_system() -> None:
    everywhere = sources("xoptim", "patterns", "cli", "benchmarks")
    assert [
        place
        for source in everywhere
        if not source.path.startswith(OWNER)
        for place in found(source)
    ] == []


def test_the_room_is_found_out() -> None:
    """Otherwise the test above would check nothing."""
    texts = {
        place.partition(" ")[2]
        for source in sources("xoptim")
        if source.path.startswith(OWNER)
        for place in found(source)
    }
    assert {
        "sys.platform",
        "os.replace",
        "signal",
        "ctypes.CDLL",
        "start_new_session",
        "/proc/cpuinfo",
        "fcntl",
    } <= texts
    assert {
        "os.fork",
        "os.pwrite",
        "hasattr(os)",
        "mmap.MAP_PRIVATE",
        "creationflags",
        "resource",
    } <= texts


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("import fcntl", 1),
        ("from signal import SIGTERM, SIGINT", 1),
        ("import os\nos.replace(a, b)", 1),
        ("from os import replace, path", 1),
        ("import sys\nif sys.platform == 'win32': pass", 1),
        ("hasattr(os, 'fork')", 1),
        ("lazy_module('resource')", 1),
        ("open('/proc/cpuinfo')", 1),
        ("Popen(x, start_new_session=True)", 1),
        ("path.symlink_to(other)", 1),
        ('"""/proc/ is described."""', 0),
        ("import os\ntext.replace(a, b)\nos.path.join(a)\ngetattr(node, 'name')", 0),
    ],
)
def test_what_depends_on_the_system(text: str, count: int) -> None:
    assert len(list(found(Source("a.py", text, ast.parse(text))))) == count


OTHER = """
import os, signal, sys
import onnxruntime, xoptim.cli.main as cli
from xoptim.system import files
from xoptim.system import machine as memory
missing = {"darwin": ["sched_getaffinity", "copy_file_range"],
    "win32": ["sched_getaffinity", "copy_file_range", "pwrite", "SEEK_DATA", "killpg", "fork"]}
sys.platform, *words = sys.argv[1:]
for name in missing[sys.platform]:
    if hasattr(os, name):
        delattr(os, name)
memory._ROOT = memory.Path("nowhere")
if sys.platform == "win32":
    memory.resource = files.fcntl = None
    signal.SIGKILL = signal.setitimer = None
sys.argv[1:] = words
cli.main()
"""
"""Runs the command as on another system: without the functions and files that it lacks."""


WORDS = (
    str(ROOT / "examples" / "models" / "tiny_bert.onnx"),
    "-o",
    "m.onnx",
    "--external-data",
    "--strict",
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The weights that the command writes on this system."""
    folder = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert run([*WORDS, "--quiet"]) == 0
    return (folder / "m.onnx.data").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_the_command_on_other_systems(platform: str, tmp_path: Path, weights: bytes) -> None:
    """It optimizes, verifies and writes weights to a file, as here."""
    words = [sys.executable, "-c", OTHER, platform, *WORDS]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m.onnx.data").read_bytes() == weights
