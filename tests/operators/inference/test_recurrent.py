"""RNN, GRU, LSTM."""

from typing import Any

import pytest
from onnx import AttributeProto

from tests.operators.inference.context import infer
from tests.operators.inference.oracle import check, random_array, tensor
from xoptim.facts.attributes import AttributeReference
from xoptim.facts.dims import named
from xoptim.facts.shapes import UNKNOWN

SIZES = ({"s": 5, "n": 2}, {"s": 1, "n": 3})
S, N = named("s"), named("n")
KINDS = [("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3)]


@pytest.mark.parametrize(("op_type", "gates", "outputs"), KINDS)
@pytest.mark.parametrize("opset", [7, 14, 22])
@pytest.mark.parametrize(
    ("direction", "count"), [("forward", 1), ("reverse", 1), ("bidirectional", 2)]
)
def test_recurrent(
    op_type: str, gates: int, outputs: int, opset: int, direction: str, count: int
) -> None:
    x, w, r = (
        tensor("s", "n", 4),
        random_array(1, (count, gates * 3, 4)),
        random_array(1, (count, gates * 3, 3)),
    )
    attributes: dict[str, Any] = {"hidden_size": 3, "direction": direction}
    infos = check(op_type, [x, w, r], attributes, opset=opset, outputs=outputs, assignments=SIZES)
    assert [info.shape for info in infos] == [(S, count, N, 3)] + [(count, N, 3)] * (outputs - 1)


@pytest.mark.parametrize(("op_type", "gates", "outputs"), KINDS)
def test_batch_first(op_type: str, gates: int, outputs: int) -> None:
    x, w, r = tensor("n", "s", 4), tensor(2, gates * 3, 4), tensor(2, gates * 3, 3)
    attributes: dict[str, Any] = {"hidden_size": 3, "direction": "bidirectional", "layout": 1}
    infos = check(op_type, [x, w, r], attributes, opset=14, outputs=outputs, run=False)
    assert [info.shape for info in infos] == [(N, S, 2, 3)] + [(N, 2, 3)] * (outputs - 1)
    # The attribute does not exist before operator set 14.
    unknown = infer(
        op_type,
        [x, w, r],
        {"hidden_size": 3, "layout": AttributeReference("layout", AttributeProto.INT)},
        opset=14,
    )
    assert unknown[0].rank == 4
    older = infer(op_type, [x, w, r], attributes, opset=7, num_outputs=outputs)
    assert older[0].shape == (N, 2, S, 3)


@pytest.mark.parametrize(("op_type", "gates", "outputs"), KINDS)
def test_hidden_size_from_the_weights(op_type: str, gates: int, outputs: int) -> None:
    x = tensor("s", "n", 4)
    for w, r in ((tensor(1, gates * 3, 4), UNKNOWN), (UNKNOWN, tensor(1, gates * 3, 3))):
        assert check(op_type, [x, w, r], opset=14, outputs=outputs, run=False)[0].shape == (
            S,
            1,
            N,
            3,
        )
    assert infer(op_type, [UNKNOWN, UNKNOWN, UNKNOWN])[0].rank == 4
