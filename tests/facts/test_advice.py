"""Advice names an option as its reader knows it."""

import pickle
import shlex

import pytest

from xoptim.facts.advice import COMMAND, PYTHON, Advice, advising, current_reader, on_command_line


@pytest.mark.parametrize(
    ("advice", "command", "python"),
    [
        (
            Advice("fix", "batch=1,seq=128", "fixes them"),
            "--fix batch=1,seq=128 fixes them",
            'prepare(model, fix={"batch": 1, "seq": 128}) fixes them',
        ),
        (Advice("fix"), "--fix", "fix"),
        (Advice("drop", "GeluPattern"), "--drop GeluPattern", 'drop=("GeluPattern",)'),
        (
            Advice("assume", ("a >= 1", "finite(m)")),
            "--assume 'a >= 1' --assume 'finite(m)'",
            'assume=["a >= 1", "finite(m)"]',
        ),
        (Advice("assume", "finite"), "--assume finite", 'assume=["finite"]'),
        (Advice("opset", "20"), "--opset 20", "opset=20"),
        (Advice("opset", "newest"), "--opset newest", 'opset="newest"'),
        (Advice("inline"), "--inline", "inline=True"),
        (Advice("no-verify"), "--no-verify", "verify=False"),
        (Advice("no-fold"), "--no-fold", "constant_folding=False"),
        (
            Advice("include", "onnxruntime"),
            "--include onnxruntime",
            'patterns="default+onnxruntime"',
        ),
        (Advice("pack", "PACK"), "--include PACK", 'use_operators("PACK")'),
        (Advice("feeds", "FILE.npz"), "--feeds FILE.npz", 'feeds=numpy.load("FILE.npz")'),
        (Advice("samples", "FILE.npz"), "--feeds FILE.npz", 'PrecisionOptions(feeds="FILE.npz")'),
        (Advice("test-data", "FOLDER"), "--test-data FOLDER", 'test_data=Path("FOLDER")'),
        (Advice("link", "IN=OUT"), "--link IN=OUT", 'pair(encoder, decoder, links={"IN": "OUT"})'),
        (Advice("verify-budget"), "--verify-budget", "budget"),
        (Advice("provider", "cuda"), "--provider cuda", 'provider="cuda"'),
        (
            Advice("drop-output", "a b"),
            "--drop-output 'a b'",
            'prepare(model, drop_outputs=["a b"])',
        ),
    ],
)
def test_words_of_the_command_and_of_python(advice: Advice, command: str, python: str) -> None:
    assert str(advice) == python
    with on_command_line():
        assert str(advice) == command


def test_a_shell_reads_any_value_as_one_word() -> None:
    text = "it's $(a) `b`"
    with on_command_line():
        assert shlex.split(str(Advice("drop-output", text))) == ["--drop-output", text]
        assert shlex.split(str(Advice("assume", (text, "b")))) == [
            *("--assume", text, "--assume", "b")
        ]


def test_the_reader_of_an_agent_stays_when_the_command_runs() -> None:
    class Agent:
        def words(self, option: str, argument: object) -> str:
            return option.upper()

    assert current_reader() is PYTHON
    with advising(Agent()), on_command_line():
        assert str(Advice("fix")) == "FIX"
    with on_command_line(), on_command_line():
        assert current_reader() is COMMAND
    assert current_reader() is PYTHON


@pytest.mark.parametrize("reader", [COMMAND, PYTHON])
def test_a_child_gets_the_reader(reader: object) -> None:
    assert pickle.loads(pickle.dumps(reader)) == reader
