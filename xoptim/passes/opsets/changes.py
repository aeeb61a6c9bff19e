"""The difference between two versions of an operator, by their schemas and as reviewed by hand."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, TypeAlias

import onnx
from onnx.defs import OpSchema

_REQUIRED: Final = OpSchema.FormalParameterOption.Single
_OPTIONAL: Final = OpSchema.FormalParameterOption.Optional


_WIDER: Final = (
    "it also takes operands that were invalid: negative axes and indices, other shapes and types"
)
_VALUES: Final = "an attribute has one more value"
Formals: TypeAlias = Sequence[OpSchema.FormalParameter]
_SAME: Final = {
    "the text explains more": (
        """
        Abs 13, Add 14, ArgMax 11 13, ArgMin 11 13, AveragePool 11, BatchNormalization 15,
        BitShift 28, Cast 13, Ceil 13, Clip 13, Compress 11, Concat 11, ConvTranspose 11, Conv 11,
        Div 14, Dropout 22, EyeLike 22, Floor 13, Gather 13, Gemm 6 11, If 11, LSTM 22, Loop 11 13,
        LpPool 11, MaxPool 11 12, MaxUnpool 11, MeanVarianceNormalization 13, Mod 13 28, Mul 14,
        NonMaxSuppression 11, Pad 13, QuantizeLinear 28, ReduceL1 11 13, ReduceL2 11 13,
        ReduceLogSumExp 11 13, ReduceLogSum 11 13, ReduceMax 11 12 13, ReduceMean 11 13,
        ReduceMin 11 12 13, ReduceProd 11 13, ReduceSumSquare 11 13, ReduceSum 11, Slice 13,
        Squeeze 23, Sub 14,
        Transpose 21 25, Unsqueeze 23
    """
    ),
    _WIDER: (
        """
        Cast 9, DequantizeLinear 19, Flatten 11, Gather 11, Hardmax 11, LogSoftmax 11, Max 8,
        Mean 8, Min 8, OptionalGetElement 18, OptionalHasElement 18, QuantizeLinear 25,
        ReduceMax 20, ReduceMin 20, Scan 11, Slice 11,
        Softmax 11, Split 11, Squeeze 11, Sum 8, Unsqueeze 11
    """
    ),
    "an attribute or operand is new, and without it the operator does as before": (
        """
        ArgMax 12, ArgMin 12, Attention 24 25, AveragePool 7 10 19, CastLike 19 24, Cast 19 24,
        Constant 11 12, DepthToSpace 11, DequantizeLinear 13 21 23, GRU 14, GatherND 12, LSTM 14,
        LpPool 18, MaxPool 8 10, Pad 18, QuantizeLinear 13 19 21 23, RNN 14, Range 27, Reshape 14,
        Resize 18, ScatterElements 16, ScatterND 16, Shape 15,
        SpaceToDepth 28, TopK 11
    """
    ),
    _VALUES: "Pad 19, Resize 19, ScatterElements 18, ScatterND 18",
    "the text now says what onnxruntime also computed before": (
        "AveragePool 22, MaxPool 22, OneHot 11"
    ),
}
_REFUSED: Final = {
    "the earlier form, for batches of sequences, has no counterpart": "Scan 9",
    "recurrent operators before operator set 7 are not supported": "GRU 3 7, LSTM 7, RNN 7",
    "its earlier form is not supported": "Tile 6, Upsample 7",
}


@cache
def _versions() -> dict[str, tuple[int, ...]]:
    history: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            history.setdefault(schema.name, []).append(schema.since_version)
    return {name: tuple(sorted(versions)) for name, versions in history.items()}


def versions(op_type: str) -> tuple[int, ...]:
    """The operator sets that define or change a standard operator, in order; none if unknown."""
    return _versions().get(op_type, ())


def operators() -> tuple[str, ...]:
    """All standard operators, former ones included."""
    return tuple(sorted(_versions()))


def next_version(op_type: str, version: int, target: int) -> int | None:
    """The next operator set up to ``target`` that changes an operator after ``version``, if any.

    The first definition changes nothing: before it, onnxruntime alone defined the operator, such as
    LayerNormalization.
    """
    return next((v for v in versions(op_type)[1:] if version < v <= target), None)


@cache
def breaks(op_type: str, version: int) -> tuple[str, ...]:
    """The parts that a call may have before an operator set, but not in it."""
    return tuple(_breaks(*pair(op_type, version)))


@cache
def gains(op_type: str, version: int) -> tuple[str, ...]:
    """The parts that a call may have in an operator set, and not before; element types excepted."""
    old, new = pair(op_type, version)
    return tuple(part for part in _breaks(new, old) if not part.startswith("the types of"))


@cache
def additions(op_type: str, version: int) -> tuple[str, ...]:
    """The additions of an operator set to an operator, element types excepted, and ``text`` when
    its text differs.
    """
    old, new = pair(op_type, version)
    parts = [f"attribute {name}" for name in new.attributes if name not in old.attributes]
    parts += [f"operand {formal.name}" for formal in new.inputs[len(old.inputs) :]]
    parts += [f"result {formal.name}" for formal in new.outputs[len(old.outputs) :]]
    return (*parts, "text") if _text(old) != _text(new) else tuple(parts)


def pair(op_type: str, version: int) -> tuple[OpSchema, OpSchema]:
    """The schemas of an operator before and in an operator set that changes it."""
    before = max(v for v in versions(op_type) if v < version)
    return onnx.defs.get_schema(op_type, before, ""), onnx.defs.get_schema(op_type, version, "")


def _breaks(old: OpSchema, new: OpSchema) -> Iterator[str]:
    if new.deprecated:
        yield "the operator"
    for name, old_attr in old.attributes.items():
        new_attr = new.attributes.get(name)
        if new_attr is None:
            yield f"attribute {name}"
        elif new_attr.type != old_attr.type or _default(new_attr) != _default(old_attr):
            yield f"the type or the default of attribute {name}"
    for name, new_attr in new.attributes.items():
        if new_attr.required and not (name in old.attributes and old.attributes[name].required):
            yield f"a call without attribute {name}"
    yield from _broken_formals("operand", old.inputs, new.inputs)
    yield from _broken_formals("result", old.outputs, new.outputs)
    if new.min_input > old.min_input or new.max_input < old.max_input:
        yield "the number of operands"
    if new.min_output > old.min_output or new.max_output < old.max_output:
        yield "the number of results"


def _broken_formals(kind: str, old: Formals, new: Formals) -> Iterator[str]:
    yield from (f"{kind} {formal.name}" for formal in old[len(new) :])
    for a, b in zip(old, new, strict=False):
        if a.option != b.option and (a.option, b.option) != (_REQUIRED, _OPTIONAL):
            yield f"{kind} {a.name} as it was"
        if not a.types <= b.types:
            yield f"the types of {kind} {a.name}"


def _default(attribute: OpSchema.Attribute) -> bytes:
    return attribute.default_value.SerializeToString(deterministic=True)


def _text(schema: OpSchema) -> list[str]:
    """The words and comparison signs of a schema, without layout and punctuation."""
    parts = [schema.doc, *(formal.description for formal in (*schema.inputs, *schema.outputs))]
    parts += [schema.attributes[name].description for name in sorted(schema.attributes)]
    return re.findall(r"\w+|[<>=!]+", " ".join(part or "" for part in parts))


def _by_step(groups: dict[str, str]) -> dict[tuple[str, int], str]:
    reasons: dict[tuple[str, int], str] = {}
    for reason, text in groups.items():
        for entry in text.split(","):
            name, *versions = entry.split()
            reasons.update({(name, int(version)): reason for version in versions})
    return reasons


SAME_MEANING: Final = _by_step(_SAME)
"""By step (an operator, and the operator set that changes it): why calls stay valid and equal."""

REFUSED: Final = _by_step(_REFUSED)
"""By step: why the change is not supported."""

UNSEEN: Final = frozenset(
    step for step, reason in SAME_MEANING.items() if reason in (_WIDER, _VALUES)
)
"""Steps whose additions the schemas do not list: operands and values that were invalid before."""
