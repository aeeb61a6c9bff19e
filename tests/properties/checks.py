"""Properties of any graph and any optimization."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import xoptim
from tests.operators.inference.oracle import check_run
from tests.properties.growing import EPSILON, Drawn
from xoptim import GraphBuilder, OptimizationOptions, OptimizationReport
from xoptim.diagnose.each import EachCheck, with_outputs
from xoptim.facts.schema import WINDOWED
from xoptim.testing.harness import invalid
from xoptim.testing.numbers import FORGETFUL, describe, is_specified
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import all_nodes, serialized
from xoptim.verification import (
    ComparisonRules,
    Value,
    VerificationOptions,
    compare_values,
    verify_models,
)

EVERYTHING = "default+onnxruntime"
SELECTIONS = {
    EVERYTHING: OptimizationOptions(patterns=EVERYTHING, strict=True),
    "default": OptimizationOptions(patterns="default", strict=True),
    "newest": OptimizationOptions(
        patterns="exact+rounding-extra-deprecated", opset="newest", strict=True
    ),
}
"""Options of the optimizations that are tried.

The last ones are for models that were not drawn from nothing.
"""
_UNSOLVABLE = "size != 0 && (input_shape_size % size) == 0 was false"
"""The refusal of a Reshape that solves for -1 next to an axis of size 0.

The first two axes of inputs are taken not to be empty there (``docs/how-it-works.md``), nor where a
size that is an initializer is overridden: any size fits an empty tensor.
"""
_SLACK = 4.0
"""How many times the estimated error results may be apart: both models err, and the estimate is of
one rounding a step.
"""


def fault(drawn: Drawn, *, each: bool = False) -> str | None:
    """The properties that a graph violates.

    Empty when there are none, ``None`` when onnxruntime does not run it.

    Args:
        drawn: the graph.
        each: whether to check each rewrite by itself, too.
    """
    expected = _run_all(drawn)
    if expected is None:
        return None
    if reason := invalid(drawn.model):
        return f"the graph drawn is not valid: {reason}"
    before = serialized(drawn.model)
    reports: list[OptimizationReport] = []
    results = {}
    for selection, options in islice(SELECTIONS.items(), None if drawn.measured else 2):
        results[selection] = xoptim.optimize(drawn.model, options, report=reports.append)
        if serialized(drawn.model) != before:
            return f"{selection}: the model given was modified"
    if serialized(xoptim.optimize(drawn.model, patterns=EVERYTHING, strict=True)) != serialized(
        results[EVERYTHING]
    ):
        return "the same model was optimized twice, with different results"
    wrong = _wrong_rewrite(drawn) if each else ""
    wrong = wrong or _wrong_shape(drawn, drawn.model)
    seen: set[bytes] = set()
    for (selection, result), report in zip(results.items(), reports, strict=True):
        data = serialized(result)
        if not wrong and data not in seen:
            seen.add(data)
            found = _fault_of(drawn, expected, result, selection, report)
            wrong = f"{selection} {_applied(report)}: {found}" if found else ""
    return wrong


def _fault_of(
    drawn: Drawn,
    expected: Mapping[int, list[Value]],
    result: onnx.ModelProto,
    selection: str,
    report: OptimizationReport,
) -> str:
    if (
        drawn.measured
        and _is_refused(result)
        and _is_refused(xoptim.optimize(drawn.model, patterns=[]))
    ):
        return ""  # the model contradicts itself, which shows where constants are folded
    return (
        invalid(result)
        or _wrong_numbers(drawn, expected, result, report)
        or _wrong_shape(drawn, result)
        or _second_run(result, selection)
    )


def _is_refused(model: onnx.ModelProto) -> bool:
    return bool(invalid(model)) or isinstance(RUNTIME.load(model), str)


def _run_all(drawn: Drawn) -> dict[int, list[Value]] | None:
    """Results of each run of the original that succeeds.

    ``None`` when the first one, without empty tensors, does not.
    """
    loaded = RUNTIME.load(drawn.model)
    if isinstance(loaded, str):
        return None
    found = enumerate(RUNTIME.run_all([loaded], drawn.feeds, len(drawn.feeds)))
    runs = {number: results for number, (_, (results,)) in found if isinstance(results, list)}
    return runs if 0 in runs else None


def _wrong_numbers(
    drawn: Drawn,
    expected: Mapping[int, list[Value]],
    result: onnx.ModelProto,
    report: OptimizationReport,
) -> str:
    loaded = RUNTIME.load(result)
    if isinstance(loaded, str):
        return f"onnxruntime refuses the result: {loaded}"
    ran = [drawn.feeds[number] for number in expected]
    found = (results for _, (results,) in RUNTIME.run_all([loaded], ran, len(ran)))
    for feeds, wanted, got in zip(ran, expected.values(), found, strict=True):
        difference = got if isinstance(got, str) else _difference(drawn, wanted, got, report)
        is_empty = any(isinstance(a, np.ndarray) and 0 in a.shape[:2] for a in feeds.values())
        if is_empty and (_UNSOLVABLE in difference or _overrides(drawn.model, feeds)):
            continue
        if (
            difference
            and is_specified(drawn.model, dict(feeds), wanted, difference)
            and not _is_noise(drawn, feeds, result, report)
            and not _is_kernel_error(drawn, feeds, got, report)
        ):
            return f"{difference}\non {describe(dict(feeds))}"
    return ""


def _is_noise(
    drawn: Drawn, feeds: Mapping[str, Value], result: onnx.ModelProto, report: OptimizationReport
) -> bool:
    """Whether rounding explains a difference, where that has to be measured."""
    if not drawn.measured or _overrides(drawn.model, feeds):
        return False  # the verification does not take values for initializers
    grade = "rounding" if report.exactness == "exact" else report.exactness
    return (
        verify_models(
            drawn.model, result, VerificationOptions(feeds=feeds, exactness=grade, threads=1)
        ).status
        != "different"
    )


def _is_kernel_error(
    drawn: Drawn, feeds: Mapping[str, Value], got: list[Value] | str, report: OptimizationReport
) -> bool:
    """Whether the reference implementation of ONNX computes the same from the original as
    onnxruntime from the result.

    onnxruntime's CPU provider computes most 16-bit operators in 32 bits, and drops pairs of the
    casts between them: ``x - x`` may then be the rounding error of one of both.
    """
    halves = {"float16"} & {
        str(np.asarray(value).dtype) for value in got if not isinstance(got, str)
    }
    if isinstance(got, str) or not halves:
        return False
    try:
        wanted: Any = ReferenceEvaluator(drawn.model).run(None, dict(feeds))
    except Exception:  # it lacks operators
        return False
    return not _difference(drawn, list(wanted), got, report)


def _overrides(model: onnx.ModelProto, feeds: Mapping[str, Value]) -> bool:
    """Whether a run has other values than the default of an initializer."""
    return any(tensor.name in feeds for tensor in model.graph.initializer)


def _difference(
    drawn: Drawn, wanted: list[Value], got: list[Value], report: OptimizationReport
) -> str:
    for output, e, a in zip(drawn.model.graph.output, wanted, got, strict=True):
        if (
            report.exactness != "exact"
            and isinstance(e, np.ndarray)
            and isinstance(a, np.ndarray)
            and e.dtype.kind == "f"
        ):
            a = np.where(np.isfinite(e), a, e) if a.shape == e.shape and a.dtype == e.dtype else a
        for compared in compare_values(
            output.name, e, a, _rules(drawn.errors.get(output.name, 0.0), e, report)
        ):
            if not compared.ok:
                return f"{output.name}: {compared.message}"
    return ""


def _rules(error: float, expected: Any, report: OptimizationReport) -> ComparisonRules:
    """The tolerance of the type, and what roundings on the way to the result make at least."""
    default = ComparisonRules(
        "rounding" if error and report.exactness == "exact" else report.exactness
    )
    epsilon = EPSILON.get(str(getattr(expected, "dtype", "")), 0.0)
    if not error or not epsilon:
        return default
    atol = max(
        default.tolerance(onnx.helper.np_dtype_to_tensor_dtype(expected.dtype)).atol,
        _SLACK * error * epsilon,
    )
    return ComparisonRules(default.exactness, atol=atol)


def _wrong_shape(drawn: Drawn, model: onnx.ModelProto) -> str:
    """Where a type, shape or value that is declared or inferred is not the one of a run, all
    results shown.
    """
    known = dict(GraphBuilder(model).graph.all_known())
    names = list(
        dict.fromkeys(
            [
                *(n for node in model.graph.node for n in node.output if n in known),
                *_names(model.graph.output),
            ]
        )
    )
    loaded = RUNTIME.load(with_outputs(model, names))
    if isinstance(loaded, str):
        return ""  # some types cannot be shown
    if drawn.measured and any(node.op_type in (*WINDOWED, "PRelu") for node in all_nodes(model)):
        # onnxruntime makes a window of an image that is smaller, and stretches the tensor of a
        # PRelu to its slopes
        return ""
    reduces = drawn.measured or any(node.op_type.startswith(FORGETFUL) for node in all_nodes(model))
    filled = [feeds for feeds in drawn.feeds if all(value.size for value in feeds.values())]
    for feeds, (results,) in RUNTIME.run_all([loaded], filled, len(filled)):
        if isinstance(results, str):
            continue
        if reduces and any(
            isinstance(result, np.ndarray) and not result.size for result in results
        ):
            # reductions of onnxruntime keep axes of empty tensors; its Concat takes any shape
            # next to them
            continue
        values = _sizes(model, feeds)
        for name, result in zip(loaded.outputs, results, strict=True):
            try:
                if isinstance(result, np.ndarray) and not known[name].container:
                    check_run(known[name], result, values)
            except AssertionError as error:
                return f"{name} is not as inferred: {error}"
    return ""


def _names(values: Any) -> list[str]:
    return [value.name for value in values]


def _sizes(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Sizes of the named dimensions in a run."""
    dims = [
        (d, s)
        for v in model.graph.input
        if v.name in feeds
        for d, s in zip(_dims(v), feeds[v.name].shape, strict=True)
    ]
    return {dim.dim_param: size for dim, size in dims if dim.dim_param}


def _dims(value: onnx.ValueInfoProto) -> Any:
    return value.type.tensor_type.shape.dim


def _second_run(result: onnx.ModelProto, selection: str) -> str:
    reports: list[OptimizationReport] = []
    again = xoptim.optimize(result, SELECTIONS[selection], report=reports.append)
    return (
        ""
        if serialized(again) == serialized(result)
        else f"a second run changes the result {_applied(reports[0])}"
    )


def _wrong_rewrite(drawn: Drawn) -> str:
    check = EachCheck(drawn.model, VerificationOptions(feeds=drawn.feeds[0], threads=1))
    xoptim.optimize(drawn.model, patterns=EVERYTHING, strict=True, on_application=check)
    # Values drawn at random, as those within subgraphs are, need not be such as the nodes before
    # give together.
    known = [
        d
        for d in check.disagreements
        if d.feeds.keys() >= {value.name for value in d.before.graph.input}
    ]
    return "\n".join(map(str, known))


def _applied(report: OptimizationReport) -> str:
    return (
        "(" + ", ".join(f"{name} x{count}" for name, count in report.applied.items() if count) + ")"
    )
