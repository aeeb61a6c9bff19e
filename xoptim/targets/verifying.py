"""Verify a model on its target: the original runs on the processor, the result on the target, on the same values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal

import numpy as np
import onnx

from xoptim.facts.errors import ModelError
from xoptim.facts.operators import operator_label
from xoptim.facts.protos import every_node
from xoptim.graph.load import load_model
from xoptim.graph.propagate import quietly
from xoptim.targets.target import Target
from xoptim.validate.errors import FeedError, LoadError, ProviderUnavailable, RunError
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike
from xoptim.validate.reference import run_reference
from xoptim.validate.runs import ReferenceRun
from xoptim.validate.session import Session, SessionSettings, Value

_FAILING: Final = re.compile(r"Name:'([^']+)'")
_QUANTIZING: Final = frozenset(("QuantizeLinear", "DynamicQuantizeLinear"))
_STEP: Final = 2e-2
"""Relative tolerance of models that quantize: a number next to a half is rounded either way. An error of 1.03 % was measured
on a ResNet-50 of 8 bits, and the first node that differed was a QuantizeLinear."""
_MULTIPLE: Final = 2.0
"""A result that differs on the target by at most this times what the original differs there is no worse than it."""
_MOST_RESULTS: Final = 256
"""Most results of nodes that are compared in one run, to find the first one that differs."""


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """The comparison of a model on its target with the original on the processor.

    Attributes:
        target: name of the target.
        status: the verdict.
        reason: why it is not ``equal``, in one line.
        error: the largest difference of an output, as a fraction of its largest number.
        tolerance: the error that the arithmetic of the target may make.
        runs: number of runs.
        node: name of the first node whose result differs, where it was found.
        operator: the operator of that node.
        seconds: that all of it took.
    """

    target: str
    status: Literal["equal", "different", "not verified"]
    reason: str = ""
    error: float = 0.0
    tolerance: float = 0.0
    runs: int = 0
    node: str = ""
    operator: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the model computes the same there."""
        return self.status == "equal"

    def summary(self) -> str:
        """The verdict in one line."""
        if self.status == "equal":
            return f"equal on {self.runs} runs, largest error {self.error:.2g} of at most {self.tolerance:.2g}"
        where = f"; the first node that differs is {self.operator} {self.node!r}" if self.node else ""
        return f"{self.status}: {self.reason}{where}"

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {
            "target": self.target,
            "status": self.status,
            "reason": self.reason,
            "error": self.error,
            "tolerance": self.tolerance,
            "runs": self.runs,
            "node": self.node,
            "operator": self.operator,
            "seconds": round(self.seconds, 3),
        }


def verify_on_target(
    original: ModelLike,
    result: onnx.ModelProto,
    target: Target,
    checks: ValidationOptions,
    base_dir: Path | None = None,
    *,
    software_device: bool = False,
    feeds: Sequence[Mapping[str, Value]] = (),
    tolerance: float | None = None,
) -> TargetCheck:
    """Run the original on the processor and the result on the target, and compare.

    Args:
        original: the model to trust.
        result: the model to judge.
        target: where the result runs.
        checks: values, seed and limits; ``original_dir`` is the folder of the original's external data.
        base_dir: folder of the external data of the result.
        software_device: whether a provider without a device may compute on the processor.
        feeds: values of the inputs, one dictionary for each run, in place of random ones.
        tolerance: the error that is allowed, ``None`` for the one of the target's arithmetic (`tolerance_of`).
    """
    began = perf_counter()
    here = replace(checks, providers=("cpu",), extremes=False, assignments=min(checks.assignments, 2))
    given = [replace(here, feeds=each, test_data=None, assignments=1) for each in feeds]
    found = _verified(original, result, target, given or [here], base_dir, tolerance, software_device=software_device)
    return replace(found, seconds=perf_counter() - began)


def _verified(
    original: ModelLike,
    result: onnx.ModelProto,
    target: Target,
    checks: Sequence[ValidationOptions],
    base_dir: Path | None,
    tolerance: float | None,
    *,
    software_device: bool,
) -> TargetCheck:
    here = checks[0]
    try:
        references = [run_reference(original, each) for each in checks]
    except (LoadError, FeedError, RunError, ModelError) as error:
        return TargetCheck(target.name, "not verified", f"the original does not run here: {error}")
    reference = references[0]
    runs = [run for each in references for run in each.runs]
    tolerance = tolerance_of(target, reference.proto) if tolerance is None else tolerance
    there = replace(here.settings, providers=(target.provider,), software_device=software_device, isolated=True)
    names = [port.name for port in reference.outputs]
    worst = 0.0
    compared: set[str] = set()
    try:
        session = Session(result, there, base_dir=base_dir)
        ports = [port.name for port in session.outputs]
        if ports != names:
            return TargetCheck(target.name, "different", f"its outputs are {', '.join(ports)}, not {', '.join(names)}")
        for run in runs:
            results = session.run(run.feeds)
            largest, output = _largest(names, run.results, results, tolerance)
            compared.update(name for name, value in zip(names, run.results, strict=True) if _has_numbers(value))
            if largest > tolerance:
                reason = f"output {output!r} differs by {largest:.2g} of its largest number, more than {tolerance:.2g}"
                check = TargetCheck(target.name, "different", reason, largest, tolerance, len(runs))
                own = _error_of_original(original, there, run, here.original_dir)
                if largest <= _MULTIPLE * own and own > tolerance:
                    also = f"{reason}, and the original differs there by {own:.2g}"
                    check = replace(check, status="not verified", reason=also)
                node = _first_difference(result, there, run.feeds, base_dir, tolerance)
                return check if node is None else _at(check, node)
            worst = max(worst, largest)
    except (LoadError, RunError, FeedError, ProviderUnavailable) as error:
        check = TargetCheck(target.name, "not verified", f"the result does not run there: {error}")
        return _with_failing_node(check, result, str(error))
    hollow = [name for name in names if name not in compared]
    if hollow:
        reason = f"no run gave a number to compare in {', '.join(hollow)}; give values with --feeds"
        return TargetCheck(target.name, "not verified", reason, worst, tolerance, len(runs))
    return TargetCheck(target.name, "equal", "", worst, tolerance, len(runs))


def _error_of_original(original: ModelLike, there: SessionSettings, run: ReferenceRun, base_dir: Path | None) -> float:
    """The error of the original on the target, 0 where it does not run there."""
    try:
        results = Session(original, there, base_dir=base_dir).run(run.feeds)
    except (LoadError, RunError, FeedError, ProviderUnavailable):
        return 0.0
    errors = [error_of(first, second) for first, second in zip(run.results, results, strict=True)]
    return max(errors, default=0.0)


def _at(check: TargetCheck, node: onnx.NodeProto) -> TargetCheck:
    """The check with a node."""
    return replace(check, node=node.name, operator=operator_label(node.op_type, node.domain))


def _has_numbers(value: Value) -> bool:
    """Whether there is anything in a result that can be compared."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fV":
        return not isinstance(value, np.ndarray) or bool(value.size)
    return bool(np.isfinite(value.astype(np.float64)).any())


def _with_failing_node(check: TargetCheck, model: onnx.ModelProto, error: str) -> TargetCheck:
    """The check with the node that an error of onnxruntime names."""
    named = _FAILING.search(error)
    node = next((each for each in every_node(model.graph.node) if named and each.name == named[1]), None)
    return check if node is None else _at(check, node)


def tolerance_of(target: Target, model: onnx.ModelProto) -> float:
    """The error that the arithmetic of a target may make in an original; where it quantizes, one step is visible."""
    quantizes = any(node.op_type in _QUANTIZING for node in every_node(model.graph.node))
    return max(target.tolerance, _STEP) if quantizes else target.tolerance


def _largest(names: Sequence[str], expected: Sequence[Value], actual: Sequence[Value], tolerance: float) -> tuple[float, str]:
    """The largest error of the outputs, and the output that has it."""
    errors = [(error_of(first, second), name) for name, first, second in zip(names, expected, actual, strict=True)]
    return max(errors, default=(0.0, ""))


def error_of(expected: Value, actual: Value) -> float:
    """The largest difference as a fraction of the largest number; of other types, the fraction of unequal elements."""
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return 0.0 if _are_alike(expected, actual) else np.inf
    if expected.shape != actual.shape:
        return np.inf
    if not expected.size:
        return 0.0
    if expected.dtype.kind not in "fV" and expected.dtype.isbuiltin == 1:
        return float(np.mean(expected != actual))
    first, second = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(first)
    if not np.array_equal(first[~finite], second[~finite], equal_nan=True) or not np.isfinite(second[finite]).all():
        return np.inf
    largest = float(np.max(np.abs(first[finite]), initial=0.0))
    difference = float(np.max(np.abs(first[finite] - second[finite]), initial=0.0))
    if not largest:
        return difference
    return difference / largest


def _are_alike(expected: Value, actual: Value) -> bool:
    if isinstance(expected, list) and isinstance(actual, list):
        pairs = list(zip(expected, actual, strict=False))
        return len(expected) == len(actual) and all(error_of(a, b) == 0.0 for a, b in pairs)
    return bool(expected == actual)


def _first_difference(
    model: onnx.ModelProto, there: SessionSettings, feeds: Mapping[str, Value], base_dir: Path | None, tolerance: float
) -> onnx.NodeProto | None:
    """The first node, in the order of the model, whose result on the target differs from the one on the processor."""
    nodes = [node for node in model.graph.node if any(node.output)]
    begin, end = 0, len(nodes)
    found: onnx.NodeProto | None = None
    while begin < end:
        step = max(1, -(-(end - begin) // _MOST_RESULTS))
        chosen = list(range(begin + step - 1, end, step))
        differing = _differing(model, [nodes[place] for place in chosen], there, feeds, base_dir, tolerance)
        if differing is None:
            return found
        found = nodes[chosen[differing]]
        begin, end = (chosen[differing - 1] + 1 if differing else begin), chosen[differing]
        if step == 1:
            break
    return found


def _differing(
    model: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    there: SessionSettings,
    feeds: Mapping[str, Value],
    base_dir: Path | None,
    tolerance: float,
) -> int | None:
    """The place of the first of some nodes whose result differs."""
    names = [next(filter(None, node.output)) for node in nodes]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    with quietly():
        known = load_model(probe, base_dir).graph
    present = [name for name in names if known.info_of(name).dtype]
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.helper.make_tensor_value_info(name, known.info_of(name).dtype, None) for name in present)
    here = replace(there, providers=("cpu",), software_device=False)
    try:
        expected = Session(probe, here, base_dir=base_dir).run(feeds)
        actual = Session(probe, there, base_dir=base_dir).run(feeds)
    except (LoadError, RunError, FeedError):
        return None
    errors = {name: error_of(a, b) for name, a, b in zip(present, expected, actual, strict=True)}
    return next((place for place, name in enumerate(names) if errors.get(name, 0.0) > tolerance), None)
