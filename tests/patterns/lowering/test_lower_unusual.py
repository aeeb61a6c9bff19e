"""Lowerings refuse operands of unusual types and ranks."""

from tests.support import parse, types
from xoptim import optimize


def kept(pattern: str, text: str, opset: int = 18) -> bool:
    """Whether a pattern leaves a model, without failing."""
    model = parse(text, opset)
    return types(optimize(model, patterns=[pattern], strict=True)) == types(model)


def test_axes_of_a_scalar() -> None:
    text = "agraph (float x) => (float y) <int64[1] a = {0}> { y = ReduceMean(x, a) }"
    assert kept("LowerReduceMean", text)
