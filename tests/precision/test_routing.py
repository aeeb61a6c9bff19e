"""Choices inside a model, such as experts, that quantization changes."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run
from xoptim.engine.options import OptimizationOptions
from xoptim.optimizing.plans import Draft, Plan, Sink
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.budget import SearchBudget
from xoptim.precision.metrics import ErrorMetric
from xoptim.precision.options import PrecisionOptions, Scheme
from xoptim.precision.quantize import quantize
from xoptim.precision.quantized import Quantized
from xoptim.precision.routing import (
    Routing,
    avoided_text,
    is_untested,
    routing_text,
    routings,
    values_before_routers,
)
from xoptim.precision.static_int8 import static_int8
from xoptim.verification.errors import ChoiceError
from xoptim.verification.runs.session_settings import SessionSettings

pytestmark = pytest.mark.usefixtures("faster")
WIDTH, EXPERTS = 32, 8
SETTINGS = SessionSettings()
SHAPES = {"w": (32, 32), "r": (32, 8), "e": (8, 32, 32), "w2": (32, 32)}
MIXTURE = """agraph (float[n,32] x) => (float[n,32] y) <int64[1] k = {1}, int64[1] axis = {1}> {
    h = MatMul(x, w)
    t = Tanh(h)
    s = MatMul(t, r)
    p, i = TopK(s, k)
    c = Squeeze(i, axis)
    m = Gather(e, c)
    u = Unsqueeze(t, axis)
    v = MatMul(u, m)
    z = Squeeze(v, axis)
    o = MatMul(z, w2)
    y = Add(o, t)
}"""


def mixture() -> onnx.ModelProto:
    """A layer, and one of eight experts for each row."""
    return with_weights(MIXTURE, SHAPES)


def with_weights(text: str, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """A model with drawn constants."""
    model, rng = parse(text), np.random.default_rng(0)
    for name, shape in shapes.items():
        array = rng.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(WIDTH))
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def rows(seed: int, count: int = 64) -> dict[str, np.ndarray]:
    """Values of the input."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((count, WIDTH)).astype(np.float32)}


def moved(model: onnx.ModelProto, size: float) -> onnx.ModelProto:
    """The model with other weights of the router."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    (tensor,) = (tensor for tensor in copy.graph.initializer if tensor.name == "r")
    array = numpy_helper.to_array(tensor)
    array = array + size * np.random.default_rng(9).standard_normal(array.shape)
    tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), "r"))
    return copy


def routing_of(
    model: onnx.ModelProto, other: onnx.ModelProto, samples: list[dict[str, np.ndarray]]
) -> tuple[Routing, ...]:
    return routings([(model, None), (other, None)], samples, SETTINGS)


def choices(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The experts of the rows."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    copy.graph.output.add(name="i")
    return np.asarray(run(copy, feeds)[1])


@pytest.mark.parametrize("size", [0.001, 0.01, 0.3])
def test_the_share_on_other_values_is_estimated(size: float) -> None:
    """From few rows, whether the errors are much less than the gaps or not."""
    model, samples = mixture(), [rows(seed) for seed in range(10)]
    other = moved(model, size)
    (routing,) = routing_of(model, other, samples)
    seen = sum(int((choices(model, x) != choices(other, x)).sum()) for x in samples)
    assert (routing.result, routing.op_type, routing.rows) == ("i", "TopK", 640)
    assert routing.changed == seen
    unseen = rows(99, 40_000)
    share = np.mean(choices(model, unseen) != choices(other, unseen))
    assert routing.share == pytest.approx(share, rel=0.25)


def test_equal_models_choose_alike() -> None:
    model = mixture()
    (routing,) = routing_of(model, model, [rows(0, 200)])
    assert (routing.changed, routing.share) == (0, 0.0)
    assert routing_text([routing]) == ""


def test_equal_models_choose_alike_among_equal_scores() -> None:
    model = mixture()
    (scores,) = (tensor for tensor in model.graph.initializer if tensor.name == "r")
    scores.CopyFrom(numpy_helper.from_array(np.zeros((32, 8), np.float32), "r"))
    (routing,) = routing_of(model, model, [rows(0, 200)])
    assert (routing.changed, routing.share) == (0, 0.0)


def test_few_equal_rows_tell_that_nothing_changes() -> None:
    """As with `exact_routing`, whose summary advised to set it."""
    model = mixture()
    (routing,) = routing_of(model, model, [rows(1, 8)])
    assert routing.share == 0
    assert routing_text([routing]) == ""


def test_few_rows_tell_no_share() -> None:
    model = mixture()
    (routing,) = routing_of(model, moved(model, 0.01), [rows(0, 99)])
    assert routing.share is None
    assert " 99 choices " in routing_text([routing])


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ((0.03,), "about 3 of 100 rows"),
        ((0.002, 0.0033), "about 5 of 1000 rows"),
        ((0.0004,), "about 4 of 10000 rows"),
        ((0.00009,), ""),
        ((), ""),
    ],
)
def test_the_shares_of_all_routers_are_one_number(shares: tuple[float, ...], text: str) -> None:
    routing = [Routing("i", "TopK", 1000, 0, share) for share in shares]
    assert text in routing_text(routing)
    assert bool(routing_text(routing)) == bool(text)


@pytest.mark.parametrize(
    "body",
    [
        "v, i = TopK(x, k) y = Identity(v)",  # the values follow the scores without a step
        "v, i = TopK(x, k) z = Cast <to = 1> (i) y = Identity(v)",
        "n = Cast <to = 7> (x) i = ArgMax <axis = -1> (n) y = Cast <to = 1> (i)",  # exact scores
    ],
)
def test_what_does_not_steer(body: str) -> None:
    text = f"agraph (float[n,32] x) => (float[n,m] y) <int64[1] k = {{1}}> {{ {body} }}"
    model = parse(text)
    found = routing_of(model, model, [rows(0, 200)])
    assert all(routing.share == 0 for routing in found)


def test_smallest_scores_and_other_axes() -> None:
    body = "v, i = TopK <axis = 0, largest = 0> (x, k) z = Cast <to = 1> (i) y = Add(v, z)"
    text = f"agraph (float[n,32] x) => (float[m,32] y) <int64[1] k = {{2}}> {{ {body} }}"
    model, other = parse(text), parse(text.replace("TopK <axis", "TopK <axis"))
    other.graph.node.insert(0, onnx.helper.make_node("Tanh", ["x"], ["t"]))
    other.graph.node[1].input[0] = "t"
    (routing,) = routing_of(model, other, [rows(0, 20), rows(1, 20), rows(2, 20), rows(3, 20)])
    assert (routing.rows, routing.changed) == (128, 0), "32 columns of four samples, in their order"


def quantized(
    scheme: Scheme,
    *,
    exact_routing: bool | None,
    static: bool = False,
    metric: ErrorMetric = "largest",
    tolerance: float = 0.3,
    samples: int = 4,
    budget: float | None = None,
    draft: Draft | None = None,
) -> Quantized:
    how, chosen = Plan(sink=Sink(draft=draft)), OptimizationOptions()
    precision = PrecisionOptions(
        scheme=scheme,
        tolerance=tolerance,
        goal="size",
        static=static,
        metric=metric,
        compute="float16" if scheme == "float16" else "auto",
        exact_routing=exact_routing,
        feeds=[rows(seed) for seed in range(samples)],
        budget=budget,
    )
    return quantize(optimize_verified(mixture(), chosen, how), chosen, how, precision)


BEFORE = {"w", "r", "h", "t", "s", "x", "k"}


@pytest.mark.parametrize(
    ("scheme", "static"), [("int8", False), ("int8", True), ("int4", False), ("float16", False)]
)
def test_what_determines_the_choice_stays_in_float32(scheme: Scheme, static: bool) -> None:
    free, exact = (quantized(scheme, exact_routing=flag, static=static) for flag in (False, True))
    assert BEFORE & (free.applied.keys() | {*free.activations})
    assert exact.applied
    assert not BEFORE & (exact.applied.keys() | {*exact.activations})
    weights = {choice.measured.candidate.weights for choice in exact.choices}
    assert not BEFORE & weights
    model, unseen = exact.verified.proto, rows(50, 2000)
    assert (choices(mixture(), unseen) == choices(model, unseen)).all()
    assert (choices(mixture(), unseen) != choices(free.verified.proto, unseen)).any()
    assert not exact.routing_text
    assert free.routing
    assert "exact_routing=True" in free.routing_text


@pytest.mark.parametrize(("scheme", "static"), [("int8", False), ("int8", True), ("int4", False)])
def test_choices_that_samples_do_not_show_stay_exact(scheme: Scheme, static: bool) -> None:
    """Few rows change their choice on the samples, and each may exceed the tolerance."""
    result = quantized(scheme, exact_routing=None, static=static)
    (avoided,) = result.avoided_routing
    assert avoided.share is not None
    assert avoided.share > 0.001
    assert result.applied
    assert not BEFORE & (result.applied.keys() | {*result.activations})
    assert all(router.share == 0 for router in result.routing)
    assert "exact_routing=False" in result.routing_text
    assert result.to_json()["avoided_routing"]


@pytest.mark.parametrize("seconds", [28, 30, 34, 60])
def test_a_second_search_has_time_of_its_own(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """Each look at the clock takes a second; a search that is not ended needs 25 of them."""
    clock = count()
    monkeypatch.setattr(SearchBudget.__init__, "__defaults__", (lambda: next(clock),))
    result = quantized("int8", exact_routing=None, budget=seconds)
    assert result.applied
    assert not BEFORE & result.applied.keys()
    assert result.ended_by_budget == (seconds < 60)


def test_weights_of_the_first_search_are_removed(tmp_path: Path) -> None:
    with Draft(tmp_path / "result.onnx", external=True) as draft:
        result = quantized("int8", exact_routing=None, draft=draft)
        assert result.avoided_routing
        assert len([*tmp_path.iterdir()]) == 2, "of the float32 model, and of the result"


def test_too_few_choices_say_nothing() -> None:
    result = quantized("int8", exact_routing=None, samples=1)
    assert [router.share for router in result.routing] == [None]
    assert BEFORE & result.applied.keys()
    assert not result.avoided_routing


def test_a_node_with_few_choices_hides_no_other() -> None:
    experts, label = Routing("i", "TopK", 5000, 0, 0.03), Routing("c", "ArgMax", 8, 0, None)
    for routing in ([experts], [experts, label], [label, experts]):
        assert is_untested(routing)
        assert avoided_text(routing).startswith("TopK ")
        assert " 3 of 100" in avoided_text(routing)
    assert not is_untested([label])
    assert avoided_text([label]) == ""


def test_a_mean_over_all_elements_bears_changed_choices() -> None:
    result = quantized("int8", exact_routing=None, metric="rms")
    assert BEFORE & result.applied.keys()
    assert not result.avoided_routing
    assert "exact_routing=True" in result.routing_text


def test_errors_of_16_bits_change_few_choices() -> None:
    result = quantized("float16", exact_routing=None)
    assert BEFORE & result.applied.keys()
    assert not result.avoided_routing


def test_changes_that_the_samples_show_are_judged_by_their_error() -> None:
    """Experts that hardly differ keep the tolerance whichever is chosen."""
    model = mixture()
    (experts,) = (tensor for tensor in model.graph.initializer if tensor.name == "e")
    small = numpy_helper.to_array(experts) * np.float32(0.01)
    experts.CopyFrom(numpy_helper.from_array(small, "e"))
    how, chosen = Plan(), OptimizationOptions()
    samples = [rows(seed, 1500) for seed in range(4)]
    precision = PrecisionOptions(tolerance=0.2, goal="size", feeds=samples)
    result = quantize(optimize_verified(model, chosen, how), chosen, how, precision)
    assert sum(router.changed for router in result.routing) >= 10
    assert BEFORE & result.applied.keys()
    assert not result.avoided_routing


def test_all_values_that_a_body_chooses_from_are_named() -> None:
    text = """agraph (float[4,32] x) => (float[4,32] y) <float[32,32] w> {
        m = MatMul(x, w)
        y = Scan <num_scan_inputs = 1, body = body (float[32] row) => (float[32] out)
            <int64[1] k = {1}> {
            v, i = TopK(row, k)
            f = Cast <to = 1> (i)
            out = Mul(row, f)
        }> (m)
    }"""
    values = values_before_routers(parse(text))
    assert values >= {"x", "w", "m", "y", "row", "v", "i", "f", "out", "k"}


def test_a_body_that_returns_the_indices_chooses() -> None:
    text = """agraph (float[4,32] x, bool c) => (float[4,1,2] y)
        <float[32,8] w, float[8,2] e, int64[1] k = {1}> {
        s = MatMul(x, w)
        i = If (c) <
            then_branch = a () => (int64[4,1] i1) { v1, i1 = TopK(s, k) },
            else_branch = b () => (int64[4,1] i2) { v2, i2 = TopK <largest = 0> (s, k) }
        >
        y = Gather(e, i)
    }"""
    assert values_before_routers(parse(text)) >= {"x", "w", "s"}


def test_nothing_remains_where_the_result_is_chosen() -> None:
    text = """agraph (float[n,32] x) => (float[n] y) {
        m = MatMul(x, w)
        i = ArgMax <axis = -1, keepdims = 0> (m)
        y = Cast <to = 1> (i)
    }"""
    model = with_weights(text, {"w": (32, 64)})
    how, chosen = Plan(), OptimizationOptions()
    precision = PrecisionOptions(goal="size", exact_routing=True, feeds=[rows(0)])
    found = quantize(optimize_verified(model, chosen, how), chosen, how, precision)
    assert " TopK, ArgMax or ArgMin " in found.reason


def test_a_neural_processor_computes_nothing_in_float32() -> None:
    how, chosen = Plan(), OptimizationOptions(target="qnn")
    precision = PrecisionOptions(static=True, exact_routing=True, feeds=[rows(0)])
    with pytest.raises(ChoiceError, match=r"exact routing .* qnn"):
        static_int8(optimize_verified(mixture(), chosen, how), chosen, how, precision)
