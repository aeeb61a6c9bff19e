"""``xopt doctor``."""

from importlib.metadata import EntryPoint
from pathlib import Path

import onnx
import onnxruntime
import pytest

from tests.cli.command import Xopt
from tests.support import parse
from xoptim import installed_patterns
from xoptim.catalogue.discovery import GROUP
from xoptim.targets import Target, TargetState, every as every_target

TABLE = TargetState("webnn", "browsers", True, "", "by table", "", "")


@pytest.fixture(autouse=True)
def _few_targets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries of plug-ins are loaded in the tests about them only: that takes time."""
    if "targets" not in request.function.__name__:
        monkeypatch.setattr("xoptim.diagnose.doctor.every_target", list)


def test_the_state_of_targets(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    states = {
        "webnn": TABLE,
        "qnn": TargetState("qnn", "Snapdragon", True, "2.7.0", "NPU, CPU", "", "pip install x"),
        "webgpu": TargetState(
            "webgpu", "GPUs", True, "0.4.0", "", "it finds no device here", "pip install x"
        ),
        "cuda": TargetState(
            "cuda", "NVIDIA", False, "", "", "not installed: pip install x", "pip install x"
        ),
    }
    asked: list[bool] = []

    def state(target: Target, *, software_device: bool) -> TargetState:
        asked.append(software_device)
        return states.get(target.name, TABLE)

    monkeypatch.setattr("xoptim.diagnose.doctor.state_of", state)
    outcome = xopt("doctor", "--software-device")
    assert (outcome.code, outcome.err, set(asked)) == (0, "", {True})
    lines = [line for line in outcome.out.splitlines() if line.startswith("target ")]
    assert [line.split()[1] for line in lines[:4]] == ["cuda:", "webnn:", "webgpu:", "qnn:"]
    for line, part in zip(lines, ("pip install x", "by table", "0.4.0", "2.7.0"), strict=False):
        assert part in line
    assert lines[2].endswith("it finds no device here")
    assert lines[3].endswith("NPU, CPU")
    assert xopt("doctor", "--json").json["targets"][0]["installed"] is False


def test_targets_of_this_installation(xopt: Xopt) -> None:
    found = {each["name"]: each for each in xopt("doctor", "--json").json["targets"]}
    assert found.keys() == {each.name for each in every_target()} - {"cpu"}
    assert all(each["fault"] or each["device"] or each["name"] == "cuda" for each in found.values())


def test_the_state_of_this_installation(xopt: Xopt) -> None:
    Path("xoptim.toml").write_text('drop = ["Cast"]')
    outcome = xopt("doctor", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    found = outcome.json
    assert found["versions"]["onnxruntime"] == onnxruntime.__version__
    assert list(found["providers"]) == onnxruntime.get_available_providers()
    assert found["providers"]["CPUExecutionProvider"] == ""
    assert found["kernels"]["CPUExecutionProvider"] > 200
    assert sum(found["packs"].values()) == len(installed_patterns())
    assert found["settings"].endswith("xoptim.toml")
    assert found["faults"] == []


def test_packs_of_third_parties(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An entry point may name a module in another one, and a pack may have no patterns."""
    modules = {
        "xopt_pack.py": "from xoptim.patterns.movement import movement_pair as patterns",
        "xopt_empty.py": "",
        "xopt_broken.py": "1 / 0",
    }
    for name, text in modules.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    values = {"pack": "xopt_pack:patterns", "empty": "xopt_empty", "broken": "xopt_broken"}
    points = [EntryPoint(name, value, GROUP) for name, value in values.items()]
    monkeypatch.setattr("xoptim.diagnose.doctor.packs", lambda: points)
    document = xopt("doctor", "--json").json
    assert document["packs"].pop("pack") > 0
    assert document["packs"] == {"empty": 0, "broken": -1}
    assert document["faults"] == ["the patterns of broken cannot be loaded"]


def test_patterns_that_are_skipped_have_a_reason(xopt: Xopt) -> None:
    expected = {
        name
        for name, cls in installed_patterns().items()
        if cls.providers and "cpu" not in cls.providers
    }
    found = xopt("doctor", "--json").json["skipped"]
    assert found.keys() == expected
    assert all("cpu" in reason for reason in found.values())
    lines = xopt("doctor").out.splitlines()
    assert [line for line in lines if line.startswith("skipped")] == [
        f"skipped     {k}: {v}" for k, v in found.items()
    ]
    assert any(line.startswith("provider    CPUExecutionProvider: ") for line in lines)
    for_cuda = [
        line
        for line in xopt("doctor", "--provider", "cuda").out.splitlines()
        if line.startswith("skipped")
    ]
    assert all("cuda" in line for line in for_cuda)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "model name : x\nflags : sse avx512_vnni amx_int8\n",
            "amx_int8, avx512_vnni",
        ),
        ("Features : fp asimddp\n", "asimddp"),
        ("flags : sse avx2\n", "none"),
        (None, "not known"),
    ],
)
def test_instructions_for_integers(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, text: str | None, names: str
) -> None:
    if text is not None:
        Path("cpuinfo").write_text(text)
    monkeypatch.setattr("xoptim.system.machine._INFO", Path("cpuinfo"))
    monkeypatch.setattr("xoptim.diagnose.doctor.int8_time_ratio", lambda: 0.254)
    found = [each for each in xopt("doctor").out.splitlines() if each.startswith("int8 ")]
    assert len(found) == 1
    assert "0.25" in found[0]
    assert found[0].endswith(f": {names})")


def test_what_does_not_work_is_an_error(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "xoptim.diagnose.doctor._fault_of", lambda provider: "its library is missing"
    )
    # a test of the same process may have loaded a plug-in
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    outcome = xopt("doctor")
    assert outcome.code == 1
    assert outcome.summary["provider"] == "CPUExecutionProvider: its library is missing"
    assert outcome.err.startswith("xopt: error: CPUExecutionProvider ")
    assert outcome.err.endswith(": its library is missing\n")


def test_sizes_that_a_model_takes_from_its_example(xopt: Xopt) -> None:
    text = """agraph (float[n,4] x) => (float[2,4] y) <int64[2] shape = {2, 4}> {
        y = Reshape(x, shape) }"""
    onnx.save(parse(text), "frozen.onnx")
    outcome = xopt("doctor", "frozen.onnx")
    assert outcome.code == 1
    assert outcome.out.startswith("frozen ")
    assert xopt("doctor", "frozen.onnx", "--json").json["dimensions"][0]["works"] == [2]
    assert xopt("doctor", "frozen.onnx", "--software-device").code == 2


def test_a_model_that_runs_with_all_sizes(xopt: Xopt) -> None:
    onnx.save(parse("agraph (float[n,4] x) => (float[n,4] y) { y = Neg(x) }"), "fine.onnx")
    outcome = xopt("doctor", "fine.onnx")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("dynamic ")
    assert "n = 1, 2, 3, " in outcome.out
