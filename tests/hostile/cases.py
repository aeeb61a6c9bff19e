"""Tests of odd inputs: rows of a table on the site, and their checks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import onnx

from tests.cli.command import Xopt
from tests.support import parse

Test = TypeVar("Test", bound=Callable[..., None])
Made = onnx.ModelProto | bytes
PLAIN = "agraph (float[2] x) => (float[2] y) {{ {} }}"
NEWEST = onnx.defs.onnx_opset_version()


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        id: of the row and of the test.
        what: the input, in words.
        does: what ``xopt`` does with it, in words.
        make: makes the model, and the files around it in the current folder; ``None`` when a test
            of its own does.
        error: part of the one line of the refusal, empty when the model is accepted.
        reason: part of the reason why it could not be verified, empty when it is verified,
            ``None`` when either will do.
        operators: those left in the main graph, ``None`` when they do not matter.
        warnings: what is warned of.
        options: of the command line.
        output: the declaration of the output of the result, empty where it is that of the input.
    """

    id: str
    what: str
    does: str
    make: Callable[[], Made] | None = None
    error: str = ""
    reason: str | None = ""
    operators: Sequence[str] | None = None
    warnings: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    output: str = ""

    def __str__(self) -> str:
        return self.id


def refused(key: str, what: str, make: Callable[[], Made], error: str, **more: Any) -> Case:
    """An input that ends in one line and exit code 2; no file is touched."""
    return Case(key, what, f"error: “… {error} …”", make, error=error, **more)


def optimized(
    key: str, what: str, make: Callable[[], Made], operators: str | None = None, **more: Any
) -> Case:
    """An input that is optimized, verified and written as any other.

    Args:
        key: of the row.
        what: the input.
        make: makes it.
        operators: those left in the main graph, in order.
        more: ``does`` in other words than usual, ``warnings``, ``options``.
    """
    does = more.pop("does", "optimized; the numbers are equal")
    does += "".join(f"; warning: “… {text} …”" for text in more.get("warnings", ()))
    return Case(
        key, what, does, make, operators=None if operators is None else operators.split(), **more
    )


def not_verified(
    key: str,
    what: str,
    make: Callable[[], Made],
    reason: str,
    operators: str | None = None,
    **more: Any,
) -> Case:
    """An input that is optimized and written, and said not to be verified.

    With ``--strict`` nothing is written.
    """
    does = more.pop("does", f"optimized; not verified: “… {reason} …”")
    return Case(
        key,
        what,
        does,
        make,
        reason=reason,
        operators=None if operators is None else operators.split(),
        **more,
    )


def listed(key: str, what: str, does: str) -> Callable[[Test], Test]:
    """Makes a test function a row of the table."""

    def mark(test: Test) -> Test:
        test.row = Case(key, what, does)  # type: ignore[attr-defined]
        return test

    return mark


def text(graph: str, opset: int = 18, **options: Any) -> Callable[[], onnx.ModelProto]:
    """Makes a model from text."""
    return lambda: parse(graph, opset, **options)


def changed(
    graph: str, change: Callable[[onnx.ModelProto], object], opset: int = 18, **options: Any
) -> Callable[[], Made]:
    """Makes a model from text, and changes it then."""

    def make() -> onnx.ModelProto:
        model = parse(graph, opset, **options)
        change(model)
        return model

    return make


def snapshot() -> Mapping[str, bytes | None]:
    """All that is in the current folder: the content of files, ``None`` for everything else."""
    return {
        str(path): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in Path().rglob("*")
    }


def check(case: Case, xopt: Xopt) -> None:
    """Make the input, run the command, and compare what it does with what the row says."""
    assert case.make is not None
    made = case.make()
    Path("model.onnx").write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    before = snapshot()
    if case.error:
        outcome = xopt("model.onnx", *case.options)
        *warnings, last = outcome.err.splitlines(keepends=True)
        assert case.error in outcome._replace(err=last).error
        assert all(line.startswith("xopt: warning: ") for line in warnings)
        assert snapshot() == before
        return
    outcome = xopt("model.onnx", "--json", *case.options)
    doubtful = any(report["status"] == "not verified" for report in outcome.json["verification"])
    assert outcome.code == (3 if doubtful else 0), outcome
    warnings = outcome.warnings[: len(outcome.warnings) - doubtful]
    assert len(warnings) == len(case.warnings), outcome.err
    assert all(expected in found for expected, found in zip(case.warnings, warnings, strict=True))
    after = snapshot()
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) <= {"model.opt.onnx", "model.opt.onnx.data"}
    _check_report(case, outcome.json)
    assert isinstance(made, onnx.ModelProto)
    _check_model(case, made, onnx.load("model.opt.onnx", load_external_data=False))
    if case.reason:
        strict = xopt("model.onnx", "--strict", "-o", "strict.onnx", *case.options)
        assert (strict.code, Path("strict.onnx").exists()) == (1, False)


def _check_report(case: Case, summary: Any) -> None:
    (report,) = summary["verification"]
    if case.reason is None:
        assert report["status"] in ("equal", "not verified"), report
        return
    assert report["status"] == ("not verified" if case.reason else "equal"), report
    assert case.reason in report["reason"]


def _check_model(case: Case, given: onnx.ModelProto, found: onnx.ModelProto) -> None:
    if case.operators is not None:
        assert [node.op_type for node in found.graph.node] == list(case.operators)
    if case.output:
        assert [onnx.helper.printable_value_info(v) for v in found.graph.output] == [case.output]
    else:
        assert [v.SerializeToString() for v in found.graph.output] == [
            v.SerializeToString() for v in given.graph.output
        ]
    # initializers have changed, which were inputs before version 4
    if given.ir_version != found.ir_version:
        assert (given.ir_version < 4, found.ir_version) == (True, 4)
        stored = {tensor.name for tensor in given.graph.initializer}
        assert list(found.graph.input) == [v for v in given.graph.input if v.name not in stored]
    else:
        assert [v.SerializeToString() for v in found.graph.input] == [
            v.SerializeToString() for v in given.graph.input
        ]
    kept = [
        entry
        for entry in given.opset_import
        if "--inline" not in case.options or entry.domain != "local"
    ]
    assert all(entry in found.opset_import for entry in kept)
