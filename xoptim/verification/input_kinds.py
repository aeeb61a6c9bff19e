"""The values that suit the nodes that read an input: an index, a mask, a shape, or any number."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from xoptim.facts.dtypes import is_integer
from xoptim.facts.protos import standard_domain
from xoptim.operators.registry import Trait, operators_with
from xoptim.verification.dataflow import Dataflow, Use, attribute
from xoptim.verification.relations import Relation, relation_of

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
    "place",  # an index that may be negative, counted from the end
    "divisor",  # an integer of either sign, not 0
    "boxes",  # rectangles within a picture
    "related",  # what another operand requires
]
PREFERENCES: Final[frozenset[ValueKind]] = frozenset(
    ("mask", "positive", "unit", "position", "choice", "boxes")
)
"""Kinds of values that suit a reader, although a model runs on other values as well."""
OPERANDS: Final[frozenset[ValueKind]] = frozenset(("zero", "one", "count", "all", "axes", "keep"))
"""Kinds of values that decide what an operator does, such as the bounds of a Slice."""

# Operators that pass on the values of an input, and of which inputs (None: any).
TRANSPARENT: Final[dict[str, tuple[int, ...] | None]] = {
    **dict.fromkeys(
        (
            "Cast", "CastLike", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten",
            "Transpose", "Slice", "Split", "Expand", "Tile", "Gather", "GatherElements", "GatherND",
            "Clip", "Dropout", "Pad", "Compress", "Optional", "OptionalGetElement",
            "ConcatFromSequence", "SequenceAt", "SplitToSequence", "Trilu", "ReduceMax",
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

# (domain, operator, input): the input that it indexes, and the axis (an attribute, a number, or -1
# for the last).
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
    ("", "RoiAlign", 2): (0, 0),
    ("com.microsoft", "RotaryEmbedding", 1): (2, 0),
    ("com.microsoft", "CropAndResize", 2): (0, 0),
    ("com.microsoft", "GatherND", 1): (0, "all"),
    ("com.microsoft", "GatherBlockQuantized", 1): (0, "gather_axis"),
    ("com.microsoft", "EmbedLayerNormalization", 0): (2, 0),
    ("com.microsoft", "EmbedLayerNormalization", 1): (4, 0),
    ("com.microsoft", "EmbedLayerNormalization", 8): (3, 0),
    ("com.microsoft", "QEmbedLayerNormalization", 0): (2, 0),
    ("com.microsoft", "QEmbedLayerNormalization", 1): (4, 0),
}

# (operator, input): the kind of value that makes sense there. The standard domain only.
_SLOTS: Final[dict[tuple[str, int], ValueKind]] = {
    ("Reshape", 1): "keep", ("Expand", 1): "one", ("Tile", 1): "one",
    ("ConstantOfShape", 0): "count", ("TopK", 1): "one", ("Slice", 1): "zero", ("Slice", 2): "all",
    ("Slice", 3): "axes", ("Slice", 4): "one", ("Pad", 1): "one", ("Pad", 3): "axes",
    ("Resize", 2): "one", ("Range", 0): "zero", ("Range", 1): "count", ("Range", 2): "one",
    ("OneHot", 1): "count", ("CumSum", 1): "zero", ("Trilu", 1): "zero", ("Loop", 0): "count",
    ("Loop", 1): "one", ("SequenceAt", 1): "zero", ("SequenceErase", 1): "zero",
    ("SequenceInsert", 2): "zero", ("Squeeze", 1): "axes", ("Unsqueeze", 1): "axes",
    ("NonMaxSuppression", 2): "count", ("LSTM", 4): "length", ("GRU", 4): "length",
    ("RNN", 4): "length", ("ReverseSequence", 1): "length", ("Compress", 1): "mask",
    ("Sqrt", 0): "positive", ("Log", 0): "positive", ("Pow", 0): "positive", ("Div", 1): "positive",
    ("Mod", 1): "positive", ("BitShift", 1): "one", ("Not", 0): "mask",
    ("SplitToSequence", 1): "one", ("QuantizeLinear", 1): "positive",
    ("DequantizeLinear", 1): "positive", ("Asin", 0): "unit", ("Acos", 0): "unit",
    ("Atanh", 0): "unit", ("Dropout", 1): "zero", ("NonMaxSuppression", 3): "one",
    ("CumProd", 1): "zero", ("DFT", 1): "count", ("DFT", 2): "one", ("STFT", 1): "one",
    ("STFT", 3): "count", ("OneHot", 0): "index", ("GridSample", 1): "unit",
    ("HannWindow", 0): "count", ("HammingWindow", 0): "count", ("BlackmanWindow", 0): "count",
}  # fmt: skip
_CONTRIB_SLOTS: Final[dict[tuple[str, int], ValueKind]] = {
    ("GridSample", 1): "unit", ("ExpandDims", 1): "zero", ("Pad", 1): "one", ("Trilu", 1): "zero",
    ("Range", 0): "zero", ("Range", 1): "count", ("Range", 2): "one", ("Attention", 3): "mask",
    ("MultiHeadAttention", 4): "mask", ("EmbedLayerNormalization", 7): "mask",
    ("QAttention", 5): "mask",
}  # fmt: skip
"""The same for the domain ``com.microsoft``."""
_INDEXING: Final = operators_with(Trait.INDEXES)
_COMPARISONS: Final = operators_with(Trait.COMPARES)
_REDUCING: Final = operators_with(Trait.REDUCES)
_CATEGORIES: Final = (
    "keys_strings", "keys_int64s", "cats_strings", "cats_int64s", "pool_strings", "pool_int64s",
    "classlabels_strings", "string_vocabulary", "int64_vocabulary",
)  # fmt: skip

# The strongest claim first. A run fails without the first kinds; it only tests less without the
# last ones.
_PRECEDENCE: Final[tuple[ValueKind, ...]] = (
    "related", "choice", "index", "keep", "axes", "zero", "all", "one", "count", "length", "mask",
    "unit", "boxes", "positive",
)  # fmt: skip
_POSITION: Final = re.compile(r"position|(^|[_.])pos(_ids)?$", re.IGNORECASE)


@dataclass(slots=True)
class InputKind:
    """The use of an input."""

    kind: ValueKind = "free"  # the kind of values to feed
    # For an index, position or length: sizes (numbers, or names of dimensions) that it must stay
    # below, each with the number that the model adds to the value before it uses it
    limits: list[tuple[int | str, int]] = field(default_factory=list)
    # values that the model distinguishes, strings or integers
    choices: list[Any] = field(default_factory=list)
    # Integers that the model compares with, such as the token that ends a text
    landmarks: list[int] = field(default_factory=list)
    wraps: bool = True  # whether all operators that read it as an index take negative ones

    relation: Relation | None = None  # for boxes and related values, what they depend on
    was_mask: bool = False  # whether it may be anything although its readers prefer a mask

    def opened(self, element: int) -> "InputKind":
        """The widest use that a model accepts, whatever the nodes that read the input prefer."""
        if self.kind in ("index", "position") and self._may_be_negative():
            return replace(self, kind="place")
        if self.kind == "position":
            return replace(self, kind="index" if self.limits else "free")
        if self.kind == "positive" and is_integer(element):
            return replace(self, kind="divisor")
        return (
            replace(self, kind="free", was_mask=self.kind == "mask")
            if self.kind in PREFERENCES
            else self
        )

    def _may_be_negative(self) -> bool:
        return self.wraps and bool(self.limits) and not any(offset for _, offset in self.limits)


def input_kinds(model: onnx.ModelProto, inputs: Mapping[str, int]) -> dict[str, InputKind]:
    """The use of each input, found by following it forward or else by its name.

    ``inputs`` maps the names of the graph inputs in question to their element types; weights are
    not needed.
    """
    flow = Dataflow(model)
    return {name: _followed(flow, name, is_integer(element)) for name, element in inputs.items()}


def _followed(flow: Dataflow, name: str, integral: bool) -> InputKind:
    result = InputKind()
    kinds: set[ValueKind] = set()
    pending = [(name, 0)]
    names = {name}
    while pending:
        value, offset = pending.pop()
        following = [(alias, offset) for alias in flow.aliases(value)]
        for use in flow.uses(value):
            kind = _kind(flow, use, result, offset)
            if kind is not None:
                kinds.add(kind)
            elif use.node.op_type in _COMPARISONS:
                number = _whole_number(flow, use)
                result.landmarks += [] if number is None else [number - offset]
            step = _step(flow, use)
            if step is not None:
                following += [(use.scope + out, offset + step) for out in use.node.output]
        pending += [item for item in following if item[0] not in names]
        names.update(value for value, _ in following)
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
    relation = None if offset else relation_of(flow, use)
    if relation is not None:
        result.relation = relation
        return "boxes" if relation.is_preference else "related"
    place = INDEXES.get((domain, node.op_type, slot))
    if place is not None:
        _limit(flow, use, place, result, offset)
        result.wraps &= not domain and node.op_type in _INDEXING
        return "index"
    categories = _categories(node)
    if categories:
        result.choices += categories
        return "choice"
    if domain:
        return _CONTRIB_SLOTS.get((node.op_type, slot)) if domain == "com.microsoft" else None
    kind = _SLOTS.get((node.op_type, slot)) or (
        "axes" if slot == 1 and node.op_type in _REDUCING else None
    )
    if kind == "index":
        depth = flow.constant(use.operand(1))
        limit = int(depth.item()) if depth is not None and depth.size == 1 else 1
        result.limits.append((limit, offset))
    elif kind == "length":
        time_axis = "time_axis" if node.op_type == "ReverseSequence" else "layout"
        _limit(flow, use, (0, attribute(node, time_axis, 0)), result, -1)
    elif kind is None and _is_mask_use(flow, use):
        return "mask"
    return kind


def _limit(
    flow: Dataflow, use: Use, place: tuple[int, str | int], result: InputKind, offset: int
) -> None:
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
    constant = flow.constant(use.operand(1 - use.slot))
    if constant is None or constant.dtype.kind not in "iu" or constant.size != 1:
        return None
    return int(constant.reshape(-1)[0])


def _is_mask_use(flow: Dataflow, use: Use) -> bool:
    """Whether a value is converted to Boolean, or used as in ``(1 - mask) * -10000``."""
    node = use.node
    if node.op_type == "Cast":
        return _cast_target(node) == TensorProto.BOOL
    if node.op_type == "Where":
        return use.slot == 0
    if node.op_type == "Equal":
        constant = flow.constant(use.operand(1 - use.slot))
        return (
            constant is not None
            and constant.size == 1
            and constant.dtype.kind != "O"
            and constant.reshape(-1)[0] in (0, 1)
        )
    if node.op_type != "Sub" or use.slot != 1:
        return False
    minuend = flow.constant(use.operand(0))
    if minuend is None or minuend.dtype.kind == "O" or not np.all(minuend == 1):
        return False
    return any(
        _is_penalty(flow, reader) for out in node.output for reader in flow.uses(use.scope + out)
    )


def _is_penalty(flow: Dataflow, use: Use) -> bool:
    factor = flow.constant(use.operand(1 - use.slot)) if use.node.op_type == "Mul" else None
    if factor is not None:
        return bool(np.all(factor.astype(np.float64) <= -1000))
    return use.node.op_type == "Cast" and _cast_target(use.node) == TensorProto.BOOL


def _cast_target(node: NodeProto) -> int:
    return attribute(node, "to", 0) if node.op_type == "Cast" else 0


def _categories(node: NodeProto) -> list[Any]:
    """Keys and categories in which an operator of ``ai.onnx.ml`` (or TfIdfVectorizer) looks up its
    input.
    """
    if node.domain != "ai.onnx.ml" and node.op_type != "TfIdfVectorizer":
        return []
    values: list[Any] = []
    for a in node.attribute:
        if a.name in _CATEGORIES:
            values += [s.decode("utf-8", "replace") for s in a.strings] or list(a.ints)
    return values
