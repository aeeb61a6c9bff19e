"""A process that answers questions."""

import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest

from xoptim.system.child import Child, ChildGoneError, last_line

SERVE = (
    "import pickle; from xoptim.system.child import questions_and_answers, send; "
    "questions, answers = questions_and_answers(); "
)
DOUBLES = f"{SERVE}\nwhile True: send(answers, 2 * pickle.load(questions)); print('noise')"
ENDS = f"{SERVE}\nimport sys; pickle.load(questions); sys.exit('no  answer')"
SLEEPS = f"{SERVE}\nimport time; pickle.load(questions); time.sleep(600)"


def test_questions_are_answered_one_after_the_other() -> None:
    with closing(Child(DOUBLES)) as child:
        assert [child.ask(number) for number in (1, "a")] == [2, "aa"]


def test_the_last_question() -> None:
    with closing(Child(f"{SERVE}send(answers, pickle.load(questions) + 1)")) as child:
        assert child.ask_last(1) == 2


def test_a_process_that_ends_without_an_answer() -> None:
    with closing(Child(ENDS)) as child:
        with pytest.raises(ChildGoneError):
            child.ask(1)
        assert "exit code 1: " in child.end_text()
    with closing(Child(ENDS)) as child, pytest.raises(ChildGoneError):
        child.ask_last(1)


def test_errors_that_are_not_kept() -> None:
    with closing(Child(ENDS, keeps_errors=False)) as child:
        with pytest.raises(ChildGoneError):
            child.ask(1)
        assert child.end_text().endswith("exit code 1")


def test_a_process_that_takes_too_long() -> None:
    with closing(Child(SLEEPS)) as child, pytest.raises(TimeoutError):
        child.ask_last(1, 0.1)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_process_that_is_killed() -> None:
    with closing(Child(DOUBLES)) as child:
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(ChildGoneError):
            child.ask(1)
        assert child.end_code() == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_process_that_closes_its_output_and_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xoptim.system.child._PATIENCE", 0.1)
    with closing(
        Child(f"{SERVE}answers.close()\nimport os, time; os.close(1); time.sleep(600)")
    ) as child:
        with pytest.raises(ChildGoneError):
            child.ask(1)
        assert child.end_code() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", ""),
        (b"one\ntwo  words\n\n", ": two words"),
        (b"\xff\n", ": \ufffd"),
        (b"x" * 9999, ": " + "x" * 300),
    ],
)
def test_the_last_line_of_the_errors(text: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "errors").write_bytes(text)
    with (tmp_path / "errors").open("rb") as stream:
        assert last_line(stream) == expected
