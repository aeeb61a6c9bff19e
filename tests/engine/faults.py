"""Raises an error at the n-th call of any of many functions, so that one can see what is left
behind.
"""

from __future__ import annotations

import inspect
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

import onnx

from xoptim import GraphBuilderPatternOptimization, PatternOptimization, PatternRewriter, select
from xoptim.engine import applier
from xoptim.graph import data_file, edit, export, propagate, save
from xoptim.graph.facts import FactTable
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.queries import GraphQueries
from xoptim.graph.references import References
from xoptim.graph.tensors import Tensor
from xoptim.match.easy import EasyPatternOptimization
from xoptim.operators.evaluate import regions
from xoptim.operators.registry import OPERATORS
from xoptim.passes import cleanup, fold, merge


class InjectedError(Exception):
    """An unexpected error."""


class Point(NamedTuple):
    """Where a function is looked up: an attribute of a class or a module, or an entry of a
    table.
    """

    owner: Any
    key: Any

    def get(self) -> Any:
        """The current value."""
        if isinstance(self.owner, Mapping):
            return self.owner[self.key]
        return inspect.getattr_static(self.owner, self.key)

    def set(self, value: Any) -> None:
        """Put something else there."""
        if isinstance(self.owner, MutableMapping):
            self.owner[self.key] = value
        else:
            setattr(self.owner, self.key, value)


def methods(cls: type, *names: str) -> list[Point]:
    """Methods that a class itself defines: those named, or all that are plain functions and not
    private.
    """
    chosen = names or [
        n for n, f in vars(cls).items() if inspect.isfunction(f) and not n.startswith("_")
    ]
    return [Point(cls, name) for name in chosen]


def places(name: str, *modules: Any) -> list[Point]:
    """A function in all the modules that imported it."""
    return [Point(module, name) for module in modules]


def _of_patterns() -> list[Point]:
    classes = {
        c
        for p in select(PATTERNS)
        for c in type(p).__mro__
        if c.__module__.startswith("xoptim.patterns.")
    }
    # called once in the life of a process, not in the loop
    traced = ("match_pattern", "apply_pattern")
    mine = [
        p
        for c in sorted(classes, key=lambda c: c.__qualname__)
        for p in methods(c)
        if p.key not in traced
    ]
    shared = [
        *methods(EasyPatternOptimization, "match", "replacement"),
        *methods(PatternOptimization, "none"),
    ]
    views = [
        *methods(GraphQueries),
        *methods(GraphBuilderPatternOptimization),
        *methods(PatternRewriter),
    ]
    return [*mine, *shared, *views]


PATTERNS = "default+onnxruntime"
GROUPS: dict[str, Callable[[], list[Point]]] = {
    "patterns": _of_patterns,
    "kernels": lambda: [
        *(Point(each, "kernel") for each in OPERATORS.values() if each.kernel),
        *methods(regions._Region, "model", "run"),
    ],
    "inference": lambda: [
        *(Point(each, "formula") for each in OPERATORS.values() if each.formula),
        *places("infer_node", edit, propagate),
        *places("check_results", edit),
        *places("refresh", edit, fold),
    ],
    "verbs": lambda: [
        *methods(
            Graph,
            "insert",
            "remove",
            "rename",
            "rename_output",
            "add_initializer",
            "remove_initializer",
            "sweep",
        ),
        *methods(FactTable, "move", "learn_constness"),
        *methods(References, "set_inputs"),
        *places("load_bodies", edit),
    ],
    "folding and merging": lambda: [
        *methods(fold.Folder, "_add", "_replace", "_run_region", "_store_constant", "_visit"),
        *places("redirect", cleanup, merge),
        *methods(merge.MergeInitializers, "run_on"),
        *methods(merge.MergeNodes, "run_on"),
        *methods(Tensor, "key", "sample", "to_raw"),
        *methods(edit.Edit, "commit"),
    ],
    "exporting": lambda: [
        *places("export_graph", export),
        *places("export_nodes", export),
        *methods(Node, "to_proto"),
    ],
}


class _Stream:
    """A file whose methods can fail."""

    def __init__(self, stream: Any, wire: Tripwire) -> None:
        self._stream = stream
        self.write, self.flush = (
            wire.around(stream.write, "write"),
            wire.around(stream.flush, "flush"),
        )
        self.truncate, self.fileno = wire.around(stream.truncate, "truncate"), stream.fileno

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


class Tripwire:
    """Counts calls, and raises at one of them.

    Args:
        at: at which call, counted from 1; 0 for none.
        error: what to raise.
        late: whether the function is called first, so that its work is done.

    Attributes:
        calls: how many calls there were.
        where: the function at which the error was raised, empty as long as it was not.
        within: whether a pattern was being matched or applied then.
    """

    def __init__(
        self, at: int = 0, error: BaseException | None = None, *, late: bool = False
    ) -> None:
        self.at = at
        self.error = error
        self.late = late
        self.calls = 0
        self.where = ""
        self.within = False
        self._depth = 0

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """A function that is counted."""

        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            mine = self.calls == self.at
            if mine and not self.late:
                self._trip(name)
            result = function(*args, **kwargs)
            if mine and self.late:
                self._trip(name)
            return result

        return counted

    def _trip(self, name: str) -> None:
        self.where = name
        self.within = self._depth > 0
        assert self.error is not None
        raise self.error

    def _noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1

        return noted

    @contextmanager
    def across(self, points: Iterable[Point]) -> Iterator[Tripwire]:
        """Count the calls of these functions within the block."""
        watched = [
            (point, self._noting(point.get()))
            for point in methods(applier.Applier, "match", "_replace")
        ]
        yield from self._put([*watched, *((p, self.around(p.get(), str(p.key))) for p in points)])

    @contextmanager
    def in_writing(self) -> Iterator[Tripwire]:
        """Count what happens while a model is written."""
        names = (
            ("chmod", os),
            ("fsync", os),
            ("replace", os),
            ("_write_raw", data_file),
            ("data_path", save),
        )
        points = [Point(owner, name) for name, owner in names]
        if not self.late:  # a file whose name is not known cannot be removed
            points.append(Point(tempfile, "mkstemp"))
        opened = Point(os, "fdopen")
        opens = self.around(opened.get(), "fdopen") if not self.late else opened.get()
        stream = (opened, lambda *given: _Stream(opens(*given), self))
        yield from self._put([stream, *((p, self.around(p.get(), str(p.key))) for p in points)])

    def _put(self, changes: Sequence[tuple[Point, Any]]) -> Iterator[Tripwire]:
        before = [(point, point.get()) for point, _ in changes]
        try:
            for point, value in changes:
                point.set(value)
            yield self
        finally:
            for point, value in before:
                point.set(value)


def chosen(calls: int, most: int, seed: str) -> list[int]:
    """Some of so many calls, the same ones each time, evenly spread."""
    rng = random.Random(seed)
    if calls <= most:
        return list(range(1, calls + 1))
    step = calls / most
    return [int(step * (index + rng.random())) + 1 for index in range(most)]


MODEL = """
agraph (float[n,8] x, bool c) => (float[n,8] y, float[8,n] z, int64[2] s, float[n,8] v)
<float[8,8] w = {WEIGHTS}, float[8] b = {1,2,3,4,5,6,7,8}, float[8] b2 = {1,2,3,4,5,6,7,8},
float half = {0.5},
 float[1] one = {1.0}, float root = {1.4142135}, int64[2] whole = {-1, 8}, int64[2] rest = {0, 8},
 float zero = {0.0},
 int64[1] first = {0}, int64[1] last = {1}>
{
    t1 = Transpose <perm = [1, 0]> (x)
    t2 = Transpose <perm = [1, 0]> (t1)
    m = MatMul (t2, w)
    h = Add (m, b)
    d = Div (h, root)
    e = Erf (d)
    p = Add (e, one)
    hp = Mul (h, p)
    gelu = Mul (hp, half)
    r1 = Reshape (gelu, whole)
    r2 = Reshape (r1, rest)
    i1 = Identity (r2)
    dead = Relu (i1)
    b3 = Add (b, b2)
    b4 = Mul (b3, b3)
    w2 = Transpose (w)
    w3 = MatMul (w2, w)
    m2 = MatMul (i1, w3)
    h2 = Add (m2, b4)
    k1 = Add (h2, zero)
    q = If (c) <
        then_branch = yes () => (float[n,8] yes_out) {
            a1 = Transpose <perm = [1, 0]> (k1)
            a2 = Transpose <perm = [1, 0]> (a1)
            yes_out = Relu (a2)
        },
        else_branch = no () => (float[n,8] no_out) {
            c1 = Cast <to = 1> (k1)
            c2 = Add (b, b2)
            no_out = Mul (c1, c2)
        }
    >
    mean = ReduceMean <keepdims = 1> (q, last)
    diff = Sub (q, mean)
    sq = Mul (diff, diff)
    var = ReduceMean <keepdims = 1> (sq, last)
    sd = Sqrt (var)
    sde = Add (sd, half)
    y = Div (diff, sde)
    u1 = Unsqueeze (y, first)
    u2 = Squeeze (u1, first)
    same1 = Mul (u2, b)
    same2 = Mul (u2, b2)
    v = Sub (same1, same2)
    z1 = Transpose <perm = [1, 0]> (y)
    z2 = Cast <to = 1> (z1)
    z = Neg (z2)
    sh = Shape (y)
    g0 = Gather (sh, first)
    g1 = Gather (sh, last)
    s = Concat <axis = 0> (g0, g1)
}
"""


def model() -> onnx.ModelProto:
    """A model in which there is something to do for folding, merging, and patterns of many kinds,
    within a branch too.
    """
    weights = ",".join(f"{((7 * i) % 11 - 5) / 10}" for i in range(64))
    header = '<ir_version: 10, opset_import: ["" : 20]>'
    return onnx.parser.parse_model(header + MODEL.replace("{WEIGHTS}", "{" + weights + "}"))
