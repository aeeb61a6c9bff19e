"""The difference between two versions of an operator: as schemas describe it, and as reviewed by
hand.
"""

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
_VALUES: Final = "an attribute has a value more"
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
    "the text now says what onnxruntime computed before, too": (
        "AveragePool 22, MaxPool 22, OneHot 11"
    ),
}
_REFUSED: Final = {
    "the form before, for sequences in batches, has no counterpart": "Scan 9",
    "recurrent operators before operator set 7 are not supported": "GRU 3 7, LSTM 7, RNN 7",
    "its form before is not supported": "Tile 6, Upsample 7",
}


@cache
def _versions() -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for each in onnx.defs.get_all_schemas_with_history():
        if not each.domain:
            found.setdefault(each.name, []).append(each.since_version)
    return {name: tuple(sorted(versions)) for name, versions in found.items()}


def versions(op_type: str) -> tuple[int, ...]:
    """The operator sets that define an operator of the standard domain anew, in order.

    Empty for an unknown operator.
    """
    return _versions().get(op_type, ())


def operators() -> tuple[str, ...]:
    """All operators of the standard domain, of the past too."""
    return tuple(sorted(_versions()))


def next_version(op_type: str, version: int, target: int) -> int | None:
    """The next operator set up to ``target`` that changes an operator after ``version``, ``None``
    when there is none.

    The first definition changes nothing: before it, onnxruntime alone defined the operator, such as
    LayerNormalization.
    """
    return next((each for each in versions(op_type)[1:] if version < each <= target), None)


@cache
def breaks(op_type: str, version: int) -> tuple[str, ...]:
    """The parts that a call may have before an operator set, and not in it.

    Empty when all calls stay valid.
    """
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
    found = [f"attribute {name}" for name in new.attributes if name not in old.attributes]
    found += [f"operand {formal.name}" for formal in new.inputs[len(old.inputs) :]]
    found += [f"result {formal.name}" for formal in new.outputs[len(old.outputs) :]]
    return (*found, "text") if _text(old) != _text(new) else tuple(found)


def pair(op_type: str, version: int) -> tuple[OpSchema, OpSchema]:
    """The schemas of an operator before an operator set that defines it anew, and in it."""
    before = max(each for each in versions(op_type) if each < version)
    return onnx.defs.get_schema(op_type, before, ""), onnx.defs.get_schema(op_type, version, "")


def _breaks(old: OpSchema, new: OpSchema) -> Iterator[str]:
    if new.deprecated:
        yield "the operator"
    for name, was in old.attributes.items():
        now = new.attributes.get(name)
        if now is None:
            yield f"attribute {name}"
        elif now.type != was.type or _default(now) != _default(was):
            yield f"the type or the default of attribute {name}"
    for name, now in new.attributes.items():
        if now.required and not (name in old.attributes and old.attributes[name].required):
            yield f"a call without attribute {name}"
    yield from _broken_formals("operand", old.inputs, new.inputs)
    yield from _broken_formals("result", old.outputs, new.outputs)
    if new.min_input > old.min_input or new.max_input < old.max_input:
        yield "the number of operands"
    if new.min_output > old.min_output or new.max_output < old.max_output:
        yield "the number of results"


def _broken_formals(kind: str, old: Formals, new: Formals) -> Iterator[str]:
    yield from (f"{kind} {was.name}" for was in old[len(new) :])
    for was, now in zip(old, new, strict=False):
        if was.option != now.option and (was.option, now.option) != (_REQUIRED, _OPTIONAL):
            yield f"{kind} {was.name} as it was"
        if not was.types <= now.types:
            yield f"the types of {kind} {was.name}"


def _default(attribute: OpSchema.Attribute) -> bytes:
    return attribute.default_value.SerializeToString(deterministic=True)


def _text(schema: OpSchema) -> list[str]:
    """The words of a schema about what is in both of two versions: without layout and
    marks.
    """
    parts = [schema.doc, *(each.description for each in (*schema.inputs, *schema.outputs))]
    parts += [schema.attributes[name].description for name in sorted(schema.attributes)]
    return re.findall(r"\w+|[<>=!]+", " ".join(part or "" for part in parts))


def _by_step(groups: dict[str, str]) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for reason, text in groups.items():
        for entry in text.split(","):
            name, *versions = entry.split()
            found.update({(name, int(version)): reason for version in versions})
    return found


SAME_MEANING: Final = _by_step(_SAME)
"""Operator, and operator set that defines it anew with another text or with additions: the reason
why calls mean the same.
"""

REFUSED: Final = _by_step(_REFUSED)
"""The same for changes that are not supported: the reason."""

UNSEEN: Final = frozenset(
    step for step, reason in SAME_MEANING.items() if reason in (_WIDER, _VALUES)
)
"""Those steps whose additions the schemas do not list: operands and values that were invalid
before.
"""
