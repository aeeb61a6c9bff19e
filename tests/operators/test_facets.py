"""What is known about each operator: no facet is left out by accident.

``pytest -s tests/operators/test_facets.py`` prints the table.
"""

import sys

import onnx
import pytest

from xoptim.operators.registry import OPERATORS, Operator

FACETS = ("formula", "kernel", "axes", "cost", "operations")
MICROSOFT = "com.microsoft"

ATTENTION = "Attention CausalConvWithState LinearAttention RotaryEmbedding SwiGLU TensorScatter"
BODIES = "If Loop Scan SequenceMap"
CREATED = "ConstantOfShape Constant EyeLike Range Shape Size"
IMAGES = (
    "AffineGrid CenterCropPad DepthToSpace GridSample ImageDecoder NonMaxSuppression Resize "
    "RoiAlign SpaceToDepth"
)
INDEXED = (
    "Compress GatherElements GatherND NonZero OneHot ScatterElements ScatterND TopK Trilu Unique"
)
LOSSES = "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"
NORMALIZATIONS = (
    "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization "
    "LpNormalization MeanVarianceNormalization RMSNormalization"
)
QUANTIZED = "DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul QuantizeLinear"
RANDOM = (
    "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
)
RECURRENT = "GRU LSTM RNN"
SEQUENCES = (
    "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt "
    "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence"
)
SIGNALS = "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT"
SOFTMAX = "Hardmax LogSoftmax Softmax"
STRINGS = "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer"
WINDOWS = (
    "AveragePool Col2Im Conv ConvInteger ConvTranspose DeformConv GlobalAveragePool GlobalLpPool "
    "GlobalMaxPool LpPool MaxPool MaxRoiPool MaxUnpool"
)
ROUNDING = (
    "Acos Acosh Asin Asinh Atan Atanh Celu Cos Cosh Elu Erf Exp Gelu HardSigmoid HardSwish "
    "LeakyRelu Log Mish PRelu Pow Reciprocal Selu Shrink Sigmoid Sin Sinh Softplus Softsign Swish "
    "Tan Tanh ThresholdedRelu"
)
SUMS = (
    "ArgMax ArgMin CumProd CumSum Det Einsum Gemm MatMul MatMulInteger Mean ReduceL1 ReduceL2 "
    "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare Sum"
)
WITHOUT_TENSORS = f"{SEQUENCES} {STRINGS} {BODIES}"

REASONS: dict[str, dict[str, str]] = {
    "formula": {
        "the onnx package infers as much": (
            f"{IMAGES} {INDEXED} {LOSSES} {QUANTIZED} {RANDOM} {SEQUENCES} {STRINGS} {WINDOWS} "
            "ArgMax ArgMin BitCast Det EyeLike PRelu"
        ),
    },
    "kernel": {
        "the last bit depends on the kernel of onnxruntime": (
            f"{ATTENTION} {LOSSES} {NORMALIZATIONS} {QUANTIZED} {RECURRENT} {ROUNDING} {SIGNALS} "
            f"{SOFTMAX} {SUMS} {WINDOWS}"
        ),
        "onnxruntime computes it, which is rarely needed": (
            f"{CREATED} {IMAGES} {INDEXED} {WITHOUT_TENSORS} BitCast BitShift BitwiseAnd "
            "BitwiseNot BitwiseOr BitwiseXor Clip Flatten IsInf IsNaN Max Min Mod Pad Relu "
            "ReverseSequence Round Tile"
        ),
        "the result is not the same twice": RANDOM,
    },
    "axes": {
        "the operands have certain axes, in a fixed order": (
            f"{ATTENTION} {IMAGES} {LOSSES} {NORMALIZATIONS} {RECURRENT} {SIGNALS} {WINDOWS} "
            "Det Einsum QLinearConv"
        ),
        "the result has other axes than the operands": f"{CREATED} {INDEXED} {RANDOM}",
        "operands and results are not tensors of numbers": WITHOUT_TENSORS,
        "no rewrite follows axes through it": (
            "BitCast CumProd CumSum DynamicQuantizeLinear Flatten Identity MatMulInteger "
            "QLinearMatMul ReverseSequence"
        ),
    },
    "cost": {
        "heavy, as long as it is not measured": (
            f"{ATTENTION} {IMAGES} {INDEXED} {LOSSES} {NORMALIZATIONS} {QUANTIZED} {RANDOM} "
            f"{RECURRENT} {SIGNALS} {SOFTMAX} {WINDOWS} ArgMax ArgMin BitCast CastLike CumProd "
            "CumSum Det Einsum Expand Flatten MatMulInteger Pad ReverseSequence Tile"
        ),
        "there is no time for each element": f"{CREATED} {WITHOUT_TENSORS}",
    },
    "operations": {
        "counts as elementwise": (
            f"{IMAGES} {INDEXED} {LOSSES} {NORMALIZATIONS} {QUANTIZED} {RANDOM} BitCast CastLike "
            "CumProd Hardmax ReverseSequence RotaryEmbedding SwiGLU TensorScatter"
        ),
        "counts as elementwise, which is too little": (
            f"{ATTENTION} {RECURRENT} {SIGNALS} Col2Im DeformConv Det Einsum GlobalLpPool "
            "MaxRoiPool MaxUnpool QLinearConv QLinearMatMul"
        ),
        "writes no more than its results": f"{SEQUENCES} {STRINGS} EyeLike SequenceMap",
    },
}
"""Why operators lack a facet. A reason may name operators that have it."""
CONTRIB_REASONS: dict[str, dict[str, str]] = {
    "formula": {
        "for training, or for generating text": (
            "BiasDropout BitmaskBiasDropout BitmaskDropout Sampling"
        ),
        "not described yet": (
            "CropAndResize ExpandDims GatedRelativePositionBias GatherND MatMulBnb4 MatMulFpQ4 "
            "PackedAttention PackedMultiHeadAttention Pad Range SparseAttention "
            "SparseToDenseMatMul"
        ),
    },
}
CONTRIB_FACETS = ("formula",)
"""Facets that contrib operators should have; axes and costs are those of standard operators."""


def standard() -> list[str]:
    """The operators of the newest standard set that ``onnx`` knows."""
    schemas = onnx.defs.get_all_schemas()
    return sorted({each.name for each in schemas if not each.domain and not each.deprecated})


def known(domain: str, op_type: str) -> Operator:
    return OPERATORS.get((domain, op_type), Operator())


def missing(domain: str, op_types: list[str], facet: str) -> set[str]:
    return {each for each in op_types if getattr(known(domain, each), facet) is None}


def contrib() -> list[str]:
    return sorted(op_type for domain, op_type in OPERATORS if domain == MICROSOFT)


@pytest.mark.parametrize("facet", FACETS)
def test_each_operator_has_the_facet_or_a_reason(facet: str) -> None:
    lacking = missing("", standard(), facet)
    explained = {op_type for names in REASONS[facet].values() for op_type in names.split()}
    assert lacking - explained == set()


@pytest.mark.parametrize("facet", FACETS)
def test_each_reason_is_needed(facet: str) -> None:
    lacking = missing("", standard(), facet)
    assert all(lacking & set(names.split()) for names in REASONS[facet].values())
    explained = {op_type for names in REASONS[facet].values() for op_type in names.split()}
    assert explained <= set(standard())


@pytest.mark.parametrize("facet", CONTRIB_FACETS)
def test_each_contrib_operator_has_the_facet_or_a_reason(facet: str) -> None:
    explained = {op_type for names in CONTRIB_REASONS[facet].values() for op_type in names.split()}
    assert missing(MICROSOFT, contrib(), facet) == explained


def test_the_table() -> None:
    """Print the facets of each operator."""
    facets = (*FACETS, "body", "kinks", "operand_kinds", "carried")
    lines = [f"{'operator':<40}{'  '.join(facets)}"]
    for domain, op_types in (("", standard()), (MICROSOFT, contrib())):
        for op_type in op_types:
            found = known(domain, op_type)
            cells = (
                ("." if getattr(found, facet) in (None, "", (), {}) else "x").center(len(facet))
                for facet in facets
            )
            traits = ", ".join(sorted(trait.name.lower() for trait in found.traits))
            name = f"{domain}.{op_type}" if domain else op_type
            lines.append(f"{name:<40}{'  '.join(cells)}  {traits}".rstrip())
    sys.stdout.write("\n".join(lines) + "\n")
    assert len(lines) > 250
