"""Models whose weights do not fit into memory are compared section by section."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import parse
from xoptim import GraphBuilder, OptimizationOptions
from xoptim.verification import VerificationOptions, VerificationReport, verify_models
from xoptim.verification.runs.sections import Pieces

SIDE = 16
WEIGHT = SIDE * SIDE * 4
LIMIT = 4 * WEIGHT  # so that a section may have one weight


def chain(
    length: int,
    body: str = "m{0} = MatMul(y{0}, w{0}) t{0} = Neg(m{0}) u{0} = Neg(t{0}) y{1} = Tanh(u{0})",
) -> onnx.ModelProto:
    nodes = " ".join(body.format(index, index + 1) for index in range(length))
    model = parse(f"agraph (float[n,{SIDE}] y0) => (float[n,{SIDE}] y{length}) {{ {nodes} }}")
    rng = np.random.default_rng(0)
    weights = (
        numpy_helper.from_array(rng.standard_normal((SIDE, SIDE)).astype(np.float32), f"w{i}")
        for i in range(length)
    )
    model.graph.initializer.extend(weights)
    return model


def optimized(model: onnx.ModelProto) -> onnx.ModelProto:
    builder = GraphBuilder(model, optimization_options=OptimizationOptions(patterns="NegNeg"))
    builder.optimize()
    return builder.to_onnx(optimize=False)


def check(model: onnx.ModelProto, other: onnx.ModelProto, **options: Any) -> VerificationReport:
    report = verify_models(model, other, VerificationOptions(**{"memory_limit": LIMIT, **options}))
    json.dumps(report.to_json(), allow_nan=False)
    assert "\n" not in report.summary()
    return report


def outputs(report: VerificationReport) -> list[str]:
    return [c.output for c in report.runs[0].comparisons]


def test_a_file_that_is_no_model_differs(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"no model")
    report = verify_models(chain(1), path, VerificationOptions(sections=True))
    assert report.status == "different"
    assert report.reason.startswith(f"{str(path)!r} is not ")


def test_a_section_for_each_weight() -> None:
    model = chain(5)
    report = check(model, optimized(model), exactness="exact")
    assert report.ok, report.reason
    assert report.sections == 5
    assert outputs(report) == ["y1", "y2", "y3", "y4", "y5"]
    assert [dict(run.dims) for run in report.runs] == [{"n": 2}, {"n": 3}]
    assert report.largest is not None
    assert report.largest.max_abs == 0
    assert "5 sections" in report.notes[0]


def test_larger_sections_and_none() -> None:
    model = chain(6)
    assert check(model, optimized(model), memory_limit=8 * WEIGHT).sections == 3
    whole = check(model, optimized(model), memory_limit=None)
    assert (whole.ok, whole.sections) == (True, 0)
    assert check(model, optimized(model), memory_limit=None, sections=True).sections > 0
    refused = check(model, optimized(model), sections=False)
    assert (refused.status, refused.cause) == ("not verified", "load")
    assert " 0.0 MiB" in refused.reason


def test_the_section_that_differs_is_named() -> None:
    model = chain(5)
    wrong = optimized(model)
    third = next(tensor for tensor in wrong.graph.initializer if tensor.name == "w2")
    third.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(third) * np.float32(1.001), "w2"))
    report = check(model, wrong)
    assert report.status == "different"
    assert re.match("section 3 of 5, .*'y3': output 'y3' .*n=2: ", report.reason)


def test_a_section_that_does_not_run() -> None:
    model = chain(3)
    wrong = optimized(model)
    wrong.graph.initializer[1].CopyFrom(
        numpy_helper.from_array(np.zeros((3, SIDE), np.float32), "w1")
    )
    report = check(model, wrong)
    assert report.status == "different"
    assert re.match("section 2 of 3, .*: .* cannot run ", report.reason)


def test_without_a_cut() -> None:
    """Every result has another name in the other model."""
    model = chain(4)
    other = chain(4, "a{0} = MatMul(b{0}, w{0}) b{1} = Tanh(a{0})")
    other.graph.input[0].name, other.graph.output[0].name = "y0", "y4"
    other.graph.node[0].input[0], other.graph.node[-1].output[0] = "y0", "y4"
    report = check(model, other)
    assert report.status == "not verified"
    assert report.cause == "memory"
    assert re.search(" 16 nodes .*'y4'", report.reason)
    assert check(model, other, memory_limit=None).ok


def test_other_signatures() -> None:
    model, other = chain(3), chain(3)
    other.graph.output[0].name = "m2"
    report = check(model, other)
    assert report.status == "different"
    assert report.reason.startswith("output 'y3': ")


def test_an_input_that_the_other_model_lacks() -> None:
    model, other = chain(3), chain(3)
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"]))
    lacking = check(model, other).reason
    assert lacking.startswith("input 'z': ")
    report = check(model, other, fewer_inputs=True)
    assert (report.status, report.sections) == ("equal", 3)
    report = check(other, model, fewer_inputs=True)
    assert report.reason.startswith("input 'z': ")
    assert report.reason != lacking


def test_what_crosses_a_cut() -> None:
    """Captures of subgraphs, calls, outputs half-way, one result read much later, and a sequence,
    at which nothing is cut.
    """
    text = f"""agraph (float[n,{SIDE}] x, bool b) => (float[n,{SIDE}] y, float[n,{SIDE}] early,
      int64[2] s)
    {{ a = MatMul(x, w0) early = local.twice(a) s = Shape(a)
       c = If(b) <then_branch = t () => (float[n,{SIDE}] p) {{ p = MatMul(early, w1) }},
                  else_branch = e () => (float[n,{SIDE}] q) {{ r = Identity(a) q = MatMul(r, w1) }}>
       d = MatMul(c, w2) l = SequenceConstruct(d, a) f = MatMul(d, w3)
         k = ConcatFromSequence<axis = 0>(l)
       g = ReduceMax<keepdims = 0>(k) h = MatMul(f, w0) z = Add(h, g) y = Add(z, a) }}
    <domain: "local", opset_import: ["" : 18]> twice (u) => (v) {{ v = Add(u, u) }}"""
    model = parse(text, domains={"local": 1})
    rng = np.random.default_rng(0)
    weights = (
        numpy_helper.from_array(rng.standard_normal((SIDE, SIDE)).astype(np.float32), f"w{i}")
        for i in range(4)
    )
    model.graph.initializer.extend(weights)
    builder = GraphBuilder(model)
    builder.optimize()
    report = check(
        model,
        builder.to_onnx(optimize=False),
        exactness=builder.report().exactness,
        memory_limit=7 * WEIGHT,
    )
    assert report.ok, report.reason
    assert report.sections >= 2
    assert {"y", "early", "s"} <= set(outputs(report))
    assert "l" not in outputs(report)


def test_values_on_which_the_original_runs_are_looked_for() -> None:
    model = chain(4, "m{0} = MatMul(y{0}, w{0}) r{0} = Reshape(m{0}, s) y{1} = Tanh(r{0})")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, SIDE]), "s"))
    report = check(model, model)
    assert report.ok
    assert [run.dims["n"] for run in report.runs] == [1]
    never = chain(4, "m{0} = MatMul(y{0}, w{0}) r{0} = Reshape(m{0}, s) y{1} = Tanh(r{0})")
    never.graph.initializer.append(numpy_helper.from_array(np.array([5, SIDE + 1]), "s"))
    report = check(never, never)
    assert report.cause == "run"
    assert check(model, model, feeds={"y0": np.ones((1, SIDE), np.float32)}).ok


def test_rounding_is_judged_in_each_section() -> None:
    model, other = chain(3), chain(3, "m{0} = MatMul(y{0}, v{0}) y{1} = Tanh(m{0})")
    del other.graph.initializer[:]
    for tensor in model.graph.initializer:
        weight = numpy_helper.to_array(tensor)
        other.graph.initializer.append(
            numpy_helper.from_array(np.nextafter(weight, np.float32(9)), f"v{tensor.name[1:]}")
        )
    assert check(model, other).ok
    assert check(model, other, exactness="exact").status == "different"


def test_nothing_finite_is_no_evidence() -> None:
    body = "m{0} = MatMul(y{0}, w{0}) z{0} = Sub(m{0}, m{0}) y{1} = Div(z{0}, z{0})"
    report = check(chain(3, body), chain(3, body))
    assert report.cause == "evidence"
    assert "finite" in report.reason


def test_results_of_the_same_name_but_of_another_type_are_no_cut() -> None:
    model, other = (
        chain(2),
        parse(
            "agraph (float[n,16] y0) => (float[n,16] y2) { m0 = Cast<to = 11>(y0) "
            "y2 = Cast<to = 1>(m0) }"
        ),
    )
    (only,) = Pieces(model, None).cuts(Pieces(other, None), 1)
    assert only == (8, frozenset())


def test_bytes_of_a_sparse_weight() -> None:
    model = parse("agraph (float[n,16] x) => (float[n,4] y) { y = MatMul(x, w) }")
    values = numpy_helper.from_array(np.ones(3, np.float32), "w")
    indices = numpy_helper.from_array(np.arange(3))
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [16, 4]))
    assert Pieces(model, None).weights == {"w": 12}


_TABLES = 38
_ROWS, _COLUMNS = 1 << 14, 1 << 10


def large_model(folder: Path) -> Path:
    """2.5 GB in a file of holes: tables of which a few rows are read, and every third one (0.9 GB)
    is read whole.
    """
    nodes, weights = [], []
    size = _ROWS * _COLUMNS * 4
    current = "x"
    for index in range(_TABLES):
        weight = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=(_ROWS, _COLUMNS))
        weight.data_location = TensorProto.EXTERNAL
        for key, value in (
            ("location", "weights.bin"),
            ("offset", str(index * size)),
            ("length", str(size)),
        ):
            weight.external_data.add(key=key, value=value)
        weights.append(weight)
        nodes.append(helper.make_node("Gather", [f"w{index}", "i"], [f"g{index}"]))
        nodes.append(helper.make_node("Identity", [current], [f"c{index}"]))
        nodes.append(helper.make_node("Add", [f"c{index}", f"g{index}"], [f"y{index}"]))
        current = f"y{index}"
        if index % 3 == 0:
            nodes.append(helper.make_node("ReduceMax", [f"w{index}", "axis"], [f"r{index}"]))
            nodes.append(helper.make_node("Add", [current, f"r{index}"], [f"z{index}"]))
            current = f"z{index}"
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", _COLUMNS])
        for name in ("x", current)
    ]
    axis = numpy_helper.from_array(np.array([0]), "axis")
    places = helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])
    graph = helper.make_graph(nodes, "large", [ends[0], places], ends[1:], [*weights, axis])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (folder / "large.onnx").write_bytes(model.SerializeToString())
    with (folder / "weights.bin").open("wb") as stream:
        os.truncate(stream.fileno(), _TABLES * size)
    return folder / "large.onnx"


_CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (3 << 28, 3 << 28))
from xoptim.cli.main import run
code = run([sys.argv[1], "--json"])
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["VmHWM"].split()[0], file=sys.stderr)
sys.exit(code)
"""
"""``ru_maxrss`` would be that of the process of the tests, if that is larger: exec keeps it."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited and measured as on Linux")
def test_weights_of_three_times_the_memory(tmp_path: Path) -> None:
    path = large_model(tmp_path)
    size = (tmp_path / "weights.bin").stat().st_size
    assert size > 3 * (3 << 28)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)["verification"]
    assert report["status"] == "equal"
    assert report["sections"] > 3
    assert int(done.stderr.split()[-1]) * 1024 < 3 * size / 4, (
        "pages of the file that are mapped count"
    )
