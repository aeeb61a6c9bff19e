"""Branches and loops: what their bodies compute is read as any other nodes.

The results of a loop are functions of the operands and of what one iteration computes, where the
carried values are unknown: two loops whose first values are equal, and whose bodies compute the
same from equal values, are equal after each iteration. One index stands for all iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from onnx import TensorProto

from xoptim.facts.dims import Dim, is_anonymous
from xoptim.graph.graph import Graph
from xoptim.proof.calls import Call, axis_within, denotes
from xoptim.proof.denotations.movement import joined
from xoptim.proof.elements import ONE, ZERO, Argument, Element, Factor, function, of_dim
from xoptim.proof.indices import (
    PLACE,
    Impossible,
    OutOfTime,
    SignSplit,
    SizeSplit,
    Unproved,
    symbols_of,
)
from xoptim.proof.kinds import WHOLE
from xoptim.proof.rewriting import rewritten
from xoptim.proof.tensors import Indices, Tensor, require_equal, reshaped

_STATE: Final = "state"
"""Kind of a factor that is an element of a carried value before an iteration."""
_MAX_UNROLLED: Final = 8
"""Maximal number of iterations of a loop that is unrolled."""
_MAX_ROUNDS: Final = 16
"""Maximal number of times that a body is read to find the values that stay as they are."""


def _body_of(call: Call, name: str) -> Graph:
    body = call.node.bodies.get(name)
    if body is None:
        raise Unproved(f"{call.node.op_type} without {name}")
    return body


def _read(call: Call, name: str, formals: Sequence[Tensor], depth: int) -> list[Tensor]:
    """The outputs of a subgraph; raises `Unproved` if it requires sizes, as it may never run."""

    def guarded(read: Callable[[Indices], Element]) -> Callable[[Indices], Element]:
        def checked(indices: Indices) -> Element:
            try:
                return read(indices)
            except (Impossible, SizeSplit):
                raise Unproved("sizes that a subgraph requires") from None

        return checked

    try:
        outputs = call.read_body(_body_of(call, name), formals, depth)
    except (Impossible, SizeSplit):
        raise Unproved("sizes that a subgraph requires") from None
    return [Tensor(x.shape, x.dtype, guarded(x.at)) for x in outputs]


def _or_none(compute: Callable[[Call], list[Tensor]], call: Call) -> list[Tensor] | None:
    """The results, ``None`` where they are not understood."""
    try:
        return compute(call)
    except OutOfTime:
        raise
    except Unproved:
        return None
    except SignSplit as split:
        if any(name.startswith(PLACE) for name in symbols_of(split.condition)):
            return None  # no case fixes the number of an iteration
        raise


@denotes("If")
def if_(call: Call) -> list[Tensor] | None:
    """The results of one of two branches."""
    return _or_none(_chosen, call)


def _chosen(call: Call) -> list[Tensor]:
    truth = call.operand(0).at([0] * call.operand(0).rank)
    # a branch that never runs has to be valid as well
    branches = [_read(call, f"{name}_branch", [], call.depth) for name in ("then", "else")]
    if truth is ONE or truth is ZERO:
        return branches[0 if truth is ONE else 1]
    pairs = [*zip(*branches, strict=True)]
    for first, second in pairs:
        if (first.shape, first.dtype) != (second.shape, second.dtype):
            raise Unproved("branches with results of different shapes")
        for x in (first, second):
            x.at(_places(call, x))  # raises for what is not understood
    return [_choice(truth, first, second) for first, second in pairs]


def _choice(truth: Element, first: Tensor, second: Tensor) -> Tensor:
    """The elements of the first tensor where a condition holds, else those of the second one."""
    single = truth.single

    def within(value: Element, answer: Element) -> Element:
        def change(base: Factor) -> Element | None:
            return answer if base is single else None

        return value if single is None else rewritten(value, change)

    def read(indices: Indices) -> Element:
        then, otherwise = within(first.at(indices), ONE), within(second.at(indices), ZERO)
        if then is otherwise:
            return then
        if then.is_special or otherwise.is_special:
            return function("choice", args=[truth, then, otherwise])
        return truth * then + otherwise - truth * otherwise

    return Tensor(first.shape, first.dtype, read)


@dataclass(frozen=True, slots=True)
class _Cycle:
    """A Loop or a Scan.

    Attributes:
        call: the node.
        first: the carried values before the first iteration.
        leading: the inputs of the body before the carried values, given the index of the iteration
            and the condition.
        trailing: the inputs of the body after the carried values, given the index.
        count: the number of iterations; ``None`` where it depends on values.
        control: what decides the number of iterations, besides the results of the body.
        has_condition: whether the first output of the body is the condition to continue.
    """

    call: Call
    first: Sequence[Tensor]
    leading: Callable[[Dim, Element], list[Tensor]]
    trailing: Callable[[Dim], list[Tensor]]
    count: Dim | None
    control: Sequence[Argument]
    has_condition: bool

    def outputs(self, index: Dim, truth: Element, states: Sequence[Tensor]) -> list[Tensor]:
        """What the body computes in an iteration, given the carried values before it."""
        formals = [*self.leading(index, truth), *states, *self.trailing(index)]
        outputs = _read(self.call, "body", formals, self.call.depth + 1)
        if len(outputs) < len(self.first) + self.has_condition:
            raise Unproved("a body with too few outputs")
        for before, after in zip(states, self.states_of(outputs), strict=True):
            if before.dtype != after.dtype:
                raise Unproved("a carried value whose type changes")
        return outputs

    def states_of(self, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """The carried values among the outputs of the body."""
        return outputs[self.has_condition : self.has_condition + len(self.first)]

    def stacks_of(self, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs of the body that are stacked."""
        return outputs[self.has_condition + len(self.first) :]

    def goes_on(self, outputs: Sequence[Tensor]) -> bool:
        """Whether there is another iteration, unless the number of iterations is reached."""
        return not self.has_condition or outputs[0].at([0] * outputs[0].rank) is ONE


def _unrolled(cycle: _Cycle) -> tuple[list[Tensor], list[list[Tensor]]] | None:
    """The last carried values, and the scan outputs of each iteration; ``None`` for a number of
    iterations that is large or unknown.
    """
    count = cycle.count
    if not isinstance(count, int) or count > _MAX_UNROLLED:
        return None
    if count < 1:
        cycle.outputs(0, ONE, cycle.first)  # a body that never runs has to be valid as well
    states = [*cycle.first]
    stacks: list[list[Tensor]] = []
    for index in range(count):
        outputs = cycle.outputs(index, ONE, states)
        if not cycle.goes_on(outputs) and index + 1 < count:
            return None
        states = [*cycle.states_of(outputs)]
        stacks.append([*cycle.stacks_of(outputs)])
    return states, stacks


class _Iteration:
    """What one iteration of a cycle computes, whatever the carried values are."""

    def __init__(self, cycle: _Cycle) -> None:
        self.cycle = cycle
        self.invariants = dict[int, Tensor]()  # carried values that stay as they are
        self.index: Dim = 0
        if cycle.count is not None:
            self.index = cycle.call.case.place(-1 - cycle.call.depth, cycle.count)
        self.truth = ONE
        places = range(len(cycle.first))
        for _ in range(_MAX_ROUNDS):
            outputs = self.outputs(places)
            if not cycle.goes_on(outputs) and self.truth is ONE:
                # the condition is not known to be true in every iteration
                self.truth = function(_STATE, cycle.call.depth, "condition", TensorProto.BOOL)
                continue
            states = cycle.states_of(outputs)
            numbers = [k for k in places if k not in self.invariants and self._stays(k, states[k])]
            if not numbers:
                break
            self.invariants |= {k: cycle.first[k] for k in numbers}
        self.first_outputs = self.outputs(places)

    def outputs(self, places: Sequence[int]) -> list[Tensor]:
        """The outputs of the body; the carried values at ``places`` are numbered in this order."""
        states: list[Tensor] = []
        for k, x in enumerate(self.cycle.first):
            number = places.index(k) if k in places else -1 - k
            states.append(self.invariants.get(k) or self._state(number, x))
        outputs = self.cycle.outputs(self.index, self.truth, states)
        for x, y in zip(self.cycle.first, self.cycle.states_of(outputs), strict=True):
            if x.shape != y.shape:
                raise Unproved("a carried value whose shape may change")
        return outputs

    def _state(self, number: int, first: Tensor) -> Tensor:
        depth = self.cycle.call.depth

        def read(indices: Indices) -> Element:
            return function(_STATE, depth, number, first.dtype, args=indices)

        return Tensor(first.shape, first.dtype, read)

    def _stays(self, place: int, after: Tensor) -> bool:
        """Whether an iteration does not change a carried value."""
        before = self._state(place, after)
        places = _places(self.cycle.call, after)
        return before.at(places) is after.at(places)

    def read_by(self, tensors: Sequence[Tensor]) -> set[int]:
        """The carried values that some tensors depend on, also by later iterations."""
        states = self.cycle.states_of(self.first_outputs)
        pending = [*tensors, *self.first_outputs[: self.cycle.has_condition]]
        needed: set[int] = set()
        while pending:
            x = pending.pop()
            for number in _numbers_in(x.at(_places(self.cycle.call, x)), self.cycle.call.depth):
                if number not in needed and 0 <= number < len(states):
                    needed.add(number)
                    pending.append(states[number])
        return needed


def _places(call: Call, x: Tensor) -> list[Dim]:
    """The indices that stand for all elements of a tensor."""
    return [call.case.place(axis, size) for axis, size in enumerate(x.shape)]


def _numbers_in(value: Element, depth: int) -> Iterator[int]:
    """The numbers of the carried values of a loop that an element depends on."""
    pending, seen = [value], {value}
    while pending:
        for _, powers in pending.pop().terms:
            for base, _ in powers:
                number = base.key[2] if base.key[:2] == (_STATE, depth) else None
                if isinstance(number, int):
                    yield number
                for content in _contents(base):
                    if content not in seen:
                        seen.add(content)
                        pending.append(content)


def _contents(base: Factor) -> Iterator[Element]:
    """The elements in the arguments of a factor, also those that are indices."""
    for arg in base.args:
        if isinstance(arg, Element):
            yield arg
        elif not isinstance(arg, int):
            for name in arg.symbols:
                content = getattr(name, "content", None)
                if isinstance(content, Element):
                    yield content


def _has_place(size: Dim) -> bool:
    return any(name.startswith(PLACE) for name in symbols_of(size))


def _result(iteration: _Iteration, place: int, shape: Sequence[Dim]) -> Tensor:
    """A result of a cycle, by what one iteration computes: a carried value after the last one, or
    what all iterations return, along the first axis.

    Args:
        iteration: an iteration.
        place: index among the outputs of the body, not counting the condition.
        shape: the shape of the result.
    """
    cycle = iteration.cycle
    count = len(cycle.first)
    is_state = place < count
    output = iteration.first_outputs[cycle.has_condition + place]
    needed = iteration.read_by([output]) | ({place} if is_state else set())
    places = sorted(needed)
    outputs = iteration.outputs(places)
    states = cycle.states_of(outputs)
    tensors = [cycle.first[k] for k in places] + [states[k] for k in places]
    tensors += outputs[: cycle.has_condition]
    tensors += [] if is_state else [outputs[cycle.has_condition + place]]
    args: list[Argument] = [*cycle.control]
    type_codes: list[int] = []  # rank * 1000 + element type
    for x in tensors:
        if any(is_anonymous(size) or _has_place(size) for size in x.shape):
            raise Unproved("a shape that may differ between iterations")
        args += [x.at(_places(cycle.call, x)), *x.shape]
        type_codes.append(x.rank * 1000 + x.dtype)
    role = places.index(place) if is_state else -1
    form = cycle.has_condition, len(cycle.control), tuple(type_codes), role
    kind = (WHOLE, "cycle", *form, output.dtype)

    def read(indices: Indices) -> Element:
        return function(*kind, args=[*args, *indices])

    return Tensor(shape, output.dtype, read)


def _results(cycle: _Cycle, lengths: Sequence[Dim]) -> list[Tensor]:
    """The results of a cycle; stacked ones have the iterations along axis 0, of ``lengths``."""
    unrolling = _unrolled(cycle)
    count = len(cycle.first)
    if unrolling is not None and (unrolling[1] or not lengths):
        states, rows = unrolling
        columns = zip(*rows, strict=True) if rows else ()
        return [*states, *(_stacked(cycle.call, column) for column in columns)]
    iteration = _Iteration(cycle)
    results: list[Tensor] = []
    for place, x in enumerate(cycle.first):
        stays = place in iteration.invariants
        results.append(x if stays else _result(iteration, place, x.shape))
    for place, length in enumerate(lengths, count):
        output = iteration.first_outputs[cycle.has_condition + place]
        results.append(_result(iteration, place, (length, *output.shape)))
    return results


def _stacked(call: Call, rows: Sequence[Tensor]) -> Tensor:
    return joined(call, [reshaped(call.case, x, (1, *x.shape)) for x in rows], 0)


@denotes("Loop")
def loop(call: Call) -> list[Tensor] | None:
    """Carried values after the last iteration, and what all iterations return."""
    return _or_none(_loop, call)


def _loop(call: Call) -> list[Tensor]:
    trips = call.operand(0) if call.has(0) else None
    condition = call.operand(1).at([0] * call.operand(1).rank) if call.has(1) else ONE
    dims = call.dims(0) if trips is not None else None
    count = dims[0] if dims else None
    first = [call.operand(place) for place in range(2, len(call.operands))]
    depth = call.depth

    def leading(index: Dim, truth: Element) -> list[Tensor]:
        number = function(_STATE, depth, "iteration", TensorProto.INT64)
        iteration = number if count is None else of_dim(index)
        return [
            Tensor((), TensorProto.INT64, lambda _: iteration),
            Tensor((), TensorProto.BOOL, lambda _: truth),
        ]

    if condition is ZERO:
        count = 0
    elif condition is not ONE and isinstance(count, int) and count > 0:
        count = None  # 0 if the condition is false
    control: list[Argument] = [condition]
    control += [] if trips is None else [trips.at([0] * trips.rank)]
    cycle = _Cycle(call, first, leading, lambda _: [], count, control, True)
    lengths = [_length(call, place) for place in range(len(first), len(call.node.output))]
    return _results(cycle, lengths)


def _length(call: Call, place: int) -> Dim:
    """The number of iterations, as the first dimension of a scan output."""
    if not call.node.output[place]:
        return 0
    shape = call.shape(place)
    if not shape:
        raise Unproved("a scan output without axes")
    return shape[0]


@denotes("Scan")
def scan(call: Call) -> list[Tensor] | None:
    """Carried values after the last iteration, and what all iterations return."""
    return None if call.opset < 9 else _or_none(_scan, call)


def _scan(call: Call) -> list[Tensor]:
    operands = [call.operand(place) for place in range(len(call.operands))]
    count = len(operands) - call.attribute("num_scan_inputs", 0)
    first, sequences = operands[:count], operands[count:]
    if not sequences:
        raise Unproved("a Scan without scan inputs")
    axes = _settings(call, "scan_input_axes", len(sequences))
    directions = _settings(call, "scan_input_directions", len(sequences))
    axes = [axis_within(axis, x.rank) for axis, x in zip(axes, sequences, strict=True)]
    length = sequences[0].shape[axes[0]]
    for x, axis in zip(sequences, axes, strict=True):
        require_equal(x.shape[axis], length, or_one=False)

    def trailing(index: Dim) -> list[Tensor]:
        parts = zip(sequences, axes, directions, strict=True)
        return [
            _slice(x, axis, length - 1 - index if direction else index)
            for x, axis, direction in parts
        ]

    cycle = _Cycle(call, first, lambda *_: [], trailing, length, [of_dim(length)], False)
    stacks = len(call.node.output) - count
    results = _results(cycle, [length] * stacks)
    out_axes = _settings(call, "scan_output_axes", stacks)
    out_directions = _settings(call, "scan_output_directions", stacks)
    settings = zip(results[count:], out_axes, out_directions, strict=True)
    return results[:count] + [
        _with_axis(x, axis_within(a, x.rank), direction) for x, a, direction in settings
    ]


def _settings(call: Call, name: str, count: int) -> list[int]:
    values = list(call.attribute(name) or [0] * count)
    if len(values) != count:
        raise Unproved(f"{name} of another length")
    return values


def _slice(x: Tensor, axis: int, index: Dim) -> Tensor:
    """The elements at an index of an axis."""

    def read(indices: Indices) -> Element:
        return x.at([*indices[:axis], index, *indices[axis:]])

    return Tensor([*x.shape[:axis], *x.shape[axis + 1 :]], x.dtype, read)


def _with_axis(x: Tensor, axis: int, is_reversed: int) -> Tensor:
    """The tensor with its first axis moved to ``axis``, reversed if ``is_reversed``."""
    length = x.shape[0]

    def read(indices: Indices) -> Element:
        index = length - 1 - indices[axis] if is_reversed else indices[axis]
        return x.at([index, *indices[:axis], *indices[axis + 1 :]])

    shape = [*x.shape[1 : axis + 1], length, *x.shape[axis + 1 :]]
    return Tensor(shape, x.dtype, read)
