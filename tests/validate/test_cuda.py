"""The same validation on a GPU, where onnxruntime has its CUDA execution provider."""

from pathlib import Path

import onnx
import onnxruntime as ort
import pytest

from xoptim import Example, installed_patterns, optimize
from xoptim.testing import parse
from xoptim.validate import ValidationOptions, validate

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        "CUDAExecutionProvider" not in ort.get_available_providers(), reason="onnxruntime has no CUDA execution provider here"
    ),
]
_MODEL = Path(__file__).parents[2] / "examples" / "models" / "tiny_bert.onnx"
_EXAMPLES = [
    pytest.param(name, example, id=f"{name}-{number}")
    for name, cls in installed_patterns().items()
    if not cls.providers or "cuda" in cls.providers
    for number, example in enumerate(cls.examples)
]


@pytest.mark.parametrize("patterns", ["default", "default+onnxruntime"])
def test_a_model(patterns: str) -> None:
    model = onnx.load(_MODEL)
    smaller = optimize(model, patterns=patterns, provider="cuda")
    report = validate(model, smaller, ValidationOptions(providers=("cuda",)))
    assert report.ok, report.summary()


@pytest.mark.parametrize(("name", "example"), _EXAMPLES)
def test_an_example(name: str, example: Example) -> None:
    model = parse(example.before, example.opset, example.domains)
    smaller = optimize(model, patterns=[name], provider="cuda", strict=True)
    report = validate(model, smaller, ValidationOptions(providers=("cuda",), exactness="rounding"))
    assert report.status != "different", report.summary()
