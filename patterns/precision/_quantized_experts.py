"""Mixtures of experts as the contrib operator QMoE, with quantized weights."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from onnx import TensorProto, helper

from xoptim.facts.errors import Declined
from xoptim.facts.operators import has_kernel, objection
from xoptim.match import GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.block_rounding import BlockFormat, nearest_blocks
from xoptim.match.quantization import QuantizationPattern

from .._bits import packed
from .._folding import Array, constant
from ._experts import Experts, Projection, experts_of, is_nonnegative
from ._quantization import is_quantizable

_DOMAIN: Final = "com.microsoft"
_OPERANDS: Final = 15
"""Number of operands of QMoE; the last one has the routing weights, and old versions lack it."""


class _Stack(NamedTuple):
    """The names of the stacked weights of all experts, as QMoE reads them.

    Attributes:
        integers: of shape (experts, columns, bytes of a column).
        scales: of shape (experts, columns, blocks).
        bias: of shape (experts, columns); empty if there is none.
        zeros: the zero points of the blocks, packed into bytes.
    """

    integers: str
    scales: str
    bias: str
    zeros: str


class _QuantizedExperts(QuantizationPattern, PatternOptimization):
    """A Scan over experts to replace by QMoE. Refusals are numbered as in `Int4ExpertsPattern`."""

    phase = "target"
    providers = ("cpu",)
    produces = (_DOMAIN,)
    anchors = ("Scan",)
    quantizes_activations = True
    min_opset = 16

    @property
    def blocks(self) -> BlockFormat:
        """The format of the block-wise quantized weights."""
        raise NotImplementedError

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        try:
            experts = experts_of(g, node)
        except Declined as reason:  # (1)
            return self.none(node, msg=str(reason))
        projections = experts.projections
        names = [
            name
            for projection in projections
            for name in (projection.weights, projection.bias)
            if name
        ]
        if any(g.try_infer_type(name) != TensorProto.FLOAT for name in (experts.x, *names)):  # (2)
            return self.none(node, msg="the weights are not float32")
        if any(projection.shape(g)[1] % self.blocks.size for projection in projections):
            return self.none(node, msg="the rows of the weights are not complete blocks")  # (2)
        if not all(is_quantizable(constant(g, name)) for name in names):  # (2)
            return self.none(node, msg="a weight is not finite, or too large")
        if not is_nonnegative(g, experts.routing.factors):  # (3)
            return self.none(node, msg="a factor of an expert is not known to be nonnegative")
        if not has_kernel(g.provider, _DOMAIN, "QMoE", TensorProto.FLOAT, 1):  # (4)
            return self.none(node, msg="the provider has no kernel of QMoE")
        if objection("QMoE", _DOMAIN, {"block_size": self.blocks.size}, _OPERANDS, 1, {}):  # (4)
            return self.none(node, msg="QMoE of the installed onnxruntime lacks operands")
        return MatchResult(self, [node], partial(self._write, experts))

    def _write(self, experts: Experts, g: PatternRewriter, node: Node) -> list[Node]:
        routing, choices = experts.routing, experts.choices
        x = g.op.Reshape(experts.x, [-1, len(experts.outer.columns)])
        zero = helper.make_tensor("", TensorProto.FLOAT, [1], [0])
        zeros = g.op.ConstantOfShape(g.op.Shape(routing.scores), value=zero)
        factors = g.op.Reshape(routing.factors, [-1, choices])
        weights = g.op.ScatterElements(zeros, routing.experts, factors, axis=1)
        first, last = self._stored(g, experts.inner), self._stored(g, [experts.outer])
        operands = [x, weights, *first[:3], *last[:3], "", "", "", first.zeros, last.zeros]
        attributes = {
            "k": choices,
            "expert_weight_bits": self.blocks.stored_bits,
            "block_size": self.blocks.size,
            "accuracy_level": 4,
            "weights_prepacked": 0,
            **experts.activation,
        }
        operator = g.make_node(
            "QMoE", [*operands, "", weights], node.output, domain=_DOMAIN, **attributes
        )
        return [*g.created, operator]

    def _stored(self, g: PatternRewriter, projections: Sequence[Projection]) -> _Stack:
        """Store the weights of MatMuls that read the same tensor, with interleaved columns."""
        form, name = self.blocks, projections[0].weights
        stacks = [
            constant(g, projection.weights)[:, :, projection.columns] for projection in projections
        ]
        parts = list[tuple[Array, Array, Array]]()
        for matrices in zip(*stacks, strict=True):
            matrix = np.stack(matrices, axis=-1).reshape(len(matrices[0]), -1)
            integers, scales, zeros = nearest_blocks(matrix, form)
            bits = form.stored_bits
            parts.append((packed(integers.T, bits), scales.T, packed(zeros.T, bits)))
        integers, scales, zeros = (np.stack(arrays) for arrays in zip(*parts, strict=True))
        bias = ""
        if projections[0].bias:
            biases = [
                constant(g, projection.bias)[:, projection.columns] for projection in projections
            ]
            columns = np.stack(biases, axis=-1).reshape(len(biases[0]), -1)
            bias = g.make_initializer("", columns, source=projections[0].bias)
        return _Stack(
            g.make_initializer("", integers, source=name),
            g.make_initializer("", scales, source=f"{name}_scales"),
            bias,
            g.make_initializer("", zeros, source=f"{name}_zeros"),
        )
