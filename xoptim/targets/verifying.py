"""Verify a model on its target: the original runs on the CPU, the result on the target, on the same
values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Final, Literal

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.advice import Advice
from xoptim.facts.errors import ModelError
from xoptim.facts.json_results import JsonForm, JsonResult, member, rounded_time
from xoptim.facts.json_values import AnyFloat
from xoptim.facts.operators import operator_label
from xoptim.facts.protos import every_node, fed_inputs
from xoptim.graph.load import load_model
from xoptim.graph.propagate import quietly
from xoptim.preparation.ports import extract_part
from xoptim.targets.target import BFLOAT16_ERROR, FLOAT16_ERROR, FLOAT32_ERROR, Target
from xoptim.verification.errors import FeedError, LoadError, ProviderUnavailable, RunError
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import ModelLike, element_types
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

_FAILING: Final = re.compile(r"Name:'([^']+)'")
_QUANTIZING: Final = frozenset(("QuantizeLinear", "DynamicQuantizeLinear"))
_NARROW: Final = frozenset(
    (
        *(TensorProto.FLOAT16, TensorProto.BFLOAT16),
        *(TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4),
    )
)
"""Types that a quantized result has, and its original has not."""
_STEP: Final = 2e-2
"""Relative tolerance of models that quantize: a number close to a half is rounded either way.

An error of 1.03 % was measured on an int8 ResNet-50, where a QuantizeLinear differed first.
"""
_MULTIPLE: Final = 2.0
"""A result counts as no worse than the original up to this multiple of the original's error on the
target.
"""
_MAX_RESULTS: Final = 256
"""Maximum number of nodes whose results are compared in one run, to find the first difference."""


@dataclass(frozen=True, slots=True)
class TargetCheck(JsonResult):
    """The comparison of a model on its target with the original on the CPU.

    Attributes:
        target: name of the target.
        status: the verdict.
        reason: the reason why the verdict is not equal, in one line.
        error: largest difference of an output, as a fraction of its largest number.
        tolerance: the error that the arithmetic of the target may make.
        runs: number of runs.
        node: name of the first node whose result differs, where it was found.
        operator: the operator of that node.
        seconds: duration, in seconds.
    """

    __json__ = JsonForm(
        "target status reason error tolerance runs node operator", member("seconds", rounded_time)
    )
    target: str
    status: Literal["equal", "different", "not verified"]
    reason: str = ""
    error: AnyFloat = 0.0
    tolerance: float = 0.0
    runs: int = 0
    node: str = ""
    operator: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the model computes the same on the target."""
        return self.status == "equal"

    def summary(self) -> str:
        """The verdict in one line."""
        if self.status == "equal":
            return (
                f"equal on {self.runs} runs, largest error {self.error:.2g} of at most "
                f"{self.tolerance:.2g}"
            )
        return f"{self.status}: {self.explanation}"

    @property
    def explanation(self) -> str:
        """The reason why the verdict is not ``equal``, with the first node that differs."""
        where = (
            f"; the first node that differs is {self.operator} {self.node!r}" if self.node else ""
        )
        return f"{self.reason}{where}"


def verify_on_target(
    original: ModelLike,
    result: onnx.ModelProto,
    target: Target,
    checks: VerificationOptions,
    base_dir: Path | None = None,
    *,
    software_device: bool = False,
    feeds: Sequence[Mapping[str, Value]] = (),
    tolerance: float | None = None,
) -> TargetCheck:
    """Run the original on the CPU and the result on the target, and compare.

    Args:
        original: the model to trust.
        result: the model to judge.
        target: the target on which the result runs.
        checks: values, seed and limits; ``original_dir`` is the folder of the original's external
            data.
        base_dir: folder of the external data of the result.
        software_device: whether a provider without a device may compute on the CPU.
        feeds: values of the inputs, one dictionary for each run, in place of random ones.
        tolerance: the error that is allowed, ``None`` for the one of the target's arithmetic
            (`tolerance_of`).
    """
    began = perf_counter()
    cpu_checks = replace(
        checks, providers=("cpu",), extremes=False, assignments=min(checks.assignments, 2)
    )
    by_feeds = [
        replace(cpu_checks, feeds=values, test_data=None, assignments=1) for values in feeds
    ]
    check = _verified(
        original,
        result,
        target,
        by_feeds or [cpu_checks],
        base_dir,
        tolerance,
        software_device=software_device,
    )
    return replace(check, seconds=perf_counter() - began)


def _verified(
    original: ModelLike,
    result: onnx.ModelProto,
    target: Target,
    checks: Sequence[VerificationOptions],
    base_dir: Path | None,
    tolerance: float | None,
    *,
    software_device: bool,
) -> TargetCheck:
    options = checks[0]
    try:
        references = [run_reference(original, options) for options in checks]
    except (LoadError, FeedError, RunError, ModelError) as error:
        return TargetCheck(target.name, "not verified", f"the original does not run here: {error}")
    reference = references[0]
    runs = [run for reference in references for run in reference.runs]
    # With the basic optimizations, as for the placement: some compilers need them.
    settings = replace(
        options.settings,
        providers=(target.provider,),
        level="basic",
        software_device=software_device,
        isolated=True,
    )
    limit = tolerance_of(target, reference.proto) if tolerance is None else tolerance
    names = tuple(port.name for port in reference.outputs)
    pair = _Pair(target.name, original, options.original_dir, result, base_dir, names, tuple(runs))
    rounds_float32 = target.plugin is not None and bool(target.plugin.float32_options)
    # A quantization step is larger than the errors that a run in float32 would reveal.
    is_coarse = _quantizes(reference.proto) or bool(
        _narrow_types(result) - _narrow_types(reference.proto)
    )
    if not rounds_float32 or is_coarse:
        return pair.compared(settings, limit)
    # Where the target rounds 32-bit floats, its tolerance would hide what it computes wrongly.
    exact = pair.compared(
        replace(settings, float32=True), max(FLOAT32_ERROR, _own_error(reference.proto))
    )
    if not exact.ok:
        return exact
    rounded = pair.compared(settings, limit)
    if rounded.status != "different":
        return rounded
    reason = f"{rounded.reason}, but by {exact.error:.2g} where {target.name} computes in float32"
    return replace(rounded, status="not verified", reason=reason, node="", operator="")


@dataclass(frozen=True, slots=True)
class _Pair:
    """The original, with its runs on the CPU, and the result."""

    target: str
    original: ModelLike
    original_dir: Path | None
    result: onnx.ModelProto
    base_dir: Path | None
    outputs: tuple[str, ...]
    runs: tuple[ReferenceRun, ...]

    def compared(self, settings: SessionSettings, tolerance: float) -> TargetCheck:
        """The comparison of the result on the target with the runs."""
        worst = 0.0
        compared: set[str] = set()
        try:
            session = Session(self.result, settings, base_dir=self.base_dir)
            ports = tuple(port.name for port in session.outputs)
            if ports != self.outputs:
                reason = f"its outputs are {', '.join(ports)}, not {', '.join(self.outputs)}"
                return TargetCheck(self.target, "different", reason)
            for run in self.runs:
                largest, output = _largest(self.outputs, run.results, session.run(run.feeds))
                if largest > tolerance:
                    return self._different(run, output, largest, settings, tolerance)
                pairs = zip(self.outputs, run.results, strict=True)
                compared.update(name for name, value in pairs if _has_numbers(value))
                worst = max(worst, largest)
        except (LoadError, RunError, FeedError, ProviderUnavailable) as error:
            check = TargetCheck(
                self.target, "not verified", f"the result does not run there: {error}"
            )
            return _with_failing_node(check, self.result, str(error))
        unjudged = [name for name in self.outputs if name not in compared]
        if unjudged:
            reason = (
                f"{', '.join(unjudged)} had no finite value in any run; give inputs with "
                f"{Advice('feeds')}"
            )
            return TargetCheck(
                self.target, "not verified", reason, worst, tolerance, len(self.runs)
            )
        return TargetCheck(self.target, "equal", "", worst, tolerance, len(self.runs))

    def _different(
        self,
        run: ReferenceRun,
        output: str,
        error: float,
        settings: SessionSettings,
        tolerance: float,
    ) -> TargetCheck:
        """The verdict about a run with a difference, which the original may show there as well."""
        reason = (
            f"output {output!r} differs by {error:.2g} relative to its largest value, more than "
            f"{tolerance:.2g}"
        )
        check = TargetCheck(self.target, "different", reason, error, tolerance, len(self.runs))
        own_error = self._error_of_original(run, settings)
        if error <= _MULTIPLE * own_error and own_error > tolerance:
            reason = f"{reason}, and the original differs by {own_error:.2g} there as well"
            check = replace(check, status="not verified", reason=reason)
        node = _Probe(self.result, self.base_dir, settings, run.feeds, tolerance).first_difference()
        return check if node is None else _at(check, node)

    def _error_of_original(self, run: ReferenceRun, settings: SessionSettings) -> float:
        """The error of the original on the target, 0 where it does not run there."""
        try:
            results = Session(self.original, settings, base_dir=self.original_dir).run(run.feeds)
        except (LoadError, RunError, FeedError, ProviderUnavailable):
            return 0.0
        errors = [
            error_of(first, second) for first, second in zip(run.results, results, strict=True)
        ]
        return max(errors, default=0.0)


def _at(check: TargetCheck, node: onnx.NodeProto) -> TargetCheck:
    return replace(check, node=node.name, operator=operator_label(node.op_type, node.domain))


def _has_numbers(value: Value) -> bool:
    """Whether a result has an element that can be compared."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fV":
        return not isinstance(value, np.ndarray) or bool(value.size)
    return bool(np.isfinite(value.astype(np.float64)).any())


def _with_failing_node(check: TargetCheck, model: onnx.ModelProto, error: str) -> TargetCheck:
    """The check with the node that an error of onnxruntime names."""
    match = _FAILING.search(error)
    node = next(
        (node for node in every_node(model.graph.node) if match and node.name == match[1]), None
    )
    return check if node is None else _at(check, node)


def tolerance_of(target: Target, model: onnx.ModelProto) -> float:
    """The error that the arithmetic of a target, or the types of the model, may make."""
    return max(target.tolerance, _own_error(model))


def _own_error(model: onnx.ModelProto) -> float:
    """The largest error that the types of a model, or one quantization step, may make."""
    types = element_types(model)
    errors = (
        (TensorProto.FLOAT16 in types, FLOAT16_ERROR),
        (TensorProto.BFLOAT16 in types, BFLOAT16_ERROR),
        (_quantizes(model), _STEP),
    )
    return max((error for is_made, error in errors if is_made), default=0.0)


def _narrow_types(model: onnx.ModelProto) -> set[int]:
    return element_types(model) & _NARROW


def _quantizes(model: onnx.ModelProto) -> bool:
    return any(node.op_type in _QUANTIZING for node in every_node(model.graph.node))


def _largest(
    names: Sequence[str], expected: Sequence[Value], actual: Sequence[Value]
) -> tuple[float, str]:
    """The largest error of the outputs, and the output that has it."""
    errors = [
        (error_of(first, second), name)
        for name, first, second in zip(names, expected, actual, strict=True)
    ]
    return max(errors, default=(0.0, ""))


def error_of(expected: Value, actual: Value) -> float:
    """The largest difference as a fraction of the largest number; for types other than floats, the
    fraction of unequal elements.
    """
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return 0.0 if _are_alike(expected, actual) else np.inf
    if expected.shape != actual.shape:
        return np.inf
    if not expected.size:
        return 0.0
    if expected.dtype.kind not in "fV" and expected.dtype.isbuiltin == 1:
        return float(np.mean(expected != actual))
    expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(expected)
    if (
        not np.array_equal(expected[~finite], actual[~finite], equal_nan=True)
        or not np.isfinite(actual[finite]).all()
    ):
        return np.inf
    largest = float(np.max(np.abs(expected[finite]), initial=0.0))
    difference = float(np.max(np.abs(expected[finite] - actual[finite]), initial=0.0))
    if not largest:
        return difference
    return difference / largest


def _are_alike(expected: Value, actual: Value) -> bool:
    if isinstance(expected, list) and isinstance(actual, list):
        pairs = list(zip(expected, actual, strict=False))
        return len(expected) == len(actual) and all(error_of(a, b) == 0.0 for a, b in pairs)
    return bool(expected == actual)


@dataclass(frozen=True, slots=True)
class _Probe:
    """A model that runs here and on the target, on the same values."""

    model: onnx.ModelProto
    base_dir: Path | None
    settings: SessionSettings
    feeds: Mapping[str, Value]
    tolerance: float

    def first_difference(self) -> onnx.NodeProto | None:
        """The first node, in the order of the model, that the target computes wrongly, if there is
        one.
        """
        nodes = [node for node in self.model.graph.node if any(node.output)]
        begin, end = 0, len(nodes)
        first: onnx.NodeProto | None = None
        while begin < end:
            step = max(1, -(-(end - begin) // _MAX_RESULTS))
            indices = list(range(begin + step - 1, end, step))
            position = self._differing([nodes[index] for index in indices])
            if position is None:
                break
            first = nodes[indices[position]]
            begin, end = (indices[position - 1] + 1 if position else begin), indices[position]
            if step == 1:
                break
        return first if first is not None and self._is_wrong_alone(first) else None

    def _differing(self, nodes: Sequence[onnx.NodeProto]) -> int | None:
        """The index of the first of some nodes whose result differs."""
        names = [next(filter(None, node.output)) for node in nodes]
        probe = self._with_outputs(names)
        outputs = [value.name for value in probe.graph.output]
        try:
            expected = Session(probe, self.settings.on_cpu(), base_dir=self.base_dir).run(
                self.feeds
            )
            actual = Session(probe, self.settings, base_dir=self.base_dir).run(self.feeds)
        except (LoadError, RunError, FeedError):
            return None
        errors = {
            name: error_of(a, b) for name, a, b in zip(outputs, expected, actual, strict=True)
        }
        return next(
            (index for index, name in enumerate(names) if errors.get(name, 0.0) > self.tolerance),
            None,
        )

    def _with_outputs(self, names: Sequence[str]) -> onnx.ModelProto:
        """The model with some results as outputs, those whose types are known."""
        probe = onnx.ModelProto()
        probe.CopyFrom(self.model)
        with quietly():
            graph = load_model(probe, self.base_dir).graph
        types = {name: graph.info_of(name).dtype for name in names}
        del probe.graph.output[:]
        probe.graph.output.extend(
            onnx.helper.make_tensor_value_info(name, dtype, None)
            for name, dtype in types.items()
            if dtype
        )
        return probe

    def _is_wrong_alone(self, node: onnx.NodeProto) -> bool:
        """Whether a node computes other results on the target from the operands of the CPU run.

        Otherwise the differences of its operands added up, as rounding errors do.
        """
        computed = {
            name
            for maker in self.model.graph.node
            if maker.op_type != "Constant"
            for name in maker.output
        }
        operands = [name for name in dict.fromkeys(node.input) if name in computed]
        try:
            source = self._with_outputs(operands)
            values = (
                Session(source, self.settings.on_cpu(), base_dir=self.base_dir).run(self.feeds)
                if operands
                else []
            )
            computed_values = {
                value.name: result
                for value, result in zip(source.graph.output, values, strict=False)
            }
            part = extract_part(
                self.model, operands, [name for name in node.output if name][:1], self.base_dir
            )
            values_by_name = {**self.feeds, **computed_values}
            feeds = {port.name: values_by_name[port.name] for port in fed_inputs(part)}
            expected = Session(part, self.settings.on_cpu(), base_dir=self.base_dir).run(feeds)
            actual = Session(part, self.settings, base_dir=self.base_dir).run(feeds)
        except (LoadError, RunError, FeedError, ModelError, KeyError):
            return True
        return max(map(error_of, expected, actual), default=0.0) > self.tolerance
