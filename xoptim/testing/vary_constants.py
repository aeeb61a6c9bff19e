"""Constants in other forms, and with other values."""

from collections.abc import Iterator
from copy import deepcopy
from itertools import combinations

import ml_dtypes
import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from xoptim.facts.dtypes import type_name
from xoptim.facts.protos import replace_items
from xoptim.testing.feeds import LARGE, PLAIN, SMALL, VERY_NEGATIVE, is_real, limits
from xoptim.testing.variant import (
    Case,
    Stored,
    Variant,
    constants,
    insert,
    loosen,
    nodes_of,
    remove_constant,
    set_constant,
    tensor_input,
    with_constants,
)
from xoptim.testing.vary_types import retyped

_TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
_ARITHMETIC = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Mod",
    "Pow",
    "Max",
    "Min",
    "Sum",
    "Neg",
    "Abs",
    "Equal",
    "Greater",
    "Less",
    "Where",
)
_MAX_PAIRED = 6
"""Largest number of constants that are made to cancel in pairs."""


def typed(case: Case) -> Iterator[tuple[str, ModelProto]]:
    """The example in each float type, its own first, and the word for that type."""
    yield "", case.model
    for element in _TYPES[1:]:
        model = retyped(case.model, {TensorProto.FLOAT: element})
        if model != case.model:
            yield f"{type_name(element)} ", model


def real_constants(model: ModelProto) -> list[Stored]:
    """The constants of a model that are floating-point numbers."""
    return [stored for stored in constants(model) if is_real(stored.array) and stored.array.size]


def steps(case: Case) -> Iterator[Variant]:
    """Each constant one step of its type, and two, above and below its value: 1 in float16 becomes
    1.001.
    """
    for word, model in typed(case):
        for name, array in real_constants(model):
            for toward in (np.inf, -np.inf):
                value = _stepped(array, toward)
                for count in (1, 2):
                    side = "above" if toward > 0 else "below"
                    if count == 1 or not word:
                        yield Variant(
                            f"step: {word}{name} {count} {side}",
                            with_constants(model, {name: value}),
                        )
                    value = _stepped(value, toward)


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
            yield Variant(
                f"end: {name} {word}",
                with_constants(case.model, {name: np.full_like(array, value)}),
            )
    operands = {
        name for node in case.model.graph.node if node.op_type in _ARITHMETIC for name in node.input
    }
    for name, array in constants(case.model):
        # others are sizes, and memory is finite
        if array.dtype in (np.int32, np.int64) and array.size and name in operands:
            for power in (1, 2):
                value = np.iinfo(array.dtype).max // power
                yield Variant(
                    f"end: {name} max / {power}",
                    with_constants(case.model, {name: np.full_like(array, value)}),
                )


def products(case: Case) -> Iterator[Variant]:
    """All constants so large or so small that the product or quotient of two is out of range."""
    for word, model in typed(case):
        stored = real_constants(model)
        if not stored or "double" in word:
            continue
        for size in (
            ("large", "small", "large small", "small large")
            if len(stored) > 1
            else ("large", "small")
        ):
            sizes = size.split()
            arrays = {s.name: _sized(s.array, sizes[i % len(sizes)]) for i, s in enumerate(stored)}
            yield Variant(
                f"product: {word}{size}",
                with_constants(model, arrays),
                values=(PLAIN, SMALL, LARGE),
            )


def _sized(array: np.ndarray, word: str) -> np.ndarray:
    """The array scaled so that its largest element has a certain magnitude.

    Zeros and infinities also get it.
    """
    smallest, largest, _ = limits(array.dtype)
    wide = array.astype(np.float64)
    wide = np.where((wide == 0) | ~np.isfinite(wide), 1, wide)
    return np.asarray(
        wide / np.max(np.abs(wide)) * (largest**0.6 if word == "large" else smallest**0.8)
    ).astype(array.dtype)


def sums(case: Case) -> Iterator[Variant]:
    """Each pair of constants as opposite or equal numbers: large compared with all other terms, or
    the largest.

    Repeated with float attributes at their defaults, so that nothing scales one of the two.
    """
    for word, model in typed(case):
        for note, base in (
            (("", model), ("plain ", without_factors(model))) if word in ("", "float16 ") else ()
        ):
            if not note or base != model:
                yield from _sums(f"{word}{note}", base)


def _sums(word: str, model: ModelProto) -> Iterator[Variant]:
    for first, second in combinations(real_constants(model)[:_MAX_PAIRED], 2):
        _, largest, mantissa = limits(first.array.dtype)
        for family, size, values in (
            ("cancel", 2.0 ** (mantissa + 3), ()),
            ("sum", largest * 0.6, VERY_NEGATIVE),
        ):
            for sign in (-1, 1) if family == "sum" or not word.startswith("float16") else ():
                arrays = {
                    first.name: np.full_like(first.array, size),
                    second.name: np.full_like(second.array, sign * size),
                }
                yield Variant(
                    f"{family}: {word}{first.name} and {second.name}, {sign:+}",
                    with_constants(model, arrays),
                    values=values,
                )


def without_factors(model: ModelProto) -> ModelProto:
    """A copy with float attributes at their defaults."""
    model = deepcopy(model)
    for node in model.graph.node:
        attributes = [
            attribute for attribute in node.attribute if attribute.type != AttributeProto.FLOAT
        ]
        if len(attributes) < len(node.attribute) and node.op_type != "Constant":
            replace_items(node.attribute, attributes)
    return model


_MAX_NUDGES = 4
"""Maximum number of elements of a constant that are nudged one by one."""


def forms(case: Case) -> Iterator[Variant]:
    """Each constant as initializer, as node, of other ranks, as input, computed, cast."""
    for stored in constants(case.model):
        name, array = stored
        for form, model in _stored_forms(case, stored):
            yield Variant(f"constant form: {name} as {form}", model)
        if array.size == 1:
            for shape in ((), (1,), (1, 1), (1, 1, 1, 1)):
                if shape != array.shape:
                    yield Variant(
                        f"constant rank: {name} of shape {shape}",
                        with_constants(case.model, {name: array.reshape(shape)}),
                    )
        yield from _inputs(case, stored)
        yield from _computed(case, stored)


def _stored_forms(case: Case, stored: Stored) -> Iterator[tuple[str, ModelProto]]:
    name, array = stored
    yield "initializer", with_constants(case.model, {name: array})
    attributes: dict[str, object] = {"value": numpy_helper.from_array(array)}
    if array.ndim <= 1 and array.dtype in (np.float32, np.int64):
        word = "float" if array.dtype == np.float32 else "int"
        attributes[f"value_{word}{'s' if array.ndim else ''}"] = array.tolist()
    for attribute, value in attributes.items():
        if value == []:
            continue
        model = case.copy()
        remove_constant(model, name)
        node = helper.make_node("Constant", [], [name])
        node.attribute.append(helper.make_attribute(attribute, value))
        insert(model, 0, [node], {})
        yield f"Constant node with {attribute}", model


def _inputs(case: Case, stored: Stored) -> Iterator[Variant]:
    """Constants as inputs, with and without a default."""
    name, array = stored
    model = case.copy()
    remove_constant(model, name)
    model.graph.input.append(tensor_input(name, array))
    yield Variant(f"constant as input: {name}", loosen(model), given={name: array})
    model = case.copy()
    set_constant(model, name, array)
    model.graph.input.append(tensor_input(name, array))
    yield Variant(
        f"constant overridable: {name}", loosen(model), overrides={name: other_value(array)}
    )


def other_value(array: np.ndarray) -> np.ndarray:
    """An array of the same type and shape with other elements."""
    if array.dtype.kind == "b":
        return np.asarray(np.logical_not(array))
    if array.dtype.kind in "OSU":
        return np.full_like(array, "other")
    with np.errstate(all="ignore"):
        # 0-d sums are not arrays
        return np.asarray(array * 2 + 1 if array.dtype.kind != "i" else array + 1, array.dtype)


def _computed(case: Case, stored: Stored) -> Iterator[Variant]:
    """The constant as a sum, as a cast of a 16-bit number, reshaped, and in a form that cannot be
    computed ahead of time.
    """
    name, array = stored
    first, second = f"{name}_part", f"{name}_other_part"
    # Neither numpy nor the evaluation of single nodes has sequences, so the value of this constant
    # is not known.
    sequence = (
        f"{name}_sequence = SequenceConstruct({first}) "
        f"{name} = SequenceAt({name}_sequence, {second})"
    )
    recipes = [("sequence", sequence, {first: array, second: np.array(0)})]
    if array.dtype in (np.float32, np.float64, np.int32, np.int64):
        recipes.append(
            (
                "sum",
                f"{name} = Add({first}, {second})",
                {first: array, second: np.zeros_like(array)},
            )
        )
    if array.dtype in (np.float32, np.float64):
        for short in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
            to = helper.np_dtype_to_tensor_dtype(array.dtype)
            with np.errstate(all="ignore"):
                recipes.append(
                    (
                        f"{short} cast",
                        f"{name} = Cast <to = {to}> ({first})",
                        {first: array.astype(short)},
                    )
                )
    if array.dtype.kind != "O":
        operands = {first: array.reshape(-1), second: np.array(array.shape, np.int64)}
        recipes.append(("reshape", f"{name} = Reshape({first}, {second})", operands))
    for word, text, parts in recipes:
        model = case.copy()
        remove_constant(model, name)
        insert(model, 0, nodes_of(text), parts)
        yield Variant(f"constant computed: {name} by {word}", model)


def nudges(case: Case) -> Iterator[Variant]:
    """Each constant with other values, all at once and element by element."""
    for name, array in constants(case.model):
        seen = [array.tobytes()]
        is_sliced = any(
            name in node.input[1:] for node in case.model.graph.node if node.op_type == "Slice"
        )
        candidates = (
            *_nudged(array),
            *_as_axes(case, name, array),
            *(_largest(array) if is_sliced else ()),
        )
        for word, candidate in candidates:
            value = np.asarray(candidate)
            if value.tobytes() not in seen:
                seen.append(value.tobytes())
                yield Variant(f"nudge: {name} {word}", with_constants(case.model, {name: value}))
        for word, value in _resized(array):
            yield Variant(f"resize: {name} {word}", with_constants(case.model, {name: value}))


def _nudged(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    if array.dtype.kind == "b":
        yield "not", np.logical_not(array)
        if array.size > 1:
            yield "last not", _changed(array, array.size - 1, not array.ravel()[-1])
    elif array.dtype.kind in "iu":
        yield from _nudged_integers(array)
    elif is_real(array):
        with np.errstate(all="ignore"):
            wide = array.astype(np.float64)
            for word, value in (
                ("x 1.01", wide * 1.01), ("+ 1", wide + 1), ("negated", -wide),
                ("inverted", 1 / wide), ("NaN", wide * np.nan), ("inf", np.full_like(wide, np.inf)),
                ("- inf", np.full_like(wide, -np.inf)), ("0", wide * 0), ("- 0", wide * 0 * -1.0),
                ("1", wide * 0 + 1), ("2", wide * 0 + 2),
            ):  # fmt: skip
                yield word, value.astype(array.dtype)
            if array.size > 1:
                yield "last x 1.01", _changed(array, array.size - 1, wide.ravel()[-1] * 1.01 + 0.01)


def _nudged_integers(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    one = array.dtype.type(1)
    with np.errstate(all="ignore"):
        yield "negated", np.negative(array) if array.dtype.kind == "i" else array
        yield "0", np.zeros_like(array)
        yield "1", np.ones_like(array)
    if array.size > 1:
        yield "reversed", array.reshape(-1)[::-1].reshape(array.shape)
        yield "rotated", np.roll(array.reshape(-1), 1).reshape(array.shape)
    for index in range(min(array.size, _MAX_NUDGES)):
        value = array.reshape(-1)[index]
        with np.errstate(all="ignore"):
            yield f"[{index}] + 1", _changed(array, index, value + one)
            yield f"[{index}] - 1", _changed(array, index, value - one)
        if array.dtype.kind == "i":
            yield f"[{index}] = -1", _changed(array, index, -1)


def _as_axes(case: Case, name: str, array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Axes counted from the other end, if the integers are axes."""
    readers = [n for n in case.model.graph.node if name in list(n.input)[1:]]
    rank = case.rank(readers[0].input[0]) if readers else None
    if (
        array.dtype.kind == "i"
        and rank
        and array.size
        and np.all((array >= -rank) & (array < rank))
    ):
        yield (
            "from the other end",
            np.where(array >= 0, array - rank, array + rank).astype(array.dtype),
        )


def _largest(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The numbers that mean "to the end" and "to the beginning"."""
    if array.dtype.kind == "i":
        limits = np.iinfo(array.dtype)
        yield "largest", np.full_like(array, limits.max)
        yield "smallest", np.full_like(array, limits.min)


def _changed(array: np.ndarray, index: int, value: object) -> np.ndarray:
    flat = array.reshape(-1).copy()
    flat[index] = value
    return flat.reshape(array.shape)


def _resized(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """One element instead of many, one more or less, one more axis."""
    if array.dtype.kind == "O":
        return
    if array.ndim == 1 and array.size > 1:
        yield "first element only", array[:1]
        yield "without the last element", array[:-1]
    if array.ndim >= 1 and array.size > 1:
        yield "with an axis in front", array[None]
    if array.ndim == 0 or array.shape == (1,):
        yield "twice", np.stack([array.reshape(()), array.reshape(())])
        yield "empty", array.reshape(-1)[:0]
