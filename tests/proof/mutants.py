"""Applied rewrites with one change of their result, which the prover has to reject: a constant, an
operand, an axis, a permutation, an operator, a bound or a size.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, helper

from xoptim import OptimizationOptions, installed_patterns, optimize
from xoptim.facts.attributes import decode_attribute
from xoptim.facts.errors import XoptimError
from xoptim.optimizing.examples import provider_of
from xoptim.proof.certificate import Obligation
from xoptim.proof.observer import ProofObserver
from xoptim.proof.proving import Proof, prove_models
from xoptim.testing.feeds import make_all_feeds
from xoptim.testing.harness import invalid
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import Stored, constants, inferred_types, loosen, parse, set_constant
from xoptim.testing.vary_constants import other_value

_TRIES: Final = 40
"""Changes that are tried until one leaves a model that runs."""
_MAX_RUNS: Final = 24
_MAX_USUAL: Final = 1e3
"""Magnitude up to which values are usual."""
_SIBLINGS: Final = (
    ("Add", "Sub", "Mul", "Div", "Max", "Min"),
    ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Identity", "Erf", "Floor", "Sqrt", "Ceil"),
    ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare"),
    ("Softmax", "LogSoftmax", "Hardmax"),
    ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"),
    ("And", "Or", "Xor"),
    ("ArgMax", "ArgMin"),
    ("MaxPool", "AveragePool"),
    ("GlobalMaxPool", "GlobalAveragePool"),
)
_AXES: Final = ("axis", "axes")
_SIZES: Final = ("kernel_shape", "strides", "pads", "dilations", "block_size", "group", "split")


class Pair(NamedTuple):
    """An applied rewrite, and its result with one change."""

    name: str
    before: ModelProto
    mutant: ModelProto

    def proof(self) -> Proof:
        """What is proved of the change."""
        return prove_models(self.before, self.mutant)


class Comparison(NamedTuple):
    """Runs of both models.

    Attributes:
        runs: their number.
        has_equal_bits: whether all results have the same bits.
        is_close: whether those for usual values are equal up to rounding.
    """

    runs: int
    has_equal_bits: bool
    is_close: bool


def drawn(number: int) -> Pair | None:
    """The change of a number; ``None`` where no change of the chosen rewrite leaves a model that
    runs.
    """
    rng = random.Random(number)
    names = sorted(_examples())
    for _ in range(_TRIES):
        name = rng.choice(names)
        obligations = _applied(name)
        if obligations:
            obligation = rng.choice(obligations)
            pair = _changed(name, obligation, rng)
            if pair is not None:
                return pair
    return None


@lru_cache
def _examples() -> dict[str, tuple[Any, Any]]:
    """The examples of all patterns, by the name of the pattern and their number."""
    return {
        f"{name}-{place}": (pattern, example)
        for name, pattern in installed_patterns().items()
        if pattern.is_shipped()
        for place, example in enumerate(pattern.examples)
    }


@lru_cache(maxsize=64)
def _applied(name: str) -> Sequence[Obligation]:
    """The rewrites of an example that are proved."""
    pattern, example = _examples()[name]
    observer = ProofObserver(keeps_sides=True)
    options = OptimizationOptions(
        patterns=[pattern],
        provider=provider_of(pattern),
        assume_from_model=True,
        on_application=observer,
    )
    try:
        optimize(parse(example.before, example.opset, example.domains), options)
    except XoptimError:
        return ()
    return [entry for entry in observer.obligations if entry.grade != "only run"]


def _changed(name: str, obligation: Obligation, rng: random.Random) -> Pair | None:
    before, after = obligation.models()
    for _ in range(_TRIES // 4):
        kind, change = rng.choice(_CHANGES)
        mutant = deepcopy(after)
        try:
            change(mutant, rng)
            if _is_same(mutant, after):
                continue
            _declare_outputs(loosen(mutant))
        except (StopIteration, IndexError, KeyError, ValueError, OverflowError, TypeError):
            continue
        pair = Pair(f"{name} {kind}", before, mutant)
        if not invalid(mutant) and compared(pair, 1).runs:
            return pair
    return None


def _is_same(model: ModelProto, other: ModelProto) -> bool:
    """Whether two models have the same nodes and constants."""
    pairs = ((x.graph.node, x.graph.initializer) for x in (model, other))
    first, second = ([list(nodes), list(tensors)] for nodes, tensors in pairs)
    return first == second


def _declare_outputs(model: ModelProto) -> None:
    types = inferred_types(model)
    for output in model.graph.output:
        output.type.CopyFrom(types[output.name])


Change = Callable[[ModelProto, random.Random], None]


def _constants(model: ModelProto, rng: random.Random, kinds: str) -> Iterator[Stored]:
    stored = [x for x in constants(model) if x.array.size and x.array.dtype.kind in kinds]
    return iter(rng.sample(stored, len(stored)))


def _number(model: ModelProto, rng: random.Random) -> None:
    """Another number in a constant."""
    name, array = next(_constants(model, rng, "fV"))
    other = array.copy().reshape(-1)
    place = rng.randrange(other.size)
    other[place : place + 1] = other_value(other[place : place + 1])
    set_constant(model, name, other.reshape(array.shape))


def _bound(model: ModelProto, rng: random.Random) -> None:
    """Another integer in a constant: a start, an end, a size, an index, a target."""
    name, array = next(_constants(model, rng, "iu"))
    other = array.copy().reshape(-1)
    place = rng.randrange(other.size)
    other[place : place + 1] += np.array(rng.choice((-1, 1))).astype(array.dtype)
    set_constant(model, name, other.reshape(array.shape))


def _nodes(model: ModelProto, rng: random.Random) -> list[NodeProto]:
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    return rng.sample(nodes, len(nodes))


def _swapped(model: ModelProto, rng: random.Random) -> None:
    """Two operands of a node in the other order."""
    node = next(node for node in _nodes(model, rng) if len({*node.input} - {""}) > 1)
    a, b = rng.sample(range(len(node.input)), 2)
    node.input[a], node.input[b] = node.input[b], node.input[a]


def _operand(model: ModelProto, rng: random.Random) -> None:
    """Another operand of the same type."""
    node = next(node for node in _nodes(model, rng) if any(node.input))
    place = rng.choice([place for place, name in enumerate(node.input) if name])
    types = inferred_types(model)
    names = [value.name for value in model.graph.input]
    for other in model.graph.node:
        if other.output[0] == node.output[0]:
            break
        names += filter(None, other.output)
    wanted = types[node.input[place]].tensor_type.elem_type
    alike = [n for n in names if n in types and types[n].tensor_type.elem_type == wanted]
    node.input[place] = rng.choice([n for n in alike if n != node.input[place]])


def _operator(model: ModelProto, rng: random.Random) -> None:
    """A similar operator."""
    node, group = next(
        (node, group)
        for node in _nodes(model, rng)
        for group in _SIBLINGS
        if node.op_type in group and not node.domain
    )
    node.op_type = rng.choice([name for name in group if name != node.op_type])


def _attribute(names: Sequence[str]) -> Change:
    """A change of an attribute of one of these names; of any other one where there are none."""

    def change(model: ModelProto, rng: random.Random) -> None:
        node, attribute = next(
            (node, attribute)
            for node in _nodes(model, rng)
            for attribute in node.attribute
            if (attribute.name in names if names else attribute.name not in (*_AXES, "perm"))
        )
        value = decode_attribute(attribute)
        step = rng.choice((-1, 1))
        if isinstance(value, int | float):
            other: Any = value + step
        else:
            other = list(value)
            place = rng.randrange(len(other))
            other[place] += step
        node.attribute.remove(attribute)
        node.attribute.append(helper.make_attribute(attribute.name, other))

    return change


def _permutation(model: ModelProto, rng: random.Random) -> None:
    """Another order of axes."""
    node = next(node for node in _nodes(model, rng) if node.op_type == "Transpose")
    attribute = next(attribute for attribute in node.attribute if attribute.name == "perm")
    perm = list(attribute.ints)
    a, b = rng.sample(range(len(perm)), 2)
    perm[a], perm[b] = perm[b], perm[a]
    node.attribute.remove(attribute)
    node.attribute.append(helper.make_attribute("perm", perm))


_CHANGES: Final[tuple[tuple[str, Change], ...]] = (
    ("constant", _number),
    ("operands", _swapped),
    ("operand", _operand),
    ("axis", _attribute(_AXES)),
    ("permutation", _permutation),
    ("operator", _operator),
    ("bound", _bound),
    ("size", _attribute(_SIZES)),
    ("attribute", _attribute(())),
)


def compared(pair: Pair, most: int = _MAX_RUNS, smallest_size: int = 0) -> Comparison:
    """Run both models on the same values, at several sizes, NaN and infinities among them.

    ``smallest_size``: sizes below this, which a proof may not cover, are skipped.
    """
    models = [RUNTIME.load(model) for model in (pair.before, pair.mutant)]
    loaded = [model for model in models if not isinstance(model, str)]
    if len(loaded) < len(models):
        return Comparison(0, False, False)
    all_feeds = islice(make_all_feeds(pair.before, special="exact"), 2 * most)
    runs = 0
    equal = close = True
    for feeds, results in RUNTIME.run_all(loaded, all_feeds, most):
        if len(results) < len(models) or any(isinstance(result, str) for result in results):
            continue
        shapes = [np.asarray(value).shape for value in feeds.values()]
        if any(min(shape, default=1) < smallest_size for shape in shapes):
            continue
        runs += 1
        first, second = ([np.asarray(x) for x in result] for result in results)
        equal = equal and all(map(_has_equal_bits, first, second))
        if _is_usual(feeds) and all(map(_is_finite, first)):
            close = close and all(map(_is_close, first, second))
    return Comparison(runs, equal, close)


def _is_usual(feeds: Mapping[str, Any]) -> bool:
    arrays = [np.asarray(value) for value in feeds.values()]
    floats = [x.astype(np.float64) for x in arrays if x.dtype.kind in "fV"]
    return all(bool((np.abs(x) <= _MAX_USUAL).all()) for x in floats)


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind not in "fV" or bool(np.isfinite(array.astype(np.float64)).all())


def _has_equal_bits(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two arrays are equal; all NaN count as one."""
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return False
    if first.dtype.kind not in "fV":
        return bool((first == second).all())
    wide = first.astype(np.float64), second.astype(np.float64)
    same = (wide[0] == wide[1]) & (np.signbit(wide[0]) == np.signbit(wide[1]))
    return bool((same | (np.isnan(wide[0]) & np.isnan(wide[1]))).all())


def _is_close(first: np.ndarray, second: np.ndarray) -> bool:
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return False
    if first.dtype.kind not in "fV":
        return bool((first == second).all())
    relative = 2e-2 if first.dtype.itemsize < 4 else 1e-4
    wide = first.astype(np.float64), second.astype(np.float64)
    scale = np.abs(wide[0]).max(initial=0.0)
    return bool((np.abs(wide[0] - wide[1]) <= relative * scale + 1e-6).all())
