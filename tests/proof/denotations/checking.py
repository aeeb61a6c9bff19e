"""Compares denotations with onnxruntime: element by element, at all indices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.proof.numbers import Numbers
from tests.support import parse, run
from xoptim.facts.assumptions import USUAL
from xoptim.facts.dims import evaluate
from xoptim.facts.dtypes import numpy_dtype
from xoptim.proof.branches import Branch
from xoptim.proof.elements import Element
from xoptim.proof.indices import UNNAMED, CaseFacts
from xoptim.proof.meaning import Side
from xoptim.proof.models import Models
from xoptim.proof.proving import _Attempt

DOMAINS = {"com.microsoft": 1, "ai.onnx.ml": 1}


def check(
    text: str, opset: int = 18, *, exact: bool = True, feeds: Mapping[str, Any] | None = None
) -> None:
    """Both readings of a model's elements, by numbers and by cases, are what onnxruntime computes.

    ``text`` is the signature and the nodes. Reading by cases starts from symbols for all indices.
    """
    model = parse(f"g {text}", opset, domains=DOMAINS)
    values = {**_feeds(model), **(feeds or {})}
    expected = run(model, values)
    numbers = Numbers(values, _one_node)
    side = Side(model, USUAL, is_exact=exact)
    case = CaseFacts(is_exact=exact, has_zeros=side.has_zeros)
    sizes: dict[str, Any] = {
        f"{UNNAMED}{name}[{place}]": int(number)
        for name, value in values.items()
        if value.dtype in (np.int64, np.int32) and value.ndim < 2
        for place, number in enumerate(value.ravel())
    }
    tensors = side.outputs(case, sizes)
    for tensor, result in zip(tensors, expected, strict=True):
        assert tensor.shape == result.shape
        assert numpy_dtype(tensor.dtype) == result.dtype
        for place in np.ndindex(result.shape):
            _same(numbers.element(tensor.at(place), {}), result[place])
    _Cases(model, exact, numbers, expected, sizes).run()


def _same(number: float, expected: Any) -> None:
    assert number == pytest.approx(float(expected), rel=2e-5, abs=2e-6, nan_ok=True)


class _Cases(_Attempt):
    """Compares a model with itself, and each case with the results of onnxruntime."""

    def __init__(
        self,
        model: onnx.ModelProto,
        exact: bool,
        numbers: Numbers,
        expected: list[Any],
        integers: Mapping[str, int],
    ) -> None:
        super().__init__(Models(model, model, USUAL), exact)
        self.numbers = numbers
        self.expected = expected
        self.integers = integers
        self.place = 0

    def _compare_output(self, place: int, *branch: Any, **options: Any) -> None:
        self.place = place
        self.read = np.zeros(self.expected[place].shape, bool)
        super()._compare_output(place, *branch, **options)
        assert self.read.all()

    def _compare(self, branch: Branch, left: Element, right: Element, dtype: int) -> None:
        assert left is right
        extents = [range(evaluate(extent, {})) for extent in branch.extents.values()]
        for values in itertools.product(*extents):
            sizes = {**self.integers, **dict(zip(branch.extents, values, strict=True))}
            if any(evaluate(dim, sizes) < 0 for dim in branch.conditions):
                continue
            place = tuple(evaluate(index, sizes) for index in branch.indices)
            _same(self.numbers.element(left, sizes), self.expected[self.place][place])
            self.read[place] = True


def _feeds(model: onnx.ModelProto) -> dict[str, Any]:
    random = np.random.default_rng(0)
    feeds = {}
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = numpy_dtype(value.type.tensor_type.elem_type)
        # Integers are indices of small axes.
        numbers = (
            random.uniform(-1, 2, shape) if dtype.kind == "f" else random.integers(0, 2, shape)
        )
        feeds[value.name] = numbers.astype(dtype)
    return feeds


def _one_node(key: tuple[Any, ...], args: list[float]) -> float:
    """The value of a function of elements: its operator, run by onnxruntime on scalars."""
    if key[0] in _FUNCTIONS:
        return _FUNCTIONS[key[0]](key, args)
    kind, op_type, domain, version, settings, _bodies, omitted, types, result = key
    assert kind == "pointwise"
    names = iter("abcdef")
    inputs = ["" if is_omitted else next(names) for is_omitted in omitted]
    present = [name for name in inputs if name]
    attributes = {name: _attribute(value) for name, value in settings if value is not None}
    node = onnx.helper.make_node(op_type, inputs, ["y"], domain=domain, **attributes)
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [
            onnx.helper.make_tensor_value_info(name, dtype, [])
            for name, dtype in zip(present, types, strict=True)
        ],
        [onnx.helper.make_tensor_value_info("y", result, [])],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid(domain, version)], ir_version=10
    )
    feeds = {
        name: np.array(number, numpy_dtype(dtype))
        for name, number, dtype in zip(present, args, types, strict=True)
    }
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return float(session.run(None, feeds)[0])


def _wrapped(key: tuple[Any, ...], args: list[float]) -> float:
    return float(np.array(int(args[0])).astype(numpy_dtype(key[1])))


def _cast(key: tuple[Any, ...], args: list[float]) -> float:
    source, target = numpy_dtype(key[1]), numpy_dtype(key[2])
    with np.errstate(all="ignore"):
        return float(np.array(args[0]).astype(source).astype(target))


_FUNCTIONS: Mapping[str, Callable[[tuple[Any, ...], list[float]], float]] = {
    "wrapped": _wrapped,
    "cast": _cast,
    "quotient": lambda _, args: float(math.trunc(Fraction(int(args[0]), int(args[1])))),
    "maximum": lambda _, args: max(args),
    "minimum": lambda _, args: min(args),
    "less": lambda _, args: float(args[0] < args[1]),
    "at most": lambda _, args: float(args[0] <= args[1]),
    "masked": lambda _, args: args[1] if args[0] else -math.inf,
    "special": lambda key, _: float(key[1]),
    "listed": lambda _, args: args[int(args[-1])],
    "equal": lambda _, args: float(args[0] == args[1]),
}


def _attribute(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) and value[1:] == ("float",) else value
