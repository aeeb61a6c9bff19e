"""Advice for agents names arguments of tools in place of options of the command."""

import re

import pytest

from xoptim.facts.advice import Advice, advising
from xoptim.integrations.mcp import ARGUMENTS
from xoptim.integrations.mcp.arguments import (
    TOOL_NAMES,
    OptimizeArguments,
    ToolWords,
    argument_faults,
)

OPTIONS = (
    *("all", "assume", "assume-from-model", "at", "atol", "dim", "fix", "include", "opset"),
    *("output", "pack", "precision", "rtol", "software-device", "target", "feeds", "inline"),
)
WITHOUT_OPTION = {"model", "pattern", "original", "other", "first", "second", "overwrite"}
"""Arguments that are words of the command line, or that only the server has."""


@pytest.mark.parametrize(
    ("tool", "advice", "expected"),
    [
        ("optimize", Advice("fix", "NAME=SIZE", "fixes n"), 'fix=["NAME=SIZE"] fixes n'),
        ("optimize", Advice("fix", "batch=1,seq=128"), 'fix=["batch=1,seq=128"]'),
        ("optimize", Advice("fix"), "fix"),
        ("optimize", Advice("target"), "target"),
        ("optimize", Advice("output", "FILE"), 'output="FILE"'),
        ("optimize", Advice("assume", ("t >= 1", "finite(m)")), 'assume=["t >= 1", "finite(m)"]'),
        ("optimize", Advice("opset", "20"), 'opset="20"'),
        ("optimize", Advice("opset", "newest"), 'opset="newest"'),
        ("optimize", Advice("samples", "FILE.npz"), "--feeds FILE.npz"),
        ("optimize", Advice("dim", "n=1"), "--dim n=1"),
        ("optimize", Advice("software-device"), "software_device=true"),
        ("verify", Advice("dim", "n=1"), 'dim=["n=1"]'),
        ("verify", Advice("rtol", "1e-3"), "rtol=1e-3"),
        ("verify", Advice("assume-from-model", reason="uses them"), "assume uses them"),
        ("verify", Advice("pack", "PACK"), "--include PACK"),
        ("explain", Advice("opset", "20"), 'optimize opset="20"'),
        ("explain", Advice("patterns", "default"), "--patterns default"),
        ("explain", Advice("at"), "node"),
        ("place", Advice("fix", "NAME=SIZE"), 'fix=["NAME=SIZE"]'),
        ("place", Advice("precision", "float16"), 'optimize precision="float16"'),
        ("stats", Advice("include", "onnxruntime"), "--include onnxruntime"),
        ("explain", Advice("all", reason="shows them"), "detail=true shows them"),
    ],
)  # fmt: skip
def test_options_are_arguments(tool: str, advice: Advice, expected: str) -> None:
    with advising(ToolWords(tool)):
        assert str(advice) == expected


def test_arguments_are_those_of_the_tools() -> None:
    """Each argument belongs to the tools that have it, and no name is of a tool that lacks it."""
    for tool, names in ARGUMENTS.items():
        with advising(ToolWords(tool)):
            words = {str(Advice(option, "1")).partition("=")[0] for option in OPTIONS}
        own = {word for word in words if word.isidentifier()}
        assert own <= set(names)
        assert set(names) - own <= WITHOUT_OPTION
    assert tuple(ARGUMENTS) == TOOL_NAMES


def test_a_mistake_without_a_word_of_its_own() -> None:
    error = {"loc": ("fix", 0), "type": "other", "msg": "Too long", "input": "n" * 200}
    (line,) = argument_faults("optimize", [error], ["fix"])
    assert re.match(r"optimize: .*'fix\.0' .*: Too long, .*'nnn", line)
    assert len(line) < 200


def test_names_of_patterns_are_separated_by_commas() -> None:
    assert OptimizeArguments(include="onnxruntime, Gelu,").words() == [
        "--include=onnxruntime",
        "--include=Gelu",
    ]
    assert OptimizeArguments().words() == []
