"""The placement of a job's models, for its page."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.reporting.models import data_of
from tests.support import parse
from tests.targets.test_fitting import without
from xoptim import GraphBuilder, OptimizationOptions, PrecisionOptions
from xoptim.graph.sources import Source
from xoptim.reporting.placing import Site
from xoptim.targets import PlacedNode, Placement, named
from xoptim.targets.fitting import fit
from xoptim.workflow.fitting import FittingOutcome
from xoptim.workflow.job import Job, JobOptions
from xoptim.workflow.page import Page
from xoptim.workflow.placing import placing_of

MODEL = "agraph (float[2,4] x) => (float[2,4] y) { t = Ceil(x) u = Erf(t) y = Relu(u) }"


def outcome_of(model: onnx.ModelProto) -> FittingOutcome:
    """A model whose Ceil is lowered, and whose Erf is left."""
    ask = without("Ceil", "Erf")
    original = Placement(
        "fake",
        (
            PlacedNode("t", "Ceil", "", "CPUExecutionProvider", reason="no kernel"),
            PlacedNode("s", "Shape", "", "CPUExecutionProvider", is_shape_arithmetic=True),
            PlacedNode("c", "Constant"),
            PlacedNode("y", "Relu", "", "GpuExecutionProvider", 0),
        ),
    )
    return FittingOutcome(named("webgpu"), original=original, fitted=fit(model, ask))


def test_the_sites_of_both_models() -> None:
    model = parse(MODEL)
    found = placing_of(outcome_of(model), model)
    assert found is not None
    assert found.before == {
        "t": Site("elsewhere", "CPU", reason="no kernel"),
        "s": Site("elsewhere", "CPU", reason="it computes a shape"),
        "c": Site("ahead"),
        "y": Site("there", "Gpu", 0),
    }
    assert found.after["t"] == Site("lowered", "LowerCeil", reason="there is no kernel")
    assert found.after["u"] == Site("elsewhere", "CPU", reason="there is no kernel")
    assert found.after["y"].kind == "there"
    assert [label for label, _ in found.counts] == ["original", "optimized", "result"]
    assert found.lowerings == [("Ceil", "LowerCeil", 1, "there is no kernel")]
    assert found.left == [("Erf", 1, "there is no kernel")]


def test_there_is_no_placement() -> None:
    assert placing_of(FittingOutcome(named("webgpu")), parse(MODEL)) is None


def test_a_quantized_result_is_drawn_by_the_names_of_its_nodes(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", 1, ("n", 64))
    product = builder.op.MatMul("x", builder.make_initializer("w", weights), name="m/product")
    builder.op.Relu(product, outputs=["y"], name="m/relu")
    builder.make_tensor_output("y", 1, ("n", 64))
    job = JobOptions(
        optimization=OptimizationOptions(target="onnx"),
        precision=PrecisionOptions(scheme="float16", compute="float16", everywhere=True),
    )
    outcome = Job(Source(builder.to_onnx()), job).run()
    assert outcome.quantized is not None
    assert outcome.quantized.in_float16
    assert outcome.fitting is not None
    found = placing_of(outcome.fitting, outcome.floats.proto)
    assert found is not None
    assert {"m/product", "m/relu"} <= set(found.after)


def test_an_original_that_does_not_compile() -> None:
    model = parse(MODEL)
    outcome = outcome_of(model)
    assert outcome.original is not None
    outcome.original = replace(outcome.original, compiles=False)
    found = placing_of(outcome, model)
    assert found is not None
    assert (found.before, found.counts[0]) == ({}, ("original", "does not compile"))


def test_the_page_of_a_job(tmp_path: Path) -> None:
    pytest.importorskip("igraph")
    pytest.importorskip("jinja2")
    text = "agraph (float[2,4] x) => (float[2,4] y) { t = com.microsoft.Gelu(x) y = Relu(t) }"
    page = Page(tmp_path / "page.html")
    options = OptimizationOptions(target="onnx")
    Job(
        Source(parse(text, domains={"com.microsoft": 1})),
        JobOptions(optimization=options, page=page),
    ).run()
    page.save()
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = data_of(html)
    kinds = [data[side]["runs"]["texts"][0][0] for side in ("before", "after")]
    assert kinds == ["elsewhere", "lowered"]
    assert "<tr><th>on onnx</th><td>verified by onnxruntime on the CPU</td></tr>" in html
