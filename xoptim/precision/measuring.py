"""The error that fewer bits add, and the time that they save, for each product of a model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import onnx

from xoptim.catalogue.selection import Selection, resolve, select
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.rewrite import Rewrite
from xoptim.match.rounding import (
    FEWEST_STORED,
    Observed,
    RangedPattern,
    RoundingPattern,
    ScalingPattern,
    StoringPattern,
)
from xoptim.optimizing.proof import Proof, ProofOptions, assuming
from xoptim.precision.options import SCHEMES, Goal, PrecisionOptions, Scheme
from xoptim.precision.preparing import Preparation
from xoptim.precision.products import QuantizableOp, find_products, rewritten, with_followers
from xoptim.precision.samples import Samples, samples_for
from xoptim.precision.storing import Weights
from xoptim.precision.times import measure_products
from xoptim.precision.trial import Trial
from xoptim.precision.values import calibrated
from xoptim.preparation.ports import names_apart
from xoptim.verification.errors import ChoiceError, NothingToQuantizeError
from xoptim.verification.session_settings import SessionSettings

_OF_PRODUCTS: Final = 4
"""Bits of the weights that products of floats read."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The products of a model that can be rounded.

    Attributes:
        model: the model, in an operator set that has what fewer bits need.
        folder: of its external data.
        patterns: that round operands.
        products: with the error that each adds alone, and its times.
        samples: what errors were measured on.
        observed: what the samples that serve to choose tell of tensors; nothing on random ones.
        goal: what is saved: ``size`` where the scheme saves no time.
        prepared: the proofs of the scales that were moved in the optimized model.
        trial: the session in which choices of products are tried.
        weights: the large constants.
        stored: the forms in which they can be stored, with everything computed in float32; for the
            goal ``size`` with errors.
        inner: which operators of subgraphs stay as they are, and why.
    """

    model: onnx.ModelProto
    folder: Path | None
    patterns: Sequence[type[RoundingPattern]]
    products: Sequence[QuantizableOp]
    samples: Samples
    observed: Observed
    goal: Goal
    prepared: Sequence[Proof]
    trial: Trial
    weights: Weights
    stored: Sequence[QuantizableOp] = ()
    inner: str = ""


def sensitivity(
    proof: Proof, options: OptimizationOptions, how: ProofOptions, precision: PrecisionOptions
) -> Sensitivity:
    """Measure each product of an optimized model with fewer bits: the error that it adds alone, and
    its time.

    Args:
        proof: the optimized model.
        options: of its optimization.
        how: options of the proof.
        precision: the scheme, and the values to measure on.

    Raises:
        ChoiceError: values do not fit the model, or it has no product that can be rounded.
        RunError, LoadError, FeedError: the model does not run.
    """
    how = replace(how, checks=assuming(how.checks, options))
    folder = proof.base_dir
    patterns, storing, goal = _patterns_of(precision, options)
    model = raised(proof, max(pattern.min_opset for pattern in (*patterns, *storing)))
    how.on_step("looking for values to measure on")
    samples = samples_for(model, folder, precision, how.checks)
    # onnxruntime optimizes as it does for a user
    settings = replace(how.checks.settings, level="all")
    how.on_step("looking for scales with a smaller error")
    everything = [*patterns, *computing_patterns(precision)]
    observe = partial(_observed, samples=samples, precision=precision, settings=settings)
    preparation = Preparation(everything, options.provider, samples, how, settings, observe)
    scaling = [] if precision.weights_only else scaling_patterns(precision.scheme)
    ready = preparation.prepare(model, folder, scaling)
    model, folder = ready.model, ready.folder
    products, parts = find_products(model, folder, everything, options.provider, ready.observed)
    weights = Weights(model, folder, storing)
    stored = weights.products(products)
    if all(each.reads for each in (*products, *stored)):
        raise NothingToQuantizeError(_nothing(model, precision.scheme, samples, patterns))
    how.on_step("measuring quantized operators")
    measure_products(model, folder, products, parts, samples.to_time, settings)
    how.on_step("measuring the error of each operator")
    trial = Trial(model, parts, folder, samples, precision.metric, settings, weights, stored)
    measure_errors(trial, [*products, *stored] if goal == "size" else products, samples)
    observed, proofs = ready.observed, ready.proofs
    found = (model, folder, patterns, products, samples, observed, goal, proofs, trial, weights)
    return Sensitivity(*found, stored)


def _patterns_of(
    precision: PrecisionOptions, options: OptimizationOptions
) -> tuple[list[type[RoundingPattern]], list[type[StoringPattern]], Goal]:
    """The patterns that round operands, those that store constants, and what they are to save."""
    patterns = rounding_patterns(precision.scheme, options.patterns)
    storing = storing_patterns(precision.scheme)
    goal = precision.goal if precision.scheme in schemes_that_save_time() else "size"
    if precision.weights_only:
        patterns = [cls for cls in patterns if not cls.rounds_activations]
        # What is stored alone is widened when the model is loaded; products that read 4 bits are a
        # form of their own.
        storing = [cls for cls in storing if cls.bits != _OF_PRODUCTS]
        goal = "size"  # the processor here does not tell how long a product takes there
    if all(pattern().unfit_for(None, options.provider) for pattern in (*patterns, *storing)):
        raise ChoiceError(
            f"{precision.scheme} is for the provider cpu; float16 is for {options.provider} too"
        )
    return patterns, storing, goal


def measure_errors(trial: Trial, products: Sequence[QuantizableOp], samples: Samples) -> None:
    """Note the error that each product adds alone, together with those that share its weights."""
    sharing = [each for each in products if not each.reads]
    for each in sharing:
        each.alone = trial.error(with_followers([each], sharing), samples.to_choose)


def rounding_patterns(scheme: str, selection: Selection = None) -> list[type[RoundingPattern]]:
    """The patterns that round operands.

    Those that write operators of a domain only where patterns of the selection do so.
    """
    given = {domain for each in select(selection) for domain in each.produces}
    found = [
        cls
        for cls in resolve(scheme)
        if issubclass(cls, RoundingPattern) and given.issuperset(cls.produces)
    ]
    return [cls for cls in found if not issubclass(cls, StoringPattern)]


def storing_patterns(scheme: str) -> list[type[StoringPattern]]:
    """The patterns that store constants; what errs too much in integers is stored in 16 bits."""
    schemes = (scheme,) if scheme in ("float16", "bfloat16") else (scheme, "float16")
    return [cls for each in schemes for cls in resolve(each) if issubclass(cls, StoringPattern)]


def schemes_that_save_time() -> tuple[Scheme, ...]:
    """The schemes that are worth their error where they are faster."""
    return tuple(scheme for scheme in SCHEMES if rounding_patterns(scheme))


def integer_patterns(scheme: str) -> list[type[Rewrite]]:
    """The patterns that compute with rounded operands."""
    return [
        cls for cls in resolve(scheme) if not issubclass(cls, (RoundingPattern, ScalingPattern))
    ]


def computing_patterns(precision: PrecisionOptions) -> list[type[Rewrite]]:
    """The patterns that compute with rounded operands, none where activations stay in floats."""
    return [] if precision.weights_only else integer_patterns(precision.scheme)


def scaling_patterns(scheme: Scheme) -> list[type[ScalingPattern]]:
    """The patterns that move scales of channels before anything is rounded."""
    return [cls for cls in resolve(scheme) if issubclass(cls, ScalingPattern)]


def _observed(
    model: onnx.ModelProto,
    folder: Path | None,
    samples: Samples,
    precision: PrecisionOptions,
    settings: SessionSettings,
) -> Observed:
    """The facts about tensors that patterns of the scheme need, which random samples do not
    tell.
    """
    ranged = [cls for cls in rounding_patterns(precision.scheme) if issubclass(cls, RangedPattern)]
    present = {node.op_type for node in model.graph.node}
    op_types = {op_type for cls in ranged for op_type in cls.anchors if present & {*cls.operators}}
    scaled = {
        op_type.rpartition("::")[2]
        for cls in scaling_patterns(precision.scheme)
        for op_type in cls.anchors
    }
    if samples.are_random or not (op_types or present & scaled):
        return Observed()
    feeds = [samples.feeds[place] for place in samples.to_choose]
    return calibrated(model, folder, op_types, feeds, precision.calibration, settings)


def _nothing(
    model: onnx.ModelProto,
    scheme: Scheme,
    samples: Samples,
    patterns: Sequence[type[RoundingPattern]],
) -> str:
    """The reason why nothing can be quantized."""
    others = [
        cls
        for cls in resolve(scheme)
        if issubclass(cls, RoundingPattern) and cls.produces and cls not in patterns
    ]
    found = sorted(
        {op_type for cls in others for op_type in cls.anchors or ()}
        & {node.op_type for node in model.graph.node}
    )
    if found:
        return (
            f"{' and '.join(found)} can be quantized to {scheme} by operators of onnxruntime only: "
            "--include onnxruntime"
        )
    if (
        scheme == "int8"
        and samples.are_random
        and any(node.op_type == "Conv" for node in model.graph.node)
    ):
        return (
            "Conv is quantized to int8 by the ranges of what it reads: give samples with --feeds "
            "FILE.npz or a folder"
        )
    if model.functions:
        return f"nothing can be quantized to {scheme}: local functions stay, without --inline"
    return (
        f"nothing can be quantized to {scheme}: no operator has constant float32 weights "
        f"of {FEWEST_STORED} numbers or more (weights of a quantized model are integers already)"
    )


def raised(proof: Proof, least: int) -> onnx.ModelProto:
    """A copy of the optimized model, in an operator set that has what fewer bits need, where each
    value has its own name.
    """
    if proof.builder.model.opsets.get("", 0) >= least:
        model = onnx.ModelProto()
        model.CopyFrom(proof.proto)
    else:
        only = OptimizationOptions(patterns=None, opset=least, constant_folding=False, merge=False)
        model = rewritten(Source(proof.proto, proof.base_dir), only)
    names_apart(model)
    return model
