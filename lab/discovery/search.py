"""The search for rewrites: small expressions that models contain, and cheaper ones that compute the
same.

Left sides are the forms that `mine` finds, with one result and operators of `OPERATORS`;
attributes, which forms do not have, are tried in turn. Right sides are all expressions of fewer
nodes, at most two, over the same operands and the constants 0, 1, -1 and 2, grown by one node at a
time; of those that compute the same numbers the first one is kept. onnxruntime computes every node,
one kernel at a time. A pair that agrees on random numbers is then compared on all types, on special
values (NaN, infinities, -0, the ends of the type), on operands that are broadcast, of one element,
and empty: this decides its exactness, or drops it.

Equality on samples is evidence, not a verification: a rewrite that is found here becomes a pattern
only with a reason why it is right.
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
    Term,
    Way,
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
            tuple[str, Way, tuple[Any, ...]], onnxruntime.InferenceSession | None
        ] = {}
        self._options = onnxruntime.SessionOptions()
        self._options.log_severity_level = 4
        self._options.intra_op_num_threads = 1

    def call(self, op_type: str, way: Way, operands: Sequence[Array]) -> Array | None:
        """The result; ``None`` where the operator does not take these operands."""
        if op_type in ("Div", "Pow") and operands[0].dtype.kind in "iu":
            return None  # a division by zero ends the process
        key = op_type, way, tuple(each.dtype for each in operands)
        if key not in self._sessions:
            self._sessions[key] = self._session(op_type, way, operands)
        session = self._sessions[key]
        if session is None:
            return None
        try:
            found: Array = session.run(None, {f"x{i}": each for i, each in enumerate(operands)})[0]
        except Exception:  # shapes that do not fit; onnxruntime's errors have no common class
            return None
        return found

    def _session(
        self, op_type: str, way: Way, operands: Sequence[Array]
    ) -> onnxruntime.InferenceSession | None:
        types = {
            f"x{i}": onnx.helper.np_dtype_to_tensor_dtype(each.dtype)
            for i, each in enumerate(operands)
        }
        model = model_of(Term(op_type, way, tuple(Term(name=name) for name in types)), types)
        try:
            return onnxruntime.InferenceSession(
                model.SerializeToString(), self._options, providers=["CPUExecutionProvider"]
            )
        except Exception:  # no kernel for the types, or none that may be called so
            return None

    def value(self, term: Term, feeds: Mapping[str, Array], dtype: np.dtype[Any]) -> Array | None:
        """The value of an expression; numbers have the given type."""
        if not term.op_type:
            return feeds[term.name] if term.name in feeds else np.array(float(term.name), dtype)
        parts = []
        for part in term.parts:
            value = self.value(part, feeds, dtype)
            if value is None:
                return None
            parts.append(value)
        return self.call(term.op_type, term.way, parts)


_SHAPE: Final = (2, 3, 4)
_SQUARE: Final = (2, 4, 4)
_SPECIAL: Final = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 2.0, 0.5, -2.5, 3.0)


@dataclass(frozen=True, slots=True)
class Setting:
    """The operands and the size of the expressions that a left side is compared with.

    Attributes:
        names: operands.
        kinds: those that are Booleans.
        dtype: of the others.
        shape: of all operands, but for those that are broadcast.
        size: most nodes of a right side, 1 or 2.
    """

    names: tuple[str, ...]
    kinds: frozenset[str]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size: int

    def random(
        self, dtype: Any, shapes: Mapping[str, tuple[int, ...]] | None = None, seed: int = 0
    ) -> dict[str, Array]:
        """Numbers of the size of 1, and Booleans."""
        rng = np.random.default_rng(seed)
        found = {}
        for name in self.names:
            shape = (shapes or {}).get(name, self.shape)
            if name in self.kinds:
                found[name] = rng.random(shape) < 0.5
            elif np.dtype(dtype).kind in "iu":
                found[name] = rng.integers(-5, 6, shape).astype(dtype)
            else:
                found[name] = (2 * rng.standard_normal(shape)).astype(dtype)
        return found

    def special(self, dtype: Any) -> Iterator[dict[str, Array]]:
        """Special values of the type, against each other.

        Extremes; broadcast operands; empty axes.
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
    """Equal for results that differ by rounding only, but for a negligible share of them."""
    rounded = np.round(value, 8) + 0 if value.dtype.kind == "f" else value
    # A table has a million of them: it stores a digest in place of the numbers.
    return blake2b(
        rounded.tobytes(), digest_size=16, key=f"{value.dtype}{value.shape}".encode()
    ).digest()


def grown(kernels: Kernels, setting: Setting) -> dict[bytes, Term]:
    """The first expression for each result."""
    leaves = [(Term(name=name), value) for name, value in setting.random(setting.dtype).items()]
    leaves += [(Term(name=f"{number:g}"), np.array(number, setting.dtype)) for number in CONSTANTS]
    found: dict[bytes, Term] = {}
    for term, value in leaves:
        found.setdefault(fingerprint(value), term)
    last = leaves
    for nodes in range(1, setting.size + 1):
        new = []
        for op_type, way, parts in _calls(last, leaves):
            result = kernels.call(op_type, way, [value for _, value in parts])
            if result is not None and (key := fingerprint(result)) not in found:
                found[key] = Term(op_type, way, tuple(term for term, _ in parts))
                if nodes < setting.size:
                    new.append((found[key], result))
        last = new
    return found


def shortest(table: Mapping[bytes, Term], value: Array | None, nodes: int) -> Term | None:
    """The expression of a table with this value and fewer nodes than given."""
    found = None if value is None else table.get(fingerprint(value))
    return found if found is not None and len(found.nodes()) < nodes else None


_Valued = tuple[Term, Array]


def _calls(
    last: Sequence[_Valued], leaves: Sequence[_Valued]
) -> Iterator[tuple[str, Way, tuple[_Valued, ...]]]:
    """All calls with one new operand, or the same one twice, next to operands from outside and
    numbers.
    """
    for op_type, (count, ways) in OPERATORS.items():
        for given in last:
            rows = {tuple(id(each) for each in row): row for row in _rows(given, leaves, count)}
            for row, way in product(rows.values(), ways):
                if any(term.op_type or term.is_operand for term, _ in row):
                    yield op_type, way, row


def _rows(given: _Valued, leaves: Sequence[_Valued], count: int) -> Iterator[tuple[_Valued, ...]]:
    for place in range(count):
        for others in product(leaves, repeat=count - 1):
            yield (*others[:place], given, *others[place:])
    if count == 2:
        yield given, given


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite that was found.

    Attributes:
        left: what models contain.
        right: what computes the same with fewer nodes.
        exactness: the worst over all samples.
        dtypes: types on which both sides run.
        kinds: operands that are Booleans.
        places: occurrences of the form of the left side where nothing else reads its interior
            results.
        models: number of models that contain it.
    """

    left: Term
    right: Term
    exactness: Exactness
    dtypes: tuple[str, ...]
    kinds: frozenset[str]
    places: int
    models: int


_TYPES: Final = ("float32", "float16", "float64", "int64", "int32")


def judged(
    kernels: Kernels, setting: Setting, left: Term, right: Term
) -> tuple[Exactness, tuple[str, ...]] | None:
    """How a rewrite agrees on all samples of all types on which the left side runs.

    ``None`` where it does not.
    """
    grades: list[Exactness] = []
    ran = []
    for name in _TYPES:
        dtype = np.dtype(name)
        for special, feeds in [
            (False, setting.random(dtype, seed=11)),
            *((True, each) for each in setting.special(dtype)),
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
            ran.append(name)
    order: tuple[Exactness, ...] = ("exact", "rounding", "finite")
    return (max(grades, key=order.index), tuple(dict.fromkeys(ran))) if ran else None


def compared(a: Array, b: Array) -> Exactness | None:
    """``exact``, ``rounding``, or ``None`` for results that differ."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return None
    if a.dtype.kind != "f":
        return "exact" if np.array_equal(a, b) else None
    same = (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return "exact"
    close = {2: 4e-3, 4: 1e-5, 8: 1e-12}[a.itemsize]
    return "rounding" if np.allclose(a, b, rtol=close, atol=close, equal_nan=True) else None


def searched(forms: Iterable[Mapping[str, Any]], most: int) -> list[Rule]:
    """Rewrites of the forms that `mine` writes as JSON, of 2 to this many nodes, in order of the
    forms.
    """
    kernels = Kernels()
    lefts: dict[Term, Mapping[str, Any]] = {}
    for form in forms:
        tree = parsed(form["form"]) if form["nodes"] <= most and form["exclusive"] else None
        for left in map(renamed, terms(tree) if tree is not None else ()):
            lefts.setdefault(left, form)
    waiting: dict[Setting, list[Term]] = {}
    for left in lefts:
        for setting in _settings(left):
            waiting.setdefault(setting, []).append(left)
    found: dict[Term, Rule] = {}
    for setting, group in waiting.items():  # one table at a time: each takes hundreds of megabytes
        table: dict[bytes, Term] = {}
        feeds = setting.random(setting.dtype)
        for left in group:
            if left in found or kernels.value(left, feeds, setting.dtype) is None:
                continue
            table = table or grown(kernels, setting)
            right = _right_side(kernels, table, left, feeds, setting.dtype)
            verdict = None if right is None else judged(kernels, setting, left, right)
            if right is not None and verdict is not None:
                found[left] = Rule(
                    left,
                    right,
                    *verdict,
                    setting.kinds,
                    lefts[left]["exclusive"],
                    lefts[left]["models"],
                )
    return [found[left] for left in lefts if left in found]


def _settings(left: Term) -> Iterator[Setting]:
    names = tuple(sorted({term.name for term in ordered(left) if term.is_operand}))
    shape = _SQUARE if "MatMul" in str(left) else _SHAPE
    if 0 < len(names) <= 3:
        for kinds, dtype in product(_kinds(names), ("float64", "int64")):
            yield Setting(names, kinds, np.dtype(dtype), shape, min(len(left.nodes()) - 1, 2))


def _right_side(
    kernels: Kernels,
    table: Mapping[bytes, Term],
    left: Term,
    feeds: Mapping[str, Array],
    dtype: np.dtype[Any],
) -> Term | None:
    """The expression that computes the same with fewer nodes.

    ``None`` when a part of the left side has a shorter form.
    """
    smaller = {
        term: shortest(table, kernels.value(term, feeds, dtype), len(term.nodes()))
        for term in left.nodes()
    }
    right = smaller.pop(left)
    return None if any(smaller.values()) else right


def _kinds(names: Sequence[str]) -> Iterator[frozenset[str]]:
    """Which operands are Booleans."""
    for chosen in product((False, True), repeat=len(names)):
        yield frozenset(name for name, each in zip(names, chosen, strict=True) if each)


def model_of(
    term: Term, types: Mapping[str, int], shape: Sequence[int | str] | None = None
) -> onnx.ModelProto:
    """A model that computes an expression.

    Its numbers have the type of the first operand that is not Boolean.
    """
    number = next(
        (each for each in types.values() if each != onnx.TensorProto.BOOL), onnx.TensorProto.FLOAT
    )
    g = Graph(OPSET)
    names: dict[Term, str] = {}
    for each in ordered(term):
        if each.op_type:
            operands = [*(names[part] for part in each.parts), *map(g.constant, each.way.operands)]
            names[each] = g.add(each.op_type, *operands, **dict(each.way.attributes))
        elif each.is_operand:
            names[each] = g.input(*shape or (), dtype=types[each.name], name=each.name)
            if shape is None:
                g.inputs[-1].type.tensor_type.ClearField("shape")
        else:
            names[each] = g.constant(float(each.name), onnx.helper.tensor_dtype_to_np_dtype(number))
    return g.model(names[term])


def side_of(rule: Rule, term: Term, shape: Sequence[int | str]) -> onnx.ModelProto:
    """A model of one side of a rewrite."""
    number = onnx.helper.np_dtype_to_tensor_dtype(
        np.dtype("float32" if "float32" in rule.dtypes else rule.dtypes[0])
    )
    names = [each.name for each in ordered(rule.left) if each.is_operand]
    types = {name: onnx.TensorProto.BOOL if name in rule.kinds else number for name in names}
    return onnx.shape_inference.infer_shapes(model_of(term, types, shape), strict_mode=True)


def is_known(rule: Rule) -> bool:
    """Whether the default patterns make the left side as small as the right side."""
    shape = ("n", *(_SQUARE if "MatMul" in str(rule.left) else _SHAPE)[1:])
    optimized = xoptim.optimize(side_of(rule, rule.left, shape))
    return sum(node.op_type != "Constant" for node in optimized.graph.node) <= len(
        rule.right.nodes()
    )
