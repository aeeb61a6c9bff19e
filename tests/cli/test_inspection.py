"""``xopt list``, ``xopt show`` and ``xopt stats``."""

from __future__ import annotations

import json

import pytest

from tests.blocks.test_outlining import LAYER, chain
from tests.cli.command import RELU, TRANSPOSES, Xopt, files, write
from xoptim import installed_patterns
from xoptim.catalogue.selection import resolve
from xoptim.facts.dtypes import Exactness

EXACTNESS: tuple[Exactness, ...] = ("exact", "rounding", "finite", "approximate")


def test_list(xopt: Xopt) -> None:
    outcome = xopt("list")
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err) == (0, "")
    assert lines[0].split() == ["pattern", "phase", "exactness", "opset", "provider", "tags", "rewrite"]
    families: dict[str, list[str]] = {}
    for line in lines[1:-1]:
        if line.startswith(" "):
            families[next(reversed(families))].append(line.split()[0])
        else:
            families[line.strip()] = []
    assert list(families) == sorted({cls.family() for cls in installed_patterns().values()})
    assert families == {key: [n for n, cls in installed_patterns().items() if cls.family() == key] for key in families}
    assert "TransposeTranspose" in families["movement"]
    assert lines[-1] == f"{len(installed_patterns())} of {len(installed_patterns())} patterns"
    (row,) = [line for line in lines if line.startswith("  TransposeTranspose ")]
    assert row.split()[:4] == ["TransposeTranspose", "canonicalize", "exact", "1+"]
    assert "Transpose(Transpose(x)) → Transpose(x)" in row


def test_list_as_json(xopt: Xopt) -> None:
    patterns = xopt("list", "--json").json
    assert [p["name"] for p in patterns] == list(installed_patterns())
    for pattern in patterns:
        assert pattern.keys() == {
            "name", "family", "phase", "priority", "exactness", "min_opset", "max_opset", "tags", "produces", "unchecked",
            "providers", "status",  "rewrite",
        }  # fmt: skip
        assert pattern["exactness"] in EXACTNESS
        assert pattern["family"] == installed_patterns()[pattern["name"]].family()
        assert "→" in pattern["rewrite"]


@pytest.mark.parametrize("text", ["Cast", "CastPattern", "Cast+Dropout", "Cast,Dropout", "default-Cast", "all-default"])
def test_list_of_a_selection(xopt: Xopt, text: str) -> None:
    default, every = {cls.name() for cls in resolve("default")}, set(installed_patterns())
    expected = {
        "Cast": {"Cast"}, "CastPattern": {"Cast"}, "Cast+Dropout": {"Cast", "Dropout"}, "Cast,Dropout": {"Cast", "Dropout"},
        "default-Cast": default - {"Cast"}, "all-default": every - default,
    }[text]  # fmt: skip
    assert [p["name"] for p in json.loads(xopt("list", "--patterns", text, "--json").out)] == sorted(expected)
    assert xopt("list", "--patterns", text).out.splitlines()[-1] == f"{len(expected)} of {len(every)} patterns"


def test_list_of_nothing_known(xopt: Xopt) -> None:
    assert "unknown pattern 'Castt'; did you mean 'Cast'?" in xopt("list", "--patterns", "Castt").error


@pytest.mark.usefixtures("bad_patterns")
def test_list_shows_packs(xopt: Xopt) -> None:
    assert {p["name"] for p in xopt("list", "--patterns", "extra", "--json").json} >= {"WrongRelu", "Failing"}


@pytest.mark.parametrize("name", ["TransposeTranspose", "TransposeTransposePattern"])
def test_show(xopt: Xopt, name: str) -> None:
    outcome = xopt("show", name)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == "TransposeTransposePattern"
    assert lines[1].startswith("Transpose(Transpose(x)) → ")
    assert "phase canonicalize, exactness exact, opset 1+, provider any" in lines
    first = lines.index("example 1, opset 18")
    assert lines[first + 1].startswith("  before  agraph (")
    assert lines[first + 2].startswith("  after   agraph (")


def test_show_a_preset(xopt: Xopt) -> None:
    outcome = xopt("show", "default")
    assert outcome.code == 0
    assert {cls.__name__ for cls in resolve("default")} <= set(outcome.out.splitlines())


def test_stats(xopt: Xopt) -> None:
    write("agraph (float[a,4] x, seq(float) s) => (float[a,4] y) <float[2,4] w = {1,2,3,4,5,6,7,8}> "
          "{ y = acme.Mix(x, w) }", domains={"acme": 2})  # fmt: skip
    outcome = xopt("stats", "model.onnx")
    assert (outcome.code, outcome.err) == (0, "")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[0] == ["operator", "nodes", "parameters", "flops", "read", "written"]
    assert lines[1][:3] == ["acme::Mix", "1", "8"]
    assert lines[3][0] == "memory"
    assert lines[4] == ["unknown", "sizes", "of", "1", "nodes,", "which", "count", "as", "0"]
    assert lines[5:] == [
        ["nodes", "1"],
        ["inputs", "x", "float[a,", "4],", "s", "?"],
        ["outputs", "y", "float[?,", "4]"],
        ["initializers", "1"],
        ["parameters", "8"],
        ["bytes", "32"],
        ["functions", "0"],
        ["opsets", "ai.onnx", "18,", "acme", "2"],
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
        "ir_version": 10,
        "repeats": [],
    }


def test_stats_by_layer(xopt: Xopt) -> None:
    write('agraph (float[a,4] x) => (y) { ["/body/first/Neg"] t = Neg(x) ["/body/second/Neg"] y = Neg(t) }')
    lines = [line.split()[0] for line in xopt("stats", "model.onnx", "--layers").out.splitlines()]
    assert lines[:4] == ["layer", "body/first", "body/second", "all"]
    assert xopt("stats", "model.onnx", "--dim", "q=1").error == "size for q, but the open dimensions of the model are a"


def test_stats_of_blocks_that_repeat(xopt: Xopt) -> None:
    write(chain(LAYER).replace("{ m0", "{ z = Neg(x0) m0", 1))
    blocks = xopt("stats", "model.onnx", "--json").json["repeats"]
    assert blocks == [{"name": "MatMul_Add_Tanh_3", "times": 3, "nodes": 3, "share": 0.9}]
    last = xopt("stats", "model.onnx").out.splitlines()[-1]
    assert last == "repeats       3 times MatMul_Add_Tanh_3, 3 nodes, 90% of the graph"


def test_stats_of_subgraphs_and_functions(xopt: Xopt) -> None:
    write(
        "agraph (bool c, float[a] x) => (float[a] y) { y = If (c) <then_branch = t () => (float[a] u) { u = Neg(x) }, "
        'else_branch = e () => (float[a] v) { v = local.f(x) }> } <domain: "local", opset_import: ["" : 18]> '
        "f (p) => (q) { q = Abs(p) }",
        domains={"local": 1},
    )
    stats = xopt("stats", "model.onnx", "--json").json
    assert stats["operators"] == {"Abs": 1, "If": 1, "Neg": 1, "local::f": 1}
    assert (stats["nodes"], stats["functions"]) == (4, 1)


def test_stats_of_what_is_no_model(xopt: Xopt) -> None:
    write(RELU)
    write("agraph (float x) => (float z) { y = Relu(x) }", "bad.onnx")
    assert "graph output 'z' is not produced" in xopt("stats", "bad.onnx").error


def test_stats_of_unknown_ranks(xopt: Xopt) -> None:
    write("agraph (x, float[] z) => (float[2,n] y) { y = acme.Mix(x, z) }", domains={"acme": 2})
    stats = xopt("stats", "model.onnx", "--json").json
    assert (stats["inputs"], stats["outputs"]) == ({"x": "?", "z": "float[...]"}, {"y": "float[2, ?]"})
