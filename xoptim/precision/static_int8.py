"""Static quantization to int8: ranges that samples determine, and QDQ around all operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper

from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.quantization import MASK, Range
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import VerifiedModel, as_it_is
from xoptim.precision.budget import SearchBudget
from xoptim.precision.calibration import Probe, Ranges
from xoptim.precision.fake_quantization import rewritten
from xoptim.precision.metrics import METRICS
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.preprocessing import with_least_opset
from xoptim.precision.quantize import joined, with_routing
from xoptim.precision.quantize_static import MARGIN, WIDE, WIDTHS, quantize_static, weights_of
from xoptim.precision.quantized import Quantized
from xoptim.precision.record import record
from xoptim.precision.reference import Errors, FloatReference, SliceError, largest_errors
from xoptim.precision.samples import Samples, samples_for, samples_to_search
from xoptim.precision.stack_traces import remove_stack_traces
from xoptim.preparation.ports import names_apart
from xoptim.targets.fitting import name_nodes
from xoptim.verification.errors import ChoiceError, LoadError, NothingToQuantizeError, RunError
from xoptim.verification.runs.protos import tensor_array
from xoptim.verification.runs.session import Value
from xoptim.verification.runs.session_settings import SessionSettings

OPSET: Final = 21
"""The first operator set with QDQ of 16 bits."""
FALLBACKS: Final[Mapping[int, Sequence[tuple[Sequence[int], float]]]] = {
    8: (((16,), 1.0), ((16,), 0.5)),
    16: (((16,), 0.5),),
}
"""The attempts to make if a target computes a quantized model wrongly, by the bits of its results:
pairs of the ``widths`` and the ``share`` of `static_int8`.
"""
_MAX_ROUNDS: Final = 6
"""Maximum number of rounds in which weights are split."""
_FURTHER_DRAWS: Final = 2
"""Number of further draws of random samples."""
_SEED_STEP: Final = 1000
"""The distance of the seeds of two draws: each run of a draw takes the next seed."""
_SMALL_MARGIN: Final = 1.2
"""The factor to try before `MARGIN` if the target adds an error that grows with the ranges."""
_BOUNDED: Final = ("Softmax", "Sigmoid", "LpNormalization")
"""Operators for whose results QNN fixes the range."""
_MASKING: Final = ("Add", "Mul", "Sub", "Where")
_MASKED: Final = 100.0
"""The number in place of infinity in masks: its Softmax is still 0, and 16-bit steps stay small."""
_LARGE_BYTES: Final = 2**31
_TOO_LARGE: Final = "static int8 quantization is limited to models with less than 2 GB of weights"


@dataclass(frozen=True, slots=True)
class _StaticConfig:
    """The settings with which a model is quantized.

    Attributes:
        bits: of the results of operators.
        split: names of the MatMuls and convolutions whose weights are the sum of two constants.
        margin: factor by which ranges exceed those of samples.
    """

    bits: int
    split: frozenset[str]
    margin: float


@dataclass(frozen=True, slots=True)
class _StaticAttempt:
    """A quantized model and its errors.

    Attributes:
        errors: the errors on each sample.
        error: the error that values like the samples rarely exceed.
    """

    model: onnx.ModelProto
    config: _StaticConfig
    errors: Sequence[Errors]
    error: float


def static_int8(
    verified: VerifiedModel,
    options: OptimizationOptions,
    how: Plan,
    precision: PrecisionOptions,
    widths: Sequence[int] = WIDTHS,
    share: float = 1.0,
) -> Quantized:
    """The optimized model with integers from its inputs to its outputs, as NPU compilers take it.

    Weights have 8 bits, in convolutions with one scale per channel. Results have 8 bits, or 16 bits
    if 8 exceed the tolerance. If 16 bits exceed it as well, the weights that add most to the error
    are split into a sum of two 8-bit constants: onnxruntime quantizes float32 weights between Q and
    DQ to 8 bits, and QNN takes no other weights.

    Args:
        verified: the optimized model.
        options: of its optimization.
        how: options of the verification.
        precision: the error allowed, and the values that determine the ranges.
        widths: bits of results to try, in order.
        share: part of the tolerance that the result may use on this machine; the target adds an
            error of its own.

    Raises:
        ChoiceError: values do not fit the model.
        RunError, LoadError, FeedError: the model does not run.
    """
    if precision.exact_routing:
        raise ChoiceError(f"exact routing computes in float32, which {options.target} does not")
    start, budget = perf_counter(), SearchBudget(precision.budget)
    quantized = _searched(verified, options, how, precision, widths, share, budget)
    quantized = with_routing(quantized, verified, how)
    return replace(quantized, seconds=perf_counter() - start, ended_by_budget=budget.ended_search)


def _searched(
    verified: VerifiedModel,
    options: OptimizationOptions,
    how: Plan,
    precision: PrecisionOptions,
    widths: Sequence[int],
    share: float,
    budget: SearchBudget,
) -> Quantized:
    """The quantized model, without the time of the search; see `static_int8`."""
    model = _loaded(_folded(verified), verified.base_dir)
    if model.ByteSize() >= _LARGE_BYTES:
        return Quantized(verified, (), precision, reason=_TOO_LARGE)
    how.sink.on_step("looking for values to measure on")
    try:
        samples = samples_to_search(model, None, precision, how.verify.checks)
    except NothingToQuantizeError as error:
        return Quantized(verified, (), precision, reason=str(error))
    extra_feeds = _extra_feeds(model, samples, how, precision)
    name_nodes(model)
    with_small_masks(model)
    search = _StaticSearch(verified, model, samples, how, precision, extra_feeds, share, budget)
    attempt = search.first(widths, (MARGIN,) if share == 1 else (_SMALL_MARGIN, MARGIN))
    if isinstance(attempt, str):
        return Quantized(verified, (), precision, samples=samples, reason=attempt)
    record(attempt.model, precision, samples)
    quantized = joined(verified, as_it_is(Source(attempt.model), options, how))
    result = Quantized(quantized, (), replace(precision, goal="size"), worst=search.worst(attempt))
    text, bits = _described(model, attempt.config), attempt.config.bits
    return replace(
        result, samples=samples, description=text, float32_model=verified, activation_bits=bits
    )


def _extra_feeds(
    model: onnx.ModelProto, samples: Samples, how: Plan, precision: PrecisionOptions
) -> list[Mapping[str, Value]]:
    """More random samples, if samples are random: a few of them do not reach the full ranges."""
    if not samples.are_random or precision.samples:
        return []
    seeds = range(precision.seed + 1, precision.seed + 1 + _FURTHER_DRAWS)
    draws = [
        samples_for(model, None, replace(precision, seed=seed * _SEED_STEP), how.verify.checks)
        for seed in seeds
    ]
    return [feeds for draw in draws for feeds in draw.feeds]


def _described(model: onnx.ModelProto, config: _StaticConfig) -> str:
    count, split = len(model.graph.node), len(config.split)
    parts = f" ({split} operators split in two to reduce their error)" if split else ""
    return f"{count} operators with {config.bits}-bit activations and 8-bit weights{parts}"


def _folded(verified: VerifiedModel) -> onnx.ModelProto:
    """A copy of the optimized model, with all weights folded to constants, in an operator set with
    16-bit QDQ.
    """
    version = verified.builder.model.opsets.get("", 0)
    folding = OptimizationOptions(
        patterns=None,
        opset=OPSET if version < OPSET else None,
        max_growth=_LARGE_BYTES,
        merge=False,
    )
    model = rewritten(Source(verified.proto, verified.base_dir), folding)
    names_apart(model)
    remove_stack_traces(model)
    return model


def _loaded(model: onnx.ModelProto, folder: Path | None) -> onnx.ModelProto:
    """A model with its external data inside."""
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(tensor_array(tensor, folder), tensor.name))
    return model


def with_small_masks(model: onnx.ModelProto) -> None:
    """Replace numbers that stand for infinity in constant masks by 100 or -100.

    In a range up to infinity, all other numbers would round to the same integer.
    """
    readers: dict[str, set[str]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, set()).add(node.op_type)
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or not readers.get(tensor.name, {""}) <= {
            *_MASKING
        }:
            continue
        numbers = numpy_helper.to_array(tensor)
        is_masked = np.abs(numbers) >= MASK
        if is_masked.any():
            small = np.where(is_masked, np.copysign(np.float32(_MASKED), numbers), numbers)
            tensor.CopyFrom(numpy_helper.from_array(small.astype(np.float32), tensor.name))


class _StaticSearch:
    """Quantizes a model with more and more bits until its error is allowed; see `static_int8`.

    ``model`` is the optimized model, prepared for quantization. Ranges are those on the first half
    of the samples and on ``extra_feeds``. At least one width is tried, whatever the budget.
    """

    def __init__(
        self,
        verified: VerifiedModel,
        model: onnx.ModelProto,
        samples: Samples,
        how: Plan,
        precision: PrecisionOptions,
        extra_feeds: Sequence[Mapping[str, Value]],
        share: float,
        budget: SearchBudget,
    ) -> None:
        feeds = [samples.feeds[index] for index in samples.to_choose]
        self._feeds = [*feeds, *extra_feeds]
        self._model = model
        self._how = how
        self._budget = budget
        self._tolerance = share * precision.tolerance
        self._calibration = precision.calibration
        self._settings: SessionSettings = replace(how.verify.checks.settings, level="basic")
        plain = with_least_opset(verified, OPSET)  # with infinity in its masks
        self._reference = FloatReference.of(
            plain, verified.base_dir, samples, precision, self._settings
        )

    def first(self, widths: Sequence[int], margins: Sequence[float]) -> _StaticAttempt | str:
        """The first model within the tolerance, or the reason why there is none."""
        attempt: _StaticAttempt | str = ""
        for margin in margins:
            attempt = self._first_with(widths, margin)
            if not isinstance(attempt, str) or self._budget.is_over():
                break
        return attempt

    def worst(self, attempt: _StaticAttempt) -> SliceError:
        return self._reference.worst(largest_errors(attempt.errors))

    def _first_with(self, widths: Sequence[int], margin: float) -> _StaticAttempt | str:
        attempt: _StaticAttempt | str = ""
        for bits in widths:
            self._how.sink.on_step(f"quantizing to {bits} bits")
            attempt = self._attempt(_StaticConfig(bits, frozenset(), margin))
            if self._is_allowed(attempt):
                return attempt
            if self._budget.is_over():
                break
        for step in range(_MAX_ROUNDS):
            if isinstance(attempt, str):
                return attempt
            if self._budget.is_over():
                break
            self._how.sink.on_step("splitting weights")
            split = self._next_split(attempt.config, 2**step)
            if split == attempt.config.split:
                break
            attempt = self._attempt(replace(attempt.config, split=split))
            if self._is_allowed(attempt):
                return attempt
        if isinstance(attempt, str):
            return attempt
        error, tolerance = f"up to {attempt.error:.2%}", f"{self._tolerance:.2%}"
        activations = f"{attempt.config.bits}-bit activations"
        return f"the error with {activations} is {error} on other values, more than {tolerance}"

    def _is_allowed(self, attempt: _StaticAttempt | str) -> bool:
        return not isinstance(attempt, str) and attempt.error <= self._tolerance

    def _attempt(self, config: _StaticConfig) -> _StaticAttempt | str:
        try:
            model = self._quantized(config)
            errors = self._reference.sample_errors(model, None)
            return _StaticAttempt(model, config, errors, max(self._reference.unseen(errors)))
        except (LoadError, RunError, ValueError, RuntimeError, KeyError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            return f"onnxruntime cannot quantize the model: {reason}"

    def _quantized(
        self, config: _StaticConfig, *, keeps_activations: bool = False
    ) -> onnx.ModelProto:
        return quantize_static(
            self._model,
            self._feeds,
            config.bits,
            config.split,
            self._calibration,
            self._ranges if config.bits == WIDE else {},
            config.margin,
            keeps_activations=keeps_activations,
        )

    @cached_property
    def _ranges(self) -> dict[str, Range]:
        """The ranges of inputs, and of the results of operators, on samples."""
        nodes = self._model.graph.node
        bounded = {name for node in nodes if node.op_type in _BOUNDED for name in node.output}
        names = {name for node in nodes for name in node.output if name} - bounded
        probe, ranges = Probe(self._model, None, names, self._settings), Ranges("minmax")
        for feeds in self._feeds:
            results = {name: value for name, value in probe.run(feeds).items() if name in names}
            ranges.add({**feeds, **results})
        return ranges.by_name()

    def _next_split(self, config: _StaticConfig, count: int) -> frozenset[str]:
        """The operators whose weights are already split, and ``count`` more: those that add most to
        the error of their operands.
        """
        quantized = self._quantized(config, keeps_activations=True)
        names = {name for node in self._model.graph.node for name in node.output if name}
        shared = {name for node in quantized.graph.node for name in node.output} & names
        feeds = self._reference.samples.feeds[0]
        expected = Probe(self._model, None, shared, self._settings).run(feeds)
        actual = Probe(quantized, None, shared, self._settings).run(feeds)
        errors = {name: _error(expected[name], actual[name]) for name in shared}
        initializers = {tensor.name: tensor for tensor in self._model.graph.initializer}
        growth: dict[str, float] = {}
        for node in self._model.graph.node:
            operand_error = max((errors.get(name, 0.0) for name in node.input), default=0.0)
            result_error = max((errors.get(name, 0.0) for name in node.output), default=0.0)
            if node.name not in config.split and weights_of(node, initializers) is not None:
                growth[node.name] = result_error - operand_error
        worst = sorted(growth, key=lambda name: (-growth[name], name))
        return config.split | frozenset(worst[:count])


def _error(expected: Value, actual: Value) -> float:
    if (
        not isinstance(expected, np.ndarray)
        or not isinstance(actual, np.ndarray)
        or expected.dtype != np.float32
    ):
        return 0.0
    if expected.shape != actual.shape or not np.isfinite(expected).all():
        return 0.0
    return METRICS["rms"](expected.astype(np.float64), actual.astype(np.float64))
