"""Products of floating-point numbers: decide whether the runtime sums them in the same order before and after."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from xoptim.facts.dtypes import is_float
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.rewrite import Step

Operands: TypeAlias = tuple[bool, ...]
"""For each operand of a product, whether it is stored when the runtime loads the model."""

PRODUCTS: Final = frozenset({
    "Attention", "Conv", "ConvTranspose", "DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention", "DeformConv",
    "DynamicQuantizeLSTM", "Einsum", "FusedConv", "FusedGemm", "FusedMatMul", "FusedMatMulActivation", "GRU",
    "GatedRelativePositionBias", "Gemm", "GemmFastGelu", "GemmFloat8", "GroupQueryAttention", "LSTM", "LongformerAttention",
    "MatMul", "MatMulBnb4", "MatMulFpQ4", "MatMulNBits", "MoE", "MultiHeadAttention", "NhwcFusedConv", "PackedAttention",
    "PackedMultiHeadAttention", "QAttention", "QMoE", "RNN", "SparseAttention", "SparseToDenseMatMul", "TransposeMatMul",
})  # fmt: skip
"""Operators, of any domain, that sum products of floating-point numbers.

Runtimes pack stored operands when they load a model, and have different kernels for packed and for computed operands, which sum
in different orders. So a product with a weight after an Identity is not equal, bit by bit, to one with the weight itself.
"""


def stored_operands(model: Model) -> dict[Node, Operands]:
    """The products of a model, and calls of local functions (which may hold some), with which of their operands are stored."""
    calls = {function.key for function in model.functions}
    return {
        node: tuple(bool(name) and graph.tensor(name) is not None for name in node.input)
        for graph in model.graphs()
        for node in _products(graph, calls)
    }


def _products(graph: Graph, calls: set[tuple[str, str, str]]) -> Iterator[Node]:
    for (domain, op_type), nodes in graph.types.items():
        for node in nodes:
            may_be_float = op_type in PRODUCTS and all(is_float(graph.info_of(name).dtype or 1) for name in node.output[:1])
            if may_be_float or (domain, op_type, node.overload) in calls:
                yield node


def rounds_elsewhere(before: Mapping[Node, Operands], after: Mapping[Node, Operands]) -> bool:
    """Whether an operand of a product was computed and is stored now, or the other way round, by `stored_operands`.

    New products are compared with removed ones.
    """
    if any(before.get(node, operands) != operands for node, operands in after.items()):
        return True
    new = Counter(_key(node, operands) for node, operands in after.items() if node not in before)
    return bool(new - Counter(_key(node, operands) for node, operands in before.items() if node not in after))


def _key(node: Node, operands: Operands) -> tuple[str, str, Operands]:
    return node.domain, node.op_type, operands


class NoteProducts(Step):
    """Records the products before blocks become functions, which runtimes replace by their bodies."""

    title = "note_products"

    def __init__(self) -> None:
        self.found: Mapping[Node, Operands] | None = None  # the products; ``None`` when it has not run

    def run(self, model: Model) -> int:
        """Record them; returns 0."""
        self.found = stored_operands(model)
        return 0
