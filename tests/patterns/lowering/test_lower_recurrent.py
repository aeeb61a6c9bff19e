"""Recurrent operators by their cells give what onnxruntime's kernels give."""

from typing import Any, Final

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

_LENGTH, _BATCH, _INPUT, _SIZE = 4, 3, 5, 2
_GATES: Final = {"LSTM": 4, "GRU": 3, "RNN": 1}
_FORMS: Final = {
    "LSTM": ("", 'activations = ["Tanh", "Relu", "Softsign"]'),
    "GRU": ("", "linear_before_reset = 1", 'activations = ["Softplus", "Tanh"]'),
    "RNN": ("", 'activations = ["Relu"]'),
}
_CASES: Final = [(operator, form) for operator, forms in _FORMS.items() for form in forms]


def _operands(
    operator: str, directions: int, *, is_batch_first: bool, omitted: str
) -> dict[str, np.ndarray]:
    """The operands by their names, without those in ``omitted``."""
    rng, gates = np.random.default_rng(0), _GATES[operator]
    state = (_BATCH, directions, _SIZE) if is_batch_first else (directions, _BATCH, _SIZE)
    shapes = {
        "x": (_BATCH, _LENGTH, _INPUT) if is_batch_first else (_LENGTH, _BATCH, _INPUT),
        "w": (directions, gates * _SIZE, _INPUT),
        "r": (directions, gates * _SIZE, _SIZE),
        "b": (directions, 2 * gates * _SIZE),
        "lengths": (_BATCH,),
        "h": state,
    }
    if operator == "LSTM":
        shapes |= {"c": state, "p": (directions, 3 * _SIZE)}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["lengths"] = np.full(_BATCH, _LENGTH, np.int32)
    return {name: array for name, array in arrays.items() if name not in omitted.split()}


def _model(operator: str, form: str, operands: dict[str, np.ndarray]) -> onnx.ModelProto:
    names = ["x", "w", "r", "b", "lengths", "h", *(["c", "p"] if operator == "LSTM" else [])]
    words = [name if name in operands else "" for name in names]
    while not words[-1]:
        del words[-1]
    results = "y, k, l" if operator == "LSTM" else "y, k"
    inputs = ", ".join(
        f"float[{','.join(map(str, array.shape))}] {name}"
        for name, array in operands.items()
        if name != "lengths"
    )
    constants = f"<int32[{_BATCH}] lengths = {{{', '.join([str(_LENGTH)] * _BATCH)}}}> "
    text = (
        f"agraph ({inputs}) => ({results}) {constants if 'lengths' in operands else ''}"
        f"{{ {results} = {operator} <hidden_size = {_SIZE}{form}> ({', '.join(words)}) }}"
    )
    return parse(text, 14)


def _check(model: onnx.ModelProto, operands: dict[str, Any]) -> None:
    operator = model.graph.node[0].op_type
    after = optimize(model, patterns=f"Lower{operator}", strict=True)
    assert operator not in types(after)
    feeds = {name: array for name, array in operands.items() if name != "lengths"}
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("operator", "form"), _CASES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("omitted", ["", "p", "h c", "b p lengths", "b h c p lengths"])
def test_each_form(operator: str, form: str, direction: str, omitted: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    operands = _operands(operator, count, is_batch_first=False, omitted=omitted)
    if "activations" in form and count == 2:
        names = form.removeprefix("activations = [").removesuffix("]")
        form = f"activations = [{names}, {names}]"
    attributes = f', direction = "{direction}"' + (f", {form}" if form else "")
    _check(_model(operator, attributes, operands), operands)


@pytest.mark.parametrize("operator", _GATES)
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_the_batch_first(operator: str, direction: str) -> None:
    """Onnxruntime has no kernel for this layout: the other layout gives the expected numbers."""
    count = 2 if direction == "bidirectional" else 1
    operands = _operands(operator, count, is_batch_first=True, omitted="lengths")
    form = f', direction = "{direction}"'
    model = _model(operator, f"{form}, layout = 1", operands)
    after = optimize(model, patterns=f"Lower{operator}", strict=True)
    assert operator not in types(after)
    usual = {
        name: array.swapaxes(0, 1) if name in "xhc" else array for name, array in operands.items()
    }
    sequence, *ends = run(_model(operator, form, usual), usual)
    wanted = [sequence.transpose(2, 0, 1, 3), *(end.swapaxes(0, 1) for end in ends)]
    for expected, result in zip(wanted, run(after, operands), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("operator", "form"),
    [
        ("LSTM", ", clip = 0.5"),
        ("LSTM", ", input_forget = 1"),
        ("GRU", ', activations = ["HardSigmoid", "Tanh"]'),
        ("RNN", ', activations = ["Affine"], activation_alpha = [0.5]'),
    ],
)
def test_other_forms_stay(operator: str, form: str) -> None:
    operands = _operands(operator, 1, is_batch_first=False, omitted="lengths")
    model = _model(operator, form, operands)
    assert types(optimize(model, patterns=f"Lower{operator}")) == [operator]


@pytest.mark.parametrize("kind", ["shorter", "unknown", "long"])
def test_other_lengths_stay(kind: str) -> None:
    length = "s" if kind == "unknown" else "129" if kind == "long" else "4"
    numbers = "<int32[1] n = {3}> " if kind == "shorter" else ""
    text = (
        f"agraph (float[{length},1,5] x, float[1,2,5] w, float[1,2,2] r) => (y) {numbers}"
        f"{{ y = RNN <hidden_size = 2> (x, w, r, , {'n' if numbers else ''}) }}"
    )
    assert types(optimize(parse(text, 14), patterns="LowerRNN")) == ["RNN"]
