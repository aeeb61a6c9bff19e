"""A pattern that takes no node away is for the providers where it was measured, or there is a
reason that holds everywhere.
"""

from collections.abc import Iterator
from typing import Final

import onnx
import pytest

from xoptim import Rewrite, installed_patterns, optimize
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.protos import every_node
from xoptim.testing import parse

SIMPLER: Final = "an operator that computes less, and that more runtimes have"
FEWER: Final = "fewer nodes behind it: what it moves or merges is then removed"
ONCE: Final = "the nodes of a body run in the graph, once"
SMALLER: Final = "smaller tensors are computed"
FORM: Final = "an attribute or a constant in the form that other patterns look for"
EVERYWHERE: Final = {
    **dict.fromkeys(
        (
            "EinsumDense",
            "EinsumMatMul",
            "EinsumMul",
            "EinsumTranspose",
            "GatherElements",
            "GatherContiguous",
        ),
        SIMPLER,
    ),
    **dict.fromkeys(
        (
            *("GatherSqueeze", "MaxRelu", "MulMinusOne", "PRelu", "PowTwo", "TransposeReshape"),
            *("QuantizeLinearToStandard", "DequantizeLinearToStandard"),
        ),
        SIMPLER,
    ),
    **dict.fromkeys(
        (
            *("DequantizeLinearGather", "MatMulReshapeBatchNormalization", "TransposeFusedMatMulB"),
            *("RangeGather", "UnsqueezeGather"),
        ),
        FEWER,
    ),
    **dict.fromkeys(("LoopInvariant", "ScanInput", "ScanOnce"), ONCE),
    **dict.fromkeys(
        (
            "ConvStrides",
            "EqualAxisElementwise",
            "ExpandPositionalSwap",
            "GatherSliceRegion",
            "ShapeBasedExpandSwap",
            "SortedReduce",
            "SortedTopK",
        ),
        SMALLER,
    ),
    **dict.fromkeys(("ConvBiasNull", "GemmZeroBias", "MaxConstants", "ReshapeAllowzero"), FORM),
}
"""Patterns that keep the number of nodes in all their examples and are for every provider, each
with the reason.
"""


def chosen() -> Iterator[type[Rewrite]]:
    """The patterns that the command uses, with those of onnxruntime."""
    names = {each.name() for each in OptimizationOptions(patterns="default+onnxruntime").selected()}
    return (cls for name, cls in installed_patterns().items() if name in names)


def size(model: onnx.ModelProto) -> int:
    return sum(node.op_type != "Constant" for node in every_node(model.graph.node))


def takes_nodes_away(cls: type[Rewrite]) -> bool:
    for example in cls.examples:
        before = parse(example.before, example.opset, example.domains)
        if size(optimize(before, patterns=[cls.name()])) < size(before):
            return True
    return False


@pytest.mark.parametrize(
    "cls", [pytest.param(cls, id=cls.name()) for cls in chosen() if not cls.providers]
)
def test_other_forms_are_for_measured_providers(cls: type[Rewrite]) -> None:
    if cls.name() in EVERYWHERE:
        assert not takes_nodes_away(cls), "it needs no reason"
    else:
        assert takes_nodes_away(cls), (
            "another form of as many nodes: say in `providers` where it was measured to be faster"
        )


def test_reasons_belong_to_patterns() -> None:
    assert EVERYWHERE.keys() <= {cls.name() for cls in chosen() if not cls.providers}
