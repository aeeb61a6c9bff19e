"""A matcher that tries everything, straight from what a drawn pattern says and what stands in the
file of a model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.match.garden import Found, frozen, value_of
from tests.match.planting import (
    Call,
    Fixed,
    Listed,
    Number,
    Operand,
    Outside,
    Parts,
    Pattern,
    Result,
    Variant,
)

Operands = list[tuple[Operand, Any]]


class World:
    """A model: its nodes, its constants, and who reads what."""

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self.nodes = [node for node in graph.node if node.op_type != "Constant"]
        self.producer = {name: node for node in self.nodes for name in node.output if name}
        overridable = {value.name for value in graph.input}
        self.constants = {
            t.name: numpy_helper.to_array(t) for t in graph.initializer if t.name not in overridable
        }
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = np.asarray(
                    onnx.helper.get_attribute_value(node.attribute[0])
                )
                if node.attribute[0].HasField("t"):
                    self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.computed = {name for node in graph.node for name in node.output}
        self.readers: dict[str, set[str]] = {}
        for node in self.nodes:
            for name in node.input:
                self.readers.setdefault(name, set()).add(node.name)
        bodies = [a.g for node in self.nodes for a in node.attribute if a.HasField("g")]
        captured = {name for body in bodies for node in body.node for name in node.input}
        self.needed = captured | {value.name for value in graph.output}
        self.attributes = {
            n.name: {a.name: _plain(onnx.helper.get_attribute_value(a)) for a in n.attribute}
            for n in self.nodes
        }


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


@dataclass(frozen=True)
class State:
    """A part of an assignment: nodes by call, nodes in trees, names by symbol, and captured
    attributes.
    """

    roles: dict[int, onnx.NodeProto]
    inner: tuple[onnx.NodeProto, ...]
    names: dict[Operand, Any]
    captured: dict[str, Any]

    def taken(self, node: onnx.NodeProto) -> bool:
        """Whether a node plays a part already."""
        return any(node is other for other in (*self.roles.values(), *self.inner))


def assignments(pattern: Pattern, model: onnx.ModelProto, *, double: bool = False) -> set[Found]:
    """Everything that satisfies the pattern.

    With ``double``, a node that has to stay may give one of the results.
    """
    world = World(model)
    found = set()
    for variant in pattern.variants():
        start = State({}, (), {}, {})
        for state in _search(world, variant, start):
            if _is_free(world, pattern, variant, state, double) and _condition(
                world, pattern, state
            ):
                names = {
                    o.name: n
                    for o, n in state.names.items()
                    if isinstance(o, (Outside, Fixed, Listed, Parts))
                }
                bindings = {**names, **state.captured, **variant.answers}
                roles = tuple(state.roles[index].name for index in range(len(variant.calls)))
                found.add((roles, frozen(bindings)))
    return found


def _search(world: World, variant: Variant, state: State) -> Iterator[State]:
    left = [index for index in range(len(variant.calls)) if index not in state.roles]
    if not left:
        yield state
        return
    index, nodes = left[-1], world.nodes
    for symbol, name in state.names.items():
        parts = isinstance(symbol, Parts)
        call = (
            next((i for i in left if variant.calls[i].parts == symbol.name), -1)
            if isinstance(symbol, Parts)
            else -1
        )
        call = symbol.call if isinstance(symbol, Result) and symbol.call in left else call
        if call >= 0:
            node = world.producer.get((name[0] if name else "") if parts else name)
            index, nodes = call, [] if node is None else [node]
            break
    for node in nodes:
        if not state.taken(node):
            for after in _paired(world, index, variant.calls[index], node, state):
                yield from _search(world, variant, after)


def _paired(
    world: World, index: int, call: Call, node: onnx.NodeProto, state: State
) -> Iterator[State]:
    """All ways in which a node can play the part of a call."""
    if (node.domain, node.op_type) != call.op.key or (
        not call.parts and len(node.output) < call.op.results
    ):
        return
    captured = _attributes(call, world.attributes[node.name], state.captured)
    if captured is None:
        return
    names = dict(state.names)
    results: list[tuple[Operand, Any]] = [
        (Result(index, place), node.output[place]) for place in range(call.op.results)
    ]
    if call.parts:
        results = [(Parts(call.parts), tuple(node.output))]
    for symbol, name in results:
        if names.setdefault(symbol, name) != name:
            return
    placed = State({**state.roles, index: node}, state.inner, names, captured)
    for operands, inner in _arranged(world, call, node, placed):
        bound = _bound(world, operands, placed.names)
        if bound is not None:
            yield State(placed.roles, (*placed.inner, *inner), bound, captured)


def _arranged(
    world: World, call: Call, node: onnx.NodeProto, state: State
) -> Iterator[tuple[Operands, tuple[onnx.NodeProto, ...]]]:
    """All ways to hand the inputs of a node to the operands of a call, and the nodes of the tree
    besides the node.
    """
    inputs = list(node.input)
    if call.associative:
        for leaves, inner in _trees(world, node, inputs, len(call.operands), state):
            for order in permutations(leaves):
                yield list(zip(call.operands, order, strict=True)), inner
        return
    listed = next(
        (
            place
            for place, operand in enumerate(call.operands)
            if isinstance(operand, (Listed, Parts))
        ),
        -1,
    )
    free = call.op.commutative or call.any_order
    if listed < 0:
        if call.op.op_type == "Split":
            inputs = inputs[:1]
        while inputs and not inputs[-1] and len(inputs) > len(call.operands):
            inputs.pop()
        inputs += [""] * (len(call.operands) - len(inputs))
        if len(inputs) == len(call.operands):
            for order in permutations(inputs) if free else (tuple(inputs),):
                yield list(zip(call.operands, order, strict=True)), ()
        return
    single = [operand for place, operand in enumerate(call.operands) if place != listed]
    if len(inputs) < len(single):
        return
    behind = len(inputs) - (len(single) - listed)
    straight = (*range(listed), *range(behind, len(inputs)))
    for places in permutations(range(len(inputs)), len(single)) if free else (straight,):
        rest = tuple(name for place, name in enumerate(inputs) if place not in places)
        chosen: Operands = [
            (operand, inputs[place]) for operand, place in zip(single, places, strict=True)
        ]
        yield [*chosen, (call.operands[listed], rest)], ()


def _trees(
    world: World, root: onnx.NodeProto, leaves: list[str], count: int, state: State
) -> Iterator[tuple[list[str], tuple[onnx.NodeProto, ...]]]:
    """All trees of the operator of a node with so many leaves: some operands are opened, others are
    not.
    """

    def opened(
        names: list[str], used: tuple[onnx.NodeProto, ...]
    ) -> Iterator[tuple[list[str], tuple[onnx.NodeProto, ...]]]:
        if not names:
            yield [], used
            return
        for head, inner in one(names[0], used):
            for tail, all_inner in opened(names[1:], inner):
                if len(head) + len(tail) <= count:
                    yield [*head, *tail], all_inner

    def one(
        name: str, used: tuple[onnx.NodeProto, ...]
    ) -> Iterator[tuple[list[str], tuple[onnx.NodeProto, ...]]]:
        yield [name], used
        node = world.producer.get(name)
        alike = node is not None and (node.domain, node.op_type) == (root.domain, root.op_type)
        if (
            node is not None
            and alike
            and len(used) + 2 <= count
            and not state.taken(node)
            and all(node is not u for u in used)
        ):
            yield from opened(list(node.input), (*used, node))

    for found, inner in opened(leaves, ()):
        if len(found) == count:
            yield found, inner


def _bound(
    world: World, operands: Operands, names: dict[Operand, Any]
) -> dict[Operand, Any] | None:
    """The names with those of some operands added, ``None`` when one does not fit."""
    names = dict(names)
    for symbol, name in operands:
        if not _fits(world, symbol, name):
            return None
        if not isinstance(symbol, Number) and names.setdefault(symbol, name) != name:
            return None
    return names


def _fits(world: World, symbol: Operand, name: Any) -> bool:
    if isinstance(symbol, Listed):
        return len(name) >= symbol.least and (
            not symbol.constant or all(n in world.constants for n in name)
        )
    if isinstance(symbol, Parts):
        return True
    if not name:
        return isinstance(symbol, Outside) and symbol.optional
    if isinstance(symbol, Number):
        array = world.constants.get(name)
        if array is None or (
            isinstance(symbol.value, tuple) and array.shape != (len(symbol.value),)
        ):
            return False
        return bool(np.allclose(array, np.asarray(symbol.value, np.float32), rtol=1e-6, atol=0))
    if isinstance(symbol, Fixed):
        array = world.constants.get(name)
        return (
            array is not None
            and (not symbol.scalar or array.size == 1)
            and (not symbol.positive or bool((array > 0).all()))
        )
    return True


def _attributes(
    call: Call, written: dict[str, Any], captured: dict[str, Any]
) -> dict[str, Any] | None:
    """The captured values with the attributes of a node added, ``None`` when they do not fit."""
    captured, specs = dict(captured), dict(call.attributes)
    for name, spec in specs.items():
        value = value_of(call.op, name, written)
        if spec.kind == "any":
            continue
        if value is None:
            return None
        if spec.kind in ("equal", "any_of"):
            if not any(_same(value, wanted) for wanted in spec.values):
                return None
        elif (spec.kind == "positive" and not value > 0) or not _same(
            captured.setdefault(spec.name, value), value
        ):
            return None
    rest = {name: value for name, value in written.items() if name not in specs}
    if call.others not in ("", "ANY"):
        captured[call.others] = rest
    elif not call.others and any(
        not _same(value, call.op.defaults.get(name)) for name, value in rest.items()
    ):
        return None
    return captured


def _same(a: Any, b: Any) -> bool:
    return a is not None and b is not None and frozen({"": a}) == frozen({"": b})


def _is_free(world: World, pattern: Pattern, variant: Variant, state: State, double: bool) -> bool:
    """Whether nothing else reads what must not be read, no result is an operand, and no node that
    stays gives a result.
    """
    inside = {node.name for node in (*state.roles.values(), *state.inner)}
    outputs = {state.names[output] for output in variant.outputs}
    operands: set[str] = set()
    for symbol, name in state.names.items():
        if isinstance(symbol, Listed):
            operands.update(name)
        elif isinstance(symbol, (Outside, Fixed)):
            operands.add(name)
    if outputs & operands:
        return False
    policy = {}
    for index, call in enumerate(variant.calls):
        if call.mark:
            policy[state.names[Result(index)]] = call.mark
    nodes = (*state.roles.values(), *state.inner)
    read = {
        name
        for node in nodes
        for name in node.output
        if name
        and name not in outputs
        and (name in operands or name in world.needed or world.readers.get(name, set()) - inside)
    }
    if any(policy.get(name, pattern.interior) == "refuse" for name in read):
        return False
    while True:  # what stays, and what that needs
        staying = [node for node in nodes if read & set(node.output)]
        more = {
            name
            for node in staying
            for name in node.input
            if any(name in each.output for each in nodes)
        } - read
        if not more:
            return double or not any(outputs & set(node.output) for node in staying)
        read |= more


def _condition(world: World, pattern: Pattern, state: State) -> bool:
    condition = pattern.condition
    if condition is None:
        return True
    names = [state.names[Outside(name)] for name in condition.names if Outside(name) in state.names]
    if condition.kind == "different":
        return len(set(names)) == len(names)
    return names[0] in world.computed
