"""Run a conformance case in onnxruntime: the original, the optimized model, and both with constants
for the inputs.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import onnx

import xoptim
from lab.conformance.cases import Case, all_cases, with_constants
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import serialized

_STANDARD = ("", "ai.onnx")
SELECTIONS = ("default", "default+onnxruntime")
_MAX_CONSTANT_BYTES = 1 << 20
"""Maximum size of a model and its inputs for the forms in which inputs become constants."""
_TWO_ULPS = {"bfloat16": 2**-6, "float16": 2**-9}
"""Two units in the last place, relative to the number: the minimum relative tolerance of a type.

The test suite of onnx allows as much for bfloat16.
"""
MEANINGS = (
    (r"Unsupported model IR|Opset .* is under development", "version not supported"),
    (
        r"not a registered function/op|No Op registered|is under development|is not a registered",
        "unknown operator or version",
    ),
    (
        r"Could not find an implementation|NOT_IMPLEMENTED|not implemented|not yet implemented",
        "no kernel for these types",
    ),
    (
        r"cannot be fed|cannot be read|Unsupported type proto|not supported|nsupported",
        "type not supported",
    ),
    (r"crashes", "crashes"),
    (r"", "refused"),
)
"""Regular expressions for messages of onnxruntime, and the kind of failure that they mean."""
_SLACK = 2.0
"""Factor of the tolerances for optimized models, as the order of sums depends on the processor."""


class Outcome(NamedTuple):
    """The outcome of a case.

    Attributes:
        case: kind and name of the case.
        dropped: why the original does not give the expected outputs in onnxruntime; empty when it
            does.
        runs: number of optimized models that were compared with the expected outputs.
        faults: what is wrong after the optimization.
    """

    case: str
    dropped: str = ""
    runs: int = 0
    faults: tuple[str, ...] = ()


@cache
def outcomes(chunk: int, chunks: int) -> tuple[Outcome, ...]:
    """The outcomes of every ``chunks``-th case, from number ``chunk`` on.

    Each case is optimized in one of its forms, whose number is the number of the case.
    """
    numbers = range(chunk, len(all_cases()), chunks)
    return tuple(judge(all_cases()[number], number) for number in numbers)


def judge(case: Case, form: int | None = None) -> Outcome:
    """Run a case.

    Args:
        case: the case.
        form: number of the only form to optimize, modulo the number of forms; ``None`` for all.
    """
    name = f"{case.kind}/{case.name}"
    case = case._replace(model=_lowered(case.model))
    original = _reason(case, case.model)
    if original:
        return Outcome(name, original)
    runs, faults, forms = 0, [], list(_forms(case))
    for title, model in forms if form is None else [forms[form % len(forms)]]:
        refused = False
        compared_models: set[bytes] = set()
        for selection in SELECTIONS:
            fault = _optimized_fault(case, model, selection, compared_models)
            if fault and title:
                refused = refused or bool(_reason(case, model))
            if fault and not refused:
                faults.append(f"{name} with {selection}{title}: {fault}")
            runs += not refused
    return Outcome(name, "", runs, tuple(faults))


def _lowered(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the newest IR version and operator set that onnxruntime accepts.

    A change of meaning is not excluded here: such a model does not give the expected outputs.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    while isinstance(message := RUNTIME.load(copy), str):
        if ir_version := re.search(r"max supported IR version: (\d+)", message):
            copy.ir_version = int(ir_version[1])
        elif opset := re.search(r"Opset (\d+) is under development", message):
            version = int(opset[1])
            for entry in copy.opset_import:
                entry.version -= entry.domain in _STANDARD and entry.version == version
        else:
            break
    return copy


def _forms(case: Case) -> Iterable[tuple[str, onnx.ModelProto]]:
    yield "", case.model
    if (
        sum(v.nbytes for v in case.feeds(0).values() if isinstance(v, np.ndarray))
        + case.model.ByteSize()
        > _MAX_CONSTANT_BYTES
    ):
        return
    for spare in (0, 1):
        model = with_constants(case, spare=spare)
        if model is not None:
            yield (", all inputs constant", ", all inputs but one constant")[spare], model


def _optimized_fault(
    case: Case, model: onnx.ModelProto, selection: str, compared_models: set[bytes]
) -> str:
    """The fault of a model after its optimization; "" if it has none.

    A result that is in ``compared_models``, or equal to the original, is not run again.
    """
    try:
        result = xoptim.optimize(model, patterns=selection, strict=True)
    except Exception as error:  # any exception is a fault
        return f"{type(error).__name__}: {error}"
    data = serialized(result)
    if data in compared_models or data == serialized(model) == serialized(case.model):
        return ""
    compared_models.add(data)
    return _reason(case, result, _SLACK)


def _reason(case: Case, model: onnx.ModelProto, slack: float = 1.0) -> str:
    """Why a model does not give the expected outputs, within ``slack`` times the tolerances of the
    case; "" when it does.
    """
    loaded = RUNTIME.load(model)
    if isinstance(loaded, str):
        return _meaning(loaded)
    input_names = {value.name for value in model.graph.input}
    for number, (_, expected) in enumerate(case.data):
        if number and len(input_names) < len(case.model.graph.input):
            break  # the constants are those of the first data set
        outputs = RUNTIME.run(
            loaded, {name: v for name, v in case.feeds(number).items() if name in input_names}
        )
        if isinstance(outputs, str):
            return _meaning(outputs)
        if len(expected) != len(outputs) or not all(
            agree(e, a, slack * case.rtol, slack * case.atol)
            for e, a in zip(expected, outputs, strict=True)
        ):
            return "other numbers"
    return ""


def _meaning(message: str) -> str:
    """The kind of a failure, followed by the message of onnxruntime."""
    meaning = next(text for pattern, text in MEANINGS if re.search(pattern, message))
    return f"{meaning}: {message}"


def agree(expected: Any, actual: Any, rtol: float, atol: float) -> bool:
    """Whether an output equals the expected one within the tolerances."""
    if isinstance(expected, list | tuple):
        return (
            isinstance(actual, list)
            and len(expected) == len(actual)
            and all(agree(e, a, rtol, atol) for e, a in zip(expected, actual, strict=True))
        )
    if isinstance(expected, Mapping):
        return (
            isinstance(actual, Mapping)
            and expected.keys() == actual.keys()
            and all(expected[k] == actual[k] for k in expected)
        )
    if expected is None or actual is None:
        return expected is actual
    e, a = np.asarray(expected), np.asarray(actual)
    if e.shape != a.shape:
        return False
    if e.dtype.kind in "OSUT" or a.dtype.kind in "OSUT":
        return bool(np.array_equal(e.astype(str), a.astype(str)))
    if e.dtype != a.dtype:
        return False
    rtol = max(rtol, _TWO_ULPS.get(e.dtype.name, 0.0))
    if e.dtype.isbuiltin != 1:
        e, a = e.astype(np.float64), a.astype(np.float64)
    return (
        bool(np.allclose(a, e, rtol, atol, equal_nan=True))
        if e.dtype.kind in "fc"
        else bool(np.array_equal(e, a))
    )
