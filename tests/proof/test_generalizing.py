"""Large constants that both sides of a rewrite read stand for any numbers."""

import numpy as np
import onnx
import pytest

from tests.support import parse
from xoptim import OptimizationOptions, optimize
from xoptim.proof.generalizing import generalized
from xoptim.proof.observer import ProofObserver
from xoptim.proof.proving import prove_models

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
    assert [[v.name for v in model.graph.input] for model in general] == [["x", "w"]] * 2
    assert not any(model.graph.initializer for model in general)
    assert prove_models(*general).grade == "over real numbers"
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
    assert not prove_models(*general).is_proved


def test_layers_with_other_weights_are_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    scope = ProofObserver.__call__.__globals__
    prove = scope["prove"]

    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return prove(*arguments)

    monkeypatch.setitem(scope, "prove", counted)
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
