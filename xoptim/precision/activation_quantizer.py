"""Choice of the activations between quantized MatMuls and convolutions that get QDQ.

QDQ is a QuantizeLinear followed by a DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from math import sqrt
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xoptim.graph.names import Names
from xoptim.match.quantization import QuantizationParameters, activation_parameters
from xoptim.precision.activations import Activations, find_activations
from xoptim.precision.budget import ErrorCache, SearchBudget
from xoptim.precision.calibration import calibrated
from xoptim.precision.candidates import Candidate
from xoptim.precision.choices import cheapest, choose, parts_within
from xoptim.precision.measured import Measured
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.preprocessing import Preprocessed
from xoptim.precision.reference import Errors, FloatReference
from xoptim.precision.routing import kept_values
from xoptim.precision.symmetric import symmetric_ranges
from xoptim.preparation.ports import defined_names
from xoptim.system.machine import release_memory
from xoptim.verification.runs.session import Session

_PATTERN: Final = "Int8Activations"
"""Name of the pattern in candidates that are activations. No pattern class has this name."""
_ATTEMPTS: Final = 6


class ActivationQuantizer:
    """Chooses the activations of a model with quantized weights that get QDQ.

    Args:
        ready: the float32 model.
        reference: the outputs of the float32 model.
        precision: the error allowed, and the calibration of ranges.
        budget: the time of the search.
    """

    def __init__(
        self,
        ready: Preprocessed,
        reference: FloatReference,
        precision: PrecisionOptions,
        budget: SearchBudget,
    ) -> None:
        self._ready, self._reference = ready, reference
        self._precision, self._budget = precision, budget

    @cached_property
    def scales(self) -> Mapping[str, QuantizationParameters]:
        """The scale and zero point of each activation that has a range on the samples."""
        samples, ready = self._reference.samples, self._ready
        op_types = {node.op_type for node in ready.model.graph.node}
        feeds = [samples.feeds[index] for index in samples.to_choose]
        model = ready.model, ready.folder
        calibration, settings = self._precision.calibration, self._reference.settings
        ranges = calibrated(*model, op_types, feeds, calibration, settings).ranges
        if self._precision.symmetric:
            ranges = symmetric_ranges(ranges)
        ranges = {**ranges, **ready.observed.ranges}
        scales = ((name, activation_parameters(*limits)) for name, limits in ranges.items())
        return {name: scale for name, scale in scales if scale is not None}

    @cached_property
    def _kept(self) -> set[str]:
        """The activations that stay in float32 because a TopK or ArgMax depends on them."""
        return kept_values(self._ready.model, self._precision)

    @cached_property
    def activations(self) -> Activations:
        """The activations that can be quantized."""
        return find_activations(self._ready.model, self.scales.keys())

    def choose(
        self, model: onnx.ModelProto, weights: Sequence[Measured], weighted: Collection[str]
    ) -> tuple[str, ...]:
        """The activations that get QDQ: all of them, or those with the smallest errors, if any.

        They add at most half of the remaining squared error; the other half is left to constants
        stored in lower precision.

        Args:
            model: with quantized weights.
            weights: the operators that were chosen, with their errors.
            weighted: the results of all operators with quantized weights.
        """
        quantized = _already_quantized(model, self.activations)
        names = self.activations.copies.keys() - quantized - self._kept
        useful = sorted(self.activations.useful(names, quantized, weighted))
        if not useful or self._budget.is_over():
            return ()
        aim = sqrt((max(self._errors(model, [])) ** 2 + self._precision.tolerance**2) / 2)
        if max(self._errors(model, useful)) <= aim:
            return tuple(useful)
        chosen = self._within(model, useful, weights, aim)
        for _ in range(_ATTEMPTS):
            names = {measured.candidate.node for measured in chosen}
            useful = sorted(self.activations.useful(names, quantized, weighted))
            errors = self._errors(model, useful)
            if max(errors) <= aim:
                return tuple(useful)
            chosen = cheapest(chosen, parts_within(errors, aim))
        return ()

    def written(self, model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
        """The model with QDQ around some activations."""
        return _with_qdq(model, self._tensors(names))

    def _errors(self, model: onnx.ModelProto, names: Sequence[str]) -> Errors:
        return self._reference.unseen_errors_of(self.written(model, names), self._ready.folder)

    def _within(
        self, model: onnx.ModelProto, names: Sequence[str], weights: Sequence[Measured], aim: float
    ) -> list[Measured]:
        """Activations whose joint error is at most ``aim``, in the order of their choice."""
        samples = self._reference.samples
        tensors = {name: self._tensors([name]) for name in names}
        session = _SwitchedActivations(model, self._ready, tensors, self._reference, self._budget)
        base = session.errors({}, samples.to_choose)
        candidates = []
        for name in names:
            if self._budget.is_over():
                break
            key = _key(name)  # the result itself is the key of the operator that computes it
            candidate = Candidate(key, name, _PATTERN, "", (0, 0))
            together = session.errors({key: _PATTERN}, samples.to_choose)
            pairs = zip(together, base, strict=True)
            errors = tuple(sqrt(max(error**2 - old**2, 0.0)) for error, old in pairs)
            candidates.append(Measured(candidate, errors=errors))
        chosen = choose(session, candidates, samples, aim, "speed", weights)
        session.close()
        return chosen

    def _tensors(self, names: Iterable[str]) -> dict[str, QuantizationParameters]:
        """The scale and zero point of each tensor quantized together with one of ``names``."""
        return {copy: self.scales[name] for name in names for copy in self.activations.copies[name]}


class _SwitchedActivations:
    """A session of a model in which a Boolean input switches QDQ of each activation, and of the
    tensors that are quantized with it.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        ready: Preprocessed,
        tensors: Mapping[str, Mapping[str, QuantizationParameters]],
        reference: FloatReference,
        budget: SearchBudget,
    ) -> None:
        names = _names_of(model)
        self._switches = {name: names.fresh(f"{name}_is_quantized") for name in tensors}
        scales = {copy: scale for copies in tensors.values() for copy, scale in copies.items()}
        owners = {copy: self._switches[name] for name, copies in tensors.items() for copy in copies}
        switched = _with_qdq(model, scales, owners)
        for switch in self._switches.values():
            value = helper.make_tensor_value_info(switch, TensorProto.BOOL, ())
            switched.graph.input.append(value)
        self._reference = reference
        self._session = Session(switched, reference.settings, base_dir=ready.folder)
        self._errors = ErrorCache(self._measured, reference, budget)

    def errors(self, forms: Mapping[str, str], indices: Iterable[int]) -> Errors:
        return self._errors.errors(forms, indices)

    def _measured(self, index: int, forms: Mapping[str, str]) -> Errors:
        switched = {
            switch: np.array(_key(name) in forms) for name, switch in self._switches.items()
        }
        feeds = {**self._reference.samples.feeds[index], **switched}
        return self._reference.errors(index, self._session.run(feeds))

    def close(self) -> None:
        del self._session
        release_memory()


def _key(name: str) -> str:
    """The key of an activation, different from that of the operator that computes it."""
    return f"{name}/activation"


def _already_quantized(model: onnx.ModelProto, activations: Activations) -> set[str]:
    """The activations that are dequantized, or that only QuantizeLinear nodes read.

    These include activations that have left the model, such as those between a convolution and a
    Relu that is fused with it.
    """
    readers: dict[str, set[str]] = {}
    dequantized = {
        node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear"
    }
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, set()).add(node.op_type)

    def is_done(name: str) -> bool:
        return name in dequantized or readers.get(name, set()) <= {"QuantizeLinear"}

    return {name for name, copies in activations.copies.items() if all(map(is_done, copies))}


def _names_of(model: onnx.ModelProto) -> Names:
    """A source of names that a model does not use yet."""
    names = Names()
    names.reserve(defined_names(model), {})
    return names


def _with_qdq(
    model: onnx.ModelProto,
    tensors: Mapping[str, QuantizationParameters],
    switches: Mapping[str, str] | None = None,
) -> onnx.ModelProto:
    """A copy of a model with QDQ after some tensors.

    QuantizeLinear nodes keep reading the tensor itself: they have the same scale.

    Args:
        model: the model.
        tensors: the scale and zero point of each tensor, by its name.
        switches: the Boolean input that tells whether a tensor is quantized, by the tensor's name.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    names = _names_of(model)
    if switches:
        names.reserve({*switches.values()}, {})
    dequantized = {name: names.fresh(f"{name}_dequantized") for name in tensors}
    nodes: list[onnx.NodeProto] = []
    for name in [value.name for value in model.graph.input if value.name in tensors]:
        nodes += _qdq(result, names, name, dequantized[name], tensors[name], switches)
    for node in model.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        if node.op_type != "QuantizeLinear":
            copy.input[:] = [dequantized.get(name, name) for name in node.input]
        nodes.append(copy)
        for name in node.output:
            if name in tensors:
                nodes += _qdq(result, names, name, dequantized[name], tensors[name], switches)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return result


def _qdq(
    model: onnx.ModelProto,
    names: Names,
    name: str,
    result: str,
    parameters: QuantizationParameters,
    switches: Mapping[str, str] | None,
) -> list[onnx.NodeProto]:
    """The nodes that quantize and dequantize a tensor; their constants are added to the model."""
    scale, zero = (names.fresh(f"{name}_{part}") for part in parameters._fields)
    model.graph.initializer.append(numpy_helper.from_array(parameters.scale, scale))
    model.graph.initializer.append(numpy_helper.from_array(parameters.zero, zero))
    integers = names.fresh(f"{name}_quantized")
    last = result if switches is None else names.fresh(f"{name}_switched")
    nodes = [
        helper.make_node("QuantizeLinear", [name, scale, zero], [integers]),
        helper.make_node("DequantizeLinear", [integers, scale, zero], [last]),
    ]
    if switches is not None:
        nodes.append(helper.make_node("Where", [switches[name], last, name], [result]))
    return nodes
