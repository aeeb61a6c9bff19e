"""Mixtures of experts as one operator of onnxruntime that reads integers."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

from xoptim.facts.errors import Declined
from xoptim.facts.operators import has_kernel
from xoptim.match import GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.block_rounding import BlockFormat, nearest_blocks
from xoptim.match.quantization import QuantizationPattern

from .._bits import packed
from .._folding import Array, constant
from ._experts import Experts, Projection, experts_of, is_nonnegative
from ._quantization import is_quantizable


class _Stack(NamedTuple):
    """The weights of all experts, as QMoE reads them: names of constants.

    Attributes:
        integers: of shape (experts, columns, bytes of a column).
        scales: of shape (experts, columns, blocks).
        bias: of shape (experts, columns); empty where there is none.
        zeros: the zero points, as the scales, in bytes.
    """

    integers: str
    scales: str
    bias: str
    zeros: str


class _QuantizedExperts(QuantizationPattern, PatternOptimization):
    """A Scan over experts that is replaced by QMoE. Refusals have the numbers of
    `Int4ExpertsPattern`.
    """

    phase = "target"
    providers = ("cpu",)
    onnxruntime = ">=1.32"  # earlier kernels do not read factors beside scores
    produces = ("com.microsoft",)
    anchors = ("Scan",)
    quantizes_activations = True
    min_opset = 16

    @property
    def blocks(self) -> BlockFormat:
        """How the weights are divided and rounded."""
        raise NotImplementedError

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        try:
            experts = experts_of(g, node)
        except Declined as reason:  # (1)
            return self.none(node, msg=str(reason))
        projections = experts.projections
        names = [name for each in projections for name in (each.weights, each.bias) if name]
        if any(g.try_infer_type(name) != TensorProto.FLOAT for name in (experts.x, *names)):  # (2)
            return self.none(node, msg="the weights are not float32")
        if any(each.shape(g)[1] % self.blocks.size for each in projections):
            return self.none(node, msg="the rows of the weights are not complete blocks")  # (2)
        if not all(is_quantizable(constant(g, name)) for name in names):  # (2)
            return self.none(node, msg="a weight is not finite, or too large")
        if not is_nonnegative(g, experts.routing.factors):  # (3)
            return self.none(node, msg="a factor of an expert is not known to be nonnegative")
        if not has_kernel(g.provider, "com.microsoft", "QMoE", TensorProto.FLOAT, 1):  # (4)
            return self.none(node, msg="the provider has no kernel of QMoE")
        return MatchResult(self, [node], partial(self._write, experts))

    def _write(self, experts: Experts, g: PatternRewriter, node: Node) -> list[Node]:
        routing, choices = experts.routing, experts.choices
        x = g.op.Reshape(experts.x, [-1, len(experts.outer.columns)])
        zero = helper.make_tensor("", TensorProto.FLOAT, [1], [0])
        nothing = g.op.ConstantOfShape(g.op.Shape(routing.scores), value=zero)
        factors = g.op.Reshape(routing.factors, [-1, choices])
        weights = g.op.ScatterElements(nothing, routing.experts, factors, axis=1)
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
            "QMoE", [*operands, "", weights], node.output, domain="com.microsoft", **attributes
        )
        return [*g.created, operator]

    def _stored(self, g: PatternRewriter, projections: Sequence[Projection]) -> _Stack:
        """Store the weights of MatMuls by the same rows, whose columns take turns."""
        form, name = self.blocks, projections[0].weights
        stacks = [constant(g, each.weights)[:, :, each.columns] for each in projections]
        parts = list[tuple[Array, Array, Array]]()
        for matrices in zip(*stacks, strict=True):
            matrix = np.stack(matrices, axis=-1).reshape(len(matrices[0]), -1)
            integers, scales, zeros = nearest_blocks(matrix, form)
            bits = form.stored_bits
            parts.append((packed(integers.T, bits), scales.T, packed(zeros.T, bits)))
        integers, scales, zeros = (np.stack(arrays) for arrays in zip(*parts, strict=True))
        bias = ""
        if projections[0].bias:
            biases = [constant(g, each.bias)[:, each.columns] for each in projections]
            columns = np.stack(biases, axis=-1).reshape(len(biases[0]), -1)
            bias = g.make_initializer("", columns, source=projections[0].bias)
        return _Stack(
            g.make_initializer("", integers, source=name),
            g.make_initializer("", scales, source=f"{name}_scales"),
            bias,
            g.make_initializer("", zeros, source=f"{name}_zeros"),
        )
