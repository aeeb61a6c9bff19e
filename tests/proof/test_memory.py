"""A model is read once while it stays the same, and again where it changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support import load
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.proof.chain import Chain, Reader

MODEL = """g (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}> {
    a = Exp(x) b = Sin(x) c = Mul(a, w) d = Softmax <axis = 1> (c) y = Add(d, d) }"""


def _node(model: Model, op_type: str) -> Node:
    (node,) = model.graph.of_type(op_type)
    return node


def _replace(model: Model, old: Node, **attributes: Any) -> None:
    position = old.previous
    model.graph.remove(old)
    model.graph.insert(Node(old.op_type, old.input, old.output, attributes), position)


def _read_other(model: Model) -> None:
    model.graph.rename("a", "b")


def _change_attribute(model: Model) -> None:
    _replace(model, _node(model, "Softmax"), axis=0)


def _change_constant(model: Model) -> None:
    model.graph.initializers["w"] = Tensor.from_array(np.array([1, 2, 3, 5], np.float32))


def _change_operator_set(model: Model) -> None:
    model.graph.opsets[""] = 11


@pytest.mark.parametrize(
    "change", [_read_other, _change_attribute, _change_constant, _change_operator_set]
)
def test_what_changed_is_read_again(change: Callable[[Model], None]) -> None:
    model = load(MODEL)
    chain = Chain(model)
    assert chain.differing(model) == []
    outputs = chain.outputs
    change(model)
    assert chain.differing(model) == ["y"]
    chain.renew(model)
    assert chain.differing(model) == []
    assert chain.differing(model, outputs) == ["y"]


def test_a_node_that_stays_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def apply(self: Reader, graph: Any, node: Node, *rest: Any) -> Any:
        read.append(node.op_type)
        return right(self, graph, node, *rest)

    right = Reader._apply
    monkeypatch.setattr(Reader, "_apply", apply)
    model = load(MODEL)
    chain = Chain(model)
    assert read == ["Exp", "Sin", "Mul", "Softmax", "Add"]
    chain.renew(model)
    assert chain.differing(model) == []
    assert len(read) == 5
    _replace(model, _node(model, "Sin"))
    assert chain.differing(model) == []
    assert read[5:] == ["Sin"]


def test_constants_with_equal_samples_differ() -> None:
    text = "g (float[N,65536] x) => (float[N,65536] y) <float[1] w = {1}> { y = Add(x, w) }"
    zeros = np.zeros(65536, np.float32)
    chains = []
    for place in (None, None, 1, 65534):
        model = load(text)
        array = zeros.copy()
        if place is not None:
            array[place] = -0.0
        model.graph.initializers["w"] = Tensor.from_array(array)
        chains.append((Chain(model), model))
    (first, _), (_, same), *others = chains
    assert first.differing(same) == []
    assert [first.differing(model) for _, model in others] == [["y"], ["y"]]
    samples = {bytes(model.graph.initializers["w"].sample(1)) for _, model in chains}
    assert len(samples) == 1
