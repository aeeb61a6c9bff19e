"""The part of a model between some values."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run, types
from xoptim import ModelError, extract, optimize

CHAIN = """agraph (float[n,4] x, float[4] k) => (float[n,4] y, float[n,4] z)
    <float[4] w = {1, 2, 3, 4}, float[4] unused = {0, 0, 0, 0}> {
    a = Add(x, w) b = Mul(a, k) c = Relu(b) y = Sub(c, a) z = Exp(x)
}"""
X, K = np.array([[1, -2, 3, -4]], np.float32), np.array([2, 0.5, -1, 1], np.float32)


def ports(model: onnx.ModelProto) -> tuple[list[str], list[str], list[str]]:
    onnx.checker.check_model(model, full_check=True)
    graph = model.graph
    return (
        [v.name for v in graph.input],
        [v.name for v in graph.output],
        [t.name for t in graph.initializer],
    )


@pytest.mark.parametrize(
    ("inputs", "outputs", "operators", "expected"),
    [
        ([], ["c"], ["Add", "Mul", "Relu"], (["x", "k"], ["c"], ["w"])),
        (["a"], ["c"], ["Mul", "Relu"], (["k", "a"], ["c"], [])),
        (["b"], ["c"], ["Relu"], (["b"], ["c"], [])),
        (["b", "a"], ["y", "c"], ["Relu", "Sub"], (["b", "a"], ["y", "c"], [])),
        (["a"], [], ["Mul", "Relu", "Sub", "Exp"], (["x", "k", "a"], ["y", "z"], [])),
        (["w"], ["a"], ["Add"], (["x", "w"], ["a"], [])),
    ],
)
def test_parts(
    inputs: list[str], outputs: list[str], operators: list[str], expected: tuple[list[str], ...]
) -> None:
    part = extract(parse(CHAIN), inputs, outputs)
    assert types(part) == operators
    found = ports(part)
    assert tuple(map(sorted, found)) == tuple(map(sorted, expected))
    assert found[1] == expected[1]
    a = X + np.array([1, 2, 3, 4], np.float32)
    values = {
        "x": X,
        "k": K,
        "a": a,
        "b": a * K,
        "w": np.array([1, 2, 3, 4], np.float32),
        "c": np.maximum(a * K, 0),
    }
    values |= {"y": values["c"] - a, "z": np.exp(X)}
    for name, result in zip(
        found[1], run(part, {name: values[name] for name in found[0]}), strict=True
    ):
        np.testing.assert_allclose(result, values[name], rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["aa"], ["c"], "'aa'; .*'a'"),
        (["z"], ["c"], "'z' is not needed .* c$"),
        (["c"], ["c"], "'c' is not needed .* c$"),
        ([], ["x"], "'x' is not computed"),
        ([], ["w"], "'w' is not computed"),
    ],
)
def test_parts_that_do_not_exist(inputs: list[str], outputs: list[str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        extract(parse(CHAIN), inputs, outputs)


def test_captures_of_subgraphs_and_functions_come_along() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 18, "acme" : 1]>
        agraph (float[n] x, bool c) => (float[n] y) <float[1] w = {2}> {
            a = Neg(x) b = Abs(x) d = acme.Twice(a)
            y = If (c) <then_branch = yes () => (p) { p = Mul(d, w) },
              else_branch = no () => (q) { q = acme.Twice(b) }>
        }
        <domain: "acme", opset_import: ["" : 18,
          "acme" : 1]> Twice (v) => (u) { u = acme.Plus(v, v) }
        <domain: "acme", opset_import: ["" : 18]> Plus (v, w) => (u) { u = Add(v, w) }
        <domain: "acme", opset_import: ["" : 18]> Other (v) => (u) { u = Exp(v) }
    """)
    part = extract(model, ["a", "b"], ["y"])
    assert ports(part) == (["c", "a", "b"], ["y"], ["w"]) or sorted(ports(part)[0]) == [
        "a",
        "b",
        "c",
    ]
    assert [function.name for function in part.functions] == ["Twice", "Plus"]
    values = {"a": np.ones(3, np.float32), "b": np.full(3, 5, np.float32)}
    np.testing.assert_array_equal(run(part, values | {"c": np.array(True)})[0], np.full(3, 4))
    np.testing.assert_array_equal(run(part, values | {"c": np.array(False)})[0], np.full(3, 10))


def test_defaults_can_still_be_overridden() -> None:
    model = parse(
        "agraph (float[4] x, float[4] w = {1, 1, 1, 1}) => (float[4] y) { a = Add(x, w) "
        "y = Neg(a) }"
    )
    part = extract(model, [], ["a"])
    assert ports(part) == (["x", "w"], ["a"], ["w"])
    np.testing.assert_array_equal(run(part, {"x": X[0]})[0], X[0] + 1)
    np.testing.assert_array_equal(run(part, {"x": X[0], "w": K})[0], X[0] + K)


def test_weights_in_a_file_stay_there(tmp_path: Path) -> None:
    model = parse("agraph (float[n,64] x) => (float[n,64] y) { a = Add(x, w) y = Mul(a, v) }")
    for name in "vw":
        model.graph.initializer.append(numpy_helper.from_array(np.full(64, 3, np.float32), name))
    onnx.save(
        model,
        tmp_path / "model.onnx",
        save_as_external_data=True,
        location="weights",
        size_threshold=0,
    )
    part = extract(tmp_path / "model.onnx", ["a"], ["y"])
    (tensor,) = part.graph.initializer
    assert (tensor.name, tensor.external_data[0].value) == ("v", "weights")
    onnx.save(part, tmp_path / "part.onnx")
    feeds = {"a": np.ones((2, 64), np.float32)}
    np.testing.assert_array_equal(
        run(part, feeds, str(tmp_path / "part.onnx"))[0], np.full((2, 64), 3)
    )


def test_a_part_of_an_older_format_runs() -> None:
    model = parse(
        "agraph (float[4] x, float[4] w = {1, 1, 1, 1}) => (float[4] y) { a = Add(x, w) "
        "y = Neg(a) }"
    )
    model.ir_version = 3
    part = extract(model, [], ["a"])
    np.testing.assert_array_equal(run(part, {"x": X[0]})[0], X[0] + 1)
    assert types(optimize(part)) == ["Add"]


def test_one_of_the_results_of_a_node_is_an_input() -> None:
    model = parse(
        "agraph (float[4] x) => (float[4] y) <int64[1] k = {4}> { a, i = TopK(x, k) "
        "b = Cast <to = 1> (i) y = Add(a, b) }"
    )
    part = extract(model, ["a"], ["y"])
    onnx.checker.check_model(part, full_check=True)
    assert [value.name for value in part.graph.input] == ["x", "a"]
    (found,) = run(part, {"x": X[0], "a": X[0]})
    np.testing.assert_array_equal(found, X[0] + np.argsort(-X[0], kind="stable"))


def test_an_input_of_unknown_type() -> None:
    model = parse(
        "agraph (float[4] x) => (float[4] y) { a = custom.Op(x) y = Neg(a) }", domains={"custom": 1}
    )
    with pytest.raises(ModelError, match="type of 'a' is not known"):
        extract(model, ["a"], ["y"])
