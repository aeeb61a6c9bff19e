"""A quantized model is compared as it was made: by the error of its outputs."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command import Xopt
from tests.precision.detectors import anchors, detector
from tests.support import values_in


@pytest.fixture
def made(xopt: Xopt) -> None:
    """A detector, samples, and its int8 form."""
    onnx.save(detector("columns"), "model.onnx")
    Path("samples").mkdir()
    for seed in range(4):
        np.savez(f"samples/{seed}.npz", **anchors(seed=seed))  # type: ignore[arg-type]
    words = ("--precision", "int8", "--for", "size", "--tolerance", "2%", "--feeds", "samples")
    assert xopt("model.onnx", *words, "-o", "int8.onnx").code == 0


SAMPLES = ("--feeds", "samples")


@pytest.mark.usefixtures("made")
def test_a_quantized_model_is_within_its_tolerance(xopt: Xopt) -> None:
    usual = xopt("verify", "model.onnx", "int8.onnx", *SAMPLES)
    assert usual.code == 1
    assert re.search("int8.onnx .*--tolerance", usual.err)
    within = xopt("verify", "model.onnx", "int8.onnx", *SAMPLES, "--tolerance", "2%")
    assert within.code == 0
    assert "equal on cpu: 4 runs" in within.out
    assert " y, columns " in within.out
    assert re.search(r" 2\.00% \(largest, 4 samples, 2 ", within.out)
    (report,) = xopt(
        "verify", "model.onnx", "int8.onnx", *SAMPLES, "--tolerance", "2%", "--json"
    ).json
    assert report["status"] == "equal"
    files = [str(Path("samples", f"{seed}.npz")) for seed in range(4)]
    assert [run["sample"] for run in report["runs"]] == files
    worst = max(report["runs"], key=lambda run: max(each["excess"] for each in run["outputs"]))
    assert within.out.rstrip().endswith(f" {worst['sample']!r}")
    scores = [run["outputs"][1] for run in report["runs"]]
    assert {each["scale"] for each in scores} == {sorted(each["top"] for each in scores)[1]}
    assert {output["output"] for output in report["runs"][0]["outputs"]} == {
        "y, columns 0 to 3",
        "y, columns 4 to 11",
    }


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    "words", [("--tolerance", "0.01%"), ("--tolerance=50%", "--tolerance=y=0.01%")]
)
def test_a_larger_error_is_a_difference(xopt: Xopt, words: tuple[str, ...]) -> None:
    outcome = xopt("verify", "model.onnx", "int8.onnx", *SAMPLES, *words)
    assert (outcome.code, outcome.err) == (1, "")
    assert re.search(r"different on cpu: .* y, columns .* 0\.01% \(largest", outcome.out)


@pytest.mark.usefixtures("made")
def test_random_values_may_be_the_reason_of_a_difference(xopt: Xopt) -> None:
    outcome = xopt("verify", "model.onnx", "int8.onnx", "--tolerance", "0.0001%")
    assert outcome.code == 1
    assert "--feeds" in outcome.err


@pytest.mark.usefixtures("made")
def test_a_function_is_a_metric(xopt: Xopt) -> None:
    Path("own_metric.py").write_text(
        "import numpy as np\n"
        "def half(expected, actual):\n"
        "    assert expected.shape == actual.shape and expected.dtype == np.float64\n"
        "    return 0.5\n"
    )
    words = ("verify", "model.onnx", "int8.onnx", *SAMPLES, "--metric", "own_metric:half")
    assert re.search(r" 50\.00%.* 60\.00% \(half", xopt(*words, "--tolerance", "60%").out)
    assert xopt(*words, "--tolerance", "40%").code == 1
    assert "'third'" in xopt(*words[:-1], "own_metric:third", "--tolerance", "40%").error
    # a file of the folder does not name code
    Path("xoptim.toml").write_text("metric = 'own_metric:half'\n")
    outcome = xopt(*words[:-2], "--tolerance", "2%")
    assert "(largest" in outcome.out
    assert "--metric own_metric:half" in outcome.err


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--tolerance", "z=1%"), "the model has no output 'z' for a tolerance (it has y)"),
        (("--tolerance", "y=x"), "'x' is not a percentage from 0 to 100"),
        (("--tolerance", "1%", "--rtol", "0.1"), "--rtol has no effect with --tolerance"),
        (("--metric", "rms"), "--metric has no effect without --tolerance"),
        (("--tolerance", "1%", "--metric", "mean"), "'mean' is not one of"),
        (("--tolerance", "1%", "--metric", ".x:f"), "'.x:f' is not of the form"),
    ],
)
def test_mistakes(xopt: Xopt, words: tuple[str, ...], error: str) -> None:
    assert error in xopt("verify", "model.onnx", "int8.onnx", *SAMPLES, *words).error


@pytest.mark.usefixtures("made")
def test_an_output_has_a_tolerance_of_its_own(xopt: Xopt) -> None:
    words = ("--precision", "int8", "--for", "size", *SAMPLES, "--tolerance", "y=0.01%")
    outcome = xopt("model.onnx", *words, "-o", "out.onnx")
    assert outcome.code == 0
    assert values_in(outcome.summary["quantization"])[-1] == "0.01%"


@pytest.mark.usefixtures("made")
def test_a_benchmark_compares_by_the_error(xopt: Xopt) -> None:
    words = ("bench", "model.onnx", "int8.onnx", *SAMPLES, "--seconds", "0.05")
    assert "--tolerance" in xopt(*words).out
    within = xopt(*words, "--tolerance", "2%")
    assert within.code == 0
    assert within.out.count("; equal") == 1
    beyond = xopt(*words, "--tolerance", "0.01%")
    assert beyond.code == 1
    assert re.search("; different: .* y, columns", beyond.out)


@pytest.mark.usefixtures("made")
def test_the_file_says_how_it_was_made() -> None:
    (entry,) = onnx.load("int8.onnx").metadata_props
    assert (entry.key, entry.value) == (
        "xoptim.quantization",
        "int8, tolerance 0.02, metric largest, 4 samples, 2 of them held out",
    )
