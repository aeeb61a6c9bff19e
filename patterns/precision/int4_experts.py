from xoptim.match.block_rounding import BlockFormat
from xoptim.match.quantization import BlockPattern

from ._experts_examples import examples_of
from ._quantized_experts import _QuantizedExperts


class Int4ExpertsPattern(BlockPattern, _QuantizedExperts):
    """Scan over experts of f(x · w1) · w2 → com.microsoft.QMoE(x, d, w1 in 4 bits, w2 in 4 bits)

    What: quantizes the weights of a mixture of experts, as `ExpertsScan` writes it, to 4 bits. They
    are rounded to nearest, with a scale and a zero point for each 32 rows of a column. Options
    choose 2 to 8 bits, and 16 to 256 rows. The model keeps its TopK. d is a matrix (tokens,
    experts) with the factors of the chosen experts, and 0 elsewhere. Activations are SwiGLU (also
    clipped), Relu, Gelu, SiLU, or none. Only with contrib operators.
    Why: weights take 0.16 of the bytes, and reading them takes most of the time of a token. With 4
    of 16 experts for each token, one token takes a quarter of the time.
    Refuses when:
    1. the Scan is not a mixture of experts, the weights are not constant, or the rows are not
       tokens repeated for each choice of a TopK.
    2. a weight is not a finite float32, or the rows are not complete blocks.
    3. a routing weight may be negative: QMoE skips such experts. Softmax and Sigmoid are
       nonnegative.
    4. the provider has no kernel, or one without an operand for routing weights.
    """

    bits = 4
    width = 5.125
    operators = ()
    tags = ("int4", "onnxruntime", "extra")

    @property
    def blocks(self) -> BlockFormat:
        return self.rounded.format

    examples = examples_of([n % 16 for n in range(32)], bits=4)
