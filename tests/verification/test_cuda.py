"""The same verification on a GPU, where onnxruntime has its CUDA execution provider."""

from pathlib import Path

import onnx
import onnxruntime as ort
import pytest

from xoptim import Example, installed_patterns, optimize
from xoptim.match.rewrite import Rewrite
from xoptim.testing import parse
from xoptim.verification import VerificationOptions, verify_models

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        "CUDAExecutionProvider" not in ort.get_available_providers(),
        reason="onnxruntime has no CUDA execution provider here",
    ),
]
_MODEL = Path(__file__).parents[2] / "examples" / "models" / "tiny_bert.onnx"
_DUPLICATES = ("ScatterElementsExpand",)
"""Patterns whose examples, on random indices, write to one place twice: on a GPU it is open which
number stays.
"""
_EXAMPLES = [
    pytest.param(cls, example, id=f"{name}-{number}")
    for name, cls in installed_patterns().items()
    if (not cls.providers or "cuda" in cls.providers) and name not in _DUPLICATES
    for number, example in enumerate(cls.examples)
]


@pytest.mark.parametrize("patterns", ["default", "default+onnxruntime"])
def test_a_model(patterns: str) -> None:
    model = onnx.load(_MODEL)
    smaller = optimize(model, patterns=patterns, provider="cuda")
    report = verify_models(model, smaller, VerificationOptions(providers=("cuda",)))
    assert report.ok, report.summary()


@pytest.mark.parametrize(("cls", "example"), _EXAMPLES)
def test_an_example(cls: type[Rewrite], example: Example) -> None:
    model = parse(example.before, example.opset, example.domains)
    smaller = optimize(model, patterns=[cls.name()], provider="cuda", strict=True)
    # other kernels round otherwise
    exactness = "rounding" if cls.exactness == "exact" else cls.exactness
    options = VerificationOptions(providers=("cuda",), exactness=exactness)
    report = verify_models(model, smaller, options)
    assert report.status != "different", report.summary()
