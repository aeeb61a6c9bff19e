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
from xoptim.operators.protocols import Indices, Lengths, OperandKind
from xoptim.operators.registry import Trait, has_trait, operator_of, operators_with
from xoptim.verification.inputs.dataflow import Dataflow, Use, attribute
from xoptim.verification.inputs.relations import Relation, relation_of

ValueKind: TypeAlias = Literal[
    OperandKind,
    "free",  # anything of moderate size
    "position",  # 0, 1, 2, ... along the last axis
    "choice",  # one of the categories of the model
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

_COMPARISONS: Final = operators_with(Trait.COMPARES)
_CATEGORIES: Final = (
    "keys_strings", "keys_int64s", "cats_strings", "cats_int64s", "pool_strings", "pool_int64s",
    "classlabels_strings", "string_vocabulary", "int64_vocabulary",
)  # fmt: skip

# The strongest claim first. Without values of the first kinds, a run fails; without values of the
# last kinds, it only tests less.
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
        successors = [(alias, offset) for alias in flow.aliases(value)]
        for use in flow.uses(value):
            kind = _kind(flow, use, result, offset)
            if kind is not None:
                kinds.add(kind)
            elif use.node.op_type in _COMPARISONS:
                number = _whole_number(flow, use)
                result.landmarks += [] if number is None else [number - offset]
            step = _step(flow, use)
            if step is not None:
                successors += [(use.scope + out, offset + step) for out in use.node.output]
        pending += [item for item in successors if item[0] not in names]
        names.update(value for value, _ in successors)
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
    kind = operator_of(domain, node.op_type).operand_kinds.get(slot)
    if isinstance(kind, Indices):
        _limit(flow, use, kind, result, offset)
        result.wraps &= has_trait(domain, node.op_type, Trait.INDEXES)
        return "index"
    categories = _categories(node)
    if categories:
        result.choices += categories
        return "choice"
    if isinstance(kind, Lengths):
        _limit(flow, use, kind, result, -1)
        return "length"
    if kind == "index":
        depth = flow.constant(use.operand(1))
        limit = int(depth.item()) if depth is not None and depth.size == 1 else 1
        result.limits.append((limit, offset))
    elif kind is None and not domain and _is_mask_use(flow, use):
        return "mask"
    return kind


def _limit(
    flow: Dataflow, use: Use, kind: Indices | Lengths, result: InputKind, offset: int
) -> None:
    """Note the sizes of the axes that are indexed; a size that is unknown counts as 1."""
    operand, axis = kind
    shape = flow.shape(use.operand(operand))
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
    carried = operator_of(standard_domain(node.domain), node.op_type).carried
    if carried:
        if slot not in carried:
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
    """Whether a value is cast to Boolean, the condition of a Where, compared with 0 or 1, or used
    as in ``(1 - mask) * -10000``.
    """
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
