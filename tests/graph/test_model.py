from pathlib import Path

from tests.support import load
from xoptim.graph.model import Model


def test_an_empty_model() -> None:
    model = Model({"": 18}, 9, Path("folder"))
    assert list(model.graphs()) == [model.graph]
    assert model.graph.opsets is model.opsets
    assert (model.ir_version, model.base_dir) == (9, Path("folder"))


def test_names_of_nodes_are_unique_in_the_whole_model() -> None:
    model = load(
        """agraph (bool c, float[n] x) => (float[n] y) {
          [relu] a = Relu(x)
          b = l.f(a)
          [outer] y = If (c) <then_branch = t () => (float[n] p) { [inner] p = Neg(b) },
                              else_branch = e () => (float[n] p) { [inner_1] p = Abs(b) }>
        } <domain: "l", opset_import: ["" : 18]> f (u) => (v) { [neg] v = Neg(u) }""",
        domains={"l": 1},
    )
    fresh = [
        model.node_names.fresh(hint)
        for hint in ("relu", "inner", "neg", "outer", "new", "new", "relu")
    ]
    assert fresh == ["relu_1", "inner_2", "neg_1", "outer_1", "new", "new_1", "relu_2"]
    assert [g.name for g in model.graphs()] == ["f", "agraph", "t", "e"]


def test_calls_of_functions_that_come_and_go() -> None:
    model = load(
        'agraph (float[n] x) => (float[n] y) { y = l.f(x) } <domain: "l", opset_import: ["" : 18]>'
        ' f (u) => (v) { v = Neg(u) } <domain: "l", opset_import: ["" : 18]> g (u) => (v) { v ='
        " Abs(u) }",
        domains={"l": 1},
    )
    f, g = model.functions
    assert model.function_operators() == {("l", "f"), ("l", "g")}
    del model.functions[1:]
    assert model.function_operators() == {("l", "f")}
    model.functions[:] = [g]
    assert model.function_keys() == {("l", "g", "")}
    model.functions[:] = [g, f]
    assert model.function_keys() == {("l", "f", ""), ("l", "g", "")}
    model.functions.clear()
    assert not model.function_operators()
    assert not model.function_keys()
