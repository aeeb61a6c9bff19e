"""Random values for the inputs of a model, in the range that the uses of each input accept."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from xoptim.facts.dtypes import bits, is_float, is_integer, is_signed_integer, numpy_dtype
from xoptim.facts.protos import standard_domain
from xoptim.facts.shapes import REDUCTIONS
from xoptim.validate.dataflow import Dataflow, Use, attribute
from xoptim.validate.dims import InputSpec, concrete_shape, size_of
from xoptim.validate.errors import FeedError
from xoptim.validate.session import Value

ValueKind: TypeAlias = Literal[
    "free",  # anything of moderate size
    "index",  # 0 to a limit
    "position",  # 0, 1, 2, ... along the last axis
    "mask",  # 0 or 1, at least one 1
    "choice",  # one of the categories of the model
    "positive",  # well above 0 (a division of integers by 0 ends the process)
    "unit",  # within -1 and 1
    "zero",
    "one",
    "count",  # a few
    "all",  # larger than any axis
    "axes",  # 0, 1, 2, ...
    "keep",  # -1, then ones: a target that fits a tensor of any size
    "length",  # 1 to a limit
]

# Operators through which a value is the same, and the inputs it may enter by (None: any).
TRANSPARENT: Final[dict[str, tuple[int, ...] | None]] = {
    **dict.fromkeys(
        (
            "Cast", "CastLike", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose", "Slice", "Split",
            "Expand", "Tile", "Gather", "GatherElements", "GatherND", "Clip", "Dropout", "Pad", "Compress", "Optional",
            "OptionalGetElement", "ConcatFromSequence", "SequenceAt", "SplitToSequence", "Trilu", "ReduceMax",
            "ReduceMin",
        ),
        (0,),
    ),
    "Concat": None,
    "SequenceConstruct": None,
    "Where": (1, 2),
    "SequenceInsert": (0, 1),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
}  # fmt: skip

# (domain, operator, input): the input that it indexes, and the axis (an attribute, a number, or -1 for the last).
INDEXES: Final[dict[tuple[str, str, int], tuple[int, str | int]]] = {
    ("", "Gather", 1): (0, "axis"),
    ("", "GatherElements", 1): (0, "axis"),
    ("", "ScatterElements", 1): (0, "axis"),
    ("", "Scatter", 1): (0, "axis"),
    ("", "GatherND", 1): (0, "all"),
    ("", "ScatterND", 1): (0, "all"),
    ("", "RotaryEmbedding", 3): (1, 0),
    ("", "SoftmaxCrossEntropyLoss", 1): (0, 1),
    ("", "NegativeLogLikelihoodLoss", 1): (0, 1),
    ("ai.onnx.ml", "ArrayFeatureExtractor", 1): (0, -1),
    ("com.microsoft", "RotaryEmbedding", 1): (2, 0),
    ("com.microsoft", "GatherBlockQuantized", 1): (0, "gather_axis"),
    ("com.microsoft", "EmbedLayerNormalization", 0): (2, 0),
    ("com.microsoft", "EmbedLayerNormalization", 1): (4, 0),
    ("com.microsoft", "EmbedLayerNormalization", 8): (3, 0),
    ("com.microsoft", "QEmbedLayerNormalization", 0): (2, 0),
    ("com.microsoft", "QEmbedLayerNormalization", 1): (4, 0),
}

# (operator, input): the kind of value that makes sense there. The standard domain only.
_SLOTS: Final[dict[tuple[str, int], ValueKind]] = {
    ("Reshape", 1): "keep", ("Expand", 1): "one", ("Tile", 1): "one", ("ConstantOfShape", 0): "count",
    ("TopK", 1): "one", ("Slice", 1): "zero", ("Slice", 2): "all", ("Slice", 3): "axes", ("Slice", 4): "one",
    ("Pad", 1): "one", ("Pad", 3): "axes", ("Resize", 2): "one", ("Range", 0): "zero", ("Range", 1): "count",
    ("Range", 2): "one", ("OneHot", 1): "count", ("CumSum", 1): "zero", ("Trilu", 1): "zero", ("Loop", 0): "count",
    ("Loop", 1): "one", ("SequenceAt", 1): "zero", ("SequenceErase", 1): "zero", ("SequenceInsert", 2): "zero",
    ("Squeeze", 1): "axes", ("Unsqueeze", 1): "axes", ("NonMaxSuppression", 2): "count", ("LSTM", 4): "length",
    ("GRU", 4): "length", ("RNN", 4): "length", ("ReverseSequence", 1): "length", ("Compress", 1): "mask",
    ("Sqrt", 0): "positive", ("Log", 0): "positive", ("Pow", 0): "positive", ("Div", 1): "positive",
    ("Mod", 1): "positive", ("BitShift", 1): "one", ("Not", 0): "mask", ("SplitToSequence", 1): "one",
    ("QuantizeLinear", 1): "positive", ("DequantizeLinear", 1): "positive", ("Asin", 0): "unit", ("Acos", 0): "unit",
    ("Atanh", 0): "unit", ("Dropout", 1): "zero", ("NonMaxSuppression", 3): "one", ("CumProd", 1): "zero",
    ("DFT", 1): "count", ("DFT", 2): "one", ("STFT", 1): "one", ("STFT", 3): "count", ("OneHot", 0): "index",
}  # fmt: skip
_COMPARISONS: Final = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_KNOWN_VALUES: Final = (
    "keys_strings", "keys_int64s", "cats_strings", "cats_int64s", "pool_strings", "pool_int64s", "classlabels_strings",
    "string_vocabulary", "int64_vocabulary",
)  # fmt: skip

# The strongest claim first: a claim without which a run fails comes before one without which it only tests less.
_PRECEDENCE: Final[tuple[ValueKind, ...]] = (
    "choice", "index", "keep", "axes", "zero", "all", "one", "count", "length", "mask", "unit", "positive",
)  # fmt: skip
_MOST_AXES: Final = 64
"""Of an array of numpy."""
_MOST_ELEMENTS: Final = 1 << 58
"""Of an array of numpy, whose bytes are counted in 63 bits."""
_POSITION: Final = re.compile(r"position|(^|[_.])pos(_ids)?$", re.IGNORECASE)


@dataclass(slots=True)
class InputKind:
    """The use of an input."""

    kind: ValueKind = "free"  # the kind of values to feed
    # For an index, position or length: sizes (numbers, or names of dimensions) that it must stay below, each with the number
    # that the model adds to the value before it uses it
    limits: list[tuple[int | str, int]] = field(default_factory=list)
    choices: list[Any] = field(default_factory=list)  # values that the model distinguishes, strings or integers
    # Integers that the model compares with, such as the token that ends a text
    landmarks: list[int] = field(default_factory=list)


def input_kinds(model: onnx.ModelProto, inputs: Mapping[str, int]) -> dict[str, InputKind]:
    """The use of each input, found by following it forward or else by its name.

    ``inputs`` maps the names of the graph inputs in question to their element types; weights are not needed.
    """
    flow = Dataflow(model)
    return {name: _followed(flow, name, is_integer(element)) for name, element in inputs.items()}


def _followed(flow: Dataflow, name: str, integral: bool) -> InputKind:
    result = InputKind()
    kinds: set[ValueKind] = set()
    pending = [(name, 0)]
    seen = {name}
    while pending:
        value, offset = pending.pop()
        following = [(alias, offset) for alias in flow.aliases(value)]
        for use in flow.uses(value):
            kind = _kind(flow, use, result, offset)
            if kind is not None:
                kinds.add(kind)
            elif use.node.op_type in _COMPARISONS:
                other = _whole_number(flow, use)
                result.landmarks += [] if other is None else [other - offset]
            step = _step(flow, use)
            if step is not None:
                following += [(use.scope + out, offset + step) for out in use.node.output]
        pending += [item for item in following if item[0] not in seen]
        seen.update(value for value, _ in following)
    result.kind = _settle(kinds, name, integral)
    return result


def _settle(kinds: set[ValueKind], name: str, integral: bool) -> ValueKind:
    """One kind out of all claims; names are used where ONNX exporters use them consistently."""
    if integral and _POSITION.search(name) and kinds <= {"index", "mask"}:
        return "position"
    if "mask" in name.lower() and kinds <= {"index", "mask", "positive"}:
        return "mask"
    return next((kind for kind in _PRECEDENCE if kind in kinds), "free")


def _kind(flow: Dataflow, use: Use, result: InputKind, offset: int) -> ValueKind | None:
    """The claim that one use makes; limits and choices are noted in the result."""
    node, slot = use.node, use.slot
    domain = standard_domain(node.domain)
    place = INDEXES.get((domain, node.op_type, slot))
    if place is not None:
        _limit(flow, use, place, result, offset)
        return "index"
    known = _known_values(node)
    if known:
        result.choices += known
        return "choice"
    if domain:
        return None
    kind = _SLOTS.get((node.op_type, slot)) or ("axes" if slot == 1 and node.op_type in REDUCTIONS else None)
    if kind == "index":
        depth = flow.constant(use.operand(1))
        result.limits.append((1 if depth is None else int(depth.reshape(-1)[0]), offset))
    elif kind == "length":
        time_axis = "time_axis" if node.op_type == "ReverseSequence" else "layout"
        _limit(flow, use, (0, attribute(node, time_axis, 0)), result, -1)
    elif kind is None and _is_mask_use(flow, use):
        return "mask"
    return kind


def _limit(flow: Dataflow, use: Use, place: tuple[int, str | int], result: InputKind, offset: int) -> None:
    """Note the sizes of the axes that are indexed; a size that is unknown counts as 1."""
    table, axis = place
    shape = flow.shape(use.operand(table))
    if shape is None:
        result.limits.append((1, offset))
        return
    if axis == "all":
        sizes = shape[attribute(use.node, "batch_dims", 0) :]
    else:
        position = attribute(use.node, axis, 0) if isinstance(axis, str) else axis
        sizes = (shape[position],) if -len(shape) <= position < len(shape) else ()
    result.limits += [(1 if size is None else size, offset) for size in sizes]


def _step(flow: Dataflow, use: Use) -> int | None:
    """The number that a node adds to a value, ``None`` when it computes another function of it."""
    node, slot = use.node, use.slot
    if node.op_type in TRANSPARENT:
        slots = TRANSPARENT[node.op_type]
        if slots is not None and slot not in slots:
            return None
        return None if _cast_target(node) in (TensorProto.BOOL, TensorProto.STRING) else 0
    if node.op_type not in ("Add", "Sub") or (node.op_type == "Sub" and slot == 1):
        return None
    amount = _whole_number(flow, use)
    return -amount if amount is not None and node.op_type == "Sub" else amount


def _whole_number(flow: Dataflow, use: Use) -> int | None:
    """The integer constant that is the other operand of a binary operator."""
    other = flow.constant(use.operand(1 - use.slot))
    if other is None or other.dtype.kind not in "iu" or other.size != 1:
        return None
    return int(other.reshape(-1)[0])


def _is_mask_use(flow: Dataflow, use: Use) -> bool:
    """Whether a value is converted to Boolean, or used as in ``(1 - mask) * -10000``."""
    node = use.node
    if node.op_type == "Cast":
        return _cast_target(node) == TensorProto.BOOL
    if node.op_type == "Where":
        return use.slot == 0
    if node.op_type == "Equal":
        other = flow.constant(use.operand(1 - use.slot))
        return other is not None and other.size == 1 and other.dtype.kind != "O" and other.reshape(-1)[0] in (0, 1)
    if node.op_type != "Sub" or use.slot != 1:
        return False
    one = flow.constant(use.operand(0))
    if one is None or one.dtype.kind == "O" or not np.all(one == 1):
        return False
    return any(_is_penalty(flow, after) for out in node.output for after in flow.uses(use.scope + out))


def _is_penalty(flow: Dataflow, use: Use) -> bool:
    other = flow.constant(use.operand(1 - use.slot)) if use.node.op_type == "Mul" else None
    if other is not None:
        return bool(np.all(other.astype(np.float64) <= -1000))
    return use.node.op_type == "Cast" and _cast_target(use.node) == TensorProto.BOOL


def _cast_target(node: NodeProto) -> int:
    return attribute(node, "to", 0) if node.op_type == "Cast" else 0


def _known_values(node: NodeProto) -> list[Any]:
    """Keys and categories in which an operator of ``ai.onnx.ml`` (or TfIdfVectorizer) looks up its input."""
    if node.domain != "ai.onnx.ml" and node.op_type != "TfIdfVectorizer":
        return []
    values: list[Any] = []
    for a in node.attribute:
        if a.name in _KNOWN_VALUES:
            values += [s.decode("utf-8", "replace") for s in a.strings] or list(a.ints)
    return values


_WORDS: Final = ("", "a", "onnx", "Graph", "two words", "3.5", "naïve")
_BEYOND: Final = 1 << 30  # larger than any axis
_CONSTANTS: Final = {"zero": 0, "one": 1, "count": 3, "all": _BEYOND}
_SMALL_INTEGER: Final = 16  # width of the range of free integers of more than 8 bits
_WIDE_INTEGER: Final = 1 << 11  # the same where values are wide; more may be the size of a result that fills the memory
_WIDE: Final = (8.0, 1.0, -8.0, 0.0, 1.0, 8.0, 1.0, -8.0)  # factors; larger ones overflow in too many models
_FEW: Final = 64  # elements of a tensor in which odd numbers are anywhere
_HOLES: Final = (np.nan, np.inf, -np.inf)
_POWERS_OF_TWO: Final = 24  # FLOAT8E8M0, which has neither zero nor sign


Numbers: TypeAlias = Literal["moderate", "wide", "holes", "odd"]


class Style(NamedTuple):
    """The range of the values.

    Masks hide a tail in run 0 of the assignments, then anything; ``gentle`` masks hide nothing, and gentle integers are small
    and not negative. Free ``numbers`` that are ``wide`` are 0 in some places and large in others, as a Clip or a comparison
    needs them to have an effect; ``holes`` are NaN and infinities; ``odd`` numbers are, besides, the largest and smallest ones
    of the type, and -0.
    """

    run: int = 0
    gentle: bool = False
    numbers: Numbers = "moderate"


def make_feeds(
    specs: Sequence[InputSpec], uses: Mapping[str, InputKind], sizes: Mapping[str, int], seed: int, style: Style
) -> dict[str, Value]:
    """A value for each input by its use in the model and the sizes of open dimensions; the same seed gives the same values.

    Raises `FeedError` when an input cannot be fed with these sizes.
    """
    rng = np.random.default_rng(seed)
    return {spec.name: _value(spec, uses[spec.name], sizes, rng, style) for spec in specs}


def has_free_numbers(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether wide values would differ from the others."""
    return any(uses[spec.name].kind == "free" and _may_be_wide(spec.element_type) for spec in specs)


def _may_be_wide(element: int) -> bool:
    return bits(element) > 8 and (is_float(element) or is_integer(element))


def has_free_floats(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether odd numbers and holes would differ from the others."""
    return has_free_numbers([spec for spec in specs if is_float(spec.element_type)], uses)


def has_daring_values(specs: Sequence[InputSpec], uses: Mapping[str, InputKind]) -> bool:
    """Whether gentle values would differ from the others."""
    return any(uses[s.name].kind == "mask" or (uses[s.name].kind == "free" and is_integer(s.element_type)) for s in specs)


def _value(spec: InputSpec, use: InputKind, sizes: Mapping[str, int], rng: np.random.Generator, style: Style) -> Value:
    if spec.container == "map":
        return _map(spec, use, rng)
    shape = concrete_shape(spec, sizes)
    if spec.container == "sequence":
        return [_tensor(spec, use, shape, sizes, rng, style) for _ in range(2)]
    return _tensor(spec, use, shape, sizes, rng, style)


def _tensor(
    spec: InputSpec, use: InputKind, shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator, style: Style
) -> np.ndarray:
    try:
        dtype = numpy_dtype(spec.element_type)
    except KeyError:
        raise FeedError(f"no value can be made for input {spec.name!r} of element type {spec.element_type}") from None
    if len(shape) > _MOST_AXES:
        raise FeedError(f"input {spec.name!r} has {len(shape)} axes; no value of more than {_MOST_AXES} can be made")
    if math.prod(max(size, 1) for size in shape) > _MOST_ELEMENTS:  # numpy multiplies sizes of an empty array too
        raise FeedError(f"input {spec.name!r} has a shape whose sizes multiply to more than {_MOST_ELEMENTS}")
    if spec.element_type == TensorProto.STRING:
        return _strings(use, shape, rng)
    numbers = _structured(use, shape, sizes, rng)
    if numbers is None and use.kind == "mask":
        numbers = _mask(shape, rng, style)
    if numbers is None:
        numbers = _free(spec.element_type, use.kind, shape, rng, style)
    if use.kind in ("index", "free") and is_integer(spec.element_type):
        numbers = _with_landmarks(numbers, use, sizes, rng)
    return np.asarray(numbers).astype(dtype)


def _structured(
    use: InputKind, shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
) -> np.ndarray | None:
    """Integers with a meaning in the model, ``None`` when the use leaves the values open."""
    kind, last = use.kind, shape[-1] if shape else 1
    if kind == "choice":
        known: np.ndarray = np.array([c for c in use.choices if not isinstance(c, str)] or [0, 1])
        picked: np.ndarray = known[rng.integers(0, known.size, shape)]
        return picked
    if kind in _CONSTANTS:
        return np.full(shape, _CONSTANTS[kind])
    if kind == "axes":
        return np.broadcast_to(np.arange(last), shape)
    if kind == "keep":
        return np.broadcast_to(np.where(np.arange(last) == 0, -1, 1), shape)
    low, high = _range(use, sizes)
    if kind in ("index", "length"):
        return rng.integers(low, high, shape)
    if kind == "position":
        return np.broadcast_to(low + np.arange(last) % (high - low), shape)
    return None


def _range(use: InputKind, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The half-open range of an index; below a limit whose size is unknown only the lowest value is safe."""
    if not use.limits:
        return 0, _BEYOND
    known = [(size_of(size, sizes) or 1, offset) for size, offset in use.limits]
    low = max(0, *(-offset for _, offset in known))
    return low, max(low + 1, min(size - offset for size, offset in known))


def _with_landmarks(numbers: np.ndarray, use: InputKind, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
    """Some of the numbers, and one in each row, replaced by values that the model compares with."""
    low, high = _range(use, sizes)
    landmarks = np.array([n for n in use.landmarks if use.kind == "free" or low <= n < high], np.int64)
    if not landmarks.size or not numbers.size or not numbers.ndim:
        return numbers
    chosen = rng.random(numbers.shape) < 0.1
    chosen |= np.arange(numbers.shape[-1]) == rng.integers(0, numbers.shape[-1], numbers.shape[:-1])[..., None]
    return np.where(chosen, landmarks[rng.integers(0, landmarks.size, numbers.shape)], numbers)


def _mask(shape: tuple[int, ...], rng: np.random.Generator, style: Style) -> np.ndarray:
    """Zeros and ones: all ones, a random number of leading ones a row, or anything; the first of a row is 1."""
    if style.gentle or not shape:
        return np.ones(shape, np.int8)
    position: np.ndarray = np.arange(shape[-1])
    if style.run % 2 == 0:
        lengths = rng.integers(1, max(1, shape[-1]), shape[:-1], endpoint=True)
        visible: np.ndarray = position < lengths[..., None]
    else:
        visible = (rng.random(shape) < 0.75) | (position == 0)
    return visible.astype(np.int8)


def _free(element: int, kind: str, shape: tuple[int, ...], rng: np.random.Generator, style: Style) -> np.ndarray:
    if element == TensorProto.BOOL:
        return rng.random(shape) < 0.5
    if is_integer(element):
        # An integer of rank 0 is a parameter, such as the step of STFT, for which 0 would end the process.
        return _integers(element, shape, rng, style) if shape and kind == "free" else rng.integers(1, 4, shape)
    if element in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    if kind == "positive" or element == _POWERS_OF_TWO:
        return rng.uniform(0.5, 2.0, shape)
    if kind == "unit":
        return rng.uniform(-0.95, 0.95, shape)
    numbers = rng.standard_normal(shape)
    if style.numbers == "moderate" or not _may_be_wide(element):
        return numbers
    return _widened(numbers, rng) if style.numbers == "wide" else _with_odd(numbers, element, rng, style)


def _widened(numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers in a random order: a quarter is at least 8, a quarter at most -8, and some are 0."""
    factors = rng.permutation(np.resize(_WIDE, numbers.size)).reshape(numbers.shape)
    widened: np.ndarray = np.where(np.abs(factors) > 1, factors * (1 + np.abs(numbers)), factors * numbers)
    return widened


def _with_odd(numbers: np.ndarray, element: int, rng: np.random.Generator, style: Style) -> np.ndarray:
    """Numbers with odd ones among them, the first half of a large tensor without: a sum with NaN hides all others."""
    info = ml_dtypes.finfo(numpy_dtype(element))  # type: ignore[no-untyped-call]
    ends = (-0.0, float(info.max), float(info.tiny), -float(info.max), 0.0)
    odd = _HOLES if style.numbers == "holes" else (*_HOLES, *ends)
    clean = numbers.size // 2 if numbers.size > _FEW else 0
    places = clean + rng.permutation(numbers.size - clean)[: max(len(odd), numbers.size // 8)]
    found = numbers.reshape(-1)
    found[places] = np.resize(odd, places.size)
    return found.reshape(numbers.shape)


def _integers(element: int, shape: tuple[int, ...], rng: np.random.Generator, style: Style) -> np.ndarray:
    """The whole range of types up to 8 bits, small numbers of wider ones, of both signs where there are two."""
    width = bits(element)
    reach = 1 << width if width <= 8 else _WIDE_INTEGER if style.numbers == "wide" else _SMALL_INTEGER
    low = -reach // 2 if is_signed_integer(element) else 0
    high = low + reach
    return rng.integers(0, min(high, _SMALL_INTEGER), shape) if style.gentle else rng.integers(low, high, shape)


def _strings(use: InputKind, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Strings from the categories of the model, or a few arbitrary ones when it has none."""
    known = [c for c in use.choices if isinstance(c, str)] or _WORDS
    picked = rng.integers(0, len(known), shape)
    return np.array([known[i] for i in picked.reshape(-1)], np.object_).reshape(shape)


def _map(spec: InputSpec, use: InputKind, rng: np.random.Generator) -> dict[Any, Any]:
    """A map from some of the keys of the model to numbers."""
    text = spec.key_type == TensorProto.STRING
    keys = [c for c in use.choices if isinstance(c, str) == text] or (list(_WORDS) if text else [0, 1, 2])
    if spec.element_type == TensorProto.STRING:
        return {key: str(rng.choice(_WORDS)) for key in keys}
    return dict(zip(keys, _free(spec.element_type, "free", (len(keys),), rng, Style(gentle=True)).tolist(), strict=True))
