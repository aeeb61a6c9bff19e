"""Helpers of the tests of the command: the outcome of a run, and a few models."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import pytest

from tests.support import parse
from xoptim.cli.main import run

TRANSPOSES = (
    "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) u = Transpose(t) y = Relu(u) }"
)
RELU = "agraph (float[batch,4] x) => (float[batch,4] y) { y = Relu(x) }"
ONLY = ("--patterns", "TransposeTranspose")


class Outcome(NamedTuple):
    """How a command ended.

    Attributes:
        code: exit code.
        out: standard output.
        err: standard error.
    """

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, parsed as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line of a refusal: exit code 2, nothing on standard output, no traceback."""
        assert self.code == 2, self
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("xopt: error: ")
        assert "internal error" not in lines[0]
        return lines[0].removeprefix("xopt: error: ")

    @property
    def warnings(self) -> list[str]:
        """Lines of standard error, all of which are warnings."""
        lines = self.err.splitlines()
        assert all(line.startswith("xopt: warning: ") for line in lines), self.err
        return [line.removeprefix("xopt: warning: ") for line in lines]


Xopt = Callable[..., Outcome]
"""Runs a command line given as words; paths are words too."""


def write(model: onnx.ModelProto | str, name: str = "model.onnx", **options: Any) -> Path:
    """Save a model, or the text of one, in the current folder."""
    path = Path(name)
    path.write_bytes(
        (parse(model, **options) if isinstance(model, str) else model).SerializeToString()
    )
    return path


def types_in(path: str | Path) -> list[str]:
    """Operators of a model file, in order."""
    return [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]


def files() -> set[str]:
    """Names of the files and folders in the current folder."""
    return {path.name for path in Path().iterdir()}


def runner(capsys: pytest.CaptureFixture[str]) -> Xopt:
    """A function that runs a command line in this process."""

    def command(*words: str | Path) -> Outcome:
        capsys.readouterr()
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return command
