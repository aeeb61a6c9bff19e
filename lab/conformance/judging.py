"""Runs of a conformance case: onnxruntime runs it as it is, then optimized, and with constants for
its inputs.
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
_SMALL = 1 << 20
"""Bytes of weights and images above which the inputs of a network stay inputs."""
_TWO_STEPS = {"bfloat16": 2**-6, "float16": 2**-9}
"""Relative distance of a number of 16 bits to the next but one.

The suite allows as much for the first type.
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
"""Parts of messages of onnxruntime, and the reason that they show."""
_SLACK = 2.0
"""How much farther from the suite a result may be after the optimization: the order of sums depends
on the processor.
"""


class Outcome(NamedTuple):
    """How a case went.

    Attributes:
        case: kind and name.
        dropped: why onnxruntime alone does not give the outputs of the suite; empty when it does.
        runs: number of comparisons of an optimized model with the suite.
        faults: what is wrong after the optimization.
    """

    case: str
    dropped: str = ""
    runs: int = 0
    faults: tuple[str, ...] = ()


@cache
def outcomes(chunk: int, chunks: int) -> tuple[Outcome, ...]:
    """Every ``chunks``-th case, from number ``chunk`` on, in one of its forms: another one in the
    next case.
    """
    numbers = range(chunk, len(all_cases()), chunks)
    return tuple(judge(all_cases()[number], number) for number in numbers)


def judge(case: Case, form: int | None = None) -> Outcome:
    """Run a case.

    Args:
        case: the case.
        form: number of the form that is optimized, counted in a circle; all forms without one.
    """
    name = f"{case.kind}/{case.name}"
    case = case._replace(model=_lowered(case.model))
    original = _reason(case, case.model)
    if original:
        return Outcome(name, original)
    runs, faults, forms = 0, [], list(_forms(case))
    for title, model in forms if form is None else [forms[form % len(forms)]]:
        refused = False
        tried: set[bytes] = set()
        for selection in SELECTIONS:
            fault = _optimized_fault(case, model, selection, tried)
            if fault and title:
                refused = refused or bool(_reason(case, model))
            if fault and not refused:
                faults.append(f"{name} with {selection}{title}: {fault}")
            runs += not refused
    return Outcome(name, "", runs, tuple(faults))


def _lowered(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the newest versions that onnxruntime accepts.

    Whether it still says the same shows in its outputs.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    while isinstance(message := RUNTIME.load(copy), str):
        if found := re.search(r"max supported IR version: (\d+)", message):
            copy.ir_version = int(found[1])
        elif found := re.search(r"Opset (\d+) is under development", message):
            version = int(found[1])
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
        > _SMALL
    ):
        return
    for spare in (0, 1):
        model = with_constants(case, spare=spare)
        if model is not None:
            yield (", all inputs constant", ", all inputs but one constant")[spare], model


def _optimized_fault(case: Case, model: onnx.ModelProto, selection: str, tried: set[bytes]) -> str:
    """The fault of a model after its optimization.

    A model that was seen before is not run again.
    """
    try:
        smaller = xoptim.optimize(model, patterns=selection, strict=True)
    except Exception as error:  # whatever it is, it is the finding
        return f"{type(error).__name__}: {error}"
    data = serialized(smaller)
    if data in tried or data == serialized(model) == serialized(case.model):
        return ""
    tried.add(data)
    return _reason(case, smaller, _SLACK)


def _reason(case: Case, model: onnx.ModelProto, slack: float = 1.0) -> str:
    """Why a model does not give the outputs of the suite, empty when it does, within ``slack``
    times its tolerance.
    """
    loaded = RUNTIME.load(model)
    if isinstance(loaded, str):
        return _meaning(loaded)
    wanted = {value.name for value in model.graph.input}
    for number, (_, expected) in enumerate(case.data):
        if number and len(wanted) < len(case.model.graph.input):
            break  # the constants are those of the first data set
        found = RUNTIME.run(
            loaded, {name: v for name, v in case.feeds(number).items() if name in wanted}
        )
        if isinstance(found, str):
            return _meaning(found)
        if len(expected) != len(found) or not all(
            agree(e, f, slack * case.rtol, slack * case.atol)
            for e, f in zip(expected, found, strict=True)
        ):
            return "other numbers"
    return ""


def _meaning(message: str) -> str:
    """A class of failures, with the words of onnxruntime where they matter."""
    meaning = next(text for pattern, text in MEANINGS if re.search(pattern, message))
    return f"{meaning}: {message}"


def agree(expected: Any, found: Any, rtol: float, atol: float) -> bool:
    """Whether a result is the one of the suite, within its tolerance."""
    if isinstance(expected, list | tuple):
        return (
            isinstance(found, list)
            and len(expected) == len(found)
            and all(agree(e, f, rtol, atol) for e, f in zip(expected, found, strict=True))
        )
    if isinstance(expected, Mapping):
        return (
            isinstance(found, Mapping)
            and expected.keys() == found.keys()
            and all(expected[k] == found[k] for k in expected)
        )
    if expected is None or found is None:
        return expected is found
    e, f = np.asarray(expected), np.asarray(found)
    if e.shape != f.shape:
        return False
    if e.dtype.kind in "OSUT" or f.dtype.kind in "OSUT":
        return bool(np.array_equal(e.astype(str), f.astype(str)))
    if e.dtype != f.dtype:
        return False
    rtol = max(rtol, _TWO_STEPS.get(e.dtype.name, 0.0))
    if e.dtype.isbuiltin != 1:
        e, f = e.astype(np.float64), f.astype(np.float64)
    return (
        bool(np.allclose(f, e, rtol, atol, equal_nan=True))
        if e.dtype.kind in "fc"
        else bool(np.array_equal(e, f))
    )
