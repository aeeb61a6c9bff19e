"""Graphs and node data for Model Explorer, and its extensions where it is installed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.support import parse
from xoptim.facts.errors import ModelError
from xoptim.integrations.model_explorer import node_data, save_node_data
from xoptim.integrations.model_explorer.graphs import OptimizedModel, ids_of
from xoptim.targets import UnknownTargetError

TEXT = """agraph (float[n,3] x) => (float[n,3] y) {
    a = Neg(x) b = Neg(a)
    two = Constant<value_float = 2.0>() c = Mul(b, two)
    y = Relu(c) }"""
BRANCHES = """agraph (bool p, float[n] x) => (float[n] y) {
    y = If(p) <
        then_branch = yes () => (float[n] z) { z = Abs(x) },
        else_branch = no () => (float[n] z) { a = Neg(x) z = Neg(a) }
    > }"""


def by_label(graph: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The nodes of a graph by label; one of each label."""
    return {node["label"]: node for node in graph["nodes"]}


def attributes(node: dict[str, Any]) -> dict[str, str]:
    """The attributes of a node."""
    return {each["key"]: each["value"] for each in node["attrs"]}


def edges(graph: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The nodes that an edge joins, which are nodes of the graph."""
    ids = {node["id"] for node in graph["nodes"]}
    for node in graph["nodes"]:
        for edge in node.get("incomingEdges", ()):
            assert edge["sourceNodeId"] in ids
            yield edge["sourceNodeId"], node["id"]


def test_graphs_of_both_models() -> None:
    before, after = OptimizedModel.of(parse(TEXT)).graphs()
    assert (before["id"], after["id"]) == ("agraph", "agraph (optimized)")
    assert [node["label"] for node in before["nodes"]] == [
        *("Input", "Neg", "Neg", "Mul", "Relu", "Output")
    ]
    assert [node["label"] for node in after["nodes"]] == ["Input", "Mul", "Relu", "Output"]
    assert len(list(edges(before))) == 5
    assert len(list(edges(after))) == 3
    gone = attributes(before["nodes"][2])
    assert gone["removed by"] == "NegNeg"
    assert "removed by" not in attributes(by_label(before)["Relu"])
    operands = by_label(before)["Mul"]["inputsMetadata"]
    assert operands[1]["attrs"][1] == {"key": "type", "value": "float[] = 2.0"}
    told = after["groupNodeAttributes"][""]
    assert told == {"nodes": "4 before, 2 after", "NegNeg": "1 time: 2 nodes removed, 1 added"}


def test_nodes_that_a_rewrite_made() -> None:
    text = """agraph (float[a,b,c] x) => (float[b,c,a] y) {
        s = Transpose<perm = [1, 0, 2]>(x) y = Transpose<perm = [0, 2, 1]>(s) }"""
    before, after = OptimizedModel.of(parse(text)).graphs()
    told = attributes(by_label(after)["Transpose"])
    assert told["made by"] == "TransposeTranspose"
    assert told["in place of"] == "Transpose s, Transpose y"
    assert attributes(by_label(before)["Transpose"])["replaced by"] == "Transpose Transpose"
    data = node_data(parse(text))
    left, right = data["agraph"]["results"], data["agraph (optimized)"]["results"]
    assert left["s"] == left["y"] == right["Transpose"]
    assert left["s"]["value"] == "TransposeTranspose"


def test_branches_are_scopes() -> None:
    before, after = OptimizedModel.of(parse(BRANCHES)).graphs()
    spaces = {node["label"]: node.get("namespace") for node in before["nodes"]}
    assert spaces["Abs"] == "If y/then_branch"
    assert spaces["Neg"] == "If y/else_branch"
    assert "Neg" not in by_label(after)
    list(edges(before))


def test_node_data_of_a_target() -> None:
    data = node_data(parse(TEXT), "onnx")
    assert all(each["name"].endswith(" onnx") for each in data.values())
    assert {each["value"] for each in data["agraph"]["results"].values()} <= {
        "partition 1",
        "computed ahead or merged",
    }
    assert set(data["agraph (optimized)"]["results"]) >= {"c", "y"}
    with pytest.raises(UnknownTargetError):
        node_data(parse(TEXT), "onx")


def test_operators_that_a_target_leaves() -> None:
    text = "agraph (float[n] x) => (float[n] y) { a = NoSuch(x) y = Relu(a) }"
    results = node_data(parse(text), "onnx")["agraph"]["results"]
    assert results["a"]["value"] != results["y"]["value"]
    assert results["a"]["bgColor"] != results["y"]["bgColor"]


def test_a_file(tmp_path: Path) -> None:
    onnx.save(parse(TEXT), tmp_path / "model.onnx")
    path = save_node_data(tmp_path / "model.onnx", tmp_path / "rewrites.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found == node_data(parse(TEXT))
    assert found["agraph"]["name"] == "rewrites"
    assert found["agraph"]["results"]["b"]["bgColor"].startswith("#")
    with pytest.raises(ModelError):
        save_node_data(tmp_path / "missing.onnx", path)


@pytest.fixture
def manager() -> Any:
    """Model Explorer with the extensions, loaded as its server does."""
    managers = pytest.importorskip("model_explorer.extension_manager")
    made = managers.ExtensionManager(["xoptim.integrations.model_explorer"])
    made.custom_extension_modules = ["xoptim.integrations.model_explorer.main"]  # it is a singleton
    made.load_extensions()
    return made


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_model_explorer_loads_the_extensions(manager: Any, tmp_path: Path) -> None:
    known = {each["id"]: each for each in manager.get_extensions_metadata()}
    assert known["xoptim"]["fileExts"] == ["onnx"]
    path = tmp_path / "model.onnx"
    onnx.save(parse(TEXT), path)

    def ask(extension: str, command: str, **more: Any) -> Any:
        words = {"extensionId": extension, "cmdId": command, "modelPath": str(path), **more}
        return json.loads(json.dumps(manager.run_cmd(words)))

    collections = ask("xoptim", "convert", settings={})["graphCollections"]
    assert [each["label"] for each in collections] == ["original", "optimized"]
    (graph,) = collections[1]["graphs"]
    assert [node["label"] for node in graph["nodes"]] == ["Input", "Mul", "Relu", "Output"]
    assert len(list(edges(graph))) == 3
    run = {"graphId": "agraph", "configValues": {}, "graph": graph}
    found = ask("xoptim_rewrites", "run", **run)
    assert found["error"] == ""
    assert found["result"]["results"]["b"]["value"] == "NegNeg"
    (editor,) = ask("xoptim_placement", "get_config_editors")["configEditors"]
    assert "webgpu" in [each["value"] for each in editor["options"]]
    found = ask("xoptim_placement", "run", **{**run, "configValues": {"target": "onnx"}})
    assert found["result"]["name"].endswith(" onnx")
    found = ask("xoptim_placement", "run", **{**run, "configValues": {"target": "none"}})
    assert found["result"] is None
    assert "none" in found["error"]


def test_ids_of_nodes_are_unique() -> None:
    view = OptimizedModel.of(parse("agraph (float[n] x) => (float[n] y) { y = Sin(x) }"))
    (node,) = view.before.nodes
    assert ids_of(view.before) == ["y"]
    view.before.nodes.append(node)
    assert ids_of(view.before) == ["y", "y #1"]
    view.before.nodes.insert(0, replace(node, name="y #2"))
    assert ids_of(view.before) == ["y #2", "y", "y #3"]
