# fmt: off
"""The weakest grade of the examples of each built-in pattern; written by `lab.pattern_grades`."""

from collections.abc import Mapping
from typing import Final

from xoptim.proof.grades import Grade

_NAMES: Final[Mapping[Grade, str]] = {
    "same bits": """
        Cast CastCast CastLike CastMovementCast ConcatConcat ConcatEmpty ConcatGather ConcatOne
        ConcatSlice ConcatSplit ConstantOfShapeCast DepthToSpace DequantizeLinearGather
        EqualAxisBroadcast EqualAxisElementwise ExpandElementwise ExpandExpand ExtractorExtractor
        ExtractorsConcat FlattenReshape GatherContiguous GatherElements GatherGather GatherNDBatch
        GatherNDRows GatherSqueeze GatherUnsqueeze GatherVectorSqueeze GathersConcat GathersSplit
        IdentityClip IdentityExtractor IdentityFlatten IdentityGather IdentityPad IdentityResize
        IdentitySlice IdentitySqueeze IdentityTile IdentityTranspose IfCommon IfConstant
        LoopInvariant LoopNever LoopOnce LoopState LoopUnroll LowerAbs LowerAnd
        LowerArrayFeatureExtractor LowerBitShift LowerBooleanMovement LowerCastToBool LowerCompress
        LowerContribPad LowerDepthToSpace LowerExpandDims LowerEyeLike LowerFlatten LowerIntegerMax
        LowerIntegerMin LowerIsNaN LowerMatMulInteger16 LowerMovedCast LowerNhwcMaxPool LowerNot
        LowerOr LowerPad LowerResize LowerScatterElements LowerScatterND LowerShapeSource LowerSize
        LowerSizesWithOnes LowerSpaceToDepth LowerSplit LowerSqueeze LowerTile LowerUnsqueeze
        LowerUpsample LowerXor MovementChain MovementsElementwise NearestResize NearestResizeResize
        NeutralAnd NeutralOr NotCompare NotNot PadSlice RangeGather RecurrentZeroState Reshape
        ReshapeAllowzero ReshapeFlatten ReshapeReshape ReshapeSplitSqueeze ReshapeSqueeze ResizeAxes
        ScanOnce ScatterElementsPosition ScattersConcat SequenceConstructAt SequenceConstructConcat
        ShapeBasedExpand ShapeBasedExpandBroadcast ShapeBasedExpandSwap ShapeBasedReshape
        ShapeBasedSliceEnd ShapeConcat ShapeResize ShapeUnary ShapeVector SliceGather SliceSlice
        SlicesConcat SlicesSplit SpaceToDepth SplitConcat SplitOne SplitToSequenceSequenceAt
        SqueezeSqueeze SqueezeUnsqueeze StridedSlicesConcat StridedSlicesSpaceToDepth
        TransposeGather TransposeRegion TransposeReshape TransposeTranspose UniformBroadcast
        UnsqueezeBroadcast UnsqueezeElementwiseUnsqueeze UnsqueezeExpandReshape UnsqueezeGather
        UnsqueezeGatherReshape UnsqueezeOrSqueezeReshape UnsqueezeSqueeze UnsqueezeUnsqueeze
        VectorMovements
    """,
    "over real numbers": """
        AbsNeg AddAdd AddAttention AddMatMulSoftmax AttentionHeads AttentionToMultiHead BatchHeads
        BatchRegion BooleanArithmetic CastFusedMatMul ChannelLayerNormalization ClipClip ClipRelu
        ConcatAttention ConstantOfShapeCumSum ConstantWhere ContribDequantizeLinearQuantizeLinear
        ConvBiasNull ConvSelection ConvSlice ConvStrides DepthwiseConvPosition
        DequantizeLinearIntegerMatMul DequantizeLinearSplit DequantizeLinearToStandard
        DynamicQuantizeMatMul EinsumDense EinsumMatMul EinsumMul EinsumTranspose EluExp EluMul
        ExpandNormalization ExpandPositional ExpandPositionalSwap FastGelu Float16Compute
        Float16DequantizeLinear Float16Function Float16TransposeMatMul ForkMovements FusedGemm
        FusedMatMul FusedMatMulDiv FusedMatMulTranspose GatherAttention GatherSliceRegion
        GathersElementwise GemmAdd GemmMul GemmTranspose GemmZeroBias Idempotent IdentityReduce
        InstanceNormalization LayerNormalization LayerNormalizationOrt LayerNormalizationRow
        LeakyRelu LogSoftmaxExp LowerArgMin LowerAutoPadAveragePool LowerAutoPadConv
        LowerAutoPadMaxPool LowerAveragePool LowerBiasGelu LowerCDist LowerCeil LowerCelu
        LowerChannelLayerNormalization LowerContribQLinearConv LowerConvTranspose LowerCumSum
        LowerDynamicQuantizeMatMul LowerEinsum LowerEinsumMany LowerEinsumOne LowerElu
        LowerEmbedLayerNormalization LowerExpand LowerFusedConv LowerFusedGemm LowerFusedMatMul
        LowerGatedAdd LowerGatedRMSNorm LowerGatherBlockQuantized LowerGatherBlockQuantizedAxes
        LowerGlobalAveragePool LowerGlobalMaxPool LowerHardSigmoid LowerInstanceNormalizationRank
        LowerIsInf LowerIsNaNWhere LowerKeepdims LowerLRN LowerLayerNormalizationScale
        LowerLogSoftmax LowerLpNormalization LowerMRotaryEmbedding LowerMatMulInteger
        LowerMatMulIntegerToFloat LowerMax LowerMean LowerMin LowerOneHot LowerPRelu LowerQLinearAdd
        LowerQLinearAveragePool LowerQLinearConcat LowerQLinearGlobalAveragePool
        LowerQLinearLeakyRelu LowerQLinearMul LowerQLinearSigmoid LowerQLinearSoftmax
        LowerQLinearWhere LowerQuickGelu LowerReduceL1 LowerReduceL2 LowerReduceLogSum
        LowerReduceLogSumExp LowerReduceMean LowerReduceMin LowerReduceSumSquare LowerRound
        LowerRowAveragePool LowerRowConv LowerRowConvTranspose LowerScaledSiLU LowerSelu LowerShrink
        LowerSign LowerSkipLayerNormalization LowerSkipSimplifiedLayerNormalization LowerSoftmax
        LowerSoftplus LowerSoftsign LowerSum LowerSwish LowerThresholdedRelu LowerToDefinition
        MatMulAdd MatMulConcat MatMulGroupQueryAttention MatMulIntegerToFloat MatMulNBits
        MatMulNBitsAdd MatMulSplit MaxConstants MaxMax MaxMin MaxRelu MulFusedMatMul MulGemm
        MulMinusOne MulMul MulMulMatMul MultiHeadAttention NegAdd NegNeg NegSub NeutralAdd
        NeutralDiv NeutralMul NeutralPow NeutralSub NormalizationHeads NotWhere PRelu
        PackedAttention PadAveragePool PadConv PadsAdd PowHalf PowTwo QLinear QLinearElement
        QLinearPowerOfTwo QuantizeLinearToStandard QuickGelu RMSNormalizationToSimplified
        ReciprocalDiv ReciprocalMul ReduceMaxSubSoftmax ReduceReduce ReduceReshape ReluClip
        ReluNegRelu ReluQuantizeLinear RepeatedHeads ReshapeMatMulReshape RootMeanSquare
        RotaryEmbedding RotaryEmbeddingHeads RotaryEmbeddingPart ScanInput SelectionConv
        ShapeBasedExpandBroadcastMatMul SigmoidExp SimplifiedToRMSNormalization
        SkipLayerNormalization SkipSimplifiedLayerNormalization SlicesUnsqueeze SoftmaxExp
        SoftmaxLog SoftmaxReshape SoftsignAbs StackReduce SubNeg SumLayerNormalization
        ThresholdedRelu TransposeFusedMatMulB TransposeGemm TransposeMatMul TransposeMatMulReshape
        TransposeMatMulVector TransposeReduce TransposeRegionSum TriluMul VariadicOne WhereWhere
    """,
    "over real numbers, constants folded": """
        ActivationAwareNormalization AddAttentionMatMul AddSoftmaxMatMul AveragePoolConv
        BatchNormalization BatchNormalizationAdd BatchNormalizationMul BiasGelu
        CastLayerNormalizationCast CastRMSNormalizationCast CastSimplifiedLayerNormalizationCast
        ConvAdd ConvBatchNormalization ConvConcat ConvConvAdd ConvMul ConvWinograd
        DequantizeLinearConv DequantizeLinearGemm DequantizeLinearMatMul DequantizeLinearTranspose
        Gelu GeluErf GeluOrt GeluToContrib GeluToStandard GemmBatchNormalization GemmBiasAdd
        GroupQueryAttention HardSigmoid HardSigmoidMul HardSwish Int4MatMulNBits Int4Weights
        Int8Blocks LRNConv LatentKeys LatentValues LayerNormalizationBias LayerNormalizationScale
        LowerBatchNormalization LowerFastGelu LowerGelu LowerHardSwish LowerLayerNormalization
        LowerMatMulBnb4 LowerMatMulNBits LowerRMSNormalization LowerTrilu MatMulAddMul
        MatMulMatMulAdd MatMulMul MatMulReshapeBatchNormalization MulAddConv MulAddMul MulMatMul
        RMSNormalization RMSNormalizationMul RegressorAdd RegressorMul ReshapeGemmReshape ScalerGemm
        ScalerLinear SharedConvBatchNormalization SimplifiedLayerNormalization
        SimplifiedLayerNormalizationMul SinkGroupQueryAttention SmoothedNormalization
        TanhGroupQueryAttention
    """,
}
PATTERN_GRADES: Final[Mapping[str, Grade]] = {
    name: grade for grade, names in _NAMES.items() for name in names.split()
}
"""The grade of each pattern, by name, without patterns of the grade ``only run``."""
