"""Pairs of models as short texts, and whether their results on given values differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from tests.support import parse, run
from xoptim.cli.verification import Comparison
from xoptim.verification import VerificationOptions, VerificationReport, verify_models

DOMAINS: Final = {"com.microsoft": 1, "ai.onnx.ml": 4}
OPSET: Final = 21
LOOSE: Final = 1e-3
"""A difference beyond this part of the largest number, and beyond this number, is not rounding."""


@dataclass(frozen=True)
class Pair:
    """A model and a rewrite of it.

    Attributes:
        kind: the group of the case.
        name: unique among all cases.
        why: the rule behind the rewrite, and where it fails or why it holds.
        before: the original as ONNX text, without header.
        after: the result.
        opset: of both.
    """

    kind: str
    name: str
    why: str
    before: str
    after: str
    opset: int = field(default=OPSET, kw_only=True)

    @property
    def original(self) -> onnx.ModelProto:
        """The original."""
        return parse(self.before, self.opset, domains=DOMAINS)

    @property
    def result(self) -> onnx.ModelProto:
        """The rewritten model."""
        return parse(self.after, self.opset, domains=DOMAINS)


@dataclass(frozen=True)
class Wrong(Pair):
    """A rewrite that changes a result.

    Attributes:
        values: of the inputs, on which the results differ.
        relative: the relative difference that one element exceeds, where the absolute one is small;
            0 where the results differ by more than `LOOSE` both ways.
    """

    values: Mapping[str, Any]
    relative: float

    @property
    def witness(self) -> dict[str, Any]:
        """The values in the types of the inputs."""
        inputs = {each.name: each.type for each in self.original.graph.input}
        return {name: _typed(value, inputs[name]) for name, value in self.values.items()}


def wrong(
    kind: str,
    name: str,
    why: str,
    signature: str,
    before: str,
    after: str,
    relative: float = 0.0,
    **values: Any,
) -> Wrong:
    """A wrong rewrite.

    Args:
        kind: see `Pair`.
        name: see `Pair`.
        why: see `Pair`.
        signature: inputs, outputs, shared initializers: ``(float x) => (float y) <float c = {1}>``.
        before: the nodes of the original, after initializers of its own in angle brackets if any.
        after: the same of the result.
        relative: see `Wrong`.
        **values: see `Wrong`.
    """
    first, second = _text(signature, before), _text(signature, after)
    return Wrong(kind, name, why, first, second, values, relative)


def replaced(
    kind: str,
    name: str,
    why: str,
    signature: str,
    nodes: str,
    before: str,
    after: str,
    relative: float = 0.0,
    **values: Any,
) -> Wrong:
    """A wrong rewrite of one part, with the parameters of `wrong`.

    An ``@`` among the nodes stands for ``before`` in the original, ``after`` in the result.
    """
    first, second = (nodes.replace("@", part) for part in (before, after))
    return wrong(kind, name, why, signature, first, second, relative, **values)


def choice(condition: str, then: str, otherwise: str, output: str = "float[N,4]") -> str:
    """An If that gives one output, of the type ``output``.

    A branch is an expression, after nodes and a semicolon if any: ``n = Neg(x); Relu(n)``.
    """
    depth = (then + otherwise).count("then_branch")  # names in nested branches must differ
    first = _branch(f"then{depth}", then, output)
    second = _branch(f"else{depth}", otherwise, output)
    return f"If ({condition}) <then_branch = {first}, else_branch = {second}>"


def _branch(name: str, text: str, output: str) -> str:
    nodes, _, result = text.rpartition(";")
    return f"{name} () => ({output} {name}_y) {{ {nodes} {name}_y = {result} }}"


def right(name: str, why: str, signature: str, before: str, after: str, opset: int = OPSET) -> Pair:
    """A rewrite that holds, with the parameters of `wrong`; ``opset`` is that of both models."""
    return Pair("right", name, why, _text(signature, before), _text(signature, after), opset=opset)


def judged(pair: Pair) -> VerificationReport:
    """The report of the verification, with the options of ``xopt verify A B``."""
    return verify_models(pair.original, pair.result, plain_options())


def plain_options() -> VerificationOptions:
    """The options of ``xopt verify A B`` without any."""
    return Comparison().read(("cpu",))


def differ(case: Wrong) -> bool:
    """Whether results differ on the witness, or the result fails; raises if the original fails."""
    expected = run(case.original, case.witness)
    try:
        got = run(case.result, case.witness)
    except Exception:  # onnxruntime raises types of its own, without a common base
        return True
    return any(_different(a, b, case.relative) for a, b in zip(expected, got, strict=True))


def _text(signature: str, body: str) -> str:
    head, _, shared = signature.partition("<")
    own, nodes = "", body.strip()
    if nodes.startswith("<"):
        own, _, nodes = nodes[1:].partition(">")
    constants = ", ".join(filter(None, (shared.strip().removesuffix(">"), own)))
    return f"g {head} {f'<{constants}>' if constants else ''} {{ {nodes} }}"


def _typed(value: Any, declared: onnx.TypeProto) -> Any:
    if declared.HasField("optional_type"):
        return None if value is None else _typed(value, declared.optional_type.elem_type)
    if declared.HasField("sequence_type"):
        return [_typed(each, declared.sequence_type.elem_type) for each in value]
    return np.asarray(value, helper.tensor_dtype_to_np_dtype(declared.tensor_type.elem_type))


def _different(expected: Any, got: Any, relative: float) -> bool:
    if expected is None or got is None:
        return expected is not got
    if isinstance(expected, list):
        if len(expected) != len(got):
            return True
        return any(_different(a, b, relative) for a, b in zip(expected, got, strict=True))
    if expected.dtype != got.dtype or expected.shape != got.shape:
        return True
    if expected.dtype.kind != "f":
        return not np.array_equal(expected, got)
    return _far(expected.astype(np.float64), got.astype(np.float64), relative)


def _far(expected: np.ndarray, got: np.ndarray, relative: float) -> bool:
    finite = np.isfinite(expected) & np.isfinite(got)
    if not np.array_equal(expected[~finite], got[~finite], equal_nan=True):
        return True
    a, b = expected[finite], got[finite]
    if relative:
        return bool((np.abs(a - b) > relative * np.abs(a)).any())
    return bool((np.abs(a - b) > LOOSE + LOOSE * np.abs(a).max(initial=0)).any())
