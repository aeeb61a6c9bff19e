"""``xopt doctor``."""

from pathlib import Path

import onnxruntime
import pytest

from tests.cli.command import Xopt
from xoptim import installed_patterns


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


def test_patterns_that_are_skipped_have_a_reason(xopt: Xopt) -> None:
    expected = {name for name, cls in installed_patterns().items() if cls.providers and "cpu" not in cls.providers}
    found = xopt("doctor", "--json").json["skipped"]
    assert found.keys() == expected
    assert all("not for cpu" in reason for reason in found.values())
    lines = xopt("doctor").out.splitlines()
    assert [line for line in lines if line.startswith("skipped")] == [f"skipped     {k}: {v}" for k, v in found.items()]
    assert "provider    CPUExecutionProvider: runs models" in lines
    for_cuda = [line for line in xopt("doctor", "--provider", "cuda").out.splitlines() if line.startswith("skipped")]
    assert all("not for cuda" in line for line in for_cuda)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("model name : x\nflags : sse avx512_vnni amx_int8\n", "integers    of 8 bits: amx_int8, avx512_vnni"),
        ("Features : fp asimddp\n", "integers    of 8 bits: asimddp"),
        ("flags : sse avx2\n", "integers    of 8 bits: none, so that --precision int8 gains little"),
        (None, ""),
    ],
)
def test_instructions_for_integers(xopt: Xopt, monkeypatch: pytest.MonkeyPatch, text: str | None, line: str) -> None:
    if text is not None:
        Path("cpuinfo").write_text(text)
    monkeypatch.setattr("xoptim.system.machine._INFO", Path("cpuinfo"))
    found = [each for each in xopt("doctor").out.splitlines() if each.startswith("integers")]
    assert found == ([line] if line else [])


def test_what_does_not_work_is_an_error(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.diagnose.doctor._fault_of", lambda provider: "its library is missing")
    outcome = xopt("doctor")
    assert outcome.code == 1
    assert "provider    CPUExecutionProvider: its library is missing" in outcome.out
    assert outcome.err == "xopt: error: CPUExecutionProvider does not run a model: its library is missing\n"
