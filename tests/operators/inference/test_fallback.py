from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.operators.inference.context import FakeContext, Input
from xoptim.facts.dims import SymbolicDim, fresh, named
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.operators.inference.fallback import infer_with_onnx

F, I64 = TensorProto.FLOAT, TensorProto.INT64
n, m = named("n"), named("m")


def _infer(
    op_type: str,
    inputs: Sequence[Input],
    opset: int = 18,
    domain: str = "",
    outputs: int = 1,
    **attributes: Any,
) -> list[Info | None]:
    names = ["" if given is None else f"x{i}" for i, given in enumerate(inputs)]
    node = helper.make_node(
        op_type, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes
    )
    context = FakeContext(op_type, inputs, domain=domain, opset=opset)
    return infer_with_onnx(node, opset, context.inputs, context.constant)


def test_symbolic_dimensions_keep_their_identity() -> None:
    mixed = fresh() * 2 + n
    assert _infer("Abs", [Info(F, (mixed, 3, n))]) == [Info(F, (mixed, 3, n))]
    (result,) = _infer("Det", [Info(F, (n, mixed, 3, 3))])
    assert result == Info(F, (n, mixed))
    (result,) = _infer("NonZero", [Info(F, (n, m))])
    assert result is not None
    assert result.shape is not None
    assert result.shape[0] == 2
    assert isinstance(result.shape[1], SymbolicDim)
    assert result.shape[1].is_anonymous


def test_known_values_are_passed_on() -> None:
    x = Info(F, (n, m))
    shape = np.array([2, 8], dtype=np.int64)
    assert _infer("CenterCropPad", [x, shape]) == [Info(F, (2, 8))]
    assert _infer("CenterCropPad", [x, Info(I64, (2,), (2, 8))]) == [Info(F, (2, 8))]
    assert _infer("CenterCropPad", [x, Info(I64, (2,), (2, n))])[0] != Info(F, (2, 8))
    assert _infer("Reshape", [x, Info(TensorProto.INT32, (), (3,))]) == [None]
    assert _infer("Expand", [x, None]) in ([None], [Info(F)])


def test_several_and_missing_outputs() -> None:
    node = helper.make_node("TopK", ["x", "k"], ["", "positions"])
    known = [Info(F, (n, 6)), Info(I64, (1,), (2,))]
    assert infer_with_onnx(node, 18, known, lambda _: None) == [None, Info(I64, (n, 2))]
    assert list(node.output) == ["", "positions"]


def test_sequences() -> None:
    sequence = Info(container="sequence", element=Info(F, (n, 3)))
    (result,) = _infer("SequenceAt", [sequence, np.array(0)])
    assert result == Info(F, (n, 3))
    assert _infer("SequenceConstruct", [Info(F, (n,)), Info(F, (n,))])[0] == Info(
        container="sequence", element=Info(F, (n,))
    )


@pytest.mark.parametrize(
    ("op_type", "domain", "inputs", "attributes"),
    [
        ("NoSuchOperator", "", [Info(F, (n,))], {}),
        ("MatMul", "com.microsoft", [Info(F, (n,))], {}),
        ("Conv", "", [Info(F, (1, 2, 3)), Info(F, (4, 5, 6, 7))], {}),
        ("Det", "", [UNKNOWN], {}),
        ("Det", "", [Info(F)], {}),
        ("Det", "", [], {}),
        ("Concat", "", [Info(F, (2,)), Info(I64, (2,))], {"axis": 0}),
        ("Cast", "", [Info(F, (2,))], {"to": "odd"}),
    ],
)
def test_odd_nodes_give_less_knowledge(
    op_type: str, domain: str, inputs: list[Input], attributes: dict[str, Any]
) -> None:
    (result,) = _infer(op_type, inputs, domain=domain, **attributes)
    assert result is None or result.shape is None or result.shape == ()


def test_machine_learning_domain() -> None:
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml")
    (result,) = infer_with_onnx(node, 3, [Info(F, (n, 3))], lambda _: None)
    assert result == Info(F, (n, 3))
