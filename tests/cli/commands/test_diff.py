"""``xopt diff``."""

from tests.cli.command import RELU, Xopt, write
from tests.support import values_in


def test_differences(xopt: Xopt) -> None:
    write(RELU)
    write(RELU.replace("Relu", "Abs"), "other.onnx")
    outcome = xopt("diff", "model.onnx", "other.onnx")
    assert (outcome.code, outcome.err) == (1, "")
    table, _, listed = outcome.out.partition("\n\n")
    assert [line.split() for line in table.splitlines()] == [
        ["operator", "first", "second", "difference"],
        ["Abs", "0", "1", "+1"],
        ["Relu", "1", "0", "-1"],
        ["all", "nodes", "1", "1", "+0"],
    ]
    removed, added, counts = listed.splitlines()
    assert (removed, added) == ("- node 'y': Relu", "+ node 'y': Abs")
    assert values_in(counts) == ["1", "1"]
    assert xopt("diff", "model.onnx", "model.onnx") == (0, "no difference\n", "")
    limited = xopt("diff", "model.onnx", "other.onnx", "--limit", "1").out.splitlines()
    assert removed in limited
    assert added not in limited
    assert values_in(limited[-1]) == ["1", "1", "1", "--limit"]
    found = xopt("diff", "model.onnx", "other.onnx", "--json")
    assert (found.code, found.json["differences"][0]) == (
        1,
        {"kind": "removed", "part": "node", "name": "y", "detail": "Relu"},
    )


def test_constants_come_last(xopt: Xopt) -> None:
    write(
        "agraph (float[n] x) => (float[n] y) { c = Constant <value_float = 2.0> () y = Mul(x, c) }"
    )
    write("agraph (float[n] x) => (float[n] y) { y = Add(x, x) }", "other.onnx")
    table, _, listed = xopt("diff", "model.onnx", "other.onnx").out.partition("\n\n")
    assert [line.split()[0] for line in table.splitlines()[1:]] == ["Add", "Mul", "Constant", "all"]
    assert listed.splitlines()[-2] == "- node 'c': Constant"


def test_values(xopt: Xopt) -> None:
    write("agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Relu(a) y = Exp(b) }")
    write("agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(a) y = Exp(b) }", "other.onnx")
    outcome = xopt("diff", "model.onnx", "other.onnx", "--values")
    first, second, last = outcome.out.splitlines()
    assert outcome.code == 1
    assert [values_in(line)[0] for line in (first, second, last)] == ["b", "y", "2"]
    assert ("Relu" in first, "Exp" in second) == (True, True)
    assert (
        xopt("diff", "model.onnx", "other.onnx", "--values", "--json").json["differences"][0][
            "is_first"
        ]
        is True
    )
    same = xopt("diff", "model.onnx", "model.onnx", "--values")
    assert (same.code, values_in(same.out), same.err) == (0, [], "")


def test_json_lists_the_assumptions_in_force(xopt: Xopt) -> None:
    write(RELU)
    write(RELU.replace("Relu", "Abs"), "other.onnx")
    words = ("diff", "model.onnx", "other.onnx", "--json")
    assert xopt(*words).json["assumptions"] == []
    found = xopt(*words, "--values", "--assume", "batch >= 2", "--assume", "finite").json
    assert found["assumptions"] == ["batch >= 2", "finite"]
    assert found["differences"]


def test_values_of_models_with_other_inputs(xopt: Xopt) -> None:
    write(RELU)
    write(RELU.replace("batch,4", "batch,2,4"), "other.onnx")
    error = xopt("diff", "model.onnx", "other.onnx", "--values").error
    assert error.endswith("input 'x': float[batch, 4] → float[batch, 2, 4]")
    write("agraph (float[n,4] x, float[n,4] z) => (float[n,4] y) { y = Add(x, z) }", "two.onnx")
    assert ": input '" in xopt("diff", "model.onnx", "two.onnx", "--values").error
