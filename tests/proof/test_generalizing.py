"""Large constants that both sides of a rewrite read stand for any numbers."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest

from tests.support import parse
from xoptim import OptimizationOptions, optimize
from xoptim.facts.assumptions import USUAL
from xoptim.proof import repeated
from xoptim.proof.generalizing import generalized
from xoptim.proof.observer import ProofObserver
from xoptim.proof.proving import Proof, prove_models
from xoptim.proof.repeated import RepeatedProofs

SIGNATURE = "(float[N,8] x, float[8,9] w) => (float[N,9] y)"


def _sides(bodies: tuple[str, str], *arrays: np.ndarray) -> list[onnx.ModelProto]:
    """Two models with an array for each side, or one for both, in place of the input ``w``."""
    models = [parse(f"g {SIGNATURE} {{ {body} }}") for body in bodies]
    for model, array in zip(models, arrays * (2 if len(arrays) == 1 else 1), strict=True):
        del model.graph.input[1]
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, "w"))
    return models


BODIES = "a = Neg(x) y = MatMul(a, w)", "a = MatMul(x, w) y = Neg(a)"
WEIGHTS = np.arange(72, dtype=np.float32).reshape(8, 9) / 7


def test_a_shared_constant_becomes_an_input() -> None:
    models = _sides(BODIES, WEIGHTS)
    general = generalized(models)
    assert general is not None
    assert [[v.name for v in model.graph.input] for model in general.models] == [["x", "w"]] * 2
    assert not any(model.graph.initializer for model in general.models)
    assert (general.names, general.folded) == (("w",), ())
    assert prove_models(*general.models).grade == "over real numbers"
    assert prove_models(models[0], models[1]).grade == "over real numbers"
    assert [len(model.graph.initializer) for model in models] == [1, 1]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_no_number_that_is_not_finite(number: float) -> None:
    weights = WEIGHTS.copy()
    weights[3, 4] = number
    assert generalized(_sides(BODIES, weights)) is None


def test_no_constant_that_differs() -> None:
    other = WEIGHTS.copy()
    other[7, 8] += 1
    assert generalized(_sides(BODIES, WEIGHTS, other)) is None
    assert generalized(_sides(BODIES, WEIGHTS, WEIGHTS.reshape(9, 8))) is None
    assert generalized(_sides(BODIES, WEIGHTS, WEIGHTS.astype(np.float64))) is None


def test_no_small_constant() -> None:
    text = "g (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}> { y = Mul(x, w) }"
    assert generalized([parse(text), parse(text)]) is None


def test_a_rewrite_that_depends_on_its_constants_is_not_proved_for_all() -> None:
    """With other weights, the second side would be another function."""
    general = generalized(_sides(("y = MatMul(x, w)", "a = Abs(w) y = MatMul(x, a)"), WEIGHTS))
    assert general is not None
    assert not prove_models(*general.models).is_proved


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that prove a rewrite, for each call from now on."""
    calls: list[str] = []

    def counted(name: str) -> Callable[..., object]:
        function = getattr(repeated, name)

        def call(*arguments: object) -> object:
            calls.append(name)
            return function(*arguments)

        return call

    for name in ("prove", "prove_for_constants"):
        monkeypatch.setattr(repeated, name, counted(name))
    return calls


def test_layers_with_other_weights_are_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _counted(monkeypatch)
    layer = "a{0} = Conv({1}, w{0}, z) d{0} = Tanh(a{0}) "
    names = ["x", "d0", "d1"]
    nodes = "".join(layer.format(number, name) for number, name in enumerate(names))
    weights = ", ".join(f"float[9,9,1] w{number}" for number in range(3))
    zeros = f"<float[9] z = {{{', '.join('0' * 9)}}}>"
    signature = f"(float[N,9,K] x, {weights}) => (float[N,9,K] y) {zeros}"
    model = parse(f"g {signature} {{ {nodes} y = Neg(d2) }}")
    del model.graph.input[1:]
    for number in range(3):
        array = (np.arange(81, dtype=np.float32).reshape(9, 9, 1) + number) / 7
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, f"w{number}"))
    observer = ProofObserver()
    options = OptimizationOptions(patterns=["ConvBiasNull"], on_application=observer)
    optimize(model, options)
    assert [step.proof.grade for step in observer.steps] == ["over real numbers"] * 3
    assert len(calls) == 1


SCALE = np.arange(1, 82, dtype=np.float32) / 3
WIDE = np.arange(8 * 81, dtype=np.float32).reshape(8, 81) / 7 - 30


def _model(body: str, arrays: Sequence[tuple[str, np.ndarray]]) -> onnx.ModelProto:
    model = parse(f"g (float[N,8] x) => (float[N,81] y) {{ {body} }}")
    tensors = (onnx.numpy_helper.from_array(array, name) for name, array in arrays)
    model.graph.initializer.extend(tensors)
    return model


def _scaled(
    w: np.ndarray, s: np.ndarray, folded: np.ndarray, prefix: str = ""
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """A product that is scaled, and a product with other weights."""
    names = f"{prefix}w", f"{prefix}s", f"{prefix}f"
    before = f"a = MatMul(x, {names[0]}) y = Mul(a, {names[1]})"
    pairs = [(names[0], w), (names[1], s)]
    after = _model(f"y = MatMul(x, {names[2]})", [(names[2], folded)])
    return _model(before, pairs), after


def _grades(*rewrites: tuple[onnx.ModelProto, onnx.ModelProto]) -> list[Proof]:
    proofs = RepeatedProofs()
    return [proofs.prove(rewrite, USUAL) for rewrite in rewrites]


def test_folded_constants_are_compared_for_each_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _counted(monkeypatch)
    right = [_scaled(w, SCALE, w * SCALE, f"l{k}") for k in (1, 2) for w in (WIDE * k + 3,)]
    wrong = WIDE * SCALE
    wrong[7, 80] = np.nextafter(wrong[7, 80] * np.float32(1 + 1e-6), np.float32(np.inf))
    *proved, last = _grades(*right, _scaled(WIDE, SCALE, wrong))
    alone = prove_models(*right[0])
    assert {(x.grade, x.premises) for x in proved} == {(alone.grade, alone.premises)}
    assert alone.grade == "over real numbers, constants folded"
    assert not last.is_proved
    assert "normal forms" in last.reason
    assert calls == ["prove_for_constants", "prove"]


def test_swapped_constants_are_another_rewrite() -> None:
    """Two square weights of one shape, in the order of their names or not."""
    a, b = (np.arange(81, dtype=np.float32).reshape(9, 9) / 7 + k for k in (0, 2))
    folded = (a.astype(np.float64) @ b).astype(np.float32)
    text = "g (float[N,9] x) => (float[N,9] y) { "

    def sides(first: str, second: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        before = parse(f"{text} u = MatMul(x, {first}) y = MatMul(u, {second}) }}")
        after = parse(f"{text} y = MatMul(x, c) }}")
        named = (("a", a), ("b", b))
        before.graph.initializer.extend(onnx.numpy_helper.from_array(v, n) for n, v in named)
        after.graph.initializer.append(onnx.numpy_helper.from_array(folded, "c"))
        return before, after

    right, wrong = _grades(sides("a", "b"), sides("b", "a"))
    assert right.is_proved
    assert not wrong.is_proved


@pytest.mark.parametrize("number", [0.0, -1.0])
def test_a_root_that_is_no_number_is_not_proved(number: float) -> None:
    """Conditions are compared for the constants of each layer, also where they have no meaning."""
    text = "g (float[N,8] x) => (float[N,81] y) "
    before = text + "{ m = MatMul(x, w) r = Sqrt(v) y = Div(m, r) }"

    def sides(v: np.ndarray) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        models = parse(before), parse(text + "{ y = MatMul(x, f) }")
        with np.errstate(all="ignore"):
            folded = np.nan_to_num(WIDE / np.sqrt(v), nan=5, posinf=5, neginf=5)
        pairs = (("w", WIDE), ("v", v)), (("f", folded),)
        for model, arrays in zip(models, pairs, strict=True):
            tensors = (onnx.numpy_helper.from_array(array, name) for name, array in arrays)
            model.graph.initializer.extend(tensors)
        return models

    bad = SCALE.copy()
    bad[40] = number
    right, wrong = _grades(sides(SCALE), sides(bad))
    assert right.is_proved
    assert not wrong.is_proved


def test_zeros_of_one_side_are_no_folded_constant() -> None:
    """Without them, the grade would be weaker."""
    zeros = np.zeros(81, np.float32)
    before = _model("a = MatMul(x, w) y = Add(a, z)", [("w", WIDE), ("z", zeros)])
    after = _model("y = MatMul(x, w)", [("w", WIDE)])
    (proof,) = _grades((before, after))
    assert proof.grade == prove_models(before, after).grade == "over real numbers"


def test_an_operand_of_a_maximum_is_folded() -> None:
    """Also what is not a factor of a product is compared."""
    text = "g (float[N,81] x) => (float[N,81] y) "
    right = SCALE * np.float32(3)

    def sides(folded: np.ndarray) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        before = parse(text + "<float t = {3}> { c = Mul(s, t) y = Max(x, c) }")
        after = parse(text + "{ y = Max(x, f) }")
        before.graph.initializer.append(onnx.numpy_helper.from_array(SCALE, "s"))
        after.graph.initializer.append(onnx.numpy_helper.from_array(folded, "f"))
        return before, after

    wrong = right.copy()
    wrong[0] += np.float32(0.01)
    assert [x.is_proved for x in _grades(sides(right), sides(wrong))] == [True, False]


def test_moved_constants_have_the_same_bits() -> None:
    """A constant that was moved is no weaker grade than the nodes that move it."""
    text = "g (float[N,81] x) => (float[8,N,81] y) "
    before = parse(text + "{ a = Unsqueeze <axes = [1]> (w) y = Add(x, a) }", 11)
    after = parse(text + "{ y = Add(x, f) }", 11)
    before.graph.initializer.append(onnx.numpy_helper.from_array(WIDE, "w"))
    after.graph.initializer.append(onnx.numpy_helper.from_array(WIDE[:, None], "f"))
    (proof,) = _grades((before, after))
    assert proof.grade == "same bits"
