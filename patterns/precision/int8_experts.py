from typing import Final

from xoptim.match.block_rounding import BlockFormat

from ._experts_examples import examples_of
from ._quantized_experts import _QuantizedExperts

_BLOCKS: Final = BlockFormat(bits=8)


class Int8ExpertsPattern(_QuantizedExperts):
    """Scan over experts of f(x · w1) · w2 → com.microsoft.QMoE(x, d, w1 in 8 bits, w2 in 8 bits)

    What: as `Int4Experts`, with 8 bits. ``--precision int4`` uses it if 4 bits are too inaccurate.
    Why: weights take 0.29 of the bytes; one token takes 0.3 of the time.
    Refuses when:
    1. the Scan is not a mixture of experts, the weights are not constant, or the rows are not
       tokens repeated for each choice of a TopK.
    2. a weight is not a finite float32, or the rows are not complete blocks.
    3. a routing weight may be negative: QMoE skips such experts.
    4. the provider has no kernel, or one without an operand for routing weights.
    """

    bits = 8
    width = 9.25
    time = 0.36
    is_alternative = True
    tags = ("int8", "int4", "onnxruntime", "extra")
    blocks = _BLOCKS
    examples = examples_of([*range(0, 248, 8), 255], bits=8)
