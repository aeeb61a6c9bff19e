"""Where nodes run, as data of the page."""

import re
from dataclasses import replace

import pytest

from tests.reporting.models import data_of, recorded
from tests.support import parse
from xoptim.graph.load import load_model
from xoptim.reporting.drawing import draw
from xoptim.reporting.placing import PlacingFacts, Site, sites_json
from xoptim.reporting.reports import report_of, subject_of

MODEL = "agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Erf(a) c = Erf(b) y = Exp(c) }"
THERE = Site("there", "WebGpu", 1)
LEFT = Site("elsewhere", "CPU", reason="there is no kernel")
SITES = {"a": THERE, "b": LEFT, "c": LEFT, "unknown": THERE}


@pytest.mark.parametrize(
    ("site", "text"),
    [
        (THERE, "runs on WebGpu, partition 2"),
        (LEFT, "runs on CPU: there is no kernel"),
        (Site("elsewhere", "CPU"), "runs on CPU"),
        (Site("ahead"), "folded or merged by onnxruntime"),
        (
            Site("lowered", "LowerErf", reason="there is no kernel"),
            "lowered by LowerErf: there is no kernel",
        ),
    ],
)
def test_words(site: Site, text: str) -> None:
    assert site.text == text


def test_each_text_is_there_once() -> None:
    found = sites_json(draw(load_model(parse(MODEL))), SITES)
    assert found["nodes"] == [(0, 2), (1, 0), (1, 0), None]
    assert found["texts"] == [("there", THERE.text), ("elsewhere", LEFT.text)]
    assert sites_json(draw(load_model(parse(MODEL))), {}) == {}


def page_of(placing: PlacingFacts | None) -> str:
    """The page about a model and its placement."""
    pytest.importorskip("igraph")
    pytest.importorskip("jinja2")
    builder, journal = recorded(parse(MODEL))
    subject = replace(subject_of(builder.report(), "model.onnx", "result.onnx"), placing=placing)
    return report_of(journal, subject).html


def test_the_page_has_the_placement() -> None:
    facts = PlacingFacts(
        "webgpu",
        before=SITES,
        after={"a": THERE},
        counts=[("original", "1 of 3 nodes"), ("result", "2 of 3 nodes <b>")],
        lowerings=[("Erf", "LowerErf", 2, "there is no kernel")],
        left=[("Exp", 1, "")],
    )
    page = page_of(facts)
    data = data_of(page)
    assert data["before"]["runs"]["nodes"] == [[0, 2], [1, 0], [1, 0], None]
    assert data["after"]["runs"]["nodes"] == [[0, 2], None, None, None]
    panel = page[page.index('<section class="panel" id="placement"') :].partition("</section>")[0]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", panel)
    assert cells == [
        "1 of 3 nodes",
        "2 of 3 nodes &lt;b&gt;",
        "Erf",
        "LowerErf",
        "2",
        "there is no kernel",
        "Exp",
        "1",
        "not known",
    ]
    assert "<dt>on webgpu</dt><dd>2 of 3 nodes &lt;b&gt;</dd>" in page


def test_a_page_without_a_target_has_no_placement() -> None:
    page = page_of(None)
    assert 'id="placement"' not in page
    assert data_of(page)["before"]["runs"] == {}
