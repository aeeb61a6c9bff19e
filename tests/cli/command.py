"""Helpers of the tests of the command: the outcome of a run, and a few models."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from lab.json_schemas import schema_of
from tests.support import parse
from xoptim.cli.commands import COMMANDS
from xoptim.cli.main import run

TRANSPOSES = (
    "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) u = Transpose(t) y = Relu(u) }"
)
RELU = "agraph (float[batch,4] x) => (float[batch,4] y) { y = Relu(x) }"
ONLY = ("--patterns", "TransposeTranspose")
POSITIONS = """agraph (int64[batch,seq] ids) => (float[batch,seq,2] y)
<float[9,2] table = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18}, int64[2] shape = {100, 2}>
{
    w = ConstantOfShape <value = float[1] {2}> (shape)
    e = Gather(w, ids) s = Shape(ids) one = Constant <value_int = 1> () n = Gather(s, one)
      zero = Constant <value_int = 0> ()
    places = Range(zero, n, one) p = Gather(table, places) y = Add(e, p)
}"""
"""It has nine positions: it does not run with a longer sequence."""


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
        """Standard output, parsed as JSON, in which NaN and infinities are errors."""
        return json.loads(self.out, parse_constant=_refuse_constant)

    @property
    def summary(self) -> dict[str, str]:
        """Lines of standard output of two columns, by their labels: the last one of each label."""
        lines = (line.split("  ", 1) for line in self.out.splitlines() if "  " in line)
        return {label: text.strip() for label, text in lines if label}

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
        found = Outcome(code, captured.out, captured.err)
        if "--json" in words and found.out:
            check_document(document_of([str(word) for word in words]), found.json)
        return found

    return command


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def document_of(words: Sequence[str]) -> str:
    """The name of the JSON document that a command line prints."""
    if words[0] == "doctor" and any(word.endswith(".onnx") for word in words):
        return "export"
    if words[0] == "verify" and "--certificate" in words:
        return "certificate"
    if words[0] in COMMANDS:
        return words[0]
    return "tune" if {"-O2", "--tune"} & set(words) else "optimize"


def check_document(name: str, value: Any) -> None:
    """Compare a document with its schema: an error also for a field that is not described."""
    fault = best_match(closed_schema(name).iter_errors(value))
    assert fault is None, f"{fault.json_path}: {fault.message}"


@cache
def closed_schema(name: str) -> Draft202012Validator:
    """The schema of a document, in which an object has no fields that are not described."""
    return Draft202012Validator(schema_of(name, is_closed=True))
