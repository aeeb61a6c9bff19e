import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim.verification import VerificationOptions, VerificationReport, verify_models

WIDTH = 640  # so wide that usual values are tried, and no tiny ones
STEPS = 24
SUM = """agraph (float[b,640] x) => (float[b,640] y) {
    p = MatMul(x, w) a = Abs(p) e = Exp(a) s = ReduceSum <keepdims = 1> (e, last)
    t = MatMul(x, v) END }"""
TABLE = """agraph (int64[b,8] ids) => (float[b,8,640] y) {
    t = Gather(v, ids) a = Add(t, level) s = Exp(a) END
}"""
RIGHT, WRONG = "y = Add(s, t)", "y = Sub(s, t)"


def recurrence() -> str:
    """The steps of a state whose decay is positive, as the tracing exporter unrolls them."""
    steps = "".join(
        f"x{step} = Gather <axis = 1> (x, i{step}) m{step} = MatMul(x{step}, w) "
        f"d{step} = Softplus(m{step}) g{step} = Mul(d{step}, rate) f{step} = Exp(g{step}) "
        f"k{step} = Mul(h{step}, f{step}) u{step} = Mul(d{step}, x{step}) "
        f"h{step + 1} = Add(k{step}, u{step}) "
        for step in range(STEPS)
    )
    return (
        f"agraph (float[b,{STEPS},640] x, float[b,640] h0) => (float[b,640] y) "
        f"{{ {steps} s = Identity(h{STEPS}) t = Identity(x{STEPS - 1}) END }}"
    )


def compared(text: str, end: str, spread: float = 1.0, **options: object) -> VerificationReport:
    """The verdict on a model and the same with another end."""
    model, changed = (
        with_constants(parse(text.replace("END", last)), spread) for last in (RIGHT, end)
    )
    return verify_models(model, changed, VerificationOptions(**options))  # type: ignore[arg-type]


def with_constants(model: onnx.ModelProto, spread: float) -> onnx.ModelProto:
    drawn = np.random.default_rng(0).standard_normal((2, WIDTH, WIDTH)).astype(np.float32)
    arrays = {
        "w": drawn[0] * np.float32(spread),
        "v": drawn[1],
        "last": np.array([-1]),
        "level": np.array(75, np.float32),
        "rate": np.array(0.3, np.float32),
        **{f"i{step}": np.array(step) for step in range(STEPS)},
    }
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in arrays.items() if name in read
    )
    return model


@pytest.mark.parametrize("text", [SUM, recurrence()], ids=["sum of exponentials", "recurrence"])
def test_values_that_explode_are_tried_on_a_smaller_scale(text: str) -> None:
    right, wrong = (compared(text, end) for end in (RIGHT, WRONG))
    assert right.ok
    assert "small" in {run.source for run in right.runs}
    assert wrong.status == "different"
    assert "smaller numbers" in wrong.reason


def test_results_that_explode_on_all_values_are_no_evidence() -> None:
    for end in (RIGHT, WRONG):
        report = compared(TABLE, end)
        assert report.status == "not verified"
        assert report.cause == "evidence"
        assert " grew to " in report.reason
        assert report.reason.endswith(" feeds")


def test_values_of_the_user_are_evidence() -> None:
    ids = np.arange(16).reshape(2, 8)
    assert compared(TABLE, RIGHT, feeds={"ids": ids}).ok


def test_results_that_are_large_by_the_weights_are_evidence() -> None:
    linear = """agraph (float[b,640] x) => (float[b,640] y) {
        a = MatMul(x, w) r = Add(a, level) s = MatMul(r, w) t = MatMul(x, v) END }"""
    report = compared(linear, RIGHT, spread=1e5)
    assert report.ok
    assert "small" not in {run.source for run in report.runs}


def test_values_that_do_not_explode_stay_as_they_are() -> None:
    report = compared(SUM, RIGHT, spread=0.01)
    assert report.ok
    assert [run.source for run in report.runs if not run.is_probe] == ["random", "random"]
