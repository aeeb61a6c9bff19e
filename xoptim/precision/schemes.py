"""The patterns of each scheme, by task: quantize operands, store constants, or compute."""

from typing import Final

from xoptim.catalogue.selection import Selection, resolve, select
from xoptim.match.quantization import (
    BlockScalingPattern,
    QuantizationPattern,
    RangedPattern,
    ScalingPattern,
    StoringPattern,
)
from xoptim.match.rewrite import Rewrite
from xoptim.precision.options import SCHEMES, PrecisionOptions, Scheme

_STATIC: Final = "static"
"""The tag of the patterns with static scales of activations."""

_BLOCKS: Final = "blocks"
"""The tag of the patterns that quantize weights for operators that compute in float16."""


def quantization_patterns(
    scheme: str, selection: Selection = None
) -> list[type[QuantizationPattern]]:
    """The patterns that quantize operands.

    A pattern that writes operators of a domain, such as com.microsoft, is skipped unless a pattern
    of the selection writes operators of that domain.
    """
    domains = {domain for pattern in select(selection) for domain in pattern.produces}
    patterns = [
        cls
        for cls in resolve(scheme)
        if issubclass(cls, QuantizationPattern) and domains.issuperset(cls.produces)
    ]
    return [cls for cls in patterns if not issubclass(cls, StoringPattern)]


def operand_patterns(
    precision: PrecisionOptions, selection: Selection = None
) -> list[type[QuantizationPattern]]:
    """The patterns that quantize operands, as the options ask for them.

    Patterns with static scales replace patterns that compute scales in each run.
    """
    patterns = quantization_patterns(precision.scheme, selection)
    weight_only = [cls for cls in patterns if not cls.quantizes_activations]
    if precision.weights_only:
        block_patterns = quantization_patterns(_BLOCKS) if precision.is_weight_only_float16 else []
        return [*block_patterns, *weight_only]
    if not precision.static:
        return patterns
    kept = [cls for cls in patterns if issubclass(cls, RangedPattern) or cls in weight_only]
    return [*quantization_patterns(_STATIC), *kept]


def storing_patterns(scheme: str) -> list[type[StoringPattern]]:
    """The patterns that store constants: in the scheme's type, or in float16 for less error."""
    schemes = (scheme,) if scheme in ("float16", "bfloat16") else (scheme, "float16")
    return [cls for name in schemes for cls in resolve(name) if issubclass(cls, StoringPattern)]


def schemes_that_save_time() -> tuple[Scheme, ...]:
    """The schemes with patterns that quantize operands, and so make operators faster."""
    return tuple(scheme for scheme in SCHEMES if quantization_patterns(scheme))


def integer_patterns(scheme: str) -> list[type[Rewrite]]:
    """The patterns that compute with quantized operands."""
    return [
        cls for cls in resolve(scheme) if not issubclass(cls, (QuantizationPattern, ScalingPattern))
    ]


def computing_patterns(precision: PrecisionOptions) -> list[type[Rewrite]]:
    """The patterns that compute with quantized operands.

    Empty if activations stay in float32, or have static scales: the runtime of the target then
    reads QDQ.
    """
    return [] if precision.weights_only or precision.static else integer_patterns(precision.scheme)


def scaling_patterns(scheme: Scheme) -> list[type[ScalingPattern]]:
    """The patterns that move scales of channels before activations are quantized."""
    scalings = [cls for cls in resolve(scheme) if issubclass(cls, ScalingPattern)]
    return [cls for cls in scalings if not issubclass(cls, BlockScalingPattern)]


def block_scaling_patterns(scheme: Scheme) -> list[type[BlockScalingPattern]]:
    """The patterns that move scales of channels before weights are quantized in blocks."""
    return [cls for cls in resolve(scheme) if issubclass(cls, BlockScalingPattern)]
