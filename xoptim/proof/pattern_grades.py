# fmt: off
"""The weakest grade of the examples of each built-in pattern; written by `lab.pattern_grades`."""

from collections.abc import Mapping
from typing import Final

from xoptim.proof.grades import Grade

_NAMES: Final[Mapping[Grade, str]] = {
    "same bits": """
        Cast CastLike CastMovementCast ConcatConcat ConcatGather ConcatOne ConcatSlice ConcatSplit
        ConstantOfShapeCast DepthToSpace EqualAxisBroadcast EqualAxisElementwise Expand
        ExpandElementwise ExpandExpand FlattenReshape GatherContiguous GatherGather GatherNDBatch
        GatherNDRows GatherSqueeze GatherUnsqueeze GatherVectorSqueeze GathersSplit IdentityFlatten
        IdentityGather IdentitySlice IdentitySqueeze IdentityTile IdentityTranspose LowerAnd
        LowerBooleanMovement LowerDepthToSpace LowerFlatten LowerMovedCast LowerNot LowerShapeSource
        LowerSize LowerSizesWithOnes LowerSpaceToDepth LowerSplit LowerSqueeze LowerTile
        LowerUnsqueeze MovementChain MovementsElementwise NeutralAnd NeutralOr NotNot Reshape
        ReshapeAllowzero ReshapeFlatten ReshapeReshape ReshapeSplitSqueeze ReshapeSqueeze
        ShapeBasedExpand ShapeBasedExpandBroadcast ShapeBasedExpandSwap ShapeBasedSliceEnd
        ShapeConcat ShapeUnary ShapeVector SliceGather SliceSlice SlicesConcat SlicesSplit
        SpaceToDepth SplitConcat SplitOne SqueezeSqueeze SqueezeUnsqueeze StridedSlicesConcat
        TransposeGather TransposeRegion TransposeReshape TransposeTranspose UnsqueezeBroadcast
        UnsqueezeElementwiseUnsqueeze UnsqueezeExpandReshape UnsqueezeGatherReshape
        UnsqueezeOrSqueezeReshape UnsqueezeSqueeze UnsqueezeUnsqueeze
    """,
    "over real numbers": """
        AddAdd AddAttention AddMatMulSoftmax BatchHeads BatchRegion ClipRelu ConstantWhere
        ConvBiasNull ConvSlice DepthwiseConvPosition EinsumDense EinsumMatMul EinsumMul
        EinsumTranspose EluMul ExpandNormalization ExpandPositional ExpandPositionalSwap
        Float16TransposeMatMul ForkMovements FusedMatMul FusedMatMulDiv FusedMatMulTranspose
        GatherAttention GatherSliceRegion GathersElementwise GemmAdd GemmMul GemmTranspose
        GemmZeroBias IdentityReduce InstanceNormalization LayerNormalization LayerNormalizationOrt
        LayerNormalizationRow LogSoftmaxExp LowerExpand LowerGlobalAveragePool LowerHardSigmoid
        LowerInstanceNormalizationRank LowerKeepdims LowerLayerNormalizationScale LowerMax
        LowerPRelu LowerReduceLogSum LowerReduceSumSquare LowerRowConv LowerShrink
        LowerSkipLayerNormalization LowerSkipSimplifiedLayerNormalization LowerSoftsign
        LowerThresholdedRelu MatMulAdd MaxMin MulAttention MulFusedMatMul MulMinusOne MulMul
        MulMulMatMul NegAdd NegNeg NegSub NeutralAdd NeutralDiv NeutralMul NeutralPow NeutralSub
        NormalizationHeads NotWhere PadsAdd PowHalf PowTwo RMSNormalizationToSimplified
        ReciprocalDiv ReciprocalMul ReduceReduce ReluClip ReshapeMatMulReshape RotaryEmbedding
        RotaryEmbeddingHeads RotaryEmbeddingPart ShapeBasedExpandBroadcastMatMul SigmoidExp
        SimplifiedToRMSNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization
        SlicesUnsqueeze SoftmaxExp SoftmaxReshape SoftsignAbs StackReduce SubNeg ThresholdedRelu
        TransposeFusedMatMulB TransposeGemm TransposeMatMul TransposeMatMulReshape
        TransposeMatMulVector TransposeReduce TransposeRegionSum VariadicOne WhereWhere
    """,
    "over real numbers, constants folded": """
        ActivationAwareNormalization AddSoftmaxMatMul BatchNormalization BatchNormalizationAdd
        BatchNormalizationMul ConvConcat Gelu GeluErf GemmBatchNormalization GemmBiasAdd
        HardSigmoidMul LatentKeys LatentValues LayerNormalizationBias LayerNormalizationScale
        LowerBatchNormalization MatMulAddMul MatMulConcat MatMulMul MatMulReshapeBatchNormalization
        MatMulSplit MulAddConv MulAddMul MulMatMul RMSNormalization RMSNormalizationMul
        ReshapeGemmReshape SimplifiedLayerNormalization SimplifiedLayerNormalizationMul
        SmoothedNormalization UniformBroadcast
    """,
}
PATTERN_GRADES: Final[Mapping[str, Grade]] = {
    name: grade for grade, names in _NAMES.items() for name in names.split()
}
"""The grades by the names of patterns; without those that are only run."""
