"""Changes of operators that schemas cannot judge: reviewed by hand, from the operators' texts before and after."""

from __future__ import annotations

from typing import Final

_SAME: Final = {
    "the text explains more": """
        Abs 13, Add 14, ArgMax 11 13, ArgMin 11 13, AveragePool 11, BatchNormalization 15, BitShift 28, Cast 13,
        Ceil 13, Clip 13, Compress 11, Concat 11, ConvTranspose 11, Conv 11, Div 14, Dropout 22, EyeLike 22, Floor 13,
        Gather 13, Gemm 6 11, If 11, LSTM 22, Loop 11 13, LpPool 11, MaxPool 11 12, MaxUnpool 11,
        MeanVarianceNormalization 13, Mod 13 28, Mul 14, NonMaxSuppression 11, Pad 13, QuantizeLinear 28,
        ReduceL1 11 13, ReduceL2 11 13, ReduceLogSumExp 11 13, ReduceLogSum 11 13, ReduceMax 11 12 13, ReduceMean 11 13,
        ReduceMin 11 12 13, ReduceProd 11 13, ReduceSumSquare 11 13, ReduceSum 11, Slice 13, Squeeze 23, Sub 14,
        Transpose 21 25, Unsqueeze 23
    """,
    "it also takes operands that were invalid: negative axes and indices, other shapes and types": """
        Cast 9, DequantizeLinear 19, Flatten 11, Gather 11, Hardmax 11, LogSoftmax 11, Max 8, Mean 8, Min 8,
        OptionalGetElement 18, OptionalHasElement 18, QuantizeLinear 25, ReduceMax 20, ReduceMin 20, Scan 11, Slice 11,
        Softmax 11, Split 11, Squeeze 11, Sum 8, Unsqueeze 11
    """,
    "an attribute or operand is new, and without it the operator does as before": """
        ArgMax 12, ArgMin 12, Attention 24 25, AveragePool 7 10 19, CastLike 19 24, Cast 19 24, Constant 11 12,
        DepthToSpace 11, DequantizeLinear 13 21 23, GRU 14, GatherND 12, LSTM 14, LpPool 18, MaxPool 8 10, Pad 18,
        QuantizeLinear 13 19 21 23, RNN 14, Range 27, Reshape 14, Resize 18, ScatterElements 16, ScatterND 16, Shape 15,
        SpaceToDepth 28, TopK 11
    """,
    "an attribute has a value more": "Pad 19, Resize 19, ScatterElements 18, ScatterND 18",
    "the text now says what onnxruntime computed before, too": "AveragePool 22, MaxPool 22, OneHot 11",
}
_REFUSED: Final = {
    "the form before, for sequences in batches, has no counterpart": "Scan 9",
    "recurrent operators before operator set 7 are not supported": "GRU 3 7, LSTM 7, RNN 7",
    "its form before is not supported": "Tile 6, Upsample 7",
}


def _by_step(groups: dict[str, str]) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for reason, text in groups.items():
        for entry in text.split(","):
            name, *versions = entry.split()
            found.update({(name, int(version)): reason for version in versions})
    return found


SAME_MEANING: Final = _by_step(_SAME)
"""Operator, and operator set that defines it anew with another text or with additions: the reason why calls mean the same."""

REFUSED: Final = _by_step(_REFUSED)
"""The same for changes that are not supported: the reason."""
