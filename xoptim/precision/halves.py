"""Which operators compute in 16 bits: all, but those at which numbers overflow, or where the error
of the outputs begins.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.engine.options import OptimizationOptions
from xoptim.facts.dtypes import tolerance
from xoptim.facts.operators import operator_label, short_name
from xoptim.facts.protos import every_node, own_graphs
from xoptim.graph.sources import Source
from xoptim.match.rounding import MASK, Observed, RangedPattern, RoundingPattern, first_result
from xoptim.optimizing.proof import Proof, ProofOptions
from xoptim.precision.attempts import PrecisionAttempt, allowance, fastest
from xoptim.precision.measuring import Sensitivity, raised, rounding_patterns
from xoptim.precision.metrics import METRICS
from xoptim.precision.options import HALVES, PrecisionOptions
from xoptim.precision.ports import fitting, with_half_ports
from xoptim.precision.products import QuantizableOp, rewritten, round_products
from xoptim.precision.samples import Samples, samples_for
from xoptim.precision.storing import Weights
from xoptim.precision.trial import Trial
from xoptim.precision.values import Probe, Ranges
from xoptim.verification.errors import NothingToQuantizeError
from xoptim.verification.session import Port, Value
from xoptim.verification.session_settings import SessionSettings

_NOTHING: Final = (
    "nothing can be computed in 16 bits: no MatMul, Gemm or Conv of float32 stays within their "
    "range"
)
_INNER: Final = (
    "in 32 bits, as samples do not show the ranges there (--compute float32 stores their weights "
    "in 16 bits)"
)
KERNELS: Final = "cuda"
"""The provider whose kernels the operators must have: processors compute in 32 bits."""


def best_in_halves(
    proof: Proof, options: OptimizationOptions, how: ProofOptions, precision: PrecisionOptions
) -> tuple[Sensitivity, onnx.ModelProto, dict[str, str]]:
    """The operators of an optimized model, and as many of them as the tolerance allows with results
    of 16 bits.

    At first all operators around sums of products do whose numbers stay far from the end of the
    type on the samples. As long as the error is too large, those stay in 32 bits that add most to
    the error of what they read.

    Args:
        proof: the optimized model.
        options: of its optimization.
        how: options of the proof.
        precision: the error allowed.

    Returns:
        The operators; the model with rounded results, computed in 32 bits; and the results with the
        names of the patterns. Where a GPU is at hand and is not faster in 16 bits, nothing is
        rounded.

    Raises:
        NothingToQuantizeError: no operator can compute in 16 bits.
        ChoiceError, RunError, LoadError, FeedError: values do not fit the model, or it does not
            run.
    """
    patterns, folder = rounding_patterns(HALVES), proof.base_dir
    model = raised(proof, max(pattern.min_opset for pattern in patterns))
    how.on_step("looking for values to measure on")
    samples = samples_for(model, folder, precision, how.checks)
    settings = replace(how.checks.settings, level="all")
    how.on_step("measuring the error in 16 bits")
    result, chosen = _candidates(model, folder, patterns, samples, precision, settings)
    if not chosen:
        raise NothingToQuantizeError(result.inner or _NOTHING)
    rounded, applied = _within(result, chosen, allowance(precision, samples), settings)
    if precision.io_types == "float16":
        return result, with_half_ports(rounded), applied
    is_at_hand = any(short_name(provider) == KERNELS for provider in how.checks.providers)
    if precision.goal == "speed" and is_at_hand:
        attempt = PrecisionAttempt(rounded, applied, rounded)
        if not _is_faster(result, attempt, options, settings):
            return result, model, {}
    return result, rounded, applied


def _candidates(
    model: onnx.ModelProto,
    folder: Path | None,
    patterns: Sequence[type[RoundingPattern]],
    samples: Samples,
    precision: PrecisionOptions,
    settings: SessionSettings,
) -> tuple[Sensitivity, set[str]]:
    """The operators that can compute in 16 bits, and the results of those to begin with."""
    _, found = round_products(model, folder, patterns, None, KERNELS)
    ranged = [cls for cls in patterns if issubclass(cls, RangedPattern)]
    work = {op_type for cls in ranged for op_type in cls.operators}
    feeds = [samples.feeds[place] for place in samples.to_choose]
    observed = _observed(model, folder, found, feeds, settings)
    _, found = round_products(model, folder, patterns, None, KERNELS, observed)
    nodes = [node for node in model.graph.node if first_result(node) in found]
    chosen = {*map(first_result, nodes)} if precision.everywhere else region(model, nodes, work)
    products = [
        QuantizableOp(name, node.name, found[name], node.op_type, (0, 0))
        for node in nodes
        if (name := first_result(node))
    ]
    trial = Trial(model, {}, folder, samples, precision.metric, settings)
    trial.finish()  # no choice is tried by switches
    result = Sensitivity(
        model,
        folder,
        patterns,
        products,
        samples,
        observed,
        precision.goal,
        (),
        trial,
        Weights(model, folder, ()),
        inner=inner_work(model, found, work),
    )
    return result, set(chosen)


def _is_faster(
    found: Sensitivity,
    rounded: PrecisionAttempt,
    options: OptimizationOptions,
    settings: SessionSettings,
) -> bool:
    """Whether a rounded model that computes in 16 bits is faster than the float32 model."""
    computed = rewritten(Source(rounded.model, found.folder), replace(options, on_application=None))
    return fastest(found, [replace(rounded, model=computed)], settings) is not None


def inner_work(model: onnx.ModelProto, found: Collection[str], work: Collection[str]) -> str:
    """How many operators of If, Loop and Scan could compute in 16 bits, and why they do not.

    Empty where there are none.

    Args:
        model: the model.
        found: first results of the nodes that could, in all graphs.
        work: the operators that are worth conversions.
    """
    counts = Counter[str]()
    for owner in every_node(model.graph.node):
        nodes = (node for graph in own_graphs(owner) for node in graph.node)
        counts.update(
            f"{node.op_type} in {owner.op_type}"
            for node in nodes
            if first_result(node) in found and operator_label(node.op_type, node.domain) in work
        )
    texts = ", ".join(f"{count} {text}" for text, count in sorted(counts.items()))
    return f"{texts} {_INNER}" if texts else ""


def _within(
    found: Sensitivity, chosen: Collection[str], aim: float, settings: SessionSettings
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """The model with as many of the chosen results rounded as an error allows, and what was
    rounded.
    """

    def rounding(
        products: Iterable[QuantizableOp],
    ) -> tuple[onnx.ModelProto, dict[str, str], float]:
        only = dict(each.form for each in products)
        made, applied = round_products(
            found.model, found.folder, found.patterns, only, KERNELS, found.observed
        )
        return made, applied, found.trial.error_of(made, found.folder)

    candidates = [each for each in found.products if each.result in chosen]
    rounded, applied, error = rounding(candidates)
    if error > aim:
        growth = _growth(found, rounded, settings)
        for each in found.products:
            each.alone = growth[each.result]
    suspects = sorted(candidates, key=lambda each: (-each.alone, each.result))
    count = 1
    while error > aim and applied:
        rounded, applied, error = rounding(suspects[count:])
        count *= 2
    return rounded, applied


def proving_halves(
    how: ProofOptions, model: onnx.ModelProto, precision: PrecisionOptions
) -> ProofOptions:
    """The options of the proof of a model that computes in 16 bits: its tolerance, and values of
    the inputs that it has.

    Where the comparison runs on a processor, this one computes in 32 bits, and rounds at other
    places.
    """
    checks = how.checks
    if checks.rtol is None and checks.ulp is None:
        rtol = max(tolerance(TensorProto.FLOAT16, "rounding").rtol, precision.tolerance)
        checks = replace(checks, rtol=rtol, of_largest=True)
    if precision.io_types == "float16":
        ports = [
            Port(each.name, "tensor(float16)")
            for each in model.graph.input
            if _type(each) == TensorProto.FLOAT16
        ]
        checks = replace(checks, feeds=fitting(checks.feeds, ports), test_data=None)
    return replace(how, checks=checks)


def _type(value: onnx.ValueInfoProto) -> int:
    return value.type.tensor_type.elem_type


def region(
    model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto], work: Collection[str]
) -> set[str]:
    """The first results of the nodes to compute in 16 bits: sums of products, and what lies after
    or before them.

    Args:
        model: the model.
        nodes: those that can, in order.
        work: their operators that are worth conversions, others only where they save some.
    """
    able = {first_result(node): node for node in nodes}
    makers = {name: result for result, node in able.items() for name in node.output if name}
    readers: dict[str, list[str]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(makers.get(name, ""), []).append(first_result(node))
    outside = {makers.get(value.name, "") for value in model.graph.output}
    joined = {
        result for result, node in able.items() if operator_label(node.op_type, node.domain) in work
    }
    waiting = list(joined)
    while waiting:
        result = waiting.pop()
        before = {makers[name] for name in able[result].input if name in makers} - outside
        further = {each for each in before if joined.issuperset(readers[each])}
        further |= {each for each in readers.get(result, ()) if each in able}
        waiting += sorted(further - joined)
        joined |= further
    return joined


def _observed(
    model: onnx.ModelProto,
    folder: Path | None,
    found: Collection[str],
    feeds: Sequence[Mapping[str, Value]],
    settings: SessionSettings,
) -> Observed:
    """The ranges of numbers that operators read and give, without those that mean infinity."""
    nodes = [node for node in model.graph.node if first_result(node) in found]
    made = {name for node in model.graph.node for name in node.output if name}
    names = {name for node in nodes for name in (*node.input, *node.output)}
    probe, ranges = Probe(model, folder, names & made, settings), Ranges("minmax")
    for each in feeds:
        values = {
            name: value
            for name, value in probe.run(each).items()
            if name in names and isinstance(value, np.ndarray)
        }
        ranges.add(
            {
                name: value[np.abs(value) < MASK]
                for name, value in values.items()
                if value.dtype == np.float32
            }
        )
    return Observed(ranges.found())


def _growth(
    found: Sensitivity, rounded: onnx.ModelProto, settings: SessionSettings
) -> dict[str, float]:
    """For each operator, how much larger the error of its result is than the largest one of what it
    reads.
    """
    results = {each.result for each in found.products}
    nodes = {
        result: node for node in found.model.graph.node if (result := first_result(node)) in results
    }
    made = {name for node in found.model.graph.node for name in node.output if name}
    names = {name for result, node in nodes.items() for name in (*node.input, result)} & made
    feeds = found.samples.feeds[0]
    plain, halves = (
        Probe(each, found.folder, names, settings).run(feeds) for each in (found.model, rounded)
    )
    errors = {name: _error(plain[name], halves[name]) for name in names}

    def growth(result: str, node: onnx.NodeProto) -> float:
        given = max((errors.get(name, 0.0) for name in node.input), default=0.0)
        return 0.0 if math.isinf(given) else errors[result] - given

    return {result: growth(result, node) for result, node in nodes.items()}


def _error(expected: Value, actual: Value) -> float:
    if (
        not isinstance(expected, np.ndarray)
        or not isinstance(actual, np.ndarray)
        or expected.dtype != np.float32
    ):
        return 0.0
    if expected.shape != actual.shape:
        return math.inf
    finite = np.isfinite(expected)
    if not np.isfinite(actual[finite]).all():
        return math.inf
    if not finite.any():
        return 0.0
    return METRICS["rms"](expected[finite].astype(np.float64), actual[finite].astype(np.float64))
