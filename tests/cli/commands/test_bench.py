"""``xopt bench``, and ``xopt MODEL --benchmark``."""

import re
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.cli.command import POSITIONS, TRANSPOSES, Xopt, write
from tests.support import values_in
from xoptim.bench import BenchOptions, Loading
from xoptim.bench.environments import InstallError
from xoptim.verification import ProviderUnavailable

QUICK = ("--seconds", "0.01", "--threads", "1")
ABS = "agraph (float[a,b] x) => (float[a,b] y) { y = Abs(x) }"


@pytest.fixture(autouse=True)
def patience(brief: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of the figures do not matter here: nothing is warmed up, and loading is not
    measured.
    """
    monkeypatch.setattr("xoptim.bench.measure.measure_loading", lambda *_: Loading(0.5, 2_000_000))


def test_two_models(xopt: Xopt) -> None:
    a, b = write(TRANSPOSES, "a.onnx"), write(TRANSPOSES, "b.onnx")
    code, out, err = xopt("bench", a, b, *QUICK, "--dim", "a=3", "--dim", "b=2")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["median", "minimum", "spread", "loading", "memory"]
    assert lines[1].startswith("1  ")
    assert lines[1].endswith("500.0 ms  2.0 MB")
    assert "1  a.onnx" in lines
    assert next(line for line in lines if line.startswith("2  b.onnx: ")).endswith("; equal")
    assert {"cpu", "1 thread", "a=3", "b=2"} <= {*re.split("[,;] ", lines[-1])}
    assert lines[-1].endswith(": all")


def test_sizes_that_were_chosen_are_named(xopt: Xopt) -> None:
    assert "--dim" in xopt("bench", write(TRANSPOSES), *QUICK).out.splitlines()[-1]


def test_a_model_with_few_positions_is_measured_at_fewer(xopt: Xopt) -> None:
    """It has nine positions; the line says what was tried first."""
    last = xopt("bench", write(POSITIONS), *QUICK).out.splitlines()[-1]
    assert re.findall(r"\w+=\d+", last) == ["batch=1", "seq=8", "seq=128"]


def test_several_sizes_side_by_side(xopt: Xopt) -> None:
    a, b = write(TRANSPOSES, "a.onnx"), write(TRANSPOSES, "b.onnx")
    code, out, err = xopt("bench", a, b, *QUICK, "--dim", "a=3,5", "--dim", "b=2,4")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].endswith(" geometric mean")
    assert "a=3, b=2" in lines[0]
    assert "a=5, b=4" in lines[0]
    assert [line[:5].strip() for line in lines[1:4]] == ["1", "2", "2 / 1"]
    found = xopt("bench", a, b, *QUICK, "--dim", "a=3,5", "--dim", "b=2", "--json").json
    assert found["sizes"] == {"b": 2}
    assert [each["sizes"] for each in found["at"]] == [{"a": 3, "b": 2}, {"a": 5, "b": 2}]
    ratios = [each["models"][1]["ratio"] for each in found["at"]]
    assert found["models"][1]["ratio"] == pytest.approx((ratios[0] * ratios[1]) ** 0.5)


@pytest.mark.parametrize("words", [(), ("verify", "model.onnx"), ("bench", "--profile")])
def test_several_sizes_without_a_measurement_are_refused(
    xopt: Xopt, words: tuple[str, ...]
) -> None:
    error = xopt(*words, write(TRANSPOSES), "--dim", "a=3,5").error
    assert error.startswith("--dim a=3,5: ")


def test_the_latency_at_several_sizes(xopt: Xopt) -> None:
    lines = xopt(
        write(TRANSPOSES), "--benchmark", "--dim", "a=3,5", "--dim", "b=2"
    ).out.splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("latency"))
    assert re.findall(r"\b\w=\d", lines[place]) == ["b=2", "a=3", "a=5"]
    assert "; cpu, " in lines[place]
    assert [line.split()[0] for line in lines[place + 1 : place + 3]] == ["a=3:", "a=5:"]


def test_models_that_differ(xopt: Xopt) -> None:
    code, out, _ = xopt("bench", write(TRANSPOSES, "a.onnx"), write(ABS, "b.onnx"), *QUICK)
    assert code == 1
    assert "different" in out


SCALED = """agraph (float[a,b] x) => (float[a,b] y) <float k = {1.01}> {
    r = Relu(x) y = Mul(r, k)
}"""


def test_a_tolerance(xopt: Xopt) -> None:
    """A quantized model differs by more than float32 does; the message names the options."""
    a, b = write(TRANSPOSES, "a.onnx"), write(SCALED, "b.onnx")
    code, out, _ = xopt("bench", a, b, *QUICK)
    assert code == 1
    assert "; different: output 'y'" in out
    assert "--tolerance\n" in out
    code, out, _ = xopt("bench", a, b, *QUICK, "--rtol", "0.1", "--atol", "0.1")
    assert (code, "; equal\n" in out) == (0, True)
    code, out, _ = xopt("bench", a, b, *QUICK, "--rtol", "0.001")
    assert (code, "set --rtol" in out) == (1, False)


def test_a_busy_machine(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is described before the circumstances, and in the JSON."""
    causes = ["other processes keep 1.5 of 2 cores busy", "the clock rate is between 2000 and 3000"]
    monkeypatch.setattr("xoptim.bench.measure.MachineWatch.texts", lambda _: causes)
    model = write(TRANSPOSES)
    lines = xopt("bench", model, model, *QUICK).out.splitlines()
    for cause in causes:
        assert any(line.startswith(f"busy: {cause}") for line in lines)
    needs = ("busy: ratios are precise to", "busy: ratios are still precise to")
    assert lines[-2].startswith(needs)
    document = xopt("bench", model, *QUICK, "--json").json
    assert document["disturbances"][:2] == causes
    assert f"busy: {causes[0]}" in xopt("model.onnx", "--benchmark", "-o", "out.onnx").out


def test_json(xopt: Xopt) -> None:
    np.savez("feeds.npz", x=np.ones((2, 5), np.float32))
    done = xopt(
        "bench", write(TRANSPOSES), *QUICK, "--json", "--ort-level", "off", "--feeds", "feeds.npz"
    )
    assert done.json["level"] == "off"
    assert done.json["sizes"] == {"a": 2, "b": 5}
    assert done.json["models"][0]["model"] == "model.onnx"


def test_profile(xopt: Xopt) -> None:
    a, b = write(TRANSPOSES, "a.onnx"), write(ABS, "b.onnx")
    code, out, _ = xopt("bench", a, b, *QUICK, "--profile", "--ort-level", "off")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[3:]}
    assert code == 0
    assert set(rows) == {"Transpose", "Relu", "Abs", "all"}
    assert rows["Transpose"][2:] == ["2", "0.000", "ms", "0"]
    done = xopt("bench", a, *QUICK, "--profile", "--ort-level", "off", "--json")
    assert {name: each["calls"] for name, each in done.json["a.onnx"].items()} == {
        "Transpose": 2,
        "Relu": 1,
    }


def test_before_and_after(xopt: Xopt) -> None:
    code, out, err = xopt(write(TRANSPOSES), "--benchmark", "--dim", "a=3", "--dim", "b=2")
    assert (code, err) == (0, "")
    line = next(line for line in out.splitlines() if line.startswith("latency"))
    assert " ms → " in line
    assert "; cpu, " in line
    assert line.endswith(", a=3, b=2")
    latency = xopt("model.onnx", "--benchmark", "--in-place", "--json").json["latency"]
    assert latency["provider"] == "cpu"
    assert latency["before_ms"] > 0
    assert len(latency["interval"]) == 2
    assert xopt("model.onnx", "--json").json["latency"] is None


def test_what_cannot_be_run_is_not_measured(xopt: Xopt) -> None:
    write("agraph (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) y = NoSuch(b) }")
    outcome = xopt("model.onnx", "--benchmark")
    assert outcome.code == 3
    assert any("not measured" in warning for warning in outcome.warnings)


def test_a_target_is_its_provider(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def measured(_: object, options: BenchOptions, **__: object) -> None:
        given.append(options.provider)
        raise ProviderUnavailable("no device")

    monkeypatch.setattr("xoptim.cli.commands.bench.bench", measured)
    assert xopt("bench", write(TRANSPOSES), *QUICK, "--target", "webgpu").error == "no device"
    assert given == ["webgpu"]
    assert xopt("bench", write(TRANSPOSES), *QUICK, "--target", "cpu").error == "no device"
    assert given == ["webgpu", "cpu"]


@pytest.fixture
def one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """All versions are the installed one."""
    monkeypatch.setattr(
        "xoptim.bench.versions.python_with_onnxruntime", lambda _: Path(sys.executable)
    )


@pytest.mark.usefixtures("one_version")
def test_versions_of_onnxruntime(xopt: Xopt) -> None:
    words = "bench", write(TRANSPOSES), *QUICK, "--onnxruntime", "1.30,1.32"
    code, out, err = xopt(*words, "--dim", "a=3,b=2")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    number = onnxruntime.__version__
    assert f"1  onnxruntime {number}" in lines
    ratio = next(line for line in lines if line.startswith(f"2  onnxruntime {number} (2): "))
    assert "; equal" not in ratio, "versions are measured, not compared"
    assert lines[-1].startswith("all operators")
    found = xopt(*words, "--json").json
    names = [f"onnxruntime {number}", f"onnxruntime {number} (2)"]
    assert [model["model"] for model in found["models"]] == names
    assert [*found["operators"]] == names
    assert len(found["models"][1]["interval"]) == 2
    assert found["operators"][f"onnxruntime {number}"]["Relu"]["calls"] == 1


def test_versions_that_cannot_be_compared(xopt: Xopt) -> None:
    words = "bench", write(TRANSPOSES), "--onnxruntime"
    assert xopt(*words, "1.30").error == xopt(*words, "1.30,1.30").error
    assert values_in(xopt(*words, "1.30,x").error)[-3:] == ["x", "1.30", "1.30.1"]


def test_a_version_that_cannot_be_installed(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(version: str) -> Path:
        raise InstallError(f"no version {version}")

    monkeypatch.setattr("xoptim.bench.versions.python_with_onnxruntime", refuse)
    outcome = xopt("bench", write(TRANSPOSES), "--onnxruntime", "1.30,1.32")
    assert outcome.error == "no version 1.30"
