"""Moves with inner graphs, and moves that repeat what is there."""

from collections.abc import Callable, Mapping, MutableSequence
from typing import Any

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
    """An If of one or two results, its condition constant or not, whose branches capture results or
    compute the same.
    """
    given = [
        x
        for x in (g.number(dtypes=("float32", "int64")) for _ in range(1 + g.below(2)))
        if x is not None
    ]
    condition = g.pick(lambda v: v.dtype == "bool" and v.rank == 0)
    if not given or g.depth >= _DEEPEST:
        return
    if condition is None or g.flag(3):
        condition = g.constant(g.flag(), "bool")
    bodies: list[onnx.GraphProto] = []
    results: list[list[Value]] = []
    for name in ("then", "else"):
        if bodies and g.flag(3):
            bodies.append(_twin(g, bodies[0]))
            results.append(results[0])
            continue
        with g.scope() as (nodes, initializers):
            results.append([_result(g, x, step) for x in given])
            outputs = [_info(v.name, ELEMENTS[v.dtype]) for v in results[-1]]
            bodies.append(helper.make_graph(nodes, name, [], outputs, initializers))
    facts = [
        like(a, low=min(a.low, b.low), high=max(a.high, b.high), error=max(a.error, b.error))
        for a, b in zip(*results, strict=True)
    ]
    g.emit("If", [condition], *facts, then_branch=bodies[0], else_branch=bodies[1])


def _twin(
    g: Growing, body: onnx.GraphProto, names: Mapping[str, str] | None = None
) -> onnx.GraphProto:
    """The same graph, its results under other names."""
    twin = onnx.GraphProto()
    twin.CopyFrom(body)
    new = dict(names or {})
    made: list[Any] = [*twin.input, *twin.initializer]
    for value in made:
        new[value.name] = value.name = g.name()
    for node in twin.node:
        _rename(node.input, new)
        new |= {name: g.name() for name in node.output}
        _rename(node.output, new)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                attribute.g.CopyFrom(_twin(g, attribute.g, new))
    for output in twin.output:
        output.name = new.get(output.name, output.name)
    return twin


def _rename(names: MutableSequence[str], new: Mapping[str, str]) -> None:
    names[:] = [new.get(name, name) for name in names]


def _result(g: Growing, x: Value, step: Step) -> Value:
    """Grow an inner graph and choose what comes out: something of the type and shape of a value."""
    g.repeat(step, one_of=3)
    found = g.pick(lambda v: (v.dtype, v.shape) == (x.dtype, x.shape)) or x
    return g.emit(
        g.choose(("Identity", "Neg")), [found], like(found, low=-found.top, high=found.top)
    ) or _copy(g, x)


def _copy(g: Growing, x: Value) -> Value:
    made = x._replace(name=g.name())
    g.nodes.append(helper.make_node("Identity", [x.name], [made.name]))
    return made


def _clipped(g: Growing, x: Value) -> Value | None:
    return g.emit("Clip", [x, g.constant(-4.0), g.constant(4.0)], like(x, low=-4.0, high=4.0))


def _starts(g: Growing, most: int) -> list[Value]:
    """First states of a loop, within bounds."""
    found = [g.number(dtypes=("float32",)) for _ in range(g.below(most + 1))]
    return [start for x in found if x is not None and (start := _clipped(g, x)) is not None]


def _state(g: Growing, x: Value, step: Step) -> Value:
    """The next value of a state, within the same bounds: another one, or the same."""
    found = x if g.flag(3) else _result(g, x, step)
    return (_clipped(g, found) if found is not x else None) or _copy(g, x)


def loop(g: Growing, step: Step) -> None:
    """A few times the same, as often as a constant or a size says, until a condition fails.

    A state may be stacked up.
    """
    starts = _starts(g, 3)
    if not starts or g.depth >= _DEEPEST:
        return
    size = g.pick(
        lambda v: v.data is not None and v.rank == 0 and all(0 < times < 5 for times in v.data[0])
    )
    count = g.constant(1 + g.below(3), "int64") if size is None or g.flag() else size
    # after none, onnxruntime gives the stack no axes but the first
    times = count.data[0] if count.data is not None else ()
    ends = g.constant(g.below(3), "int64") if g.flag(3) else None
    true = g.constant(True, "bool")
    stacks = g.flag()
    with g.scope() as (nodes, initializers):
        number, going = g.name(), g.name()
        carried = [like(start, name=g.name(), error=max(start.error, 10.0)) for start in starts]
        g.values += [*carried, Value(number, "int64", (), 0, 5)]
        kept = [_state(g, state, step) for state in carried]
        still = _copy(g, Value(going, "bool", (), 0, 1))
        if ends is not None:
            times = (
                tuple(min(each, ends.data[0][0] + 1) for each in times)
                if ends.data is not None
                else times
            )
            still = g.emit("Less", [Value(number, "int64", (), 0, 5), ends], still) or still
        results = [*kept, _copy(g, kept[0])] if stacks else kept
        outputs = [
            _info(still.name, TensorProto.BOOL),
            *(_info(v.name, TensorProto.FLOAT) for v in results),
        ]
        inputs = [_info(number, TensorProto.INT64, ()), _info(going, TensorProto.BOOL, ())]
        inputs += [_info(state.name, TensorProto.FLOAT) for state in carried]
        body = helper.make_graph(nodes, "body", inputs, outputs, initializers)
    facts = [like(start, error=40.0) for start in starts]
    if stacks:
        facts.append(like(facts[0], shape=(times, *starts[0].shape)))
    g.emit("Loop", [count, true if g.flag() else None, *starts], *facts, body=body)


def scan(g: Growing, step: Step) -> None:
    """Over the first axis of one or two results, in either direction, with or without states."""
    x = g.number(1, ("float32",))
    if x is None or g.depth >= _DEEPEST or not all(x.shape[0]):
        return
    y = g.pick(lambda v: v.dtype == "float32" and v.shape[:1] == x.shape[:1]) if g.flag() else None
    scanned = [x] if y is None else [x, y]
    starts = _starts(g, 2)
    with g.scope() as (nodes, initializers):
        carried = [like(start, name=g.name(), error=max(start.error, 10.0)) for start in starts]
        rows = [like(each, name=g.name(), shape=each.shape[1:]) for each in scanned]
        g.values += [*carried, *rows]
        kept = [_state(g, state, step) for state in carried]
        found = _result(g, rows[0], step)
        inputs = [_info(v.name, TensorProto.FLOAT) for v in (*carried, *rows)]
        outputs = [_info(v.name, TensorProto.FLOAT, (None,) * v.rank) for v in (*kept, found)]
        body = helper.make_graph(nodes, "body", inputs, outputs, initializers)
    facts = [like(start, error=40.0) for start in starts]
    stack = like(
        x,
        low=found.low,
        high=found.high,
        error=found.error if not starts else max(found.error, 40.0),
    )
    directions = {
        "scan_input_directions": [g.below(2) for _ in scanned],
        "scan_output_directions": [g.below(2)],
    }
    chosen = directions if g.flag(3) else {}
    g.emit(
        "Scan",
        [*starts, *scanned],
        *facts,
        stack,
        body=body,
        num_scan_inputs=len(scanned),
        **chosen,
    )


def _info(name: str, element: int, shape: tuple[None, ...] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)
