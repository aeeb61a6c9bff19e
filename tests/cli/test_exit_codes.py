"""Exit codes: the table of all, and those of commands that compare two models, 1 only where they
differ.
"""

import re
import signal
from typing import get_args

import pytest

from tests.cli.command import RELU, Xopt, write
from tests.cli.test_json_schemas import CASES
from tests.meta.sources import ROOT
from xoptim import VerificationReport
from xoptim.cli.commands import COMMANDS
from xoptim.cli.exit_codes import MEANINGS, code_of
from xoptim.system.signals import EndRequested
from xoptim.verification.judging.report import Cause, Status

HEAD = "agraph (float[n,4] x) => (float[n,4] y)"
UNKNOWN = f"{HEAD} {{ y = NoSuch(x) }}"
FAR = "agraph (float[3,4] x) => (float[4] y) <int64 i = {100}> { y = Gather(x, i) }"
RANDOM = f"{HEAD} {{ r = RandomNormalLike(x) y = Add(x, r) }}"
LOG = f"{HEAD} {{ a = Exp(x) b = Neg(a) y = Log(b) }}"
NOTHING = "agraph (float[n,4] x) => (float[k] y) <bool[1] no = {0}> { y = Compress(x, no) }"
PAIRS = {
    "an operator that onnxruntime lacks": ("load", UNKNOWN, UNKNOWN),
    "an index that is too large": ("run", FAR, FAR),
    "a random result": ("evidence", RANDOM, RANDOM.replace("Add", "Sub")),
    "only NaN": ("evidence", LOG, LOG),
    "nothing but empty tensors": ("evidence", NOTHING, NOTHING),
}
"""Models that are not verified, with the cause."""


@pytest.mark.parametrize(("cause", "before", "after"), PAIRS.values(), ids=PAIRS)
def test_models_that_are_not_verified(xopt: Xopt, cause: str, before: str, after: str) -> None:
    write(before)
    write(after, "other.onnx")
    found = xopt("verify", "model.onnx", "other.onnx", "--json")
    report = found.json[0]
    assert (report["status"], report["cause"]) == ("not verified", cause)
    assert found.code == 3


@pytest.mark.parametrize("cause", [cause for cause in get_args(Cause) if cause])
def test_each_cause_of_not_verified(cause: Cause) -> None:
    doubtful = VerificationReport("not verified", "a reason", cause=cause)
    assert code_of([doubtful]) == 3
    assert code_of([VerificationReport("equal"), doubtful]) == 3
    assert code_of([doubtful, VerificationReport("different", "a reason")]) == 1


@pytest.mark.parametrize(("status", "code"), [("equal", 0), ("different", 1), ("not verified", 3)])
def test_each_status(status: Status, code: int) -> None:
    assert code_of([VerificationReport(status)]) == code


WORDS: dict[int, tuple[str, ...]] = {
    0: ("stats", "model.onnx"),
    1: ("verify", "model.onnx", "other.onnx"),
    2: ("stats", "missing.onnx"),
    3: ("verify", "unknown.onnx", "unknown.onnx"),
}
ERRORS = {130: KeyboardInterrupt(), 141: BrokenPipeError(), 143: EndRequested(signal.SIGTERM)}
"""What ends a command from outside, by exit code."""


@pytest.mark.parametrize("code", MEANINGS)
def test_each_code(xopt: Xopt, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    write(RELU)
    write(RELU.replace("Relu", "Abs"), "other.onnx")
    write(UNKNOWN, "unknown.onnx")
    if code in ERRORS:

        def end(*_: object) -> None:
            raise ERRORS[code]

        monkeypatch.setattr("xoptim.cli.commands.stats.model_costs", end)
    assert xopt(*WORDS.get(code, WORDS[0])).code == code


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    _, _, section = page.partition("## Exit codes\n")
    rows = re.findall(r"(?m)^\| (\d+) \| (.+?) \|$", section)
    assert {int(code): text.replace("`", "") for code, text in rows} == MEANINGS


def test_the_help_fits_a_screen_and_names_the_codes(xopt: Xopt) -> None:
    text = xopt("--help").out
    assert len(text.splitlines()) <= 40
    assert all(f" {code} " in text for code in (0, 1, 2, 3))


@pytest.mark.parametrize("command", CASES)
def test_the_help_of_a_command_names_its_codes(command: str) -> None:
    """Beyond 0 and 2, which mean the same everywhere."""
    known = {code for code, _ in CASES[command].values()} - {0, 2}
    assert known <= _named_codes(COMMANDS[command].help or "")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_help_names_codes_of_the_table_only(command: str) -> None:
    assert _named_codes(COMMANDS[command].help or "") <= set(MEANINGS)


def _named_codes(text: str) -> set[int]:
    """The exit codes that a text names, after the words."""
    _, _, told = text.partition("xit code")
    return set(map(int, re.findall(r"(?<![\w-])(\d+)(?= )", told)))
