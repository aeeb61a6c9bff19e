"""A model compared with a Python function on arrays, such as a pipeline of scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from xoptim.facts.dtypes import element_type, is_float, is_integer
from xoptim.facts.words import counted
from xoptim.graph.assumed import noted
from xoptim.verification.errors import FeedError, LoadError, RunError
from xoptim.verification.inputs.feeding import ReferenceRun, warn_of_missing
from xoptim.verification.inputs.reference import Reference, read_original, run_reference
from xoptim.verification.judging.expected import Expectation, ExpectedRun, judge_expected
from xoptim.verification.judging.report import Cause, VerificationReport
from xoptim.verification.judging.steady import unsteady_output
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import Located, ModelLike
from xoptim.verification.runs.session import Value
from xoptim.verification.verify import with_record

_MIN_RUNS: Final = 3  # the third one has a batch of 1


class FunctionError(RunError):
    """A function fails on the values of a run, or its results do not fit the model."""


def verify_function(
    function: Callable[..., Any], model: ModelLike, options: VerificationOptions
) -> VerificationReport:
    """Compare a model with a function that takes the inputs of the model in order, as arrays.

    The function returns the outputs: one, several as a tuple or list, or by name. Numbers of
    another width (64-bit floats for 32-bit ones) are cast, and axes of length 1 may be missing.
    Values are random and finite, at several sizes of the dynamic dimensions.

    The status is ``not verified`` when the model or the function cannot run, or when the function
    does not repeat its own results. Raises `ChoiceError` and `ProviderUnavailable`, see `compare`.
    """

    def refused(reason: str, cause: Cause) -> VerificationReport:
        providers = tuple(options.providers)
        return VerificationReport("not verified", reason, cause=cause, providers=providers)

    varied = replace(options, extremes=False, assignments=max(options.assignments, _MIN_RUNS))
    try:
        proto, base_dir = read_original(model, varied)
        reference = run_reference(model, varied, proto)
    except LoadError as error:
        return refused(f"onnxruntime cannot load the model: {error}", "load")
    except (FeedError, RunError) as error:
        return refused(f"onnxruntime cannot run the model: {error}", "run")
    warn_of_missing(model, options.feeds)
    caller = _Caller(function, reference)
    try:
        keyed = [replace(run, results=list(map(_by_key, run.results))) for run in reference.runs]
        runs = [ExpectedRun(run, caller.expected(run)) for run in keyed]
        first = runs[0]
        repetition = caller.expected(first.run)
    except FunctionError as error:
        return refused(str(error), "run")
    located, notes = Located(proto, base_dir), tuple(caller.notes)
    second = ExpectedRun(replace(first.run, results=list(repetition.results)), first.expected)
    exactly = replace(varied, noise_multiple=0.0)
    repeated = judge_expected([second], located, reference.outputs, exactly)
    if repeated.status == "different":
        reason = f"the function is not deterministic: {repeated.reason}"
        return refused(reason, "evidence")
    report = judge_expected(runs, located, reference.outputs, varied, notes)
    # Results that depend on uninitialized memory can look like rounding.
    if any(not run.is_accepted() for run in report.runs):
        unsteady = unsteady_output(
            located, varied.settings, reference.outputs, reference.runs, varied.rules
        )
        if unsteady:
            return refused(f"the model is not deterministic: {unsteady}", "evidence")
    return with_record(report, noted(proto).texts, varied)


class _Caller:
    """Calls the function, and gives its results the form of the outputs of the model."""

    def __init__(self, function: Callable[..., Any], model: Reference) -> None:
        self._function = function
        self._inputs, self._outputs = [port.name for port in model.inputs], model.outputs
        self.notes: dict[str, None] = {}

    def expected(self, run: ReferenceRun) -> Expectation:
        """The results of the function on the values of a run; raises `FunctionError`."""
        # a function may change its operands
        values = [run.feeds[name] for name in self._inputs]
        arguments = [np.copy(v) if isinstance(v, np.ndarray) else v for v in values]
        start = time.perf_counter()
        try:
            returned = self._function(*arguments)
        except Exception as error:  # the caller's own code
            shapes = ", ".join(str(list(getattr(v, "shape", ()))) for v in arguments)
            raise FunctionError(
                f"the function fails on arrays of shape {shapes}: {type(error).__name__}: {error}; "
                "give values that it accepts with feeds={...}"
            ) from error
        seconds = time.perf_counter() - start
        results = [_by_key(_as_value(result)) for result in self._by_output(returned)]
        triples = list(zip(self._outputs, results, run.results, strict=True))
        return Expectation(
            tuple(self._like(port.name, value, output) for port, value, output in triples),
            tuple(_accurate(value, output) for _, value, output in triples),
            seconds,
        )

    def _by_output(self, returned: Any) -> list[Any]:
        """The returned value for each output of the model, in order."""
        names = [port.name for port in self._outputs]
        if isinstance(returned, Mapping):
            if missing := [name for name in names if name not in returned]:
                raise FunctionError(
                    f"the function returns {', '.join(map(str, returned))}, but not "
                    f"{', '.join(missing)}, which the model computes"
                )
            return [returned[name] for name in names]
        is_one = len(names) == 1 and not isinstance(returned, tuple)
        try:
            results = [returned] if is_one else list(returned)
        except TypeError:  # a number or None
            results = [returned]
        if len(results) != len(names):
            raise FunctionError(
                f"the function returns {counted(len(results), 'value')}, and the model has "
                f"{counted(len(names), 'output')}: {', '.join(names)}"
            )
        return results

    def _like(self, name: str, value: Value, output: Value) -> Value:
        """A result in the type and the shape of an output, where only these differ."""
        if not isinstance(value, np.ndarray) or not isinstance(output, np.ndarray):
            return _items_like(value, output)
        if _is_wider(value, output):
            value = value.astype(output.dtype)
        if value.ndim == output.ndim or _without_ones(value) != _without_ones(output):
            return value
        self.notes[
            f"output {name!r} has {output.ndim} dimensions, the result of the function has "
            f"{value.ndim}: the others are 1"
        ] = None
        return value.reshape(output.shape)


def _items_like(value: Value, output: Value) -> Value:
    """Sequences and maps whose numbers have the types of an output."""
    if isinstance(value, list) and isinstance(output, list) and len(value) == len(output):
        return [
            _items_like(item, output_item) for item, output_item in zip(value, output, strict=True)
        ]
    if isinstance(value, dict) and isinstance(output, dict) and value.keys() == output.keys():
        return {key: _items_like(value[key], output_item) for key, output_item in output.items()}
    if (
        isinstance(value, np.ndarray)
        and isinstance(output, np.ndarray)
        and _is_wider(value, output)
    ):
        return value.astype(output.dtype)
    return value


def _by_key(value: Value) -> Value:
    """Turn a list of maps with the same keys (one per row, from a classifier) into a map of arrays.

    Other values stay. Rows are joined because the tolerance depends on the magnitudes in all rows.
    """
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return value
    if any(row.keys() != value[0].keys() for row in value):
        return value
    joined = {key: np.asarray([row[key] for row in value]) for key in value[0]}
    # onnxruntime returns the 32-bit floats of maps as Python floats
    return {
        key: array.astype(np.float32) if array.dtype == np.float64 else array
        for key, array in joined.items()
    }


def _as_value(returned: Any) -> Value:
    if isinstance(returned, (np.ndarray, dict)) or returned is None:
        return returned
    if isinstance(returned, list) and returned and isinstance(returned[0], (dict, np.ndarray)):
        return returned
    for method in ("detach", "cpu", "toarray", "to_numpy"):  # torch, sparse matrices, data frames
        returned = getattr(returned, method, lambda value=returned: value)()
    try:
        return np.asarray(returned)
    except ValueError as error:  # lists of different lengths
        raise FunctionError(f"the function returns a value that is no array: {error}") from None


def _accurate(value: Value, output: Value) -> np.ndarray | None:
    """A result in 64-bit floats, where the function computes with these and the model does not."""
    if not isinstance(value, np.ndarray) or not isinstance(output, np.ndarray):
        return None
    is_known = (
        value.dtype == np.float64 and output.dtype != np.float64 and value.size == output.size
    )
    return value.reshape(output.shape) if is_known else None


def _is_wider(value: np.ndarray, output: np.ndarray) -> bool:
    """Whether a result has another type than the output, and both are floats or both integers."""
    if value.dtype == output.dtype:
        return False
    first, second = element_type(value.dtype), element_type(output.dtype)
    both_float = is_float(first) and is_float(second)
    return both_float or (is_integer(first) and is_integer(second))


def _without_ones(array: np.ndarray) -> tuple[int, ...]:
    return tuple(size for size in array.shape if size != 1)
