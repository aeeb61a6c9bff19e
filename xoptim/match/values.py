"""Questions about assumptions: whether a size has a value, and whether a tensor is finite."""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from onnx import TensorProto
from onnx.numpy_helper import to_array

from xoptim.facts.assumptions import SizeFact
from xoptim.facts.dims import Dim, named, substitute
from xoptim.facts.dtypes import is_integer
from xoptim.graph.constants import constant_array
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import reads
from xoptim.operators.registry import Trait, has_trait

_MAX_DEPTH: Final = 24


def is_assumed(graph: Graph, word: str, name: str) -> bool:
    """Whether a property of values is assumed of all tensors, or of the input ``name``."""
    assumptions = graph.model.assumptions
    return assumptions.has(word) or (
        assumptions.has(word, name)
        and graph.scope(name) is graph.model.graph
        and _is_model_input(graph, name)
    )


def is_one_assumed(graph: Graph, cases: Collection[tuple[Dim, int]]) -> bool:
    """Whether an assumption implies that at least one of some sizes is equal to its number."""
    model = graph.model

    def is_case(name: str, fact: SizeFact) -> bool:
        size = substitute(model.assumed_sizes.get(name, named(name)), model.equal_sizes)
        return fact.least == fact.most and (size, fact.least) in cases

    return any(
        all(is_case(name, fact) for name, fact in alternatives)
        for alternatives in model.assumptions.either
    )


def _is_model_input(graph: Graph, name: str) -> bool:
    """Whether a name is an input of the model without a default."""
    return name in graph.model.graph.inputs and graph.model.graph.tensor(name) is None


def is_finite(graph: Graph, name: str, depth: int = _MAX_DEPTH) -> bool:
    """Whether a tensor has no NaN, infinity or -0, by assumptions or by its operator.

    The sign of 0 in constants is ignored.
    """
    dtype = graph.info_of(name).dtype
    if is_integer(dtype) or dtype == TensorProto.BOOL or is_assumed(graph, "finite", name):
        return True
    if (array := constant_array(graph, name)) is not None:
        return bool(np.isfinite(array).all())
    scope = graph.scope(name)
    node = None if scope is None else scope.producer(name)
    if scope is None or node is None or node.domain or not depth:
        return False
    operands = [operand for operand in node.input if operand]
    if node.op_type == "Cast":
        source = scope.info_of(operands[0]).dtype  # texts and unknown types may be NaN
        return (is_integer(source) or source == TensorProto.BOOL) and dtype not in (
            TensorProto.FLOAT16,
            TensorProto.BFLOAT16,
        )
    if node.op_type == "ConstantOfShape":
        fill = node.attribute.get("value")
        return not isinstance(fill, TensorProto) or bool(np.isfinite(to_array(fill)).all())
    return has_trait("", node.op_type, Trait.KEEPS_FINITE) and all(
        is_finite(scope, operand, depth - 1) for operand in operands
    )


def not_known_finite(graph: Graph, nodes: Sequence[Node | None]) -> str:
    """The first operand of matched nodes that is not known to be finite.

    Empty if no input is assumed to be finite: patterns that need finite numbers then run only if
    selected by name, or if all tensors are assumed to be finite.
    """
    if not graph.model.assumptions.about("finite"):
        return ""
    matched = [node for node in nodes if node is not None]
    produced = {name for node in matched for name in node.output}
    operands = dict.fromkeys(
        name for node in matched for name in reads(node) if name not in produced
    )
    return next((name for name in operands if not is_finite(graph, name)), "")
