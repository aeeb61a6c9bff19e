import onnx
import pytest

from xoptim.graph.node import Node
from xoptim.passes.blocks.scopes import common, name_of, scope_of, scopes_of


def node(name: str = "", **metadata: str) -> Node:
    """A node with a name and metadata."""
    proto = onnx.helper.make_node("Add", ["a", "b"], ["c"], name=name)
    for key, value in metadata.items():
        proto.metadata_props.add(key=key.replace("__", "."), value=value)
    return Node.from_proto(proto)


@pytest.mark.parametrize(
    ("given", "scope"),
    [
        (node("/encoder/layer.0/attention/Add_3"), ("encoder", "layer.0", "attention")),
        (node("Add_3"), ()),
        (node(""), ()),
        (
            node(
                "n",
                pkg__torch__onnx__name_scopes="['', 'm', 'm.layer.1', 'm.layer.1.act', 'gelu_1']",
            ),
            ("m", "layer.1", "act"),
        ),
        (node("n", pkg__torch__onnx__name_scopes="not a list"), ()),
        (node("n", namespace=": Wrapped/m: M/m.layer.1: L/add: aten.add"), ("m", "layer.1")),
    ],
)
def test_scopes(given: Node, scope: tuple[str, ...]) -> None:
    assert scope_of(given) == scope


def test_scopes_that_several_copies_share_are_not_known() -> None:
    """A rewrite of all layers at once gives its nodes the scope of one of them."""
    names = ["/layer.0/Add", "/layer.3/Add", "/layer.3/Mul", "/Add", "Add"]
    assert scopes_of(map(node, names)) == [("layer.0",), None, None, None, None]


def test_common_scope() -> None:
    assert common([("a", "b", "c"), None, ("a", "b", "d", "e")]) == ("a", "b")
    assert common([("a",), ("b",)]) == ()
    assert common([None]) is None


@pytest.mark.parametrize(
    ("scopes", "name"),
    [
        ([("encoder", "layer.0"), ("encoder", "layer.1")], "encoder_layer"),
        ([("layers.2", "blocks.0"), ("layers.2", "blocks.1")], "layers_2_blocks"),
        ([("encoder", "first"), ("encoder", "second")], "encoder"),
        ([("encoder", "layer.0", "act"), ("encoder", "layer.1")], "encoder"),
        ([("blöcke-a", "x.0"), ("blöcke-a", "x.1")], "bl_cke_a_x"),
        ([("0", "x.0"), ("0", "x.1")], "block_0_x"),
        ([(), ()], ""),
    ],
)
def test_names_of_modules(scopes: list[tuple[str, ...]], name: str) -> None:
    assert name_of(scopes) == name
