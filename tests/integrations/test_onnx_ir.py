from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx_ir.passes import PassError, PassManager, Sequential
from onnx_ir.passes.common import RemoveUnusedNodesPass

from tests.support import parse, same_results
from xoptim import UnknownPatternError
from xoptim.integrations.onnx_ir import OptimizePass

TEXT = """agraph (float[a,b] x) => (float[a,b] y) <float one = {1}>
{ unread = Exp(x) t = Transpose(x) u = Transpose(t) v = Mul(u, one) y = Relu(v) }"""


def _types(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def test_it_composes() -> None:
    """It returns a new model, leaves the given one unchanged, and the pass behind it gets the new
    one.
    """
    given = parse(TEXT)
    model = ir.from_proto(given)
    step = OptimizePass(verify=True)
    result = Sequential(step, RemoveUnusedNodesPass())(model)
    assert _types(result.model) == ["Relu"]
    assert len(_types(model)) == 5
    assert step.report is not None
    assert step.report.verification[0].ok
    same_results(given, ir.to_proto(result.model), {"x": np.ones((2, 3), np.float32)})


def test_a_manager_stops_when_nothing_changes() -> None:
    """The second call returns an equal model, and says so."""
    calls: list[OptimizePass] = []

    class Counted(OptimizePass):
        def call(self, model: ir.Model) -> ir.passes.PassResult:
            calls.append(self)
            return super().call(model)

    result = PassManager([Counted()], steps=5, early_stop=True)(ir.from_proto(parse(TEXT)))
    assert result.modified
    assert len(calls) == 2
    assert not OptimizePass()(result.model).modified


def test_options_reach_the_optimizer() -> None:
    model = ir.from_proto(parse(TEXT))
    assert "Mul" not in _types(OptimizePass(patterns="NeutralMul")(model).model)
    assert _types(OptimizePass(patterns=None)(model).model) == [
        "Transpose",
        "Transpose",
        "Mul",
        "Relu",
    ]
    with pytest.raises(PassError) as caught:
        Sequential(OptimizePass(patterns="NoSuchPattern"))(model)
    assert isinstance(caught.value.__cause__, UnknownPatternError)


@pytest.mark.parametrize(
    ("text", "options", "modified"),
    [
        ("agraph (float[a] x) => (float[a] y) { y = Relu(x) }", {}, False),
        ("agraph (float[a] x) => (float[a] y) { y = Relu(x) }", {"opset": 21}, True),
        (
            (
                "agraph (float[a] x) => (float[a] y) { k = Constant <value_float = 2.0> () "
                "y = Pow(k, x) }"
            ),
            {},
            True,
        ),
        (
            (
                "agraph (float[a] x) => (float[a] y) <float k = {2}, float l = {2}> { "
                "u = Pow(k, x) y = Pow(l, u) }"
            ),
            {},
            True,
        ),
        ("agraph (float[a] x) => (float[a] y) <float k = {2}> { y = Relu(x) }", {}, True),
        (
            "agraph (float[a] x, float[b] z) => (float[a] y) { y = Relu(x) }",
            {"drop_unused_inputs": True},
            True,
        ),
        ("agraph (float[a] x, float[b] z) => (float[a] y) { y = Relu(x) }", {}, False),
        ("agraph (float[a] x) => (float[a] y) { y = Relu(x) }", {"outline": True}, False),
    ],
)
def test_it_says_whether_it_changed_the_model(
    text: str, options: dict[str, Any], modified: bool
) -> None:
    model = ir.from_proto(parse(text))
    result = OptimizePass(**options)(model)
    assert result.modified == modified
    assert (ir.to_proto(result.model) != ir.to_proto(model)) == modified
