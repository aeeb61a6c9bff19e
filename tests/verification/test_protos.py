"""Types and shapes that onnx infers for models that are verified."""

from onnx import TensorProto

from tests.support import parse
from xoptim.verification.runs.protos import inferred_graph

UNTYPED = "t = custom.Foo(x) e = EyeLike <dtype = 1> (t)"


def test_an_untyped_operand_of_eye_like_does_not_end_the_process() -> None:
    model = parse(
        f"agraph (float[a,b] x) => (float[a,b] y) {{ {UNTYPED} y = Neg(x) z = Exp(y) }}",
        domains={"custom": 1},
    )
    inferred = inferred_graph(model, 1024, data_prop=True)
    assert inferred is not None
    assert {value.name: value.type.tensor_type.elem_type for value in inferred.value_info} == {
        "z": TensorProto.FLOAT
    }
    assert [node.domain for node in model.graph.node] == ["custom", "", "", ""]


def test_in_a_subgraph() -> None:
    body = f"b () => (float[a,b] r) {{ {UNTYPED} r = Neg(e) }}"
    text = (
        "agraph (bool c, float[a,b] x) => (float[a,b] y) { "
        f"y = If (c) <then_branch = {body}, else_branch = {body}> }}"
    )
    assert inferred_graph(parse(text, domains={"custom": 1}), 1024, data_prop=True) is not None


def test_what_onnx_cannot_type() -> None:
    model = parse("agraph (float[2] x) => (float[2] y) { y = Neg(x) }")
    del model.opset_import[:]
    assert inferred_graph(model, 1024) is None
