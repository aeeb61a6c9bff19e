"""Messages for agents name arguments of tools in place of options of the command."""

import pytest

from xoptim.integrations.mcp import ARGUMENTS
from xoptim.integrations.mcp_arguments import (
    OptimizeArguments,
    argument_faults,
    argument_text,
    with_arguments,
)


@pytest.mark.parametrize(
    ("tool", "text", "expected"),
    [
        (
            "optimize",
            "qnn needs fixed shapes; --fix NAME=SIZE fixes a dimension",
            'qnn needs fixed shapes; fix=["NAME=SIZE"] fixes a dimension',
        ),
        (
            "optimize",
            "write it as --fix batch=1,seq=128 or x=1,3,224,224",
            'write it as fix=["batch=1,seq=128"] or x=1,3,224,224',
        ),
        ("optimize", "--fix n is given twice", "fix n is given twice"),
        ("optimize", "Invalid value for '--target': no", "Invalid value for 'target': no"),
        ("optimize", "give a file with -o FILE", 'give a file with output="FILE"'),
        (
            "optimize",
            "--assume 't >= 1' --assume 'finite(mask)'",
            'assume=["t >= 1", "finite(mask)"]',
        ),
        ("optimize", "4 fewer with --opset 20 (it has 18)", '4 fewer with opset="20" (it has 18)'),
        ("optimize", "give samples with --feeds FILE.npz", "give samples with --feeds FILE.npz"),
        ("optimize", "--dim n=1 is given twice", "--dim n=1 is given twice"),
        ("verify", "--dim n=1 is given twice", 'dim=["n=1"] is given twice'),
        ("verify", "remove --rtol 1e-3", "remove rtol=1e-3"),
        ("verify", "'finite'; --assume-from-model uses them", "'finite'; assume uses them"),
        ("explain", "`--opset 20` converts the model", '`optimize opset="20"` converts the model'),
        ("explain", "`--patterns default` applies it", "`--patterns default` applies it"),
        ("place", "--fix NAME=SIZE", 'fix=["NAME=SIZE"]'),
        ("place", "--precision float16", 'optimize precision="float16"'),
        ("stats", "--include onnxruntime", "--include onnxruntime"),
        ("explain", "--all shows them", "detail=true shows them"),
        ("optimize", "--target-less", "--target-less"),
    ],
)  # fmt: skip
def test_options_become_arguments(tool: str, text: str, expected: str) -> None:
    assert argument_text(tool, text, ARGUMENTS) == expected


def test_texts_of_a_document() -> None:
    document = {
        "model": "--fix n=1",
        "hints": [{"option": "--include onnxruntime", "nodes": 3}],
        "target": {"fault": "--fix n=1", "dropped": ["--fix n=1"]},
        "notes": ["--opset newest"],
        "error": 0.5,
    }
    assert with_arguments("optimize", document, ARGUMENTS) == {
        "model": "--fix n=1",
        "hints": [{"option": 'include="onnxruntime"', "nodes": 3}],
        "target": {"fault": 'fix=["n=1"]', "dropped": ["--fix n=1"]},
        "notes": ['opset="newest"'],
        "error": 0.5,
    }


def test_a_mistake_without_a_word_of_its_own() -> None:
    error = {"loc": ("fix", 0), "type": "other", "msg": "Too long", "input": "n" * 200}
    (line,) = argument_faults("optimize", [error], ["fix"])
    assert line.startswith("optimize: the argument 'fix.0' is wrong: Too long, not 'nnn")
    assert len(line) < 200


def test_names_of_patterns_are_separated_by_commas() -> None:
    assert OptimizeArguments(include="onnxruntime, Gelu,").words() == [
        "--include=onnxruntime",
        "--include=Gelu",
    ]
    assert OptimizeArguments().words() == []
