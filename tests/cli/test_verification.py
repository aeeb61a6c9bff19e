"""Options for the values of a comparison, the handling of differences, and ``xopt verify``."""

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import xoptim
from tests.cli.command import POSITIONS, RELU, TRANSPOSES, Xopt, files, types_in, write
from tests.support import parse, values_in
from xoptim.verification.judging.report import Noise, RunReport, VerificationReport, rounding_note

TWO = (
    "agraph (float[batch,4] x, int64[batch] i) => (float[batch,4] y) { f = Cast <to = 1> (i) "
    "r = Relu(x) y = MatMul(r, w) }"
)
QUANTIZED_RELU = (
    "agraph (float[batch,4] x) => (float[batch,4] y) <float s = {0.1}, uint8 z = {0}> { "
    "r = Relu(x) q = QuantizeLinear(r, s, z) y = DequantizeLinear(q, s, z) }"
)
UNKNOWN_OPERATOR = "agraph (float[n] x) => (float[n] y) { t = acme.Frobnicate(x) y = Identity(t) }"
no_cuda = pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(),
    reason="there is a CUDA execution provider",
)


# -------------------------------------------------------------------- a pattern that is wrong


@pytest.mark.usefixtures("bad_patterns")
@pytest.mark.parametrize("target", ["model.opt.onnx", "model.onnx"])
def test_a_wrong_pattern_writes_nothing(xopt: Xopt, target: str) -> None:
    given = write(RELU).read_bytes()
    before = files()
    outcome = xopt(
        "model.onnx",
        "--patterns",
        "WrongRelu",
        "--strict",
        *(["--in-place"] if target == "model.onnx" else []),
    )
    assert outcome.code == 1
    assert files() == before
    assert Path("model.onnx").read_bytes() == given
    (line,) = outcome.err.splitlines()
    number = r"\d+(\.\d+)?(e-?\d+)?"
    assert re.match(
        rf"xopt: error: different: .*'y' .*batch=\d+.*: .*\b{number}.*: WrongRelu$", line
    )
    assert outcome.summary["written"] == "nothing"
    assert outcome.summary["verification"].startswith("different on cpu")


@pytest.mark.usefixtures("bad_patterns")
def test_a_wrong_pattern_in_json(xopt: Xopt) -> None:
    write(RELU)
    outcome = xopt("model.onnx", "--patterns", "WrongRelu", "--strict", "--json")
    assert outcome.code == 1
    summary = outcome.json
    (report,) = summary["verification"]
    assert (report["status"], report["largest"]["output"], report["largest"]["fault"]) == (
        "different",
        "y",
        "value",
    )
    assert report["largest"]["max_abs"] > 0.1
    assert (summary["written"], summary["bytes_after"]) == ([], None)
    assert outcome.err.count("\n") == 1
    assert files() == {"model.onnx"}


@pytest.mark.usefixtures("bad_patterns")
def test_nobody_checks_a_wrong_pattern(xopt: Xopt) -> None:
    write(RELU)
    assert xopt("model.onnx", "--patterns", "WrongRelu", "--no-verify").code == 0
    assert types_in("model.opt.onnx") == ["Exp"]
    assert xopt("verify", "model.onnx", "model.opt.onnx").code == 1


@pytest.mark.parametrize("option", ["--rtol", "--atol"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e999", "much"])
def test_a_tolerance_that_decides_nothing(xopt: Xopt, option: str, value: str) -> None:
    write(RELU)
    error = xopt("verify", "model.onnx", "model.onnx", f"{option}={value}").error
    assert values_in(error) == [option, value, "0"]


@pytest.mark.usefixtures("bad_patterns")
@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 1),
        (("--atol", "0.01"), 0),
        (("--atol", "1e-6"), 1),
        (("--rtol", "1e-6", "--atol", "1e-6"), 1),
    ],
)
def test_tolerances(xopt: Xopt, options: tuple[str, ...], code: int) -> None:
    write(RELU)
    outcome = xopt("model.onnx", "--patterns", "ShiftedRelu", "--strict", *options)
    assert outcome.code == code
    if code:
        assert "0.00098" in outcome.err or "0.000976" in outcome.err
    else:
        assert ", atol 0.01)" in outcome.out


def test_a_quantized_model_needs_a_tolerance(xopt: Xopt) -> None:
    pair = ("verify", "model.onnx", "other.onnx")
    write(RELU)
    write(QUANTIZED_RELU, "other.onnx")
    outcome = xopt(*pair)
    assert outcome.code == 1
    assert re.match(
        r"xopt: warning: other\.onnx .*\(DequantizeLinear, QuantizeLinear\); --tolerance ",
        outcome.err,
    )
    assert "quantized" not in xopt(*pair, "--rtol", "1e-3", "--atol", "1e-3").err
    assert "quantized" not in xopt("verify", "other.onnx", "model.onnx").err


# -------------------------------------------------------------------- sizes and values


def two_inputs() -> Path:
    model = onnx.load(write(TWO))
    model.graph.initializer.append(numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"))
    return write(model)


def test_sizes(xopt: Xopt) -> None:
    write(TRANSPOSES)
    (report,) = xopt("model.onnx", "--dim", "a=5", "--dim", "b=7", "--json").json["verification"]
    assert all(run["dims"] == {"a": 5, "b": 7} for run in report["runs"])
    (report,) = xopt("verify", "model.onnx", "model.opt.onnx", "--dim", "b=7", "--json").json
    assert {run["dims"]["b"] for run in report["runs"]} == {7}


@pytest.mark.parametrize("text", ["a", "a=", "=3", "a=x", "a=-1", "a=1.5", "a 3"])
def test_sizes_that_are_none(xopt: Xopt, text: str) -> None:
    write(TRANSPOSES)
    assert xopt("model.onnx", "--dim", text).error.startswith(f"--dim '{text}': ")
    assert files() == {"model.onnx"}


def test_several_sizes_in_one_word(xopt: Xopt) -> None:
    """There is no note that only one size was tried: every size was chosen."""
    write(TRANSPOSES)
    (report,) = xopt("model.onnx", "--dim", "a=5,b=7", "--json").json["verification"]
    assert all(run["dims"] == {"a": 5, "b": 7} for run in report["runs"])
    assert report["notes"] == []


def test_values(xopt: Xopt) -> None:
    two_inputs()
    np.savez("feeds.npz", x=np.ones((3, 4), np.float32), i=np.zeros(3, np.int64))
    (report,) = xopt("model.onnx", "--feeds", "feeds.npz", "--json").json["verification"]
    assert report["status"] == "equal"
    assert [(run["source"], run["dims"]) for run in report["runs"]] == [("given", {"batch": 3})]


def test_values_of_some_inputs(xopt: Xopt) -> None:
    """The others get random values of a size that fits."""
    two_inputs()
    np.savez("feeds.npz", x=np.ones((3, 4), np.float32))
    (report,) = xopt("model.onnx", "--feeds", "feeds.npz", "--json").json["verification"]
    assert report["status"] == "equal"
    assert {(run["source"], run["dims"]["batch"]) for run in report["runs"]} >= {
        ("random", 3),
        ("wide", 3),
    }


@pytest.mark.parametrize(
    ("name", "values", "facts"),
    [
        ("z", np.ones((3, 4), np.float32), ["z"]),
        ("x", np.ones((3, 5), np.float32), ["x", "3", "5", "4"]),
        ("x", np.ones((3, 4), np.float64), ["x", "float64", "float32"]),
    ],
)
def test_values_that_do_not_fit(
    xopt: Xopt, name: str, values: np.ndarray, facts: list[str]
) -> None:
    two_inputs()
    np.savez("feeds.npz", **{name: values, "i": np.zeros(3, np.int64)})  # type: ignore[arg-type]
    for words in (("model.onnx",), ("verify", "model.onnx", "model.onnx")):
        assert values_in(xopt(*words, "--feeds", "feeds.npz").error) == facts
    assert files() == {"model.onnx", "feeds.npz"}


def test_values_that_contradict_each_other(xopt: Xopt) -> None:
    write("agraph (float[n,4] x, float[n,4] z) => (float[n,4] y) { y = Add(x, z) }")
    np.savez("feeds.npz", x=np.ones((3, 4), np.float32), z=np.ones((5, 4), np.float32))
    assert values_in(xopt("model.onnx", "--feeds", "feeds.npz").error) == ["3", "x", "5", "z"]
    np.savez("feeds.npz", x=np.ones((3, 4), np.float32))
    for words in (("model.onnx",), ("verify", "model.onnx", "model.onnx"), ("bench", "model.onnx")):
        error = xopt(*words, "--feeds", "feeds.npz", "--dim", "n=4").error
        assert values_in(error)[-3:] == ["3", "x", "4"]


@pytest.mark.parametrize("content", [b"", b"x, y\n1, 2\n", b"PK\x03\x04 and nothing else", None])
def test_values_that_cannot_be_read(xopt: Xopt, content: bytes | None) -> None:
    write(RELU)
    if content is not None:
        Path("feeds.npz").write_bytes(content)
    assert "'feeds.npz': " in xopt("model.onnx", "--feeds", "feeds.npz").error


def test_values_in_one_array_or_as_objects(xopt: Xopt) -> None:
    write(RELU)
    np.save("feeds.npy", np.ones(3))
    np.savez("objects.npz", x=np.array([{}, 1], dtype=object))
    for name, content in (("feeds.npy", "one array"), ("objects.npz", "Python objects")):
        assert f"'{name}': it holds {content}" in xopt("model.onnx", "--feeds", name).error


def write_samples() -> list[str]:
    """Three samples, the second one with the largest numbers; returns their files."""
    Path("samples").mkdir()
    for name, number in (("a", 1), ("b", 5), ("c", 2)):
        np.savez(f"samples/{name}.npz", x=np.full((2, 4), number, np.float32))
    return [str(Path("samples", f"{name}.npz")) for name in ("a", "b", "c")]


def clipped(limit: float) -> onnx.ModelProto:
    """A Relu that ends at a limit."""
    return parse(
        "agraph (float[batch,4] x) => (float[batch,4] y) "
        f"<float zero = {{0}}, float most = {{{limit!r}}}> {{ y = Clip(x, zero, most) }}"
    )


def test_all_samples_are_compared(xopt: Xopt) -> None:
    write(RELU)
    files = write_samples()
    Path("other.onnx").write_bytes(clipped(4.0).SerializeToString())
    words = ("verify", "model.onnx", "other.onnx", "--feeds")
    outcome = xopt(*words, "samples")
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.startswith("different on cpu: output 'y' ")
    assert f" {files[1]!r}: 4 instead" in outcome.out
    (report,) = xopt(*words, "samples", "--json").json
    assert [run["sample"] for run in report["runs"]] == files
    assert [run["outputs"][0]["equal"] for run in report["runs"]] == [True, False, True]
    assert xopt(*words, files[0]).code == 0, "one file is one sample"
    feeds, *samples = ({"x": np.full((2, 4), number, np.float32)} for number in (1, 2, 5))
    assert xoptim.verify("model.onnx", "other.onnx", feeds=feeds).ok
    python = xoptim.verify("model.onnx", "other.onnx", feeds=feeds, samples=samples)
    assert " 'sample 2': 4 instead of 5" in python.reason


def test_the_sample_with_the_largest_difference_is_named(xopt: Xopt) -> None:
    write(RELU)
    files = write_samples()
    Path("other.onnx").write_bytes(clipped(4.99).SerializeToString())
    words = ("verify", "model.onnx", "other.onnx", "--feeds", "samples", "--rtol", "0.01")
    outcome = xopt(*words)
    assert (outcome.code, outcome.err) == (0, "")
    assert "equal on cpu: 3 runs" in outcome.out
    assert f" {files[1]!r}" in outcome.out


def test_samples_that_do_not_run_are_named(xopt: Xopt) -> None:
    write(RELU)
    files = write_samples()
    np.savez(files[2], x=np.ones((2, 5), np.float32))
    words = ("verify", "model.onnx", "model.onnx", "--feeds", "samples")
    assert re.search(rf"{re.escape(files[2])}: .*'x' .*\[2, 5\]", xopt(*words).error)


def test_samples_beyond_the_time_limit_are_counted(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(RELU)
    write_samples()
    monkeypatch.setattr("xoptim.verification.inputs.sample_runs._SECONDS", -1.0)
    outcome = xopt("verify", "model.onnx", "model.onnx", "--feeds", "samples")
    assert outcome.code == 0
    assert "2 of 3 runs skipped: " in outcome.out


def test_only_the_first_sample_is_used(xopt: Xopt) -> None:
    """A user who gives twelve samples would think that all of them were used."""
    write(RELU)
    first = write_samples()[0]
    remark = xopt("model.onnx", "--feeds", "samples").err
    assert f" {first} " in remark
    assert remark.endswith(" 3 samples\n")
    words = ("bench", "model.onnx", "--feeds", "samples", "--seconds", "0.01")
    assert remark == xopt(*words).err
    assert re.search(f"{first} .* 3 .* all ", xopt(*words[:2], "model.onnx", *words[2:]).err)
    assert xopt(*words, "--json").err == ""


def test_a_benchmark_compares_all_samples(xopt: Xopt) -> None:
    write(RELU)
    files = write_samples()
    Path("other.onnx").write_bytes(clipped(4.0).SerializeToString())
    words = ("bench", "model.onnx", "other.onnx", "--feeds", "samples", "--seconds", "0.01")
    outcome = xopt(*words)
    assert outcome.code == 1
    assert f"on {files[1]!r}" in outcome.out


def write_test_data(folder: str, *arrays: np.ndarray) -> None:
    for number, array in enumerate(arrays):
        path = Path(folder, "test_data_set_0")
        path.mkdir(parents=True, exist_ok=True)
        (path / f"input_{number}.pb").write_bytes(
            numpy_helper.from_array(array).SerializeToString()
        )


def test_data_of_onnx(xopt: Xopt) -> None:
    write(RELU)
    write_test_data("data", np.ones((2, 4), np.float32))
    (report,) = xopt("model.onnx", "--test-data", "data", "--json").json["verification"]
    assert [run["source"] for run in report["runs"]] == ["test data"]


def test_data_that_cannot_be_used(xopt: Xopt) -> None:
    write(RELU)
    write_test_data("two", np.ones((2, 4), np.float32), np.ones(2, np.float32))
    write_test_data("broken", np.ones((2, 4), np.float32))
    Path("broken/test_data_set_0/input_0.pb").write_bytes(b"\xff\xff\xff")
    write_test_data("shape", np.ones((2, 5), np.float32))
    for folder, message in (
        ("two", "2 inputs, .* 1"),
        ("broken", r"input_0\.pb"),
        ("shape", r"'x' .*\[2, 5\].*\[batch, 4\]"),
    ):
        assert re.search(message, xopt("model.onnx", "--test-data", folder).error)
    assert "model.opt.onnx" not in files()


# ---------------------------------------------------------------- providers, and what cannot be run


@no_cuda
@pytest.mark.parametrize("words", [("model.onnx",), ("verify", "model.onnx", "model.onnx")])
def test_a_provider_that_is_not_here(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the model was read")

    write(RELU)
    monkeypatch.setattr("xoptim.optimizing.verified.GraphBuilder", fail)
    error = xopt(*words, "--provider", "cuda").error
    assert "'cuda'" in error
    assert "; pip install onnxruntime-gpu " in error
    assert files() == {"model.onnx"}


@no_cuda
def test_optimize_for_a_provider_that_is_elsewhere(xopt: Xopt) -> None:
    write(TRANSPOSES)
    assert xopt("model.onnx", "--provider", "cuda", "--no-verify").code == 0
    assert types_in("model.opt.onnx") == ["Relu"]


def test_the_same_provider_by_two_names(xopt: Xopt) -> None:
    write(RELU)
    reports = xopt(
        "model.onnx", "--provider", "cpu", "--provider", "CPUExecutionProvider", "--json"
    ).json["verification"]
    assert [report["status"] for report in reports] == ["equal", "equal"]


def test_a_model_that_onnxruntime_cannot_run(xopt: Xopt) -> None:
    write(UNKNOWN_OPERATOR, domains={"acme": 1})
    outcome = xopt("model.onnx")
    assert outcome.code == 3
    (warning,) = outcome.warnings
    assert warning.startswith("not verified: onnxruntime ")
    assert outcome.summary["verification"].startswith("not verified on cpu")
    assert (outcome.out + outcome.err).count("acme") == 1 + outcome.out.count("acme::Frobnicate"), (
        "the message appears once"
    )
    assert types_in("model.opt.onnx") == ["Frobnicate"]
    assert xopt("model.onnx", "--dim", "n=3", "-q").code == 3
    assert xopt("model.onnx", "--no-verify", "-q") == (0, "", "")


NEVER = """agraph (float[n] x) => (float[n] y) <float low = {-1}> {
    a = Abs(x) s = ReduceSum <keepdims = 0> (a) never = Less(s, low)
    y = If (never) <then_branch = t () => (float[n] u) { u = Neg(x) },
                    else_branch = e () => (float[n] v) { v = Relu(x) }> }"""


def test_inputs_without_given_values_are_named(xopt: Xopt) -> None:
    text = "agraph (float[n] x, float[n] mask, float[n] z) => (float[n] y) "
    onnx.save(parse(text + "{ a = Add(x, mask) y = Add(a, z) }"), "model.onnx")
    np.savez("feeds.npz", x=np.ones(3, np.float32))
    warning = "xopt: warning: no values are given for 'mask', 'z'; random values are used\n"
    feeds = ("--feeds", "feeds.npz")
    assert xopt("model.onnx", "-q", *feeds).err == warning
    assert xopt("verify", "model.onnx", "model.opt.onnx", *feeds).err == warning
    assert xopt("model.onnx", "-q", "--no-verify").err == ""
    assert xopt("bench", "model.onnx", "--seconds", "0.01", *feeds).err.endswith(warning)


def test_a_strict_run_demands_that_each_branch_ran(xopt: Xopt) -> None:
    onnx.save(parse(NEVER), "model.onnx")
    outcome = xopt("model.onnx", "--strict", "-q")
    assert (outcome.code, outcome.out) == (1, "")
    assert re.search("error: branch 'then' of If 'y' .*--feeds ", outcome.err)
    assert not Path("model.opt.onnx").exists()
    outcome = xopt("model.onnx")
    assert outcome.code == 0
    assert outcome.summary["verification"].startswith("equal, 1 branch ")
    outcome = xopt("verify", "model.onnx", "model.opt.onnx")
    assert outcome.out.startswith("equal, 1 branch ")
    (unreached,) = xopt("verify", "model.onnx", "model.onnx", "--json").json[0]["unreached"]
    assert values_in(unreached) == ["then", "y"]


def test_a_strict_run_demands_proof(xopt: Xopt) -> None:
    write(UNKNOWN_OPERATOR, domains={"acme": 1})
    outcome = xopt("model.onnx", "--strict", "-q")
    assert (outcome.code, outcome.out) == (1, "")
    assert re.match("xopt: error: not verified: .*--strict\n$", outcome.err)
    assert files() == {"model.onnx"}
    assert xopt("model.onnx", "--strict", "--no-verify", "-q").code == 0
    write(RELU, "relu.onnx")
    assert xopt("relu.onnx", "--strict", "-q") == (0, "", "")


# -------------------------------------------------------------------- verify


def test_verify_equal_models(xopt: Xopt) -> None:
    write(TRANSPOSES)
    write("agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }", "other.onnx")
    outcome = xopt("verify", "model.onnx", "other.onnx", "--exact")
    assert (outcome.code, outcome.err) == (0, "")
    assert re.fullmatch(r"equal on cpu: \d+ runs, no difference\n", outcome.out)
    (report,) = xopt("verify", "model.onnx", "other.onnx", "--exact", "--json").json
    assert (report["status"], report["exactness"]) == ("equal", "exact")


def test_verify_different_models(xopt: Xopt) -> None:
    write(RELU)
    write("agraph (float[batch,4] x) => (float[batch,4] y) { y = Abs(x) }", "other.onnx")
    outcome = xopt("verify", "model.onnx", "other.onnx")
    assert (outcome.code, outcome.err) == (1, "")
    assert re.match(r"different on cpu: output 'y' .*batch=\d", outcome.out)
    assert xopt("verify", "model.onnx", "other.onnx", "--atol", "100").code == 0
    (report,) = xopt("verify", "model.onnx", "other.onnx", "--json").json
    assert report["status"] == "different"


def test_verify_names_the_file_that_does_not_run(xopt: Xopt) -> None:
    """Neither of two models with other fixed shapes need be an optimized one."""
    write("agraph (float[1,4] x) => (float[1,4] y) { y = Relu(x) }")
    write("agraph (float[2,4] x) => (float[2,4] y) { y = Relu(x) }", "other.onnx")
    outcome = xopt("verify", "model.onnx", "other.onnx")
    assert (outcome.code, outcome.err) == (1, "")
    assert re.match("different on cpu: onnxruntime .*'other.onnx': ", outcome.out)


@pytest.mark.parametrize("words", [("verify", "model.onnx"), ("bench",), ("tune",), ()])
def test_sizes_that_do_not_run_and_others_that_do(xopt: Xopt, words: tuple[str, ...]) -> None:
    write(POSITIONS)
    error = xopt(*words, "model.onnx", "--dim", "seq=128").error
    assert re.search("seq=128: Gather .*; it runs with batch=", error)


def test_verify_rounding(xopt: Xopt) -> None:
    head = "agraph (float[n,8] x) => (float[n,1] y) <int64[1] a = {1}> "
    write(head + "{ y = ReduceSum(x, a) }")
    write(
        head + "{ d = Cast <to = 11> (x) s = ReduceSum(d, a) y = Cast <to = 1> (s) }", "other.onnx"
    )
    assert xopt("verify", "model.onnx", "other.onnx").code == 0
    assert xopt("verify", "model.onnx", "other.onnx", "--exact").code == 1


def test_verify_other_signatures(xopt: Xopt) -> None:
    write(RELU)
    write("agraph (float[batch,4] x) => (float[batch,4] z) { z = Relu(x) }", "other.onnx")
    outcome = xopt("verify", "model.onnx", "other.onnx")
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.startswith("different on cpu: output 'y': ")


def test_verify_what_is_no_model(xopt: Xopt) -> None:
    """It was not compared, so it is not different."""
    write(RELU)
    Path("text.onnx").write_text("this is a text")
    for words in (("text.onnx", "model.onnx"), ("model.onnx", "text.onnx")):
        assert values_in(xopt("verify", *words).error) == ["text.onnx"]


def test_verify_tells_what_limits_the_evidence(xopt: Xopt) -> None:
    write("agraph (float[0,4] x) => (float[0,4] y) { y = Relu(x) }")
    outcome = xopt("verify", "model.onnx", "model.onnx")
    assert outcome.code == 0
    assert any("empty" in line for line in outcome.out.splitlines())
    assert "outputs were empty" in xopt("model.onnx").out


# -------------------------------------------------------------------- what exit code 3 means


def test_help_tells_the_exit_codes(xopt: Xopt) -> None:
    for words in (("--help",), ("optimize", "--help")):
        text = " ".join(xopt(*words).out.split())
        assert "not verified" in text
        assert "3" in text


def test_noise_is_not_called_a_failure_to_run(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum moves a large number by less than rounding does, and Sin makes anything of that:
    64-bit floats decide it.
    """
    text = (
        "agraph (float[64] x) => (float[64] y) <float o = {3e7}, float e = {1}> { z = Mul(x, o) "
        "a = Mul(z, e) y = Sin(a) }"
    )
    write(text)
    write(text.replace("Mul(z, e)", "Add(z, e)"), "other.onnx")
    assert xopt("verify", "model.onnx", "other.onnx", "--json").json[0]["status"] == "different"
    monkeypatch.setattr("xoptim.verification.judging.arbiter._MAX_BYTES", 0)
    monkeypatch.setattr("xoptim.verification.inputs.reference.SHORT", 0)
    report = xopt("verify", "model.onnx", "other.onnx", "--json").json[0]
    assert (report["status"], report["cause"]) == ("not verified", "evidence")
    assert "magnitude" in report["reason"]


def test_weights_that_do_not_fit_are_compared_in_sections(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = parse("""agraph (float[n,8] x) => (float[n,8] y)
        { a = MatMul(x, v) b = Neg(a) c = Neg(b) d = MatMul(c, w) e = Relu(d) y = MatMul(e, u) }""")
    model.graph.initializer.extend(
        numpy_helper.from_array(np.eye(8, dtype=np.float32), name) for name in "uvw"
    )
    write(model)
    for module in ("inputs.work", "judging.judge_sections"):
        monkeypatch.setattr(f"xoptim.verification.{module}.available_memory", lambda: 1200)
    outcome = xopt("model.onnx")
    assert outcome.code == 0, outcome
    assert outcome.out.count(" 3 sections") == 2
    for module in ("inputs.work", "judging.judge_sections"):
        monkeypatch.setattr(f"xoptim.verification.{module}.available_memory", lambda: 900)
    outcome = xopt("model.onnx")
    assert outcome.code == 3, outcome
    assert " sections " in outcome.err


def test_a_budget_of_the_runs(xopt: Xopt) -> None:
    sliced = parse(
        "agraph (float[n] x) => (float y) <int64[1] z = {0}, int64[1] e = {300}> { "
        "t = Slice(x, z, e) y = Relu(t) }"
    )
    onnx.save(sliced, "model.onnx")
    assert re.search(r"equal on cpu: \d+ runs", xopt("model.onnx").out)
    outcome = xopt("model.onnx", "--verify-budget", "1e-9")
    assert outcome.code == 0
    assert re.search(r"runs skipped: .* n=306 .*\(--verify-budget\)", outcome.out)
    (report,) = xopt("model.onnx", "--verify-budget", "1e-9", "--json").json["verification"]
    assert report["skipped"][0]["dims"] == {"n": 306}


def test_the_time_of_a_run_with_several_unknown_axes_is_not_told_in_years(xopt: Xopt) -> None:
    axes = "int64[3] a = {1, 1, -1}, int64[3] b = {1, -1, 1}, int64[3] c = {-1, 1, 1}"
    nodes = (
        "t = Slice(x, z, e) i = NonZero(x) f = Cast <to = 1> (i) g = Reshape(f, a) "
        "h = Reshape(f, b) j = Reshape(f, c)"
    )
    text = (
        f"<int64[1] z = {{0}}, int64[1] e = {{30000}}, {axes}> {{ {nodes} k = Add(g, h) "
        "y = Mul(k, j) }"
    )
    onnx.save(parse(f"agraph (float[n] x) => (float[n] t, float[p,q,r] y) {text}"), "model.onnx")
    assert "more than an hour" in xopt("model.onnx").out


def test_differences_that_are_rounding_are_counted(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line for all outputs; a line for each with ``--verbose``."""
    noise = {name: Noise(1e-5, explains=True, accepted=True) for name in "ab"}
    run = RunReport("random", {}, 0, 0.0, 0.0, (), noise)
    report = VerificationReport("equal", runs=(run,), notes=tuple(rounding_note([run])))
    monkeypatch.setattr("xoptim.verification.verify.compare", lambda *_, **__: report)
    write(RELU)
    assert xopt("model.onnx").out.count("rounding") == 1
    assert re.search("2 outputs: .* 1 ULP .* 1e-05", xopt("model.onnx").out)
    assert "output 'b': " in xopt("model.onnx", "-v").out
    (found,) = xopt("model.onnx", "--json").json["verification"]
    assert set(found["runs"][0]["noise"]) == {"a", "b"}
