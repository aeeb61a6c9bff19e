"""The page about one model."""

import re
from pathlib import Path

import onnx
import pytest

from tests.reporting.models import BERT, HOSTILE, data_of, unet
from tests.support import parse, values_in
from xoptim import save
from xoptim.facts.errors import ModelError
from xoptim.graph.sources import Source
from xoptim.reporting.placing import PlacingFacts, Site
from xoptim.reporting.views import view
from xoptim.targets import named, place
from xoptim.workflow.placing import placing_alone

pytest.importorskip("igraph")
pytest.importorskip("jinja2")

TEXT = """agraph (float[n,8] x) => (float[n,4] y) <float[8,4] w = {
    1,2,3,4, 1,2,3,4, 1,2,3,4, 1,2,3,4, 1,2,3,4, 1,2,3,4, 1,2,3,4, 1,2,3,4}> {
    h = MatMul(x, w) y = Relu(h) }"""


def table(page: str, heading: str) -> dict[str, list[str]]:
    """The cells of a table of costs, by the first cell of each row."""
    (body,) = re.findall(rf"<th>{heading}</th>.*?<tbody>(.*?)</tbody>", page, re.DOTALL)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("</tr>")]
    return {row[0]: row[1:] for row in rows if row}


def test_costs_of_operators_and_nodes() -> None:
    page = view(parse(TEXT), {"n": 2}).html
    rows = table(page, "operator")
    assert rows["MatMul"] == ["1", "32", "128", "192 B", "32 B"]
    assert [*rows] == ["MatMul", "Relu", "all nodes"]
    assert table(page, "layer")["all nodes"] == rows["all nodes"]
    costs = [values_in(text) for text in data_of(page)["after"]["costs"]]
    assert costs == [["128", "192", "32", "32"], ["8", "32", "32"]]
    assert "Dynamic dimensions: n=2." in page


def test_the_graph_is_drawn_once() -> None:
    data = data_of(view(onnx.load(BERT)).html)
    assert data["isSingle"]
    assert data["before"]["nodes"] == []
    assert len(data["after"]["nodes"]) == len(data["after"]["costs"]) > 100
    assert data["links"]["changes"] == data["misses"] == []
    assert set(data["links"]["made"]) == {-1}
    assert "float[batch,seq,32]" in data["after"]["words"], "shapes"


def test_parts_about_changes_are_missing() -> None:
    page = view(unet()).html
    body = page.partition("<body")[2].partition("<script")[0]
    for part in ("tab-misses", "Verification", "<h2>After</h2>", "badge", "removed"):
        assert part not in body, part
    controlled = re.findall(r'aria-controls="(\w+)"', page)
    assert controlled == ["graphs", "operators"]
    assert all(f'<section class="panel{end}' in page for end in (' shown" id="graphs"', '" id="op'))


def test_other_viewers_of_a_file(tmp_path: Path) -> None:
    save(parse(TEXT), tmp_path / "model.onnx")
    page = view(tmp_path / "model.onnx").html
    assert "<code>netron model.onnx</code>" in page
    assert 'id="tab-verification"' in page


def test_where_nodes_run() -> None:
    sites = {"h": Site("there", "WebGPU", 0), "y": Site("elsewhere", "CPU", reason="no kernel")}
    placing = PlacingFacts("webgpu", after=sites, counts=[("model", "1 of 2 nodes")])
    page = view(parse(TEXT), placing=placing).html
    assert re.search("<h2>[^<]*webgpu</h2>", page)
    assert "lowered" not in page.partition("<body")[2].partition("<script")[0]
    (_, taken), (_, left) = data_of(page)["after"]["runs"]["texts"]
    assert taken.endswith(" WebGPU, partition 1")
    assert left.endswith(" CPU: no kernel")


def test_a_placement_has_names_of_nodes_and_results() -> None:
    source = Source(parse(TEXT))
    facts = placing_alone(place(source.proto, named("onnx")), source.proto)
    assert facts.target == "onnx"
    assert {"h", "y"} <= facts.after.keys()
    assert [(name, *values_in(text)) for name, text in facts.counts] == [("model", "2", "2", "1")]


def test_weights_may_be_missing(tmp_path: Path) -> None:
    save(parse(TEXT), tmp_path / "model.onnx", external=True)
    for path in tmp_path.iterdir():
        if path.suffix != ".onnx":
            path.unlink()
    assert table(view(tmp_path / "model.onnx").html, "operator")["MatMul"][1] == "32"


def test_unknown_shapes_and_dimensions() -> None:
    page = view(parse("agraph (float[n] x) => (float[m] y) { z = NonZero(x) y = Cast<to=1>(z) }"))
    assert "nodes are unknown" in page.html
    assert any(text.startswith("unknown: ") for text in data_of(page.html)["after"]["costs"])
    with pytest.raises(ModelError, match="k"):
        view(parse(TEXT), {"k": 3})


def test_names_are_text() -> None:
    model = parse(TEXT)
    model.graph.node[0].name = f"/{HOSTILE}/{HOSTILE}"
    page = view(model).html
    assert HOSTILE not in page
    assert data_of(page)["after"]["nodes"][0][1] == f"/{HOSTILE}/{HOSTILE}"
