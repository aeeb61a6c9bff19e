"""Static integers: ranges that samples determine, and pairs of Q and DQ around all operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.rounding import MASK, Range
from xoptim.optimizing.proof import Proof, ProofOptions, prove
from xoptim.precision.attempts import allowance
from xoptim.precision.lowering import Lowered, joined
from xoptim.precision.measuring import raised
from xoptim.precision.metrics import METRICS
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.products import rewritten
from xoptim.precision.samples import Samples, samples_for
from xoptim.precision.static_quantization import ROOM, WIDTHS, quantized, weights_of
from xoptim.precision.trial import Trial
from xoptim.precision.values import Probe, Ranges
from xoptim.preparation.ports import names_apart
from xoptim.targets.fitting import name_nodes
from xoptim.verification.errors import LoadError, NothingToQuantizeError, RunError
from xoptim.verification.protos import tensor_array
from xoptim.verification.session import Value
from xoptim.verification.session_settings import SessionSettings

OPSET: Final = 21
"""The first operator set with Q and DQ of 16 bits."""
FURTHER: Final[Mapping[int, Sequence[tuple[Sequence[int], float]]]] = {
    8: (((16,), 1.0), ((16,), 0.5)),
    16: (((16,), 0.5),),
}
"""By the bits of results that are not right on a target: what to try then, bits and the share of
the error that is allowed.
"""
_MOST_ROUNDS: Final = 6
"""Most times that weights of products are split."""
_FURTHER: Final = 2
"""How often further random values are drawn."""
_APART: Final = 1000
"""Seeds are so far apart, as each run has the next one."""
_LITTLE_ROOM: Final = 1.2
"""In place of `ROOM` where the target errs, whose error grows with the ranges."""
_BOUNDED: Final = ("Softmax", "Sigmoid", "LpNormalization")
"""Operators to whose results QNN gives a range of its own."""
_MASKING: Final = ("Add", "Mul", "Sub", "Where")
_MASKED: Final = 100.0
"""Takes the place of infinity in masks: the function of Softmax is 0 there, and steps of 16 bits
stay small.
"""
_LARGE_BYTES: Final = 2**31
_AS_IT_IS: Final[dict[str, Any]] = {
    **dict.fromkeys(("patterns", "opset")),
    **dict.fromkeys(("remove_identity", "constant_folding", "merge"), False),
}
"""Options of an optimization that changes nothing."""
_TOO_LARGE: Final = "static integers are written for models with less than 2 GB of weights"


@dataclass(frozen=True, slots=True)
class _Try:
    """A model with integers, and its error on samples."""

    model: onnx.ModelProto
    bits: int
    twice: frozenset[str]
    error: float


def static_int8(
    proof: Proof,
    options: OptimizationOptions,
    how: ProofOptions,
    precision: PrecisionOptions,
    widths: Sequence[int] = WIDTHS,
    share: float = 1.0,
) -> Lowered:
    """The optimized model with integers from its inputs to its outputs, as compilers of neural
    processors take it.

    Weights have 8 bits, one scale a channel in convolutions. Results have 8 bits, or 16 where 8
    exceed the tolerance. Where 16 do so too, weights of those products that add most to the error
    are the sum of two constants of 8 bits: onnxruntime rounds weights that are left in floats
    between Q and DQ to 8 bits, and QNN takes no others.

    Args:
        proof: the optimized model.
        options: of its optimization.
        how: options of the proof.
        precision: the error allowed, and the values that determine the ranges.
        widths: bits of results to try, in order.
        share: of the allowed error which the result may have here, as a target adds its own.

    Raises:
        ChoiceError: values do not fit the model.
        RunError, LoadError, FeedError: it does not run.
    """
    model = _loaded(_folded(proof), proof.base_dir)
    if model.ByteSize() >= _LARGE_BYTES:
        return Lowered(proof, (), precision, reason=_TOO_LARGE)
    how.on_step("looking for values to measure on")
    try:
        samples = samples_for(model, None, precision, how.checks)
    except NothingToQuantizeError as nothing:
        return Lowered(proof, (), precision, reason=str(nothing))
    further = _further(model, samples, how, precision)
    name_nodes(model)
    with_small_masks(model)
    search = _RangeSearch(proof, model, samples, how, precision, further, widths, share)
    found = None if share == 1 else search.run(_LITTLE_ROOM)
    found = found or search.run(ROOM)
    if found is None:
        return Lowered(proof, (), precision, samples=samples, reason=search.reason)
    plain = replace(options, **_AS_IT_IS)
    alone = replace(how, whole=False, each=False, on_loaded=lambda _: None)
    made = joined(proof, prove(Source(found.model), plain, alone))
    lowered = Lowered(made, (), replace(precision, goal="size"), samples=samples, floats=proof)
    choice = _described(model, found)
    return replace(lowered, error=found.error, choice=choice, bits=found.bits)


def _further(
    model: onnx.ModelProto, samples: Samples, how: ProofOptions, precision: PrecisionOptions
) -> list[Mapping[str, Value]]:
    """More random values, where values are random: the ranges of a few leave out what others
    reach.
    """
    if not samples.are_random or precision.feeds:
        return []
    seeds = range(precision.seed + 1, precision.seed + 1 + _FURTHER)
    drawn = [
        samples_for(model, None, replace(precision, seed=seed * _APART), how.checks)
        for seed in seeds
    ]
    return [feeds for each in drawn for feeds in each.feeds]


def _described(model: onnx.ModelProto, found: _Try) -> str:
    """The choice in a few words."""
    count = len(model.graph.node)
    twice = f" ({len(found.twice)} products in two parts, for their error)" if found.twice else ""
    return f"{count} operators with results of {found.bits} bits and weights of 8{twice}"


def _folded(proof: Proof) -> onnx.ModelProto:
    """A copy of the optimized model in an operator set with Q and DQ of 16 bits, with all weights
    as constants.
    """
    known = proof.builder.model.opsets.get("", 0)
    folding = OptimizationOptions(
        patterns=None, opset=OPSET if known < OPSET else None, max_growth=_LARGE_BYTES, merge=False
    )
    model = rewritten(Source(proof.proto, proof.base_dir), folding)
    names_apart(model)
    return model


def _loaded(model: onnx.ModelProto, folder: Path | None) -> onnx.ModelProto:
    """A model with its external data inside."""
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(tensor_array(tensor, folder), tensor.name))
    return model


def with_small_masks(model: onnx.ModelProto) -> None:
    """Let constants of masks, which mean infinity, be small: a range up to them would leave one
    step to the other numbers.
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


class _RangeSearch:
    """Quantizes a model with more and more bits until its error is allowed."""

    def __init__(
        self,
        proof: Proof,
        model: onnx.ModelProto,
        samples: Samples,
        how: ProofOptions,
        precision: PrecisionOptions,
        further: Sequence[Mapping[str, Value]],
        widths: Sequence[int],
        share: float,
    ) -> None:
        chosen = [samples.feeds[place] for place in samples.to_choose]
        self._feeds = [*chosen, *further]
        self._model = model
        self._widths = widths
        self._samples = samples
        self._how = how
        self._aim = share * allowance(precision, samples)
        self._room = ROOM
        self._tolerance = share * precision.tolerance
        self._calibration = precision.calibration
        self._settings: SessionSettings = replace(how.checks.settings, level="basic")
        plain = raised(proof, OPSET)  # with the masks that it has
        self._trial = Trial(plain, {}, proof.base_dir, samples, precision.metric, self._settings)
        self._trial.finish()
        self._known: dict[str, Range] | None = None
        self.reason = ""

    def run(self, room: float) -> _Try | None:
        """The first model within the tolerance, ``None`` where there is none.

        Ranges are ``room`` times those of samples.
        """
        self._room = room
        found: _Try | None = None
        for bits in self._widths:
            self._how.on_step(f"quantizing to {bits} bits")
            found = self._tried(bits, frozenset())
            if found is not None and found.error <= self._aim:
                return found
        for step in range(_MOST_ROUNDS):
            if found is None:
                break
            self._how.on_step("splitting weights")
            twice = self._worst(found, 2**step)
            if twice == found.twice:
                break
            found = self._tried(found.bits, twice)
            if found is not None and found.error <= self._aim:
                return found
        if found is not None:
            error, tolerance = f"{found.error:.2%}", f"{self._tolerance:.2%}"
            self.reason = (
                f"static integers of {found.bits} bits err by {error}, more than {tolerance}"
            )
        return None

    def _tried(self, bits: int, twice: frozenset[str]) -> _Try | None:
        try:
            model = self._quantized(bits, twice)
            return _Try(model, bits, twice, self._trial.error_of(model, None))
        except (LoadError, RunError, ValueError, RuntimeError, KeyError) as error:
            self.reason = f"onnxruntime does not quantize the model: {str(error).splitlines()[0]}"
            return None

    def _quantized(
        self, bits: int, twice: frozenset[str], *, keeps_activations: bool = False
    ) -> onnx.ModelProto:
        ranges = self._ranges() if bits == WIDTHS[1] else {}
        return quantized(
            self._model,
            self._feeds,
            bits,
            twice,
            self._calibration,
            ranges,
            self._room,
            keeps_activations=keeps_activations,
        )

    def _ranges(self) -> dict[str, Range]:
        """The ranges of inputs, and of the results of operators, on samples."""
        if self._known is None:
            bounded = {
                name
                for node in self._model.graph.node
                if node.op_type in _BOUNDED
                for name in node.output
            }
            names = {
                name for node in self._model.graph.node for name in node.output if name
            } - bounded
            probe, ranges = Probe(self._model, None, names, self._settings), Ranges("minmax")
            for feeds in self._feeds:
                results = {name: value for name, value in probe.run(feeds).items() if name in names}
                ranges.add({**feeds, **results})
            self._known = ranges.found()
        return self._known

    def _worst(self, found: _Try, count: int) -> frozenset[str]:
        """The products of two parts, and some more: those whose results err most beyond what they
        read.
        """
        whole = self._quantized(found.bits, found.twice, keeps_activations=True)
        names = {name for node in self._model.graph.node for name in node.output if name}
        kept = {name for node in whole.graph.node for name in node.output} & names
        feeds = self._samples.feeds[0]
        plain = Probe(self._model, None, kept, self._settings).run(feeds)
        rounded = Probe(whole, None, kept, self._settings).run(feeds)
        errors = {name: _error(plain[name], rounded[name]) for name in kept}
        stored = {tensor.name: tensor for tensor in self._model.graph.initializer}
        growth: dict[str, float] = {}
        for node in self._model.graph.node:
            before = max((errors.get(name, 0.0) for name in node.input), default=0.0)
            after = max((errors.get(name, 0.0) for name in node.output), default=0.0)
            if node.name not in found.twice and weights_of(node, stored) is not None:
                growth[node.name] = after - before
        worst = sorted(growth, key=lambda name: (-growth[name], name))
        return found.twice | frozenset(worst[:count])


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
