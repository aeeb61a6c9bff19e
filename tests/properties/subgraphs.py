"""Moves with inner graphs, and moves that repeat what is there."""

from collections.abc import Callable

import onnx
from onnx import TensorProto, helper

from tests.properties.growing import ELEMENTS, Growing, Value, like

_DEEPEST = 2
Step = Callable[[Growing], None]


def repeat(g: Growing) -> None:
    """The same node again, for the same operands; in an inner graph also one from outside."""
    made = [*g.outside, *g.made]
    if made:
        node, results = made[-1 - g.below(min(len(made), 8))]
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        fresh = tuple(value._replace(name=g.name()) for value in results)
        del copy.output[:]
        copy.output.extend(value.name for value in fresh)
        if any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute):
            return  # its inner names would be there twice
        g.nodes.append(copy)
        g.values += fresh
        g.made.append((copy, fresh))


def branch(g: Growing, step: Step) -> None:
    """An If, its condition constant or not, whose branches capture results."""
    x = g.number(dtypes=("float32", "int64"))
    condition = g.pick(lambda v: v.dtype == "bool" and v.rank == 0)
    if x is None or g.depth >= _DEEPEST:
        return
    if condition is None or g.flag(3):
        condition = g.constant(g.flag(), "bool")
    bodies, results = [], []
    for name in ("then", "else"):
        with g.scope() as (nodes, initializers):
            result = _result(g, x, step)
            results.append(result)
            output = helper.make_tensor_value_info(result.name, ELEMENTS[x.dtype], None)
            bodies.append(helper.make_graph(nodes, name, [], [output], initializers))
    low, high, error = min(r.low for r in results), max(r.high for r in results), max(r.error for r in results)
    facts = like(x, low=low, high=high, error=error)
    g.emit("If", [condition], facts, then_branch=bodies[0], else_branch=bodies[1])


def _result(g: Growing, x: Value, step: Step) -> Value:
    """Grow an inner graph and choose what comes out: something of the type and shape of a value."""
    g.repeat(step, one_of=3)
    found = g.pick(lambda v: (v.dtype, v.shape) == (x.dtype, x.shape)) or x
    return g.emit(g.choose(("Identity", "Neg")), [found], like(found, low=-found.top, high=found.top)) or _copy(g, x)


def _copy(g: Growing, x: Value) -> Value:
    made = x._replace(name=g.name())
    g.nodes.append(helper.make_node("Identity", [x.name], [made.name]))
    return made


def loop(g: Growing, step: Step) -> None:
    """A few times the same, kept within bounds, with everything that was on the way stacked up."""
    x = g.number(dtypes=("float32",))
    if x is None or g.depth >= _DEEPEST:
        return
    start = g.emit("Clip", [x, g.constant(-4.0), g.constant(4.0)], like(x, low=-4.0, high=4.0))
    if start is None:
        return
    times = 1 + g.below(3)  # after none, onnxruntime gives the stack no axes but the first
    count, true = g.constant(times, "int64"), g.constant(True, "bool")
    with g.scope() as (nodes, initializers):
        number, going, carried = (g.name() for _ in range(3))
        g.values += [like(start, name=carried, error=max(start.error, 10.0)), Value(number, "int64", (), 0, 3)]
        found = _result(g, start, step)
        kept = g.emit("Clip", [found, g.constant(-4.0), g.constant(4.0)], like(start, error=found.error)) or _copy(g, start)
        still, stacked = _copy(g, Value(going, "bool", (), 0, 1)), _copy(g, kept)
        inputs = [_info(number, TensorProto.INT64, ()), _info(going, TensorProto.BOOL, ()), _info(carried, TensorProto.FLOAT)]
        outputs = [_info(still.name, TensorProto.BOOL), *(_info(v.name, TensorProto.FLOAT) for v in (kept, stacked))]
        body = helper.make_graph(nodes, "body", inputs, outputs, initializers)
    facts = like(start, error=40.0)
    shape = (*g.fixed(times), *start.shape)
    g.emit("Loop", [count, true if g.flag() else None, start], facts, like(facts, shape=shape), body=body)


def scan(g: Growing, step: Step) -> None:
    """Over the first axis, with or without a state."""
    x = g.number(1, ("float32",))
    if x is None or g.depth >= _DEEPEST or not all(x.shape[0]):
        return
    with g.scope() as (nodes, initializers):
        row = like(x, name=g.name(), shape=x.shape[1:])
        g.values.append(row)
        found = _result(g, row, step)
        body = helper.make_graph(
            nodes, "body", [_info(row.name, TensorProto.FLOAT)], [_info(found.name, TensorProto.FLOAT)], initializers
        )
    g.emit("Scan", [x], like(x, low=found.low, high=found.high, error=found.error), body=body, num_scan_inputs=1)


def _info(name: str, element: int, shape: tuple[int, ...] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)
