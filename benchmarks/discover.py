"""Rewrites found by search: small expressions that models contain, and cheaper ones that compute the same.

    python -m benchmarks.discover optimized/*.onnx                 # mine the models, search, and print what the catalogue lacks
    xopt mine optimized/*.onnx --size 3 --top 100000 --json > mined.json
    python -m benchmarks.discover --mined mined.json --all         # the same from a file; rewrites that the catalogue has too

Left sides are the forms that ``xopt mine`` finds, with one result and operators of `OPERATORS`; attributes, which forms do not
have, are tried in turn. Right sides are all expressions of fewer nodes, at most two, over the same operands and the constants
0, 1, -1 and 2, grown by one node at a time; of those that compute the same numbers the first one is kept. onnxruntime computes
every node, one kernel at a time. A pair that agrees on random numbers is then compared on all types, on special values (NaN,
infinities, -0, the ends of the type), on operands that are broadcast, of one element, and empty: this decides its exactness, or
drops it. What the default patterns do already is left out; the rest is measured.

Equality on samples is evidence, not a proof: a rewrite that is found here becomes a pattern only with a reason why it is right.
"""

from __future__ import annotations

import argparse
import ast
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime

import xoptim
from xoptim.bench import bench
from xoptim.diagnose.mining import mine
from xoptim.facts.dtypes import Exactness

OPSET: Final = 21
CONSTANTS: Final = (0.0, 1.0, -1.0, 2.0)
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to call an operator: its attributes, and the values of its last operands."""

    attributes: tuple[tuple[str, Any], ...] = ()
    operands: tuple[tuple[int, ...] | int, ...] = ()


def _ways(name: str, values: Iterable[Any], **others: Any) -> tuple[Way, ...]:
    return tuple(Way(((name, value), *others.items())) for value in values)


_PLAIN: Final = (Way(),)
_AXES: Final = tuple(Way((("keepdims", keep),), ((axis,),)) for axis in (-1, 1) for keep in (1, 0))
_UNARY: Final = (
    *("Neg", "Abs", "Relu", "Exp", "Log", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Floor", "Ceil", "Round", "Sign", "Erf"),
    *("Sin", "Cos", "Softplus", "Not", "IsNaN", "Gelu", "HardSwish", "Shape", "Size"),
)
_BINARY: Final = (
    *("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And"),
    *("Or", "Xor", "MatMul"),
)
OPERATORS: Final[Mapping[str, tuple[int, tuple[Way, ...]]]] = {
    **dict.fromkeys(_UNARY, (1, _PLAIN)),
    **dict.fromkeys(_BINARY, (2, _PLAIN)),
    "Where": (3, _PLAIN),
    "Cast": (1, _ways("to", (onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64))),
    "Transpose": (1, _ways("perm", ((0, 2, 1), (1, 0, 2)))),
    "Softmax": (1, _ways("axis", (-1,))),
    "Concat": (2, _ways("axis", (-1, 0))),
    "Reshape": (1, (Way((), ((-1,),)), Way((), ((0, -1),)), Way((), ((0, 0, -1, 2),)), Way((), ((0, 0, -1),)))),
    "Unsqueeze": (1, tuple(Way((), ((axis,),)) for axis in (0, 1, -1))),
    "Squeeze": (1, tuple(Way((), ((axis,),)) for axis in (0, 1, -1))),
    "Gather": (1, tuple(Way((("axis", axis),), (index,)) for axis in (0, -1) for index in (0, (0,)))),
    "Slice": (1, (Way((), ((0,), (1,), (-1,))), Way((), ((1,), (9,), (1,))))),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"), (1, _AXES)),
    "CumSum": (1, (Way((), (-1,)),)),
}
"""Operators of expressions: the number of computed operands, and the ways to call each."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression.

    Attributes:
        op_type: operator; empty for an operand or a number.
        way: how it is called.
        parts: the operands.
        name: of an operand from outside, or the text of a number.
    """

    op_type: str = ""
    way: Way = Way()
    parts: tuple[Term, ...] = ()
    name: str = ""

    def nodes(self) -> frozenset[Term]:
        """The calls inside, equal ones once."""
        return frozenset((self,)).union(*(part.nodes() for part in self.parts)) if self.op_type else frozenset()

    def __str__(self) -> str:
        if not self.op_type:
            return self.name
        settings = [str(list(each) if isinstance(each, tuple) else each) for each in self.way.operands]
        settings += [f"{name}={value}" for name, value in self.way.attributes]
        return f"{self.op_type}({', '.join((*map(str, self.parts), *settings))})"


def parsed(form: str) -> ast.expr | None:
    """The expression of a form; ``None`` if it has several results, or operators of other domains."""
    try:
        *shared, last = ast.parse(form.replace("::", "__")).body
    except SyntaxError:
        return None
    known: dict[str, ast.expr] = {}

    class Put(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return known.get(node.id, node)

    for each in shared:
        if not (isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)):
            return None
        known[each.targets[0].id] = Put().visit(each.value)
    return Put().visit(last.value) if isinstance(last, ast.Expr) else None


def terms(tree: ast.expr) -> Iterator[Term]:
    """The expressions of a form, for all ways to call its operators; numbers other than `CONSTANTS` are operands."""
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in OPERATORS:
        count, ways = OPERATORS[tree.func.id]
        if len(tree.args) < count:
            return
        for parts in product(*(list(terms(part)) for part in tree.args[:count])):
            yield from (Term(tree.func.id, way, parts) for way in ways)
    elif isinstance(tree, ast.Name):
        yield Term(name=tree.id)
    elif isinstance(tree, (ast.Constant, ast.UnaryOp)):
        number = float(ast.literal_eval(tree))
        yield Term(name=f"{number:g}" if number in CONSTANTS else f"k{number:g}")


class Kernels:
    """Computes calls in onnxruntime, one node at a time."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, Way, tuple[Any, ...]], onnxruntime.InferenceSession | None] = {}
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

    def _session(self, op_type: str, way: Way, operands: Sequence[Array]) -> onnxruntime.InferenceSession | None:
        helper = onnx.helper
        types = [helper.np_dtype_to_tensor_dtype(each.dtype) for each in operands]
        inputs = [helper.make_tensor_value_info(f"x{i}", dtype, None) for i, dtype in enumerate(types)]
        stored = [onnx.numpy_helper.from_array(np.array(value, np.int64), f"c{i}") for i, value in enumerate(way.operands)]
        node = helper.make_node(op_type, [*(v.name for v in inputs), *(t.name for t in stored)], ["y"], **dict(way.attributes))
        graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")], stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(), self._options, providers=["CPUExecutionProvider"])
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


class Samples:
    """Values of operands.

    Args:
        kinds: the operands that are Booleans.
        names: the operands.
        shape: of all operands, but for those that are broadcast.
    """

    def __init__(self, names: Sequence[str], kinds: frozenset[str], shape: tuple[int, ...]) -> None:
        self._names, self._kinds, self._shape = names, kinds, shape

    def random(self, dtype: Any, shapes: Mapping[str, tuple[int, ...]] | None = None, seed: int = 0) -> dict[str, Array]:
        """Numbers of the size of 1, and Booleans."""
        rng = np.random.default_rng(seed)
        found = {}
        for name in self._names:
            shape = (shapes or {}).get(name, self._shape)
            if name in self._kinds:
                found[name] = rng.random(shape) < 0.5
            elif np.dtype(dtype).kind in "iu":
                found[name] = rng.integers(-5, 6, shape).astype(dtype)
            else:
                found[name] = (2 * rng.standard_normal(shape)).astype(dtype)
        return found

    def special(self, dtype: Any) -> Iterator[dict[str, Array]]:
        """Special values of the type, against each other; extremes; broadcast operands; empty axes."""
        limits = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
        low, high = limits.min, limits.max
        values = [0, 1, -1, 2, low, high] if isinstance(limits, np.iinfo) else [*_SPECIAL, low, high, limits.tiny]
        for seed in range(1, 9):
            rng = np.random.default_rng(seed)
            feeds = self.random(dtype, seed=seed)
            yield {n: v if v.dtype == bool else rng.choice(np.array(values, dtype), v.shape) for n, v in feeds.items()}
        for name in self._names:
            for shape in ((self._shape[-1],), (), (1, *self._shape[1:]), (*self._shape[:2], 1)):
                yield self.random(dtype, {name: shape}, seed=9)
        for shape in ((0, *self._shape[1:]), (*self._shape[:2], 0), (1, 1, 1), (5, *self._shape[1:])):
            yield self.random(dtype, dict.fromkeys(self._names, shape), seed=10)


def fingerprint(value: Array) -> tuple[Any, ...]:
    """Equal for results that differ by rounding only, but for a negligible share of them."""
    rounded = np.round(value, 8) + 0 if value.dtype.kind == "f" else value
    return value.dtype, value.shape, rounded.tobytes()


def grown(kernels: Kernels, samples: Samples, dtype: Any, size: int) -> dict[tuple[Any, ...], Term]:
    """The first expression of at most so many nodes for each result.

    Args:
        kernels: computes.
        samples: operands.
        dtype: of operands that are not Booleans.
        size: most nodes, 1 or 2.
    """
    feeds = samples.random(dtype)
    leaves = [(Term(name=name), value) for name, value in feeds.items()]
    leaves += [(Term(name=f"{number:g}"), np.array(number, dtype)) for number in CONSTANTS]
    found: dict[tuple[Any, ...], Term] = {}
    for term, value in leaves:
        found.setdefault(fingerprint(value), term)
    last = leaves
    for _ in range(size):
        new = []
        for op_type, way, parts in _calls(last, leaves):
            result = kernels.call(op_type, way, [value for _, value in parts])
            if result is not None and (key := fingerprint(result)) not in found:
                found[key] = Term(op_type, way, tuple(term for term, _ in parts))
                new.append((found[key], result))
        last = new
    return found


def shortest(table: Mapping[tuple[Any, ...], Term], value: Array | None, nodes: int) -> Term | None:
    """The expression of a table with this value and fewer nodes than given."""
    found = None if value is None else table.get(fingerprint(value))
    return found if found is not None and len(found.nodes()) < nodes else None


_Valued = tuple[Term, Array]


def _calls(last: Sequence[_Valued], leaves: Sequence[_Valued]) -> Iterator[tuple[str, Way, tuple[_Valued, ...]]]:
    """All calls with one new operand, or the same one twice, beside operands from outside and numbers."""
    for op_type, (count, ways) in OPERATORS.items():
        for given in last:
            rows = {tuple(id(each) for each in row): row for row in _rows(given, leaves, count)}
            for row, way in product(rows.values(), ways):
                if any(term.op_type or term.name[0].isalpha() for term, _ in row):
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
        places: occurrences of the form of the left side where nothing else reads its interior results.
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


def judged(kernels: Kernels, samples: Samples, left: Term, right: Term) -> tuple[Exactness, tuple[str, ...]] | None:
    """How a rewrite agrees on all samples of all types on which the left side runs; ``None`` where it does not."""
    grades: list[Exactness] = []
    ran = []
    for name in _TYPES:
        dtype = np.dtype(name)
        for special, feeds in [(False, samples.random(dtype, seed=11)), *((True, each) for each in samples.special(dtype))]:
            values = [kernels.value(side, feeds, dtype) for side in (left, right)]
            if values[0] is None:
                continue
            grade = None if values[1] is None else compared(values[0], values[1])
            if grade is None and (not special or dtype.kind in "iu" or values[1] is None or values[0].shape != values[1].shape):
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


def searched(forms: Iterable[Mapping[str, Any]], most: int) -> Iterator[Rule]:
    """Rewrites of the forms that ``xopt mine`` writes as JSON, of 2 to so many nodes."""
    kernels = Kernels()
    tables: dict[tuple[Any, ...], dict[tuple[Any, ...], Term]] = {}
    seen: set[str] = set()
    for each in forms:
        tree = parsed(each["form"]) if each["nodes"] <= most and each["exclusive"] else None
        for left in map(_renamed, terms(tree) if tree is not None else ()):
            names = tuple(sorted({term.name for term in _leaves(left) if term.name[0].isalpha()}))
            if not names or len(names) > 3 or str(left) in seen:
                continue
            seen.add(str(left))
            for kinds, dtype in product(_kinds(names), (np.dtype("float64"), np.dtype("int64"))):
                shape = _SQUARE if "MatMul" in str(left) else _SHAPE
                samples = Samples(names, kinds, shape)
                feeds = samples.random(dtype)
                if kernels.value(left, feeds, dtype) is None:
                    continue
                size = min(len(left.nodes()) - 1, 2)
                key = names, kinds, dtype, shape, size
                table = tables.get(key) or tables.setdefault(key, grown(kernels, samples, dtype, size))
                smaller = {term: shortest(table, kernels.value(term, feeds, dtype), len(term.nodes())) for term in left.nodes()}
                right = smaller.pop(left)
                if right is None or any(smaller.values()):  # a part alone says it all
                    continue
                found = judged(kernels, samples, left, right)
                if found is not None:
                    yield Rule(left, right, *found, kinds, each["exclusive"], each["models"])
                    break


def _renamed(term: Term) -> Term:
    """The same expression with its operands named ``a``, ``b``, ... in order, so that expressions share their right sides."""
    names: dict[str, str] = {}

    def copied(each: Term) -> Term:
        if each.op_type:
            return Term(each.op_type, each.way, tuple(map(copied, each.parts)))
        is_number = not each.name[0].isalpha()
        return each if is_number else Term(name=names.setdefault(each.name, chr(ord("a") + len(names))))

    return copied(term)


def _leaves(term: Term) -> Iterator[Term]:
    if not term.op_type:
        yield term
    for part in term.parts:
        yield from _leaves(part)


def _kinds(names: Sequence[str]) -> Iterator[frozenset[str]]:
    """Which operands are Booleans."""
    for chosen in product((False, True), repeat=len(names)):
        yield frozenset(name for name, each in zip(names, chosen, strict=True) if each)


def model_of(term: Term, kinds: frozenset[str], dtype: str, shape: Sequence[int | str]) -> onnx.ModelProto:
    """A model that computes an expression."""
    helper = onnx.helper
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    names: dict[Term, str] = {}
    nodes, stored = [], []
    for each in _ordered(term):
        if not each.op_type:
            names[each] = each.name if each.name[0].isalpha() else f"c{len(names)}"
            if names[each] != each.name:
                stored.append(onnx.numpy_helper.from_array(np.array(float(each.name), dtype), names[each]))
            continue
        constants = [f"v{len(names)}_{i}" for i in range(len(each.way.operands))]
        values = zip(constants, each.way.operands, strict=True)
        stored += [onnx.numpy_helper.from_array(np.array(value, np.int64), name) for name, value in values]
        names[each] = "y" if each is term else f"t{len(names)}"
        operands = [*(names[part] for part in each.parts), *constants]
        nodes.append(helper.make_node(each.op_type, operands, [names[each]], **dict(each.way.attributes)))
    used = sorted(each.name for each in names if not each.op_type and each.name[0].isalpha())
    boolean = onnx.TensorProto.BOOL
    inputs = [helper.make_tensor_value_info(name, boolean if name in kinds else number, shape) for name in used]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def _ordered(term: Term) -> list[Term]:
    """An expression and its parts, operands first, each once."""
    found: dict[Term, None] = {}
    for part in term.parts:
        found.update(dict.fromkeys(_ordered(part)))
    return [*found, term]


def is_known(rule: Rule) -> bool:
    """Whether the default patterns make the left side as small as the right side."""
    dtype = "float32" if "float32" in rule.dtypes else rule.dtypes[0]
    shape = ("n", *(_SQUARE if "MatMul" in str(rule.left) else _SHAPE)[1:])
    optimized = xoptim.optimize(model_of(rule.left, rule.kinds, dtype, shape))
    return sum(node.op_type != "Constant" for node in optimized.graph.node) <= len(rule.right.nodes())


def ratio(rule: Rule, seconds: float) -> str:
    """The time of the right side divided by that of the left side, with its interval."""
    dtype = "float32" if "float32" in rule.dtypes else rule.dtypes[0]
    sides = [model_of(side, rule.kinds, dtype, (8, 128, 128)) for side in (rule.left, rule.right)]
    found = bench(dict(zip(("left", "right"), sides, strict=True)), seconds=seconds, threads=1, compare=False, loading=False)
    measured = found.models[1].ratio
    assert measured is not None
    return f"{measured.value:.2f} ({measured.interval.low:.2f} to {measured.interval.high:.2f})"


def main() -> None:
    """Mine, search, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="optimized models")
    parser.add_argument("--mined", type=pathlib.Path, help="what `xopt mine --json` printed, in place of models")
    parser.add_argument("--nodes", type=int, default=3, choices=(2, 3, 4), help="most nodes of a left side")
    parser.add_argument("--all", action="store_true", help="print what the default patterns do too")
    parser.add_argument("--seconds", type=float, default=0.2, help="of measured runs for each side; 0 measures nothing")
    given = parser.parse_args()
    forms = json.loads(given.mined.read_text()) if given.mined else [each.to_json() for each in mine(given.models, given.nodes)]
    print("| places | models | left | right | exactness | time |\n|---|---|---|---|---|---|")
    for rule in searched(forms, given.nodes):
        if given.all or not is_known(rule):
            time = ratio(rule, given.seconds) if given.seconds else ""
            cells = (rule.places, rule.models, rule.left, rule.right, rule.exactness, time)
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
