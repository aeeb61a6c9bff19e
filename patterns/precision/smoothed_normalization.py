from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternRewriter
from xoptim.match.rounding import Channels, Numbers, ScalingPattern

from .._folding import Array, constant, rounded
from ._products import product
from ._rounding import is_roundable
from ._scaling import scales

_PARAMETERS: Final = {
    "LayerNormalization": (1, 2),
    "RMSNormalization": (1,),
    "SimplifiedLayerNormalization": (1,),
    "com.microsoft::SkipLayerNormalization": (2, 3),
    "com.microsoft::SkipSimplifiedLayerNormalization": (2,),
}
"""The operands of normalizations that hold a factor, and then a summand, of each channel."""
_SPREAD: Final = 4.0
"""Deviations from the mean that normalized numbers are taken to reach, where no samples tell."""
_COLUMN = [n % 7 - 3 or 2 for n in range(16)]


def _stored(factor: float, summand: float, weight: float, shape: str) -> str:
    """The constants of an example: the third channel is larger than the others."""
    ones = ", ".join(["1"] * 13)
    rows = ", ".join(map(str, [*_COLUMN[:2], weight, *_COLUMN[3:]]))
    return f"<float[16] g = {{1, 1, {factor}, {ones}}}, float[16] b = {{1, 1, {summand}, {ones}}}, float{shape} w = {{{rows}}}>"


class SmoothedNormalizationPattern(ScalingPattern):
    """MatMul(LayerNormalization(x, g, b), w) → MatMul(LayerNormalization(x, g / s, b / s), w · s)

    What: moves a scale of each channel from a normalization to the weights of all products that read it (SmoothQuant). Scales
    are powers of two, 1 at least, so that no digit changes, but of numbers that become smaller than the type holds in full.
    Other forms: Gemm; RMSNormalization, SimplifiedLayerNormalization, SkipLayerNormalization.
    Why: where few channels are much larger than the others, one scale for all rounds the others to few integers. It is applied
    before products are rounded to 8 bits, where the error on samples becomes smaller (docs/precision.md).
    Refuses when:
    1. the parameters are not constants, one number for each channel of the last axis.
    2. something else than products by constant matrices of 32-bit floats reads the result, or the matrices.
    3. no scales are expected to make the error smaller, by the channels on samples, or without samples by the parameters.
    """

    phase = "target"
    exactness = "rounding"
    providers = ("cpu",)
    tags = ("int8", "extra")
    anchors = tuple(_PARAMETERS)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        y, readers = node.output[0], g.next_nodes(node.output[0])
        if not readers or not g.is_used_only_by(y, *readers):  # (2)
            return self.none(node, msg="the result is read by something else than products")
        found = [product(g, each) for each in readers if each.op_type in ("MatMul", "Gemm", "FusedMatMul")]
        known = [each for each in found if each is not None]
        if len(known) < len(readers) or any([*each.input].count(y) != 1 or each.input[0] != y for each in readers):  # (2)
            return self.none(node, msg="the result is read by something else than products")
        if not all(g.is_used_only_by(each.input[1], *readers) for each in readers):  # (2)
            return self.none(node, msg="weights that are read elsewhere")
        rows = known[0].terms
        parameters = _parameters(g, node, rows)
        if parameters is None:  # (1)
            return self.none(node, msg="parameters that are not one constant for each channel")
        channels = _channels(parameters) if self.channels is None else self.channels.get(y)
        if channels is None or channels.low.shape != (rows,):  # (3)
            return self.none(node, msg="no sample tells the channels")
        matrices = [each.matrix(g) for each in known]
        if not all(is_roundable(each) for each in (*parameters, *matrices)):
            return self.none(node, msg="numbers that are not finite, or too large")
        found_scales = scales(channels, [each.T.astype(np.float64)[None, :, :, None] for each in matrices])  # (3)
        return MatchResult(self, [node, *readers], partial(self._replace, found_scales))

    @staticmethod
    def _replace(scale: Numbers, g: PatternRewriter, node: Node, *readers: Node) -> list[Node]:
        names = [*node.input]
        for place in _present(node):
            stored = constant(g, names[place])
            smaller = rounded(stored.astype(np.float64) / scale, stored.dtype, summed=tuple(range(stored.ndim)))
            names[place] = g.make_initializer("", smaller, source=names[place])
        y = g.unique_name(f"{node.output[0]}_smoothed")
        made = [g.make_node(node.op_type, names, [y, *node.output[1:]], domain=node.domain, **node.attribute)]
        for each in readers:
            weights, is_turned = constant(g, each.input[1]), bool(each.get_attribute("transB", 0))
            wide = weights.astype(np.float64) * (scale if is_turned else scale[:, None])
            larger = rounded(wide, weights.dtype, summed=1 if is_turned else 0)
            operands = [y, g.make_initializer("", larger, source=each.input[1]), *each.input[2:]]
            made.append(g.make_node(each.op_type, operands, each.output, domain=each.domain, **each.attribute))
        return [*g.created, *made]

    _head = "agraph (float[n,16] x, float[1] c) => (float[n,1] y)"
    _product = "{ l = LayerNormalization(x, g, b) m = MatMul(l, w) y = Add(m, c) }"
    _turned = "{ l = LayerNormalization <axis = 1> (x, g, b) y = Gemm <transB = 1> (l, w, c) }"
    examples = Example.pairs(
        f"{_head} {_stored(64, 1, 2, '[16,1]')} {_product}",
        f"{_stored(4, 1 / 16, 32, '[16,1]')} {_product}",
        f"{_head} {_stored(64, 1, 2, '[1,16]')} {_turned}",
        f"{_stored(4, 1 / 16, 32, '[1,16]')} {_turned}",
    )


def _present(node: Node) -> list[int]:
    key = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    return [place for place in _PARAMETERS[key] if place < len(node.input) and node.input[place]]


def _parameters(g: GraphView, node: Node, width: int) -> list[Array] | None:
    """The factor and the summand of each channel; ``None`` where they are something else."""
    axis, rank = node.get_attribute("axis", -1), g.info(node.input[0]).rank
    places = _present(node)
    if axis != -1 and (rank is None or axis != rank - 1):
        return None
    names = [node.input[place] for place in places]
    if not names:
        return None
    if not all(g.is_constant(name) and g.try_infer_type(name) == TensorProto.FLOAT for name in names):
        return None
    arrays = [constant(g, name) for name in names]
    return [each.reshape(-1) for each in arrays] if all(each.size == each.shape[-1] == width for each in arrays) else None


def _channels(parameters: Sequence[Array]) -> Channels:
    """What the parameters tell: normalized numbers have a mean of 0 and a deviation of 1."""
    factor, shift = [*(each.astype(np.float64) for each in parameters), np.zeros(parameters[0].shape)][:2]
    reach = _SPREAD * np.abs(factor)
    return Channels(shift - reach, shift + reach, shift, factor**2 + shift**2)
