import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.plugged import CRASH, fake_package, needs
from tests.support import values_in
from xoptim import targets
from xoptim.targets import state_of
from xoptim.targets.tables import table_of
from xoptim.verification.runs.plugins import PLUGINS, Plugin

MISSING = Plugin(
    "missing", "MissingExecutionProvider", "a-package-that-is-missing", "a_module_that_is_missing"
)


def test_a_table() -> None:
    found = state_of(targets.named("webnn"))
    assert (found.installed, found.device, found.fault, found.version) == (True, "by table", "", "")
    assert found.table == str(table_of("webnn"))
    assert state_of(targets.named("cpu")).table == ""


def test_a_provider_that_is_not_installed() -> None:
    found = state_of(replace(targets.named("qnn"), plugin=MISSING))
    assert (found.installed, found.version) == (False, "")
    assert values_in(found.fault) == ["xoptim[missing]"]
    assert values_in(found.to_json()["install"]) == ["xoptim[missing]"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_library_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_package("qnn", CRASH, tmp_path, monkeypatch)
    assert "SIGSEGV" in state_of(targets.named("qnn")).fault


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.targets.state.ask", lambda *_: (targets.process.Answer(), []))
    monkeypatch.setattr(Plugin, "is_installed", True)
    assert state_of(targets.named("qnn")).fault.endswith(f"; {PLUGINS['qnn'].advice}")


@needs("qnn")
def test_a_device() -> None:
    found = state_of(targets.named("qnn"))
    assert (found.fault, bool(found.device), found.version) == ("", True, PLUGINS["qnn"].version)
