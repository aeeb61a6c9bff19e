"""Constants at the ends of the range of their types, one step beside their values, and constants that cancel."""

from collections.abc import Iterator
from copy import deepcopy
from itertools import combinations

import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto

from xoptim.facts.dtypes import type_name
from xoptim.facts.protos import replace_items
from xoptim.testing.values import LARGE, PLAIN, SMALL, VERY_NEGATIVE, is_real, limits
from xoptim.testing.variant import Case, Stored, Variant, constants, with_constants
from xoptim.testing.vary_types import retyped

_TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Max", "Min", "Sum", "Neg", "Abs", "Equal", "Greater", "Less", "Where")
_MOST = 6
"""Largest number of constants that are made to cancel in pairs."""


def typed(case: Case) -> Iterator[tuple[str, ModelProto]]:
    """The example in each type of float, the type it is written in first, with the word that names the type."""
    yield "", case.model
    for element in _TYPES[1:]:
        model = retyped(case.model, {TensorProto.FLOAT: element})
        if model != case.model:
            yield f"{type_name(element)} ", model


def real_constants(model: ModelProto) -> list[Stored]:
    """The constants of a model that are floating-point numbers."""
    return [stored for stored in constants(model) if is_real(stored.array) and stored.array.size]


def steps(case: Case) -> Iterator[Variant]:
    """Each constant one step of its type, and two, above and below its value: 1 in float16 becomes 1.001."""
    for word, model in typed(case):
        for name, array in real_constants(model):
            for toward in (np.inf, -np.inf):
                other = _stepped(array, toward)
                for count in (1, 2):
                    side = "above" if toward > 0 else "below"
                    if count == 1 or not word:
                        yield Variant(f"step: {word}{name} {count} {side}", with_constants(model, {name: other}))
                    other = _stepped(other, toward)


def _stepped(array: np.ndarray, toward: float) -> np.ndarray:
    with np.errstate(over="ignore"):  # the largest number becomes infinite
        return np.asarray(np.nextafter(array, array.dtype.type(toward)))


def ends(case: Case) -> Iterator[Variant]:
    """Each constant as large, as small and as imprecise as its type allows."""
    for name, array in real_constants(case.model):
        smallest, largest, mantissa = limits(array.dtype)
        for word, value in (
            ("largest", largest),
            ("lowest", -largest),
            ("smallest normal", smallest),
            ("subnormal", smallest * 2.0**-mantissa * 5),
        ):
            yield Variant(f"end: {name} {word}", with_constants(case.model, {name: np.full_like(array, value)}))
    operands = {name for node in case.model.graph.node if node.op_type in _ARITHMETIC for name in node.input}
    for name, array in constants(case.model):
        if array.dtype in (np.int32, np.int64) and array.size and name in operands:  # others are sizes, and memory is finite
            for power in (1, 2):
                value = np.iinfo(array.dtype).max // power
                yield Variant(f"end: {name} max / {power}", with_constants(case.model, {name: np.full_like(array, value)}))


def products(case: Case) -> Iterator[Variant]:
    """All constants so large or so small that the product or quotient of two is out of range, although each is in range."""
    for word, model in typed(case):
        stored = real_constants(model)
        if not stored or "double" in word:
            continue
        for size in ("large", "small", "large small", "small large") if len(stored) > 1 else ("large", "small"):
            sizes = size.split()
            changed = {s.name: _sized(s.array, sizes[i % len(sizes)]) for i, s in enumerate(stored)}
            yield Variant(f"product: {word}{size}", with_constants(model, changed), values=(PLAIN, SMALL, LARGE))


def _sized(array: np.ndarray, word: str) -> np.ndarray:
    """The array scaled so that its largest element has a certain size; zeros and infinities get it too."""
    smallest, largest, _ = limits(array.dtype)
    wide = array.astype(np.float64)
    wide = np.where((wide == 0) | ~np.isfinite(wide), 1, wide)
    return np.asarray(wide / np.max(np.abs(wide)) * (largest**0.6 if word == "large" else smallest**0.8)).astype(array.dtype)


def sums(case: Case) -> Iterator[Variant]:
    """Each two constants as numbers that are opposite, or equal: large beside all other terms, or the largest.

    Attributes that are floats count once at their default too, so that nothing scales one of the two.
    """
    for word, model in typed(case):
        for note, base in (("", model), ("plain ", without_factors(model))) if word in ("", "float16 ") else ():
            if not note or base != model:
                yield from _sums(f"{word}{note}", base)


def _sums(word: str, model: ModelProto) -> Iterator[Variant]:
    for one, other in combinations(real_constants(model)[:_MOST], 2):
        _, largest, mantissa = limits(one.array.dtype)
        for family, size, values in (("cancel", 2.0 ** (mantissa + 3), ()), ("sum", largest * 0.6, VERY_NEGATIVE)):
            for sign in (-1, 1) if family == "sum" or not word.startswith("float16") else ():
                changed = {one.name: np.full_like(one.array, size), other.name: np.full_like(other.array, sign * size)}
                yield Variant(
                    f"{family}: {word}{one.name} and {other.name}, {sign:+}", with_constants(model, changed), values=values
                )


def without_factors(model: ModelProto) -> ModelProto:
    """A copy whose attributes that are floats are left at their defaults."""
    model = deepcopy(model)
    for node in model.graph.node:
        kept = [attribute for attribute in node.attribute if attribute.type != AttributeProto.FLOAT]
        if len(kept) < len(node.attribute) and node.op_type != "Constant":
            replace_items(node.attribute, kept)
    return model
