"""Errors injected at every call: the promises hold nevertheless.

1. The model given to `optimize` never changes.
2. An exception in a pattern, a kernel or a formula of inference costs that pattern or node only:
   the result computes the same.
3. Ctrl-C and lack of memory are never swallowed.
4. Whatever is raised while a pattern is matched or applied, the graph of a `GraphBuilder` is as
   consistent as before. (After Ctrl-C elsewhere a builder is to be thrown away.)
5. Files are whole: what was there before, or the new model with its weights; and nothing else is
   left behind.
"""

import errno
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.engine.faults import GROUPS, PATTERNS, InjectedError, Tripwire, chosen, model
from tests.support import load, parse, replace, run, text_of, verify
from xoptim import GraphBuilder, ModelError, OptimizationOptions, optimize, save
from xoptim.facts.errors import RewriteError
from xoptim.graph.node import Node

EACH = 20
"""Faults of each kind: with six groups, three errors, before and after a call, 720 in all."""
ERRORS: dict[str, Callable[[], BaseException]] = {
    "exception": lambda: InjectedError("injected"),
    "interrupt": KeyboardInterrupt,
    "memory": MemoryError,
}
SURVIVED = ("patterns", "kernels")
"""Groups in which exceptions must not end an optimization."""
FEEDS = [
    {"x": np.linspace(-1, 1, 8 * n, dtype=np.float32).reshape(n, 8) ** 3, "c": np.array(flag)}
    for n, flag in ((3, True), (2, False))
]
ORIGINAL = model()


@cache
def results(model_bytes: bytes) -> list[np.ndarray]:
    """All outputs on all feeds."""
    return [
        array for feeds in FEEDS for array in run(onnx.ModelProto.FromString(model_bytes), feeds)
    ]


def assert_equal(proto: onnx.ModelProto) -> None:
    """The model computes what the original one does."""
    onnx.checker.check_model(proto, full_check=True)
    for expected, found in zip(
        results(ORIGINAL.SerializeToString()), results(proto.SerializeToString()), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@cache
def calls(group: str) -> int:
    """How many calls there are in a run without faults, once all caches are warm."""
    optimize(ORIGINAL, patterns=PATTERNS)
    with Tripwire().across(GROUPS[group]()) as wire:
        optimize(ORIGINAL, patterns=PATTERNS)
    return wire.calls


def optimize_with(
    wire: Tripwire, group: str
) -> tuple[GraphBuilder | None, onnx.ModelProto | None, BaseException | None]:
    """The builder as it was left, the result if there is one, and what was raised if anything
    was.
    """
    builder = None
    try:
        with wire.across(GROUPS[group]()):
            builder = GraphBuilder(
                ORIGINAL, optimization_options=OptimizationOptions(patterns=PATTERNS)
            )
            builder.optimize()
            return builder, builder.to_onnx(optimize=False), None
    except BaseException as error:
        return builder, None, error


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("group", GROUPS)
def test_optimizing(group: str, kind: str, late: bool) -> None:
    given = ORIGINAL.SerializeToString(deterministic=True)
    numbers = chosen(calls(group), EACH, f"{group} {kind} {late}")
    assert len(numbers) == min(EACH, calls(group))
    for number in numbers:
        wire = Tripwire(number, ERRORS[kind](), late=late)
        builder, proto, raised = optimize_with(wire, group)
        assert wire.where, "the fault was not reached"
        what = f"{kind} at call {number} of {group}, {wire.where}"
        assert ORIGINAL.SerializeToString(deterministic=True) == given, what
        if kind != "exception":
            assert raised is wire.error, f"{what} was swallowed"
        elif group in SURVIVED or wire.within:
            assert raised is None, f"{what} was fatal"
        else:
            assert raised is None or raised is wire.error, what
        if builder is not None and (wire.within or raised is None):
            verify(builder.model)
            assert_equal(builder.to_onnx(optimize=False))
        if proto is not None:
            assert_equal(proto)


def test_optimizing_is_possible_afterwards() -> None:
    """A builder whose pattern was interrupted can go on."""
    expected = optimize(ORIGINAL, patterns=PATTERNS)
    for number in chosen(calls("patterns"), 10, "afterwards"):
        builder, _, raised = optimize_with(Tripwire(number, KeyboardInterrupt()), "patterns")
        if builder is None:
            continue
        assert isinstance(raised, KeyboardInterrupt)
        builder.optimize()
        verify(builder.model)
        again = builder.to_onnx(optimize=False)
        assert_equal(again)
        assert len(again.graph.node) == len(expected.graph.node)


# ------------------------------------------------------------------ replacements that fail half-way


def test_a_replacement_whose_subgraph_is_wrong_is_undone() -> None:
    """It is found out only when the new node is in and the old ones are gone."""
    text = "agraph (float[n] x, bool c) => (float[n] y) { a = Neg(x) b = Abs(a) y = Relu(b) }"
    wrapped = load(text)
    before = text_of(wrapped)
    graph = wrapped.graph
    right = onnx.parser.parse_graph("inner () => (float[n] p) { r = Neg(x) p = Abs(a) }")
    bodies = {"then_branch": right, "else_branch": _twice("p")}
    nodes = list(graph.nodes)
    new = Node("If", ["c"], ["b"], bodies)
    with pytest.raises(ModelError, match="'p' is produced twice"):
        replace(graph, [nodes[1]], [new])
    verify(wrapped)
    assert text_of(wrapped) == before
    replace(graph, [nodes[1]], [Node("Sign", ["a"], ["b"])])
    verify(wrapped)


def _twice(name: str) -> onnx.GraphProto:
    nodes = [onnx.helper.make_node(op, ["a"], [name]) for op in ("Neg", "Abs")]
    return onnx.helper.make_graph(nodes, "inner", [], [onnx.ValueInfoProto(name=name)])


def test_nodes_of_a_branch_come_back() -> None:
    """Those that read each other, and one with a subgraph that captures what another one of them
    computes.
    """
    text = """agraph (float[n] x, bool c) => (float[n] y) {
        y = If (c) <
            then_branch = outer () => (float[n] o) {
                a = Neg (x)
                b = If (c) <
                    then_branch = deep () => (float[n] d) { d = Abs (a) },
                    else_branch = flat () => (float[n] e) { e = Mul (a, x) }
                >
                o = Add (a, b)
            },
            else_branch = other () => (float[n] r) { r = Relu (x) }
        >
    }"""
    wrapped = load(text)
    before = text_of(wrapped)
    body = next(iter(wrapped.graph.nodes)).bodies["then_branch"]
    right = onnx.parser.parse_graph("inner () => (float[n] p) { p = Abs(a) }")
    with pytest.raises(RewriteError, match="reads 'a'"):
        replace(
            body,
            list(body.nodes),
            [Node("If", ["c"], ["o"], {"then_branch": right, "else_branch": right})],
        )
    new = Node("If", ["c"], ["o"], {"then_branch": _twice("p"), "else_branch": _twice("p")})
    fixed = [Node("Sign", ["x"], ["a"]), new]
    with pytest.raises(ModelError, match="'p' is produced twice"):
        replace(body, list(body.nodes), fixed)
    verify(wrapped)
    assert text_of(wrapped) == before


# -------------------------------------------------------------------- files

OLD = parse("agraph (float[4] x) => (float[4] y) { y = Neg(x) }")


def weighty(value: float) -> onnx.ModelProto:
    """A model whose weights go to a file of their own."""
    weights = onnx.numpy_helper.from_array(np.full((40, 40), value, np.float32), "w")
    proto = parse("agraph (float[n,40] x) => (float[n,40] y) { y = MatMul(x, w) }")
    proto.graph.initializer.append(weights)
    return proto


def value_in(path: Path) -> float:
    """Results of the model on the disk, weights included."""
    (found,) = run(onnx.ModelProto(), {"x": np.ones((1, 40), np.float32)}, base=str(path))
    return float(found[0, 0]) / 40


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["full disk", "interrupt", "memory"])
@pytest.mark.parametrize("present", [False, True], ids=["new", "present"])
def test_writing(tmp_path: Path, kind: str, late: bool, present: bool) -> None:
    """At every single step of writing a model and its weights, over what is there or where there is
    nothing yet.
    """
    folder = tmp_path / "folder"
    path = folder / "model.onnx"
    raised: list[bool] = []
    while not raised or raised[-1]:
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        if present:
            save(weighty(1.0), path, external=True)
        number = len(raised) + 1
        wire = Tripwire(number, _error(kind), late=late)
        found = written_with(wire, path)
        expected = ModelError if kind == "full disk" else type(wire.error)
        assert type(found) is (expected if wire.where else type(None)), wire.where
        raised.append(found is not None)
        files = {p.name for p in folder.iterdir()}
        if present or files:
            data = "model.onnx.1.data" if present and value_in(path) == 2.0 else "model.onnx.data"
            assert files == {"model.onnx", data}, f"{wire.where}, call {number}"
            assert value_in(path) in ((1.0, 2.0) if raised[-1] and present else (2.0,)), (
                f"{wire.where}, call {number}"
            )
    assert len(raised) >= 10


def written_with(wire: Tripwire, path: Path) -> BaseException | None:
    """Write a model; what was raised, if anything was."""
    try:
        with wire.in_writing():
            save(weighty(2.0), path, external=True)
    except BaseException as error:
        return error
    return None


def _error(kind: str) -> BaseException:
    return (
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if kind == "full disk" else ERRORS[kind]()
    )
