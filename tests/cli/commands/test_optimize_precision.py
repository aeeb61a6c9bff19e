"""``xopt MODEL --precision``."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command import RELU, Xopt, files, write
from tests.precision.models import convolutions, images, network, words
from tests.precision.test_routing import mixture, rows
from tests.precision.test_weight_only import one_sensitive
from tests.support import values_in
from xoptim.precision.quantized import Quantized

SIZE = ("--tolerance", "20%")
pytestmark = pytest.mark.usefixtures("faster")


def samples_of(count: int) -> Path:
    """A folder of samples."""
    folder = Path("samples")
    folder.mkdir()
    for seed in range(count):
        np.savez(folder / f"{seed}.npz", **words(seed=seed))  # type: ignore[arg-type]
    return folder


@pytest.fixture
def samples() -> Path:
    """A folder of three samples."""
    return samples_of(3)


def test_eight_bits(xopt: Xopt, samples: Path) -> None:
    onnx.save(network(), "model.onnx")
    outcome = xopt("model.onnx", "--precision", "int8", *SIZE, "--feeds", samples, "-v")
    assert (outcome.code, outcome.err) == (0, "")
    line = outcome.summary["quantization"]
    assert line.startswith("int8: 6 of 6 ")
    assert values_in(line)[-3:] == ["20.00%", "3", "1"]
    assert re.search("integer operators .*: equal: 1 output", outcome.out)
    assert "random" not in line
    patterns = set(re.findall(r"\w+", outcome.out))
    assert patterns >= {"Int8Operands", "Int8Embedding", "DequantizeLinearMatMul"}
    assert Path("model.opt.onnx").stat().st_size < 0.35 * Path("model.onnx").stat().st_size


@pytest.mark.parametrize("index", [0, 2])
def test_a_bad_sample_is_named(xopt: Xopt, samples: Path, index: int) -> None:
    onnx.save(network(), "model.onnx")
    path = samples / f"{index}.npz"
    np.savez(path, words=np.array([1, 300]))
    outcome = xopt("model.onnx", "--precision", "int8", "--feeds", samples)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"xopt: error: sample {str(path)!r}: ")
    assert "the original" in line
    assert "idx=300" in line


def test_nothing_is_quantized(xopt: Xopt) -> None:
    """The float32 model is written, with the reason."""
    write(RELU)
    assert xopt("model.onnx", "-o", "plain.onnx").code == 0
    for options in (("int8",), ("int4",), ("float16",), ("float16", "--compute", "float16")):
        outcome = xopt("model.onnx", "--precision", *options)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.summary["quantization"].startswith(f"{options[0]}: nothing ")
        assert Path("model.opt.onnx").read_bytes() == Path("plain.onnx").read_bytes()


def test_the_time_contains_the_search(xopt: Xopt, samples: Path) -> None:
    onnx.save(network(layers=1), "model.onnx")
    outcome = xopt("model.onnx", "--precision", "int8", *SIZE, "--feeds", samples, "-v")
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("time ")]
    assert re.search(r", verifying \d+\.\d\d s, quantizing \d+\.\d\d s", line)
    found = xopt("model.onnx", "--precision", "int8", *SIZE, "--feeds", samples, "--json").json[
        "precision"
    ]
    assert found["seconds"] > 0


def test_bytes_that_stay_in_float32(xopt: Xopt) -> None:
    """By operator; where the goal is time, the summary names the other goal."""
    model, feeds = one_sensitive()
    onnx.save(model, "model.onnx")
    Path("samples").mkdir()
    for place, each in enumerate(feeds):
        np.savez(f"samples/{place}.npz", **each)  # type: ignore[arg-type]
    for goal, hint in (("speed", "; --for size may leave fewer"), ("size", "")):
        some = ("--precision", "int4", "--tolerance", "1%", "--feeds", "samples", "--for", goal)
        outcome = xopt("model.onnx", *some)
        (line,) = [
            line.strip()
            for line in outcome.out.splitlines()
            if " of constants stay in float32" in line
        ]
        assert re.fullmatch(
            rf"[\d.]+ kB of constants stay in float32: MatMul 16\.4 kB(, \w+ [\d.]+ k?B)*{hint}",
            line,
        )


def test_as_json(xopt: Xopt, samples: Path) -> None:
    onnx.save(network(), "model.onnx")
    found = xopt("model.onnx", "--precision", "int8", *SIZE, "--feeds", samples, "--json").json[
        "precision"
    ]
    assert (found["scheme"], found["metric"], found["samples"], found["are_samples_random"]) == (
        "int8",
        "largest",
        3,
        False,
    )
    assert 0 < found["error"] <= found["tolerance"] == 0.2
    assert [each["status"] for each in found["verification"]] == ["equal"]
    assert {each["node"] for each in found["operators"]} >= {"embed", "scores"}
    assert len([each for each in found["operators"] if each["is_quantized"]]) == len(
        {each["result"] for each in found["operators"]}
    )


def test_random_values_are_no_evidence(xopt: Xopt) -> None:
    onnx.save(network(layers=1), "model.onnx")
    outcome = xopt("model.onnx", "--precision", "int8", *SIZE)
    assert re.search("random inputs .*--feeds", outcome.out)
    assert "few samples" not in outcome.out


@pytest.mark.parametrize(("count", "is_said"), [(9, True), (10, False)])
def test_few_samples(xopt: Xopt, count: int, *, is_said: bool) -> None:
    """Less than ten samples do not bound the error on other data."""
    onnx.save(network(layers=1), "model.onnx")
    outcome = xopt("model.onnx", "--precision", "int8", *SIZE, "--feeds", samples_of(count))
    assert ("few samples" in outcome.out) == is_said


def test_error_beyond_the_tolerance(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quantized, "fault", "too large")
    onnx.save(network(layers=1), "model.onnx")
    outcome = xopt("model.onnx", "--precision", "int8", *SIZE)
    assert outcome.code == 1
    assert outcome.err.startswith("xopt: error: too large; ")
    assert files() == {"model.onnx"}


def test_weights_in_a_file(xopt: Xopt) -> None:
    onnx.save(
        network(), "model.onnx", save_as_external_data=True, size_threshold=0, location="weights"
    )
    outcome = xopt(
        "model.onnx", "-o", "small.onnx", "--precision", "int8", *SIZE, "--external-data"
    )
    assert (outcome.code, outcome.err) == (0, "")
    onnx.load("small.onnx")
    assert files() == {"model.onnx", "weights", "small.onnx", "small.onnx.data"}
    assert Path("small.onnx.data").stat().st_size < 0.35 * Path("weights").stat().st_size


def test_weights_that_are_shared(xopt: Xopt) -> None:
    onnx.save(
        network(), "model.onnx", save_as_external_data=True, size_threshold=0, location="weights"
    )
    outcome = xopt(
        "model.onnx",
        "-o",
        "small.onnx",
        "--precision",
        "float16",
        "--tolerance",
        "1e-7%",
        "--share-weights",
    )
    assert (outcome.code, outcome.err) == (0, "")
    light = onnx.load("small.onnx", load_external_data=False)
    assert {
        entry.value
        for each in light.graph.initializer
        for entry in each.external_data
        if entry.key == "location"
    } == {"weights"}
    assert "small.onnx.data" not in files()


def test_blocks_are_written_once_with_their_integers(xopt: Xopt, samples: Path) -> None:
    onnx.save(network(layers=8), "model.onnx")
    outcome = xopt("model.onnx", "--precision", "int8", *SIZE, "--feeds", samples, "--outline")
    assert (outcome.code, outcome.err) == (0, "")
    assert "\nrepeated " in outcome.out
    (block,) = onnx.load("model.opt.onnx").functions
    assert "MatMulInteger" in {node.op_type for node in block.node}


def test_report_shows_the_optimization_in_floats(xopt: Xopt, samples: Path) -> None:
    onnx.save(network(), "model.onnx")
    outcome = xopt(
        "model.onnx",
        "--precision",
        "int8",
        *SIZE,
        "--feeds",
        samples,
        "--no-verify",
        "--report",
        "page.html",
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "MatMulInteger" not in Path("page.html").read_text(encoding="utf-8")


def test_convolutions_need_samples(xopt: Xopt) -> None:
    onnx.save(convolutions(), "model.onnx")
    outcome = xopt("model.onnx", "--precision", "int8", *SIZE)
    assert "Conv in float32: 3, " in outcome.out
    Path("samples").mkdir()
    np.savez("samples/0.npz", **images())  # type: ignore[arg-type]
    outcome = xopt(
        "model.onnx", "--precision", "int8", *SIZE, "--feeds", "samples", "--calibration", "entropy"
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "Conv in float32" not in outcome.out
    assert outcome.summary["quantization"].startswith("int8: 4 of 4 ")


def test_16_bits_for_gpus(xopt: Xopt, samples: Path) -> None:
    onnx.save(network(), "model.onnx")
    half = ("--precision", "float16", "--compute", "float16", "--feeds", samples)
    outcome = xopt("model.onnx", *half, "--io-types", "float16")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.summary["quantization"].startswith("float16: 10 of 10 ")
    assert re.search("float16 operators .*: equal", outcome.out)
    graph = onnx.load("model.opt.onnx").graph
    assert [port.type.tensor_type.elem_type for port in (*graph.input, *graph.output)] == [7, 10]
    assert xopt("model.onnx", *half, "-o", "same.onnx").code == 0
    assert onnx.load("same.onnx").graph.output[0].type.tensor_type.elem_type == 1


def test_static_with_samples(xopt: Xopt) -> None:
    onnx.save(network(layers=1), "model.onnx")
    np.savez("sample.npz", words=words()["words"])
    static = ("--precision", "int8", "--static", "--tolerance", "10%", "--feeds", "sample.npz")
    outcome = xopt("model.onnx", *static)
    assert (outcome.code, outcome.err) == (0, "")
    operators = {node.op_type for node in onnx.load("model.opt.onnx").graph.node}
    assert operators >= {"QuantizeLinear", "DequantizeLinear"}


def test_each_product_alone(xopt: Xopt) -> None:
    onnx.save(network(layers=2), "model.onnx")
    outcome = xopt("model.onnx", "--precision", "int8", *SIZE, "--dry-run", "-v")
    assert (outcome.code, outcome.err) == (0, "")
    lines = [line.split() for line in outcome.out.splitlines()]
    columns = [
        "node",
        "pattern",
        "rows",
        "columns",
        "weights",
        "error",
        "before",
        "after",
        "saved",
        "choice",
    ]
    first = lines.index(columns) + 1
    rows = [line[:2] for line in lines[first:]]
    assert ["embed", "Int8Embedding"] in rows
    for node in ("Gemm", "Gemm_1", "scores"):
        assert [node, "Int8Operands"] in rows
        assert [node, "Int8Rows"] in rows
    assert files() == {"model.onnx"}
    brief = xopt("model.onnx", "--precision", "int8", *SIZE).out
    assert columns not in [line.split() for line in brief.splitlines()]


@pytest.mark.parametrize("budget", ["0.001s", "1h"])
def test_a_budget_ends_the_search(xopt: Xopt, samples: Path, budget: str) -> None:
    onnx.save(network(layers=1), "model.onnx")
    options = ("--precision", "int8", "--for", "size", *SIZE, "--feeds", samples)
    outcome = xopt("model.onnx", *options, "--budget", budget)
    assert (outcome.code, outcome.err) == (0, "")
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("quantization ")]
    if budget == "1h":
        assert "budget" not in line
    else:
        assert values_in(line)[-2:] == ["0.001", "--budget"]
    assert Path("model.opt.onnx").is_file()


def test_a_budget_is_for_the_precision(xopt: Xopt) -> None:
    write(RELU)
    outcome = xopt("model.onnx", "--budget", "2m")
    assert outcome.code == 2
    assert "--budget" in outcome.err


def test_what_a_choice_depends_on_stays_in_float32(xopt: Xopt) -> None:
    onnx.save(mixture(), "model.onnx")
    np.savez("sample.npz", **rows(0, 200))  # type: ignore[arg-type]
    words = ("model.onnx", "--precision", "int8", "--for", "size", "--feeds", "sample.npz")
    outcome = xopt(*words, "--tolerance", "30%", "-o", "free.onnx", "--no-exact-routing")
    assert "TopK chooses " in outcome.out
    chosen = xopt(*words, "--tolerance", "30%", "-o", "chosen.onnx", "--json").json["precision"]
    (avoided,) = chosen["avoided_routing"]
    assert (avoided["result"], avoided["rows"]) == ("i", 200)
    assert 0 < avoided["share"] < 1
    assert [routing["share"] for routing in chosen["routing"]] == [0]
    outcome = xopt(*words, "--tolerance", "30%", "-o", "chosen.onnx")
    assert "TopK would choose " in outcome.out
    assert "--no-exact-routing" in outcome.out
    exact = xopt(*words, "--tolerance", "30%", "-o", "exact.onnx", "--exact-routing")
    assert exact.code == 0
    assert "TopK" not in exact.out
