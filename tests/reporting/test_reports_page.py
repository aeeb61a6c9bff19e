"""The page as text."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import onnx
import pytest

from tests.reporting.models import BERT, HOSTILE, data_of, densenet, large, recorded, unet
from tests.support import parse
from xoptim import ModelPass
from xoptim.graph.model import Model
from xoptim.reporting.reports import report_of, subject_of

pytest.importorskip("igraph")
pytest.importorskip("jinja2")


class _Tags(HTMLParser):
    """The tags of a page, and the addresses that they name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [
            value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")
        ]


def page_of(model: onnx.ModelProto, title: str = "model.onnx", **changes: object) -> str:
    """The page about the optimization of a model."""
    builder, journal = recorded(model, **changes)
    return report_of(journal, subject_of(builder.report(), title, "result.onnx")).html


def test_the_rewrites_of_a_transformer() -> None:
    data = data_of(page_of(onnx.load(BERT)))
    names = [name for name, *_ in data["links"]["changes"]]
    assert "ShapeBasedReshape" in names
    about = data["patterns"]["ShapeBasedReshape"]
    assert about["ours"]
    assert about["exactness"] == "exact"
    assert [line.partition(":")[0] for line in about["doc"][:3]] == ["What", "Why", "Refuses when"]
    nodes = [len(data[side]["nodes"]) for side in ("before", "after")]
    assert nodes[0] > nodes[1]
    assert len(data["links"]["fates"]) == nodes[0]
    assert all(
        number < nodes[0] for _, before, _, _ in data["links"]["changes"] for number in before
    )
    assert {row["pattern"] for row in data["misses"]} >= {"Attention"}
    assert all(0 <= number < nodes[1] for row in data["misses"] for number in row["nodes"])


@pytest.mark.parametrize("model", [unet(), densenet()], ids=["unet", "densenet"])
def test_every_node_has_one_place(model: onnx.ModelProto) -> None:
    data = data_of(page_of(model))
    for side in (data["before"], data["after"]):
        drawn = [number for box in side["boxes"] for kind, number, *_ in box["items"] if kind == 0]
        wanted = [number for number, node in enumerate(side["nodes"]) if not node[5]]
        assert sorted(drawn) == wanted
    assert data["links"]["changes"]


def test_it_needs_nothing_else() -> None:
    page = page_of(unet())
    found = _Tags(page)
    assert found.addresses == []
    assert not {"link", "img", "iframe", "object", "base"} & set(found.tags)
    script, style = (
        re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[-1] for tag in ("script", "style")
    )
    assert "http" not in style
    assert not re.search(r"url\(|@import|image-set|src:", style)
    assert not re.search(r"fetch\(|import\(|XMLHttpRequest|WebSocket|sendBeacon|new Image", script)
    assert "content=\"default-src 'none'; style-src 'sha256-" in page
    assert re.findall(r"https?:[^\"'\s]*", page) == ["http://www.w3.org/2000/svg"]
    assert re.findall(r"https?:[^\"'\s]*", script) == ["http://www.w3.org/2000/svg"], (
        "the name of a language, not an address"
    )
    for text in (script, style):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in page, (
            "the policy allows no other"
        )


def test_commands_of_other_viewers() -> None:
    page = page_of(unet())
    assert "<code>netron model.onnx</code>" in page
    assert "<code>netron result.onnx</code>" in page
    extension = "--extensions=xoptim.integrations.model_explorer"
    assert f"<code>model-explorer model.onnx {extension}</code>" in page
    assert "Other viewers" not in page_of(unet(), title="standard input")
    hostile = page_of(unet(), title="-o $(touch a);.onnx")
    assert "netron &#39;./-o $(touch a);.onnx&#39;</code>" in hostile


def test_names_are_text() -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Neg(a) y = Exp(b) }")
    model.graph.name = HOSTILE
    for node in model.graph.node:
        node.name = f"/{HOSTILE}/{HOSTILE}"
    model.graph.input[0].name = model.graph.node[0].input[0] = HOSTILE
    page = page_of(model, title=HOSTILE)
    tags = _Tags(page).tags
    assert tags.count("script") == 2, "the data and ours"
    assert HOSTILE not in page
    assert data_of(page)["before"]["nodes"][0][1] == f"/{HOSTILE}/{HOSTILE}"


def test_a_pass_without_a_page() -> None:
    class Renaming(ModelPass):
        """x → Identity(x): <b>bold</b>"""

        def run(self, model: Model) -> int:
            return 0

    assert data_of(page_of(unet(), patterns=[Renaming]))["links"]["changes"] == []


@pytest.mark.slow
def test_five_thousand_nodes_are_small() -> None:
    page = large()
    assert len(page) < 2_000_000
    assert len(data_of(page)["before"]["nodes"]) == 5000


def test_pages_are_the_same_each_time() -> None:
    assert page_of(unet()) == page_of(unet())
