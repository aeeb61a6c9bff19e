"""Attributes at their defaults or with other values, and operators that are easily confused."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, helper

from xoptim.facts.attributes import decode_attribute, same_attribute
from xoptim.facts.protos import opset_versions
from xoptim.facts.schema import attribute_default, attribute_names
from xoptim.testing.canonical import is_default
from xoptim.testing.variant import (
    Case,
    Variant,
    all_graphs,
    loosen,
    opset_of,
    optimize_alone,
    with_constants,
)
from xoptim.testing.vary_constants import real_constants

_MAX_NUDGES = 6
"""Maximum number of elements of a list that are nudged one by one."""


_FLAGS = frozenset(
    (
        "keepdims",
        "noop_with_empty_axes",
        "select_last_index",
        "exclusive",
        "reverse",
        "ceil_mode",
        "largest",
        "sorted",
        "transA",
        "transB",
        "transBatchA",
        "transBatchB",
        "count_include_pad",
        "allowzero",
        "upper",
        "training_mode",
        "is_causal",
        "interleaved",
        "unidirectional",
        "storage_order",
        "antialias",
        "saturate",
        "fmod",
    )
)
"""Attributes that are 0 or 1; other values have no meaning."""

_EVEN = frozenset(("rotary_embedding_dim",))
"""Attributes that must be even.

With an odd value, onnxruntime leaves results uninitialized.
"""


def _nodes(model: ModelProto) -> list[onnx.NodeProto]:
    return [n for g in all_graphs(model.graph) for n in g.node if n.op_type != "Constant"]


def drop_defaults(case: Case) -> Iterator[Variant]:
    """Omit attributes that have their default."""
    model = case.copy()
    opsets = opset_versions(model.opset_import)
    names = []
    for node in _nodes(model):
        for attribute in list(node.attribute):
            if is_default(node, attribute.name, decode_attribute(attribute), opsets):
                node.attribute.remove(attribute)
                names.append(f"{node.op_type}.{attribute.name}")
    if names:
        yield Variant(f"default omitted: {', '.join(names)}", model)


def write_defaults(case: Case) -> Iterator[Variant]:
    """Write every attribute that has a default."""
    model = case.copy()
    defaults = []
    for node in _nodes(model):
        present = {a.name for a in node.attribute}
        rank = case.rank(node.input[0]) if node.input else None
        opset = opset_of(model, node.domain)
        kernel = next((list(a.ints) for a in node.attribute if a.name == "kernel_shape"), None)
        for name in sorted(
            (attribute_names(node.op_type, node.domain, opset) or frozenset()) - present
        ):
            if name in ("strides", "dilations", "pads") and "auto_pad" in present:
                continue
            value = attribute_default(node.op_type, node.domain, opset, name, rank, kernel)
            if value is not None:
                node.attribute.append(helper.make_attribute(name, value))
                defaults.append(f"{node.op_type}.{name}")
    if defaults:
        yield Variant(f"default written: {', '.join(defaults)}", model)


def nudges(case: Case) -> Iterator[Variant]:
    """Each attribute with other values, one at a time."""
    for position, node in enumerate(_nodes(case.model)):
        rank = case.rank(node.input[0]) if node.input else None
        for attribute in node.attribute:
            value = decode_attribute(attribute)
            for word, replacement in _other_values(attribute, value, rank):
                if same_attribute(replacement, value):
                    continue
                model = case.copy()
                target = next(
                    a for a in _nodes(model)[position].attribute if a.name == attribute.name
                )
                target.CopyFrom(
                    helper.make_attribute(attribute.name, replacement, attr_type=attribute.type)
                )
                yield Variant(f"attribute: {node.op_type}.{attribute.name} {word}", loosen(model))
        yield from _omitted(case, position)


def _omitted(case: Case, position: int) -> Iterator[Variant]:
    for index, attribute in enumerate(_nodes(case.model)[position].attribute):
        if attribute.type not in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            model = case.copy()
            node = _nodes(model)[position]
            del node.attribute[index]
            yield Variant(f"attribute: {node.op_type}.{attribute.name} absent", loosen(model))


def _other_values(
    attribute: AttributeProto, value: Any, rank: int | None
) -> Iterator[tuple[str, Any]]:
    if attribute.name in _FLAGS:
        yield "flipped", 1 - value
    elif attribute.type == AttributeProto.INT:
        step = 2 if attribute.name in _EVEN else 1
        yield f"+ {step}", value + step
        yield f"- {step}", value - step
        yield "negated", -value
        if rank:
            yield "in the other form", value - rank if value >= 0 else value + rank
    elif attribute.type == AttributeProto.INTS and value:
        yield from _other_lists(value, rank)
    elif attribute.type == AttributeProto.FLOAT:
        yield from (
            ("x 1.01", value * 1.01),
            ("+ 1", value + 1.0),
            ("negated", -value),
            ("0", 0.0),
            ("1", 1.0),
        )
        yield "NaN", float("nan")
    elif attribute.type == AttributeProto.FLOATS and value:
        yield "last x 1.01", [*value[:-1], value[-1] * 1.01 + 0.01]


def _other_lists(value: list[int], rank: int | None) -> Iterator[tuple[str, list[int]]]:
    yield "rotated", [*value[1:], value[0]]
    yield "reversed", value[::-1]
    yield "without the last", value[:-1]
    if rank:
        yield "in the other form", [v - rank if v >= 0 else v + rank for v in value]
        yield (
            "last in the other form",
            [*value[:-1], value[-1] - rank if value[-1] >= 0 else value[-1] + rank],
        )
    if len(value) > 1:
        yield "first two swapped", [value[1], value[0], *value[2:]]
    for index in range(min(len(value), _MAX_NUDGES)):
        for step in (1, -1):
            yield f"[{index}] {step:+}", [*value[:index], value[index] + step, *value[index + 1 :]]


_FAMILIES: Final = (
    ("Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    ("Add", "Sub"),
    ("Mul", "Div"),
    ("Max", "Min"),
    ("ReduceMax", "ReduceMin"),
    ("ReduceSum", "ReduceMean"),
    ("And", "Or", "Xor"),
    ("Floor", "Ceil", "Round"),
    ("Squeeze", "Unsqueeze"),
)
SIBLINGS: Final = {
    name: tuple(sibling for sibling in family if sibling != name)
    for family in _FAMILIES
    for name in family
}
"""Operators with the same operands, by operator."""


def siblings(case: Case) -> Iterator[Variant]:
    """Each node with another operator for the same operands.

    Where the pattern still applies, also with zeros as constants.
    """
    for position, node in enumerate(case.model.graph.node):
        for sibling in SIBLINGS.get(node.op_type, ()) if not node.domain else ():
            model = case.copy()
            model.graph.node[position].op_type = sibling
            word = f"operator: {node.op_type} {position} as {sibling}"
            yield Variant(word, loosen(model))
            for name, array in real_constants(model) if _applies(case, model) else ():
                for sign, value in (("0", 0.0), ("-0", -0.0)):
                    yield Variant(
                        f"{word}, {name} {sign}",
                        with_constants(model, {name: np.full_like(array, value)}),
                    )


def _applies(case: Case, model: ModelProto) -> bool:
    if case.pattern is None:
        return False
    try:
        return optimize_alone(case.pattern, model).applied > 0
    except Exception:  # reported for the variant itself
        return False
