from collections.abc import Sequence

from xoptim.match import Example, Node
from xoptim.match.quantization import BlockScalingPattern, Numbers

from .._folding import Array
from ._scaling import block_scale
from .smoothed_normalization import SmoothedNormalizationPattern


def _stored(factor: int, weight: int, shape: str) -> str:
    """The constants of an example: the third channel is larger than the others."""
    ones, column = ", ".join(["1"] * 29), ", ".join(["1, -1"] * 14)
    parameters = (
        f"float[32] g = {{1, 1, {factor}, {ones}}}, float[32] b = {{{', '.join(['0'] * 32)}}}"
    )
    return f"<{parameters}, float{shape} w = {{1, -1, {weight}, 1, {column}}}>"


class ActivationAwareNormalizationPattern(BlockScalingPattern, SmoothedNormalizationPattern):
    """MatMul(LayerNormalization(x, g, b), w) → MatMul(LayerNormalization(x, g / s, b / s), w · s)

    What: moves a scale of each channel from a normalization to the weights of all MatMuls that
    read it (AWQ). Also for Gemm, and for RMSNormalization, SimplifiedLayerNormalization and
    SkipLayerNormalization. With samples, also for x · g + b and x · g, such as the end of a
    decomposed normalization or Gelu.
    Why: the weights of large channels are quantized more finely. It is applied before block-wise
    quantization of weights (int4), if that reduces the error on samples (docs/quantization.md).
    Refuses when:
    1. the parameters are not constant, with one number for each channel of the last axis.
    2. the result or the weights have consumers other than MatMuls by constant float32 matrices.
    3. samples gave no scales for the channels. Or there are no samples, and no scales are expected
       to reduce the error of weights that are rounded to nearest.
    """

    tags = ("int4", "extra")

    def scale_of(self, node: Node, parameters: Sequence[Array], weights: Array) -> Numbers | None:
        if self.scales is not None:
            return self.scales.get(node.output[0])
        channels = self.channels_of(node, parameters)
        return None if channels is None else block_scale(channels, weights)

    _head = "agraph (float[n,32] x, float[1] c) => (float[n,1] y)"
    _matmul = "{ l = LayerNormalization(x, g, b) m = MatMul(l, w) y = Add(m, c) }"
    _transposed = "{ l = LayerNormalization <axis = 1> (x, g, b) y = Gemm <transB = 1> (l, w, c) }"
    examples = Example.pairs(
        f"{_head} {_stored(32, 1, '[32,1]')} {_matmul}",
        f"{_stored(16, 2, '[32,1]')} {_matmul}",
        f"{_head} {_stored(32, 1, '[1,32]')} {_transposed}",
        f"{_stored(16, 2, '[1,32]')} {_transposed}",
    )
