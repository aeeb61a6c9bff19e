"""Search for rewrites: small expressions that models contain, and smaller ones that compute the
same.

Left sides are the forms that `mine` finds, with one result and operators of `OPERATORS`. Forms have
no attributes, so all attributes of `OPERATORS` are tried. Right sides are all expressions of fewer
nodes, at most two, over the same inputs and the constants 0, 1, -1 and 2. They grow by one node at
a time; of those that compute the same numbers the first one is kept. onnxruntime computes each node
in a session of its own.

A pair that agrees on random numbers is then compared for all types: on special values (NaN,
infinities, -0, the type's limits), and on inputs that broadcast, have one element, or have a
dimension of size 0. This determines its exactness, or drops the pair.

Equality on samples is no proof: a rewrite becomes a pattern only with a reason why it is right.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime

import xoptim
from benchmarks.families import Graph
from lab.discovery.expressions import (
    CONSTANTS,
    OPERATORS,
    CallParameters,
    Term,
    ordered,
    parsed,
    renamed,
    terms,
)
from xoptim.facts.dtypes import Exactness

OPSET: Final = 21
Array = np.ndarray[Any, np.dtype[Any]]


class Kernels:
    """Computes calls in onnxruntime, one node at a time."""

    def __init__(self) -> None:
        self._sessions: dict[
            tuple[str, CallParameters, tuple[Any, ...]], onnxruntime.InferenceSession | None
        ] = {}
        self._options = onnxruntime.SessionOptions()
        self._options.log_severity_level = 4
        self._options.intra_op_num_threads = 1

    def call(
        self, op_type: str, parameters: CallParameters, operands: Sequence[Array]
    ) -> Array | None:
        """The result; ``None`` where the operator does not take these operands."""
        if op_type in ("Div", "Pow") and operands[0].dtype.kind in "iu":
            return None  # integer division by zero ends the process
        key = op_type, parameters, tuple(operand.dtype for operand in operands)
        if key not in self._sessions:
            self._sessions[key] = self._session(op_type, parameters, operands)
        session = self._sessions[key]
        if session is None:
            return None
        try:
            feeds = {f"x{i}": operand for i, operand in enumerate(operands)}
            result: Array = session.run(None, feeds)[0]
        except Exception:  # shapes that do not fit; onnxruntime's errors have no common class
            return None
        return result

    def _session(
        self, op_type: str, parameters: CallParameters, operands: Sequence[Array]
    ) -> onnxruntime.InferenceSession | None:
        types = {
            f"x{i}": onnx.helper.np_dtype_to_tensor_dtype(operand.dtype)
            for i, operand in enumerate(operands)
        }
        operand_terms = tuple(Term(name=name) for name in types)
        model = model_of(Term(op_type, parameters, operand_terms), types)
        try:
            return onnxruntime.InferenceSession(
                model.SerializeToString(), self._options, providers=["CPUExecutionProvider"]
            )
        except Exception:  # no kernel for these types, or invalid attributes for them
            return None

    def value(self, term: Term, feeds: Mapping[str, Array], dtype: np.dtype[Any]) -> Array | None:
        """The value of an expression, whose numbers get the type ``dtype``."""
        if not term.op_type:
            return feeds[term.name] if term.name in feeds else np.array(float(term.name), dtype)
        parts = []
        for part in term.parts:
            value = self.value(part, feeds, dtype)
            if value is None:
                return None
            parts.append(value)
        return self.call(term.op_type, term.parameters, parts)


_SHAPE: Final = (2, 3, 4)
_SQUARE: Final = (2, 4, 4)
_SPECIAL: Final = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 2.0, 0.5, -2.5, 3.0)


@dataclass(frozen=True, slots=True)
class Setting:
    """What left sides must have in common to share a table of right sides.

    Attributes:
        names: names of the inputs.
        boolean_inputs: names of the inputs that are Boolean.
        dtype: type of the other inputs.
        shape: shape of all inputs that do not broadcast.
        size: maximum number of nodes of a right side, 1 or 2.
    """

    names: tuple[str, ...]
    boolean_inputs: frozenset[str]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size: int

    def random(
        self, dtype: Any, shapes: Mapping[str, tuple[int, ...]] | None = None, seed: int = 0
    ) -> dict[str, Array]:
        """Random inputs: normal floats of deviation 2, integers from -5 to 5, and Booleans."""
        rng = np.random.default_rng(seed)
        feeds = {}
        for name in self.names:
            shape = (shapes or {}).get(name, self.shape)
            if name in self.boolean_inputs:
                feeds[name] = rng.random(shape) < 0.5
            elif np.dtype(dtype).kind in "iu":
                feeds[name] = rng.integers(-5, 6, shape).astype(dtype)
            else:
                feeds[name] = (2 * rng.standard_normal(shape)).astype(dtype)
        return feeds

    def special(self, dtype: Any) -> Iterator[dict[str, Array]]:
        """Inputs of special values in random combinations, and of special shapes.

        The values include the type's limits; the shapes broadcast, or have a dimension of size 0.
        """
        limits = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
        low, high = limits.min, limits.max
        values = (
            [0, 1, -1, 2, low, high]
            if isinstance(limits, np.iinfo)
            else [*_SPECIAL, low, high, limits.tiny]
        )
        for seed in range(1, 9):
            rng = np.random.default_rng(seed)
            feeds = self.random(dtype, seed=seed)
            yield {
                n: v if v.dtype == bool else rng.choice(np.array(values, dtype), v.shape)
                for n, v in feeds.items()
            }
        for name in self.names:
            for shape in ((self.shape[-1],), (), (1, *self.shape[1:]), (*self.shape[:2], 1)):
                yield self.random(dtype, {name: shape}, seed=9)
        for shape in ((0, *self.shape[1:]), (*self.shape[:2], 0), (1, 1, 1), (5, *self.shape[1:])):
            yield self.random(dtype, dict.fromkeys(self.names, shape), seed=10)


def fingerprint(value: Array) -> bytes:
    """A key of a result, after rounding to 8 decimals; rarely, rounding separates close results."""
    rounded = np.round(value, 8) + 0 if value.dtype.kind == "f" else value
    # A table has a million results: it stores digests in place of the numbers.
    return blake2b(
        rounded.tobytes(), digest_size=16, key=f"{value.dtype}{value.shape}".encode()
    ).digest()


def grown(kernels: Kernels, setting: Setting) -> dict[bytes, Term]:
    """The table of right sides: for each fingerprint of a result the first expression."""
    leaves = [(Term(name=name), value) for name, value in setting.random(setting.dtype).items()]
    leaves += [(Term(name=f"{number:g}"), np.array(number, setting.dtype)) for number in CONSTANTS]
    table: dict[bytes, Term] = {}
    for term, value in leaves:
        table.setdefault(fingerprint(value), term)
    operands = leaves
    for nodes in range(1, setting.size + 1):
        results = []
        for op_type, parameters, parts in _calls(operands, leaves):
            result = kernels.call(op_type, parameters, [value for _, value in parts])
            if result is not None and (key := fingerprint(result)) not in table:
                table[key] = Term(op_type, parameters, tuple(term for term, _ in parts))
                if nodes < setting.size:
                    results.append((table[key], result))
        operands = results
    return table


def shortest(table: Mapping[bytes, Term], value: Array | None, nodes: int) -> Term | None:
    """The expression of a table with this value, if it has less than ``nodes`` nodes."""
    term = None if value is None else table.get(fingerprint(value))
    return term if term is not None and len(term.nodes()) < nodes else None


_Valued = tuple[Term, Array]


def _calls(
    values: Sequence[_Valued], leaves: Sequence[_Valued]
) -> Iterator[tuple[str, CallParameters, tuple[_Valued, ...]]]:
    """All calls with one operand from ``values`` and leaves as the others.

    Calls of two operands also get one value as both operands. Calls that read numbers only are
    skipped.
    """
    for op_type, (count, choices) in OPERATORS.items():
        for value in values:
            rows = {tuple(map(id, row)): row for row in _rows(value, leaves, count)}
            for row, parameters in product(rows.values(), choices):
                if any(term.op_type or term.is_operand for term, _ in row):
                    yield op_type, parameters, row


def _rows(value: _Valued, leaves: Sequence[_Valued], count: int) -> Iterator[tuple[_Valued, ...]]:
    """Operands of a call: the value at each position, with all combinations of leaves."""
    for index in range(count):
        for operands in product(leaves, repeat=count - 1):
            yield (*operands[:index], value, *operands[index:])
    if count == 2:
        yield value, value


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite.

    Attributes:
        left: the expression that models contain.
        right: an expression of fewer nodes that computes the same.
        exactness: the worst exactness over all samples.
        dtypes: types for which both sides run.
        boolean_inputs: names of the inputs that are Boolean.
        occurrences: number of occurrences of the form of the left side, without those whose
            intermediate results have other consumers.
        models: number of models that contain the form.
    """

    left: Term
    right: Term
    exactness: Exactness
    dtypes: tuple[str, ...]
    boolean_inputs: frozenset[str]
    occurrences: int
    models: int


_TYPES: Final = ("float32", "float16", "float64", "int64", "int32")


def judged(
    kernels: Kernels, setting: Setting, left: Term, right: Term
) -> tuple[Exactness, tuple[str, ...]] | None:
    """The exactness of a rewrite, and the types for which the left side runs.

    ``None`` if the sides differ on random numbers, on any integers, or in a shape.
    """
    grades: list[Exactness] = []
    dtypes = []
    for name in _TYPES:
        dtype = np.dtype(name)
        for special, feeds in [
            (False, setting.random(dtype, seed=11)),
            *((True, special_feeds) for special_feeds in setting.special(dtype)),
        ]:
            values = [kernels.value(side, feeds, dtype) for side in (left, right)]
            if values[0] is None:
                continue
            grade = None if values[1] is None else compared(values[0], values[1])
            if grade is None and (
                not special
                or dtype.kind in "iu"
                or values[1] is None
                or values[0].shape != values[1].shape
            ):
                return None
            grades.append(grade or "finite")
            dtypes.append(name)
    order: tuple[Exactness, ...] = ("exact", "rounding", "finite")
    return (max(grades, key=order.index), tuple(dict.fromkeys(dtypes))) if dtypes else None


def compared(a: Array, b: Array) -> Exactness | None:
    """``exact``, ``rounding``, or ``None`` for results that differ."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return None
    if a.dtype.kind != "f":
        return "exact" if np.array_equal(a, b) else None
    is_equal = (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | (np.isnan(a) & np.isnan(b))
    if is_equal.all():
        return "exact"
    tolerance = {2: 4e-3, 4: 1e-5, 8: 1e-12}[a.itemsize]
    is_close = np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    return "rounding" if is_close else None


def searched(forms: Iterable[Mapping[str, Any]], max_nodes: int) -> list[Rule]:
    """Rewrites of forms, in their order.

    Args:
        forms: motifs that `mine` has found, as JSON objects.
        max_nodes: maximum number of nodes of a form.
    """
    kernels = Kernels()
    lefts: dict[Term, Mapping[str, Any]] = {}
    for form in forms:
        is_searched = form["nodes"] <= max_nodes and form["exclusive"]
        tree = parsed(form["form"]) if is_searched else None
        for left in map(renamed, terms(tree) if tree is not None else ()):
            lefts.setdefault(left, form)
    by_setting: dict[Setting, list[Term]] = {}
    for left in lefts:
        for setting in _settings(left):
            by_setting.setdefault(setting, []).append(left)
    rules: dict[Term, Rule] = {}
    for setting, group in by_setting.items():  # one table at a time: each has 100s of megabytes
        table: dict[bytes, Term] = {}
        feeds = setting.random(setting.dtype)
        for left in group:
            if left in rules or kernels.value(left, feeds, setting.dtype) is None:
                continue
            table = table or grown(kernels, setting)
            right = _right_side(kernels, table, left, feeds, setting.dtype)
            verdict = None if right is None else judged(kernels, setting, left, right)
            if right is not None and verdict is not None:
                rules[left] = Rule(
                    left,
                    right,
                    *verdict,
                    setting.boolean_inputs,
                    lefts[left]["exclusive"],
                    lefts[left]["models"],
                )
    return [rules[left] for left in lefts if left in rules]


def _settings(left: Term) -> Iterator[Setting]:
    """The settings in which a left side is searched: up to three inputs, Boolean or not."""
    names = tuple(sorted({term.name for term in ordered(left) if term.is_operand}))
    shape = _SQUARE if "MatMul" in str(left) else _SHAPE
    if 0 < len(names) <= 3:
        size = min(len(left.nodes()) - 1, 2)
        for boolean_inputs, dtype in product(_boolean_inputs(names), ("float64", "int64")):
            yield Setting(names, boolean_inputs, np.dtype(dtype), shape, size)


def _right_side(
    kernels: Kernels,
    table: Mapping[bytes, Term],
    left: Term,
    feeds: Mapping[str, Array],
    dtype: np.dtype[Any],
) -> Term | None:
    """The expression of the table that computes the same as the left side with fewer nodes.

    ``None`` if a part of the left side can be rewritten as well: that is a rule of its own.
    """
    rewrites = {
        term: shortest(table, kernels.value(term, feeds, dtype), len(term.nodes()))
        for term in left.nodes()
    }
    right = rewrites.pop(left)
    return None if any(rewrites.values()) else right


def _boolean_inputs(names: Sequence[str]) -> Iterator[frozenset[str]]:
    """All choices of the inputs that are Boolean."""
    for flags in product((False, True), repeat=len(names)):
        yield frozenset(name for name, is_bool in zip(names, flags, strict=True) if is_bool)


def model_of(
    term: Term, types: Mapping[str, int], shape: Sequence[int | str] | None = None
) -> onnx.ModelProto:
    """A model that computes an expression.

    Its numbers have the type of the first input that is not Boolean.
    """
    dtype = next(
        (dtype for dtype in types.values() if dtype != onnx.TensorProto.BOOL),
        onnx.TensorProto.FLOAT,
    )
    g = Graph(OPSET)
    names: dict[Term, str] = {}
    for node in ordered(term):
        if node.op_type:
            operands = [
                *(names[part] for part in node.parts),
                *map(g.constant, node.parameters.operands),
            ]
            names[node] = g.add(node.op_type, *operands, **dict(node.parameters.attributes))
        elif node.is_operand:
            names[node] = g.input(*shape or (), dtype=types[node.name], name=node.name)
            if shape is None:
                g.inputs[-1].type.tensor_type.ClearField("shape")
        else:
            names[node] = g.constant(float(node.name), onnx.helper.tensor_dtype_to_np_dtype(dtype))
    return g.model(names[term])


def side_of(rule: Rule, term: Term, shape: Sequence[int | str]) -> onnx.ModelProto:
    """A model of one side of a rewrite."""
    dtype = onnx.helper.np_dtype_to_tensor_dtype(
        np.dtype("float32" if "float32" in rule.dtypes else rule.dtypes[0])
    )
    names = [node.name for node in ordered(rule.left) if node.is_operand]
    types = {
        name: onnx.TensorProto.BOOL if name in rule.boolean_inputs else dtype for name in names
    }
    return onnx.shape_inference.infer_shapes(model_of(term, types, shape), strict_mode=True)


def is_known(rule: Rule) -> bool:
    """Whether the default patterns make the left side as small as the right side."""
    shape = ("n", *(_SQUARE if "MatMul" in str(rule.left) else _SHAPE)[1:])
    optimized = xoptim.optimize(side_of(rule, rule.left, shape))
    return sum(node.op_type != "Constant" for node in optimized.graph.node) <= len(
        rule.right.nodes()
    )
