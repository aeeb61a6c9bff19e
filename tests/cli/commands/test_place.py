"""``xopt place``."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.cli.command import RELU, Xopt, write
from tests.plugged import CRASH, fake_package, needs
from tests.support import parse, values_in
from xoptim.targets import Failing, PlacedNode, Placement
from xoptim.verification import ProviderUnavailable
from xoptim.verification.runs.plugins import Plugin

MIXED = """agraph (float[n,4] x) => (float[n,4] y, int64[2] s) {
    t = com.microsoft.Gelu(x) y = Relu(t) s = Shape(x)
}"""
NODES = (
    PlacedNode("a", "MatMul", "", "GpuExecutionProvider", 0),
    PlacedNode("b", "Erf", "", "CPUExecutionProvider", -1, "there is no kernel", "another form"),
    PlacedNode("c", "Erf", "", "CPUExecutionProvider", -1, "there is no kernel", "another form"),
    PlacedNode("d", "Gelu", "com.microsoft", "GpuExecutionProvider", 1),
    PlacedNode("e", "Shape", "", "CPUExecutionProvider", is_shape_arithmetic=True),
    PlacedNode("f", "Constant"),
)


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Each target is installed, and answers this."""
    found: dict[str, Any] = {"nodes": NODES}

    def placed(model: onnx.ModelProto, target: Any, *_: Any, **asked: Any) -> Placement:
        found["asked"] = asked
        if "fault" in found:
            raise ProviderUnavailable(found["fault"])
        return Placement(target.name, found["nodes"], **found.get("fields", {}))

    monkeypatch.setattr("xoptim.cli.commands.place.place", placed)
    monkeypatch.setattr(Plugin, "is_installed", True)
    return found


def test_a_table_says_what_is_left_and_why(xopt: Xopt, answer: dict[str, Any]) -> None:
    write(RELU)
    outcome = xopt("place", "model.onnx", "--target", "webgpu")
    assert (outcome.code, outcome.err) == (0, "")
    counts, merged, placed = outcome.out.splitlines()[:3]
    assert (counts[:8], values_in(counts)) == ("webgpu: ", ["2", "5", "2", "1"])
    assert values_in(merged) == ["1"]
    assert placed == "[1 node] cpu: Erf 2 [1 node]"
    assert [line.split() for line in outcome.out.splitlines()[3:]] == [
        ["left", "nodes", "reason", "what", "would", "help"],
        ["Erf", "2", *NODES[1].reason.split(), *NODES[1].advice.split()],
    ]


def test_each_node(xopt: Xopt, answer: dict[str, Any]) -> None:
    write(RELU)
    lines = [
        line.split()
        for line in xopt("place", "model.onnx", "--target", "webgpu", "-v").out.splitlines()[3:]
    ]
    assert lines[1:] == [
        ["a", "MatMul", "GpuExecutionProvider", "0"],
        ["b", "Erf", "CPUExecutionProvider", "there", "is", "no", "kernel"],
        ["c", "Erf", "CPUExecutionProvider", "there", "is", "no", "kernel"],
        ["d", "com.microsoft::Gelu", "GpuExecutionProvider", "1"],
        ["e", "Shape", "CPUExecutionProvider", "computes", "a", "shape"],
        ["f", "Constant", "folded"],
    ]


def test_a_long_map_is_shown_with_v(xopt: Xopt, answer: dict[str, Any]) -> None:
    write(RELU)
    taken, left = NODES[:2]
    pairs = (
        (replace(taken, name=f"a{part}", partition=part), replace(left, name=f"b{part}"))
        for part in range(30)
    )
    answer["nodes"] = tuple(node for pair in pairs for node in pair)
    words = ("place", "model.onnx", "--target", "webgpu")
    assert xopt(*words).out.splitlines()[1].startswith("-v ")
    assert xopt(*words, "-v").out.splitlines()[1] == " ".join(["[1 node] cpu: Erf 1"] * 30)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--max-left", "2"), 0),
        (("--max-left", "1"), 1),
        (("--max-partitions", "2"), 0),
        (("--max-partitions", "1"), 1),
        (("--max-left", "0", "--max-partitions", "9"), 1),
    ],
)
def test_limits(xopt: Xopt, answer: dict[str, Any], words: tuple[str, ...], code: int) -> None:
    write(RELU)
    assert xopt("place", "model.onnx", "--target", "webgpu", *words).code == code


def test_a_model_that_does_not_compile(
    xopt: Xopt, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(RELU)
    answer["fields"] = {"compiles": False, "error": "it stops"}
    words = ("place", "model.onnx", "--target", "qnn")
    outcome = xopt(*words)
    assert outcome.code == 0
    fault, *hints = outcome.out.splitlines()[:3]
    assert (fault[:5], fault[-10:]) == ("qnn: ", ": it stops")
    assert [values_in(hint)[-1] for hint in hints] == [
        "--bisect",
        "xopt MODEL --precision float16 --compute float16",
    ]
    assert xopt(*words, "--max-partitions", "9").code == 1
    part = Failing(onnx.ModelProto(), ("n", "m"), ("Erf", "Add"), "it stops")
    monkeypatch.setattr("xoptim.cli.commands.place.smallest_failing", lambda *_, **__: part)
    assert ": Erf 'n', Add 'm'" in xopt(*words, "--bisect").out
    assert xopt(*words, "--bisect", "--json").json[0]["failing"]["operators"] == ["Erf", "Add"]


def test_options_reach_the_provider(xopt: Xopt, answer: dict[str, Any]) -> None:
    write(RELU)
    xopt("place", "model.onnx", "--target", "webgpu", "--software-device", "--seconds", "2m")
    assert answer["asked"] == {"software_device": True, "seconds": 120.0, "custom_op_libs": ()}


def test_a_provider_without_a_device(xopt: Xopt, answer: dict[str, Any]) -> None:
    write(RELU)
    answer["fault"] = "no device here"
    outcome = xopt("place", "model.onnx", "--target", "webgpu")
    assert (outcome.code, outcome.out, outcome.err) == (3, "", "xopt: error: no device here\n")
    assert (
        xopt("place", "model.onnx", "--target", "webgpu", "--json").json[0]["fault"]
        == "no device here"
    )
    overview = xopt("place", "model.onnx")
    assert (overview.code, overview.err) == (0, "")
    assert "no device here" in overview.out


def test_a_provider_that_is_not_installed(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write(RELU)
    monkeypatch.setattr(Plugin, "is_installed", False)
    outcome = xopt("place", "model.onnx", "--target", "openvino")
    assert outcome.code == 3
    assert values_in(outcome.err) == ["openvino", "xoptim[openvino]"]


def test_all_targets_in_a_table(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write(MIXED, domains={"com.microsoft": 1})
    monkeypatch.setattr(Plugin, "is_installed", False)
    outcome = xopt("place", "model.onnx")
    assert (outcome.code, outcome.err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in outcome.out.splitlines()}
    assert rows["cpu"][:4] == ["3", "1", "0", "0"]
    assert rows["onnx"][:4] == ["2", "1", "1", "0"]
    assert rows["onnx"][-2:] == ["by", "table"]
    assert "'xoptim[qnn]'" in outcome.out


def test_several_targets_as_json(xopt: Xopt) -> None:
    write(MIXED, domains={"com.microsoft": 1})
    found = xopt(
        "place", "model.onnx", "--target", "onnx", "--target", "webnn", "--target", "onnx", "--json"
    ).json
    assert [(each["target"], each["source"], each["taken"]) for each in found] == [
        ("onnx", "table", 2),
        ("webnn", "table", 0),
    ]
    assert found[0]["nodes"][0]["reason"].startswith("com.microsoft::Gelu ")


def test_the_overview_names_what_would_help(xopt: Xopt) -> None:
    """A row with 1 node left and no reason looks like a target that cannot run the model."""
    write(RELU)
    targets = ("--target", "webnn", "--target", "onnx")
    rows = xopt("place", "model.onnx", *targets).out.splitlines()[1:]
    assert [values_in(row.split("by table")[1]) for row in rows] == [["--fix", "1", "1"], []]


def test_sizes_are_written_first(xopt: Xopt) -> None:
    write(RELU)
    words = ("place", "model.onnx", "--target", "webnn")
    assert xopt(*words).out.startswith("webnn: 0 of 1 node (")
    assert xopt(*words, "--fix", "batch=2").out.startswith("webnn: 1 of 1 node in 1 partition (")
    error = xopt(*words, "--fix", "b=2").error
    assert values_in(error) == ["--fix", "b"]
    assert error.endswith("batch, x)")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "webgqu"), "there is no target 'webgqu'; did you mean 'webgpu'?"),
        (("--target", "cpu", "-v", "--json"), "--verbose has no effect with --json"),
        (
            ("--target", "cpu", "--software-device"),
            "--software-device has no effect without --target webgpu",
        ),
        (
            ("--target", "onnx", "--bisect"),
            "--bisect has no effect with targets that a table answers",
        ),
        (("--max-left", "-1"), "-1"),
        (("--fix", "batch"), "--fix 'batch': write it as NAME=SIZE"),
    ],
)
def test_bad_usage(xopt: Xopt, words: tuple[str, ...], message: str) -> None:
    write(RELU)
    assert message in xopt("place", "model.onnx", *words).error


def test_a_file_that_is_not_a_model(xopt: Xopt) -> None:
    Path("model.onnx").write_text("nonsense")
    assert "model.onnx" in xopt("place", "model.onnx", "--target", "cpu").error


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_library_that_crashes_is_one_line(
    xopt: Xopt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(RELU)
    fake_package("qnn", CRASH, tmp_path, monkeypatch)
    outcome = xopt("place", "model.onnx", "--target", "qnn", "--max-left", "0")
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.startswith("qnn: does not compile: ")
    assert "SIGSEGV" in outcome.out


@needs("webgpu")
def test_webgpu(xopt: Xopt) -> None:
    write(
        parse(
            "agraph (float[2,3] x, int64[2] i) => (float[2,3] y, int64[2] j) { y = Relu(x) "
            "j = Abs(i) }"
        )
    )
    outcome = xopt("place", "model.onnx", "--target", "webgpu", "--software-device")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[0] == "webgpu: 1 of 2 nodes in 1 partition"
    assert "int64" in outcome.out
