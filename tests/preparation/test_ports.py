"""Inputs and outputs of a model: other names, further ones, fewer; texts that it carries."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run
from xoptim import ModelError, prepare
from xoptim.facts.protos import inner_graphs, own_names
from xoptim.preparation.ports import names_apart
from xoptim.preparation.preparation import PreparationChanges

BRANCH = """agraph (float[n,4] x, bool c) => (float[n,4] y, float[n,4] z) {
    t = Neg(x)
    y = If (c) <then_branch = yes () => (p) { p = Add(t, x) },
      else_branch = no () => (q) { q = Sub(t, x) }>
    z = Abs(t)
}"""
X = np.array([[1, -2, 3, -4]], np.float32)
FEEDS = {"x": X, "c": np.array(True)}


def names(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    onnx.checker.check_model(model, full_check=True)
    return [value.name for value in model.graph.input], [value.name for value in model.graph.output]


def test_names_reach_into_subgraphs() -> None:
    after = prepare(parse(BRANCH), rename={"x": "pixels", "y": "scores", "c": "x"})
    assert names(after) == (["pixels", "x"], ["scores", "z"])
    for expected, found in zip(
        run(parse(BRANCH), FEEDS), run(after, {"pixels": X, "x": np.array(True)}), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_names_change_places() -> None:
    after = prepare(parse(BRANCH), rename={"y": "z", "z": "y"})
    assert names(after) == (["x", "c"], ["z", "y"])
    y, z = run(parse(BRANCH), FEEDS)
    for expected, found in zip((y, z), run(after, FEEDS), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({"t": "u"}, "'t'; .* c, x, y, z"),
        ({"x": "t"}, "'t' is already"),
        ({"x": "p"}, "'p' is already"),
        ({"x": "u", "y": "u"}, "two values"),
    ],
)
def test_names_that_cannot_be_given(rename: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        prepare(parse(BRANCH), rename=rename)


def test_the_default_of_an_input_keeps_its_name() -> None:
    model = parse(
        "agraph (float[4] x, float[4] w = {1, 2, 3, 4}) => (float[4] y) { y = Add(x, w) }"
    )
    after = prepare(model, rename={"w": "bias"})
    assert [tensor.name for tensor in after.graph.initializer] == ["bias"]
    np.testing.assert_array_equal(run(after, {"x": X[0]})[0], X[0] + [1, 2, 3, 4])


def test_outputs_come_and_go() -> None:
    after = prepare(parse(BRANCH), drop_outputs=["z"], keep_outputs=["t"])
    assert names(after) == (["x", "c"], ["y", "t"])
    np.testing.assert_array_equal(run(after, FEEDS)[1], -X)
    assert after.graph.output[1].type.tensor_type.shape.dim[0].dim_param == "n"
    assert names(parse(BRANCH))[1] == ["y", "z"], "the given model stays"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drop_outputs": ["w"]}, "'w'; .* y, z"),
        ({"drop_outputs": ["y", "z"]}, "needs an output"),
        ({"keep_outputs": ["tt"]}, "produces 'tt'; .*'t'"),
        ({"keep_outputs": ["p"]}, "produces 'p'"),
    ],
)
def test_outputs_that_cannot(changes: PreparationChanges, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        prepare(parse(BRANCH), **changes)


def test_texts_are_removed() -> None:
    model = parse(BRANCH)
    model.doc_string = model.graph.doc_string = "trace"
    model.metadata_props.add(key="names", value="cat, dog")
    inner = model.graph.node[1].attribute[0].g
    for part in (model.graph.node[0], inner.node[0], model.graph.input[0], model.graph):
        part.doc_string = "/home/me/model.py"
        part.metadata_props.add(key="pkg.torch.onnx.stack_trace", value="/home/me/model.py")
    after = prepare(model, strip=True)
    assert b"/home/me" in model.SerializeToString()
    assert b"/home/me" not in after.SerializeToString()
    assert b"trace" not in after.SerializeToString()
    assert after.metadata_props[0].value == "cat, dog"
    names(after)


def test_names_of_branches_become_different() -> None:
    """Inner subgraphs read the names from around them; names of the main graph stay."""
    model = parse("""agraph (float[n,4] x, bool c) => (float[n,4] y) {
            y = If (c) <
                then_branch = yes () => (p)
                  { t = Neg(x) p = If (c) <then_branch = a () => (u) { u = Add(t, x) },
                    else_branch = b () => (v) { v = Sub(t, x) }> },
                else_branch = no () => (p) { t = Abs(x) p = Mul(t, x) }>
        }""")
    before = [run(model, {"x": X, "c": np.array(bit)})[0] for bit in (True, False)]
    names_apart(model)
    onnx.checker.check_model(model, full_check=True)
    own = [
        name
        for graph in (model.graph, *inner_graphs(model.graph.node))
        for name in own_names(graph)
    ]
    assert len(own) == len({*own}) == 9
    assert names(model) == (["x", "c"], ["y"])
    after = [run(model, {"x": X, "c": np.array(bit)})[0] for bit in (True, False)]
    np.testing.assert_array_equal(before, after)
