"""Models that were written for something, with a few random changes: examples of patterns, and
exports in a folder.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, helper

from tests.properties.growing import Draw, Drawn
from xoptim.catalogue.discovery import installed_patterns
from xoptim.facts.attributes import decode_attribute
from xoptim.testing.feeds import Feeds, Range, is_real, make_all_feeds
from xoptim.testing.harness import invalid
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import (
    Stored,
    constants,
    inferred_types,
    insert,
    loosen,
    nodes_of,
    parse,
    set_constant,
    tensor_input,
)
from xoptim.testing.vary_constants import other_value

_MOST: Final = 6
"""Most changes."""
_TRIES: Final = 6
"""Places that are tried for a change that leaves a model runnable."""
_BASES: Final = 3
"""Models that are drawn until one can be changed, at most."""
_RUNS: Final = 6
"""Feeds on which a model runs, at most."""
_SAME_SHAPE: Final = (
    ("Add", "Sub", "Mul", "Div", "Max", "Min"),
    (
        "Relu",
        "Sigmoid",
        "Tanh",
        "Neg",
        "Abs",
        "Exp",
        "Identity",
        "Softplus",
        "Erf",
        "Floor",
        "Sign",
        "HardSwish",
        "Sqrt",
        "Log",
    ),
    (
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL2",
        "ReduceLogSumExp",
        "ReduceSumSquare",
    ),
    ("Softmax", "LogSoftmax", "Hardmax"),
    ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"),
    ("And", "Or", "Xor"),
    ("ArgMax", "ArgMin"),
    ("MaxPool", "AveragePool"),
    ("GlobalMaxPool", "GlobalAveragePool"),
)
_DETOURS: Final = (
    "{1} = Cast <to = 10> ({0}) {2} = CastLike({1}, {0})",
    "{1} = Cast <to = 11> ({0}) {2} = CastLike({1}, {0})",
    "{1} = Not(mutant_true) {2} = Where({1}, {0}, {0})",
    "{1} = Neg({0}) {2} = Where(mutant_true, {0}, {1})",
    "{1} = Neg({0}) {2} = Where(mutant_false, {0}, {1})",
    "{1} = Unsqueeze({0}, mutant_zero) {2} = Squeeze({1}, mutant_zero)",
    "{1} = Shape({0}) {2} = Reshape({0}, {1})",
    "{1} = Shape({0}) {2} = Expand({0}, {1})",
    "{1} = Transpose({0}) {2} = Transpose({1})",
    "{1} = Identity({0}) {2} = Identity({1})",
    "{1} = Concat <axis = 0> ({0}, {0}) {2} = Identity({0})",
    "{1} = Neg({0}) {2} = Neg({1})",
    "{1} = Shape <start = -1> ({0}) {2} = Slice({0}, mutant_zero, {1}, mutant_last)",
)
_STORED: Final = {
    "mutant_true": np.array(True),
    "mutant_false": np.array(False),
    "mutant_zero": np.array([0]),
    "mutant_last": np.array([-1]),
}


class Base(NamedTuple):
    """A model to change, and the ranges of inputs whose values matter."""

    name: str
    model: ModelProto
    ranges: Sequence[Range] = ()


class Mutant:
    """A model that is being changed at random, and the values for initializers that a caller may
    override.
    """

    def __init__(self, base: Base, rng: random.Random) -> None:
        self.base, self.rng = base, rng
        self.model = deepcopy(base.model)
        self.overrides: dict[str, np.ndarray] = {}

    def feeds(self) -> Iterator[Feeds]:
        """Values for the inputs; every other run overrides what may be overridden."""
        for number, feeds in enumerate(make_all_feeds(self.model, self.base.ranges)):
            yield {**feeds, **(self.overrides if number % 2 else {})}

    def nodes(self) -> list[NodeProto]:
        """The nodes of the main graph, in a random order, without constants."""
        found = [node for node in self.model.graph.node if node.op_type != "Constant"]
        return self.rng.sample(found, len(found))

    def constants(self) -> list[Stored]:
        """The constants of the main graph that have elements, in a random order."""
        found = [stored for stored in constants(self.model) if stored.array.size]
        return self.rng.sample(found, len(found))


Change = Callable[[Mutant], object]


def _nudge(m: Mutant) -> None:
    name, array = m.constants()[0]
    other = array.copy().reshape(-1)
    place = m.rng.randrange(other.size)
    if array.dtype.kind in "iu":
        other[place] += m.rng.choice((-1, 1))
    else:
        other[place : place + 1] = other_value(other[place : place + 1])
    set_constant(m.model, name, other.reshape(array.shape))


def _fill(m: Mutant) -> None:
    name, array = next(stored for stored in m.constants() if is_real(stored.array))
    word = m.rng.choice(("zero", "one", "negative", "nan", "infinite", "small"))
    other = array.copy()
    if word in ("nan", "infinite"):
        other.reshape(-1)[m.rng.randrange(other.size)] = np.nan if word == "nan" else np.inf
    elif word == "negative":
        other = -other
    else:
        other = np.full_like(
            other, {"zero": 0, "one": 1, "small": 1e-30 if other.dtype.itemsize > 2 else 1e-4}[word]
        )
    set_constant(m.model, name, np.asarray(other))


def _attribute(m: Mutant) -> None:
    node = next(node for node in m.nodes() if node.attribute)
    attribute = m.rng.choice(list(node.attribute))
    value = decode_attribute(attribute)
    step = m.rng.choice((-1, 1))
    if isinstance(value, bool | int | float):
        value = m.rng.choice((value + step, -value, 0, 1))
    elif isinstance(value, list | tuple) and value and isinstance(value[0], int | float):
        value = list(value)
        place = m.rng.randrange(len(value))
        value[place] += step
        value = m.rng.choice((value, value[::-1]))
    else:
        node.attribute.remove(attribute)
        return
    node.attribute.remove(attribute)
    node.attribute.append(helper.make_attribute(attribute.name, value))


def _output_too(m: Mutant) -> None:
    outputs = {value.name for value in m.model.graph.output}
    name = m.rng.choice([n for node in m.nodes() for n in node.output if n and n not in outputs])
    m.model.graph.output.append(onnx.ValueInfoProto(name=name, type=inferred_types(m.model)[name]))


def _swap(m: Mutant) -> None:
    node = next(node for node in m.nodes() if len(node.input) >= 2)
    a, b = m.rng.sample(range(len(node.input)), 2)
    node.input[a], node.input[b] = node.input[b], node.input[a]


def _sibling(m: Mutant) -> None:
    node, group = next(
        (n, group)
        for n in m.nodes()
        for group in _SAME_SHAPE
        if n.op_type in group and not n.domain
    )
    node.op_type = m.rng.choice([op_type for op_type in group if op_type != node.op_type])


def _detour(m: Mutant) -> None:
    node = next(node for node in m.nodes() if any(node.input))
    place = m.rng.choice([place for place, name in enumerate(node.input) if name])
    number = len(m.model.graph.node)
    names = "mutant_source", f"mutant_{number}_a", f"mutant_{number}_b"
    text = m.rng.choice(_DETOURS).format(*names)
    nodes = nodes_of(text)
    for each in nodes:
        each.input[:] = [node.input[place] if name == names[0] else name for name in each.input]
    position = list(m.model.graph.node).index(node)
    present = {tensor.name for tensor in m.model.graph.initializer}
    stored = {
        name: array for name, array in _STORED.items() if name in text and name not in present
    }
    node.input[place] = names[2]
    insert(m.model, position, nodes, stored)


def _overridable(m: Mutant) -> None:
    inputs = {value.name for value in m.model.graph.input}
    name, array = next(
        stored
        for stored in m.constants()
        if stored.name not in inputs and stored.array.dtype.kind != "O"
    )
    set_constant(m.model, name, array)
    m.model.graph.input.append(tensor_input(name, array))
    m.overrides[name] = m.rng.choice(
        (other_value(array), np.ones_like(array), array[::-1].copy() if array.ndim else array)
    )


def _rewire(m: Mutant) -> None:
    """An operand replaced by another one of the same type that is known before."""
    node = next(node for node in m.nodes() if any(node.input))
    place = m.rng.choice([place for place, name in enumerate(node.input) if name])
    types = inferred_types(m.model)
    before = [value.name for value in m.model.graph.input]
    for other in m.model.graph.node:
        if node in (other,):
            break
        before += filter(None, other.output)
    wanted = types[node.input[place]].tensor_type.elem_type
    alike = [
        n
        for n in before
        if n in types and types[n].tensor_type.elem_type == wanted and n != node.input[place]
    ]
    node.input[place] = m.rng.choice(alike[-12:])


def _again(m: Mutant) -> None:
    """A second node that computes the same, or nearly, read by an output of its own."""
    node = next(node for node in m.nodes() if len(node.output) == 1)
    twin = deepcopy(node)
    twin.output[0] = f"mutant_{len(m.model.graph.node)}_twin"
    m.model.graph.node.insert(list(m.model.graph.node).index(node) + 1, twin)
    m.model.graph.output.append(
        onnx.ValueInfoProto(name=twin.output[0], type=inferred_types(m.model)[node.output[0]])
    )


_CHANGES: Final[tuple[Change, ...]] = (
    *(
        _nudge,
        _fill,
        _attribute,
        _output_too,
        _swap,
        _sibling,
        _detour,
        _detour,
        _overridable,
        _rewire,
        _again,
    ),
)


def _changed(mutant: Mutant, change: Change) -> bool:
    """Change a model so that it is valid and runs; returns whether that was possible."""
    before, overrides = mutant.model, dict(mutant.overrides)
    for _ in range(_TRIES):
        mutant.model = deepcopy(before)
        mutant.overrides = dict(overrides)
        try:
            change(mutant)
            _declare_outputs(loosen(mutant.model))
        except (StopIteration, IndexError, KeyError, ValueError, OverflowError, TypeError):
            continue
        if mutant.model != before and not invalid(mutant.model) and _runs(mutant):
            return True
    mutant.model, mutant.overrides = before, overrides
    return False


def _declare_outputs(model: ModelProto) -> None:
    types = inferred_types(model)
    for output in model.graph.output:
        output.type.CopyFrom(types[output.name])


def _runs(mutant: Mutant) -> bool:
    loaded = RUNTIME.load(mutant.model)
    feeds = next(mutant.feeds(), None)
    return (
        not isinstance(loaded, str)
        and feeds is not None
        and not isinstance(RUNTIME.run(loaded, feeds), str)
    )


@cache
def bases(folder: Path | None = None) -> tuple[Base, ...]:
    """The examples of all patterns for the CPU, or the models of a folder."""
    if folder is not None:
        return tuple(Base(path.stem, onnx.load(path)) for path in sorted(folder.glob("*.onnx")))
    return tuple(
        Base(pattern.name(), parse(example.before, example.opset, example.domains), example.ranges)
        for pattern in installed_patterns().values()
        if pattern.phase != "lower"  # a second run fuses again what one takes apart
        for example in pattern.examples
    )


def mutant_of(base: Base, seeds: Sequence[int]) -> Drawn | None:
    """A model with a change for each seed; ``None`` when none of them is possible."""
    mutant = Mutant(base, random.Random(0))
    changed = False
    for seed in seeds:
        mutant.rng.seed(seed)
        changed |= _changed(mutant, mutant.rng.choice(_CHANGES))
    feeds = [
        {n: v for n, v in feeds.items() if isinstance(v, np.ndarray)}
        for feeds in islice(mutant.feeds(), _RUNS)
    ]
    return Drawn(mutant.model, tuple(feeds), {}, measured=True) if changed and feeds else None


@st.composite
def mutants(draw: Draw, folder: Path | None = None) -> Drawn | None:
    """Models with one to six changes, of which hypothesis leaves out what a failure does not
    need.

    Another model is drawn where no change is possible, at most three.
    """
    for _ in range(_BASES):
        base = draw(st.sampled_from(bases(folder)))
        seeds = draw(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=_MOST))
        drawn = mutant_of(base, seeds)
        if drawn is not None:
            return drawn
    return None
