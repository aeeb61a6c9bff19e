import numpy as np
import pytest

from tests.support import parse, run
from xoptim.diagnose.required_exactness import required_exactness
from xoptim.engine.options import OptimizationOptions
from xoptim.optimizing.builder import GraphBuilder

# Next to the branch, onnxruntime keeps 32 bits from one node to the next one.
BRANCH = (
    "agraph ({0}[4,64] x) => ({0}[4,64] y) <bool c = {{1}}> {{ a = Sigmoid(x) b = Mul(a, a) "
    "z = If(c) < then_branch = yes () "
    "=> ({0}[4,64] p) {{ d = Mul(b, a) p = Exp(d) }}, else_branch = no () => ({0}[4,64] q) {{ "
    "q = Neg(x) }}> w = Mul(z, b) y = Tanh(w) }}"
)


def test_models_in_16_bits_round() -> None:
    half, single = parse(BRANCH.format("float16")), parse(BRANCH.format("float"))
    for models in ([half], [single, half]):
        assert required_exactness("exact", models) == "rounding"
    assert required_exactness("exact", [single]) == "exact"
    assert required_exactness("finite", [half]) == "finite"


@pytest.mark.parametrize(("element", "exactness"), [("float", "exact"), ("float16", "rounding")])
def test_a_branch_that_is_taken_out(element: str, exactness: str) -> None:
    """IfConstant is exact, but in 16 bits the runtime decides what is rounded, and a branch is a
    border for it.
    """
    before = parse(BRANCH.format(element))
    builder = GraphBuilder(before, optimization_options=OptimizationOptions(patterns="IfConstant"))
    after = builder.to_onnx()
    assert builder.report().applied == {"IfConstant": 1}
    assert builder.report().exactness == exactness
    x = (
        np.random.default_rng(0)
        .standard_normal((4, 64))
        .astype(np.float16 if element == "float16" else np.float32)
    )
    (expected,), (actual,) = (run(model, {"x": x}) for model in (before, after))
    assert np.array_equal(expected, actual) == (exactness == "exact")
