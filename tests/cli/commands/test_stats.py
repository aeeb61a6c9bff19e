"""``xopt stats``."""

import onnx

from tests.cli.command import RELU, TRANSPOSES, Xopt, files, write
from tests.graph.test_stored_locations import model
from tests.passes.blocks.test_outlining import LAYER, chain
from tests.support import values_in


def test_stats(xopt: Xopt) -> None:
    write(
        "agraph (float[a,4] x, seq(float) s) => (float[a,4] y) <float[2,4] w = {1,2,3,4,5,6,7,8}> "
        "{ y = acme.Mix(x, w) }",
        domains={"acme": 2},
    )
    outcome = xopt("stats", "model.onnx")
    assert (outcome.code, outcome.err) == (0, "")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[0] == ["operator", "nodes", "parameters", "flops", "read", "written"]
    assert lines[1][:3] == ["acme::Mix", "1", "8"]
    assert lines[3][0] == "memory"
    assert " ".join(lines[4]) == "unknown shapes at 1 nodes; their operations count as 0"
    assert lines[5:] == [
        ["nodes", "1"],
        ["inputs", "x", "float[a,", "4],", "s", "?"],
        ["outputs", "y", "float[?,", "4]"],
        ["initializers", "1"],
        ["parameters", "8"],
        ["bytes", "32"],
        ["functions", "0"],
        ["opsets", "ai.onnx", "18,", "acme", "2"],
        ["assumptions", "the", "default", "set"],
        ["ir_version", "10"],
    ]
    assert files() == {"model.onnx"}


def test_stats_as_json(xopt: Xopt) -> None:
    write(TRANSPOSES)
    found = xopt("stats", "model.onnx", "--json", "--dim", "a=2,b=3").json
    relu = {"nodes": 1, "parameters": 0, "flops": 6, "read": 24, "written": 24, "unknown": 0}
    assert found["costs"]["by_operator"]["Relu"] == relu
    assert (found["costs"]["sizes"], found["costs"]["peak_bytes"]) == ({"a": 2, "b": 3}, 72)
    del found["costs"]
    assert found == {
        "operators": {"Relu": 1, "Transpose": 2},
        "nodes": 3,
        "inputs": {"x": "float[a, b]"},
        "outputs": {"y": "float[a, b]"},
        "initializers": 0,
        "parameters": 0,
        "bytes": 0,
        "functions": 0,
        "opsets": {"": 18},
        "assumptions": [],
        "ir_version": 10,
        "repeats": [],
    }


def test_stats_by_layer(xopt: Xopt) -> None:
    write(
        'agraph (float[a,4] x) => (y) { ["/body/first/Neg"] t = Neg(x) ["/body/second/Neg"] y ='
        " Neg(t) }"
    )
    lines = [line.split()[0] for line in xopt("stats", "model.onnx", "--layers").out.splitlines()]
    assert lines[:4] == ["layer", "body/first", "body/second", "all"]
    assert (
        xopt("stats", "model.onnx", "--dim", "q=1").error
        == "the model has no dynamic dimension 'q' (it has a)"
    )


def test_stats_of_blocks_that_repeat(xopt: Xopt) -> None:
    write(chain(LAYER).replace("{ m0", "{ z = Neg(x0) m0", 1))
    blocks = xopt("stats", "model.onnx", "--json").json["repeats"]
    assert blocks == [{"name": "MatMul_Add_Tanh_3", "times": 3, "nodes": 3, "share": 0.9}]
    shown = xopt("stats", "model.onnx").summary["repeats"]
    assert shown.startswith("3 times MatMul_Add_Tanh_3, 3 nodes, 90% ")


def test_stats_of_subgraphs_and_functions(xopt: Xopt) -> None:
    write(
        "agraph (bool c, float[a] x) => (float[a] y) { y = If (c) <then_branch = t () => (float[a]"
        " u) { u = Neg(x) }, else_branch = e () => (float[a] v) { v = local.f(x) }> } <domain:"
        ' "local", opset_import: ["" : 18]> f (p) => (q) { q = Abs(p) }',
        domains={"local": 1},
    )
    stats = xopt("stats", "model.onnx", "--json").json
    assert stats["operators"] == {"Abs": 1, "If": 1, "Neg": 1, "local::f": 1}
    assert (stats["nodes"], stats["functions"]) == (4, 1)


def test_stats_of_what_is_no_model(xopt: Xopt) -> None:
    write(RELU)
    write("agraph (float x) => (float z) { y = Relu(x) }", "bad.onnx")
    assert "'z'" in xopt("stats", "bad.onnx").error


def test_stats_of_unknown_ranks(xopt: Xopt) -> None:
    write("agraph (x, float[] z) => (float[2,n] y) { y = acme.Mix(x, z) }", domains={"acme": 2})
    stats = xopt("stats", "model.onnx", "--json").json
    assert (stats["inputs"], stats["outputs"]) == (
        {"x": "?", "z": "float[...]"},
        {"y": "float[2, ?]"},
    )


def test_stats_and_infer_without_the_weights(xopt: Xopt) -> None:
    write(model("w.bin"))
    outcome = xopt("stats", "model.onnx")
    assert (outcome.code, outcome.err) == (0, "")
    assert ["parameters", "4"] in [line.split() for line in outcome.out.splitlines()]
    outcome = xopt("extract", "model.onnx", "-o", "new.onnx")
    assert (outcome.code, values_in(outcome.out)) == (0, ["2", "2"])
    assert len(outcome.warnings) == 1
    assert files() == {"model.onnx", "new.onnx"}
    (tensor,) = onnx.load("new.onnx", load_external_data=False).graph.initializer
    assert (tensor.name, tensor.external_data[0].value) == ("w", "w.bin")
    outcome = xopt("extract", "model.onnx", "--to", "y", "-o", "part.onnx")
    assert (outcome.code, outcome.out[-11:]) == (0, " part.onnx\n"), outcome
    assert len(outcome.warnings) == 1
    (tensor,) = onnx.load("part.onnx", load_external_data=False).graph.initializer
    assert tensor.external_data[0].value == "w.bin"
    assert "w.bin" in xopt("model.onnx").error
