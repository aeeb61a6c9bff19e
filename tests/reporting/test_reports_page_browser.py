"""The page in a browser: reading, searching, clicking, keys, printing.

``make test-browser`` installs what they need.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import onnx
import pytest

from tests.reporting.conftest import Visit
from tests.reporting.models import BERT, HOSTILE, densenet, large, recorded, unet
from tests.support import parse
from xoptim.graph.export import export_model
from xoptim.graph.sources import size_of
from xoptim.reporting.placing import PlacingFacts, Site
from xoptim.reporting.reports import HtmlReport, report_of, subject_of
from xoptim.reporting.views import view
from xoptim.verification.options import VerificationOptions
from xoptim.verification.verify import verify_models

pytest.importorskip("igraph")
pytest.importorskip("jinja2")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

Open: TypeAlias = Callable[..., Visit]
BOTH = ("before", "after")


def page_of(model: onnx.ModelProto, name: str) -> str:
    """The page about the optimization of a model, compared."""
    builder, journal = recorded(model)
    after = export_model(builder.model)
    compared = verify_models(model, after, VerificationOptions(assignments=1, extremes=False))
    facts = subject_of(replace(builder.report(), verification=(compared,)), name, "model.opt.onnx")
    return report_of(journal, replace(facts, sizes=(size_of(model), size_of(after)))).html


@pytest.fixture(scope="module")
def bert() -> str:
    """The page about a transformer."""
    return page_of(onnx.load(BERT), "tiny_bert.onnx")


def node(visit: Visit, side: str, text: str) -> Any:
    """The first box with a text."""
    return visit.page.locator(f"#{side} .node", has_text=text).first


def test_a_transformer_is_read(visit: Open, bert: str) -> None:
    seen = visit(bert)
    assert seen.texts("h1 .badge") == ["equal"]
    assert all(seen.count(f"#{side} .node") for side in BOTH)
    assert seen.count("#before .frame"), "some scopes are open"
    assert seen.count("#rewrites summary") > 3
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("Softmax")
    assert seen.page.inner_text("#found").endswith("after")
    seen.page.keyboard.press("Enter")
    assert "Softmax" in seen.page.inner_text("#details h3")
    assert seen.count("#before .node.hit.focus") == 1
    seen.page.click("#tab-misses")
    seen.page.locator("[data-miss]", has_text="Attention").first.click()
    assert seen.count("#after .node.marked") >= 3
    assert "min_opset 23" in seen.page.inner_text("#details")


def test_a_rewrite_shows_its_replacement(visit: Open, bert: str) -> None:
    seen = visit(bert)
    seen.page.fill("#filter", "ShapeBasedReshape")
    assert " of " in seen.page.inner_text("#count")
    seen.page.locator("#rewrites .row").first.click()
    assert seen.count("#before .node.marked.gone") >= 2
    assert seen.count("#after .node.marked.new") >= 1
    words = seen.page.inner_text("#details")
    for expected in ("ShapeBasedReshape", "exact", "Why:", "xopt list ShapeBasedReshape"):
        assert expected in words
    seen.picture("report")
    seen.page.locator("#before .node.marked.gone", has_text="Reshape").first.click()
    assert "Rewritten" in seen.page.inner_text("#details .fate")
    assert seen.count("#after .node.marked.new") >= 1
    seen.page.keyboard.press("Escape")
    assert seen.count(".marked") == 0


def test_scopes_open_and_close_on_both_sides(visit: Open, bert: str) -> None:
    seen = visit(bert)
    seen.page.click("#close")
    closed = seen.page.locator("#before .scope").first
    path = closed.get_attribute("data-scope")
    assert "nodes" in (closed.text_content() or "")
    seen.page.mouse.move(0, 0)
    closed.click()
    assert [seen.count(f'#{side} .frame[data-scope="{path}"]') for side in BOTH] == [1, 1]
    seen.page.locator(f'#before .frame[data-scope="{path}"]').click(position={"x": 6, "y": 4})
    assert [seen.count(f'#{side} .scope[data-scope="{path}"]') for side in BOTH] == [1, 1]


def test_keys(visit: Open) -> None:
    seen = visit(page_of(densenet(), "densenet.onnx"))
    seen.page.click("#close")
    seen.page.focus("#before")
    seen.page.keyboard.press("ArrowDown")
    assert seen.count("#before .scope.focus") == 1
    assert "Enter" in seen.page.inner_text("#details")
    before = seen.count("#before .frame")
    seen.page.keyboard.press("Enter")
    assert seen.count("#before .frame") > before
    for key in ("+", "-", "0", "Shift+ArrowLeft", "Shift+ArrowDown"):
        old = seen.page.get_attribute("#before g", "transform")
        seen.page.keyboard.press(key)
        seen.page.wait_for_function(
            "old => document.querySelector('#before g').getAttribute('transform') !== old", arg=old
        )
    seen.page.focus("#tab-graphs")
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.is_visible("#operators table")
    assert not seen.page.is_visible("#graphs")


def test_shapes_on_hover(visit: Open) -> None:
    seen = visit(page_of(unet(), "unet.onnx"))
    node(seen, "after", "MaxPool").hover()
    assert "gives float[1,8,8,8]" in seen.page.inner_text("#tip")
    seen.page.mouse.move(2, 2)
    assert not seen.page.is_visible("#tip")
    seen.page.mouse.move(800, 400)
    old = seen.page.get_attribute("#before g", "transform")
    seen.page.mouse.wheel(0, 90)
    seen.page.wait_for_function(
        "old => document.querySelector('#before g').getAttribute('transform') !== old", arg=old
    )


@pytest.mark.parametrize(
    ("name", "model"), [("unet", unet()), ("densenet", densenet())], ids=["unet", "densenet"]
)
def test_other_networks(visit: Open, name: str, model: onnx.ModelProto) -> None:
    """Transposes that are gone, normalizations that are part of convolutions, constants computed
    ahead of time.
    """
    seen = visit(page_of(model, f"{name}.onnx"), color_scheme="dark")
    seen.page.click("#open")
    seen.page.locator("#rewrites summary").first.click()
    seen.page.locator("#rewrites .row").first.click()
    assert seen.count("#before .marked") >= 1
    assert seen.count("#after .marked") >= 1
    if name == "unet":
        seen.picture("report-dark")
    else:
        seen.page.fill("#search", "ConstantOfShape")
        seen.page.press("#search", "Enter")
        assert "Computed ahead" in seen.page.inner_text("#details .fate")


def test_names_stay_text(visit: Open) -> None:
    model = parse(
        "agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Neg(a) c = Abs(b) d = Sin(c) "
        "y = Exp(d) }"
    )
    for each in model.graph.node:
        each.name = f"{HOSTILE}/<img src=x onerror=alert(2)>"
    seen = visit(page_of(model, HOSTILE))
    seen.page.click("#open")
    seen.page.locator("#rewrites .row").first.click()
    node(seen, "after", "Exp").hover()
    assert HOSTILE in seen.page.inner_text("#tip")
    node(seen, "after", "Exp").click()
    assert HOSTILE in seen.page.inner_text("#details")
    assert HOSTILE in seen.page.title()
    assert seen.count("img") == 0


def test_five_thousand_nodes(visit: Open, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what is in view is drawn, and from far away, boxes are not drawn one by one."""
    page = large()
    start = perf_counter()
    seen = visit(page)
    opened = perf_counter()
    seen.page.fill("#search", "v4321")
    seen.page.press("#search", "Enter")
    assert "v4321" in seen.page.inner_text("#details h3")
    found = perf_counter()
    seen.page.focus("#before")
    seen.page.keyboard.press("ArrowDown")
    seen.page.wait_for_function(
        "!document.querySelector('#details h3').textContent.includes('v4321')"
    )
    walked = perf_counter()
    elements = "document.querySelectorAll('svg *').length"
    near = seen.page.evaluate(elements)
    seen.page.click("#fit")
    far = seen.page.evaluate(elements)
    assert near < 1000
    assert far < 100
    with capsys.disabled():
        times = (
            f"open {opened - start:.2f} s, search {found - opened:.2f} s, select "
            f"{walked - found:.2f} s"
        )
        sys.stdout.write(f"\n5,000 nodes, {len(page)} bytes: {times}\n")


def test_it_can_be_printed(visit: Open, bert: str, tmp_path: Path) -> None:
    seen = visit(bert)
    seen.page.emulate_media(media="print", color_scheme="dark")
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(
        seen.page.is_visible(f"#{part}")
        for part in ("graphs", "operators", "misses", "verification")
    )
    assert not seen.page.is_visible("nav")
    assert seen.count("#rewrites .row") > 10
    assert (
        seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    seen.page.pdf(path=str(tmp_path / "report.pdf"))
    assert (tmp_path / "report.pdf").stat().st_size > 10_000


def test_in_a_frame_of_a_notebook(visit: Open, bert: str, browser: Any) -> None:
    page = browser.new_page()
    page.set_content(HtmlReport(bert)._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("#rewrites summary").first.wait_for()
    assert frame.locator("h1 .badge").inner_text() == "equal"
    page.close()


def test_where_nodes_run(visit: Open) -> None:
    builder, journal = recorded(
        parse("agraph (float[n] x) => (float[n] y) { a = Neg(x) y = Exp(a) }")
    )
    there, left = Site("there", "WebGpu", 2), Site("elsewhere", "CPU", reason="no kernel")
    placing = PlacingFacts(
        "webgpu", {"a": there, "y": left}, {"a": there}, [("result", "1 of 2 nodes")]
    )
    subject = replace(subject_of(builder.report(), "model.onnx", "model.opt.onnx"), placing=placing)
    seen = visit(report_of(journal, subject).html)
    assert [seen.count(f"#before .node.{kind}") for kind in ("there", "elsewhere")] == [1, 1]
    assert seen.texts("#before .partition") == ["3"]
    assert (seen.count("#after .run"), seen.count("#before .run")) == (1, 2)
    node(seen, "before", "Exp").click()
    assert "CPU: no kernel" in seen.page.inner_text("#details")
    seen.page.click("#tab-placement")
    assert "1 of 2 nodes" in seen.page.inner_text("#placement")


def test_one_model(visit: Open) -> None:
    sites = {"MatMul": Site("there", "WebGPU", 0)}
    placing = PlacingFacts("webgpu", after=sites, counts=[("model", "1 of 1")])
    seen = visit(view(onnx.load(BERT), {"batch": 1, "seq": 8}, placing).html)
    seen.page.wait_for_selector("#after .node", state="attached")  # drawn once the size is known
    assert not seen.page.locator("#before").is_visible()
    assert not seen.page.locator("aside").is_visible()
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("LayerNormalization")
    assert seen.texts("#found") == ["5 found"]
    seen.page.keyboard.press("Enter")
    assert "operations, reads " in seen.texts("#details .facts")[0]
    assert seen.count("#details .fate") == 0
    seen.page.click("#tab-operators")
    assert seen.page.locator("#operators table").first.is_visible()
