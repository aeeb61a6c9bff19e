"""Settings in files."""

import os
from pathlib import Path

import click
import pytest

from tests.cli.command import TRANSPOSES, Xopt, files, types_in, write
from xoptim.cli.main import xopt as group
from xoptim.cli.settings import read_settings

UNCHANGED = ["Transpose", "Transpose", "Relu"]


def settings(text: str, name: str = "xoptim.toml") -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def types_with(xopt: Xopt, *words: str) -> list[str]:
    outcome = xopt("model.onnx", "-q", *words)
    assert outcome.code == 0
    assert all(each.endswith(": verify false from xoptim.toml") for each in outcome.warnings)
    return types_in("model.opt.onnx")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 1.5", "Invalid value for '--seed': '1.5' is not a valid integer range."),
        ("seed = -3", "Invalid value for '--seed': -3 is not in the range x>=0."),
        ('check = "never"', "Invalid value for '--check': 'never' is not one of 'end', 'each'."),
        (
            'patterns = "defualt"',
            "Invalid value for '--patterns': unknown pattern, tag or preset 'defualt'; did you "
            "mean 'default'?",
        ),
        ('opset = "last"', "Invalid value for '--opset': 'last' is neither a number nor `newest`"),
        ("max-growth = -1", "Invalid value for '--max-growth': '-1': a size such as 500kB"),
    ],
)
def test_invalid_values_name_the_file(xopt: Xopt, text: str, message: str) -> None:
    write(TRANSPOSES)
    path = Path("xoptim.toml").resolve()
    path.write_text(text)
    assert xopt("model.onnx").error.startswith(f"{path}: {message}")


def test_options_by_name(xopt: Xopt) -> None:
    """A file in the folder; the command line is stronger; ``--no-config`` ignores it."""
    write(TRANSPOSES)
    Path(".git").mkdir()  # the folder is a project, in which all settings count
    settings(
        'drop = ["TransposeTranspose"]\n'
        'patterns = "TransposeTranspose"\n'
        "verify = false\n"
        'max-growth = "10%"'
    )
    assert types_with(xopt) == UNCHANGED
    assert types_with(xopt, "--drop", "MatMulAdd") == ["Relu"]
    assert types_with(xopt, "--no-config") == ["Relu"]
    summary = xopt("model.onnx", "--json").json
    assert summary["verification"] == []
    assert len(xopt("model.onnx", "--verify", "--json").json["verification"]) == 1


def test_a_project_file_around(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    settings('[tool.other]\nx = 1\n[tool.xoptim]\npatterns = "Cast"', "pyproject.toml")
    settings("[tool.other]\nx = 1", "inner/pyproject.toml")
    monkeypatch.chdir("inner")
    write(TRANSPOSES)
    assert types_with(xopt) == UNCHANGED
    settings("")
    assert types_with(xopt) == ["Relu"], (
        "the nearest file counts, and xoptim.toml before pyproject.toml"
    )


def test_a_file_that_is_named(xopt: Xopt) -> None:
    write(TRANSPOSES)
    settings("drop = 7")
    settings('patterns = "Cast"', "other.toml")
    for words in (("--config", "other.toml"), ("--config=other.toml",)):
        assert types_with(xopt, *words) == UNCHANGED
    assert xopt("--config", "other.toml", "model.onnx", "-q").code == 0
    assert types_in("model.opt.onnx") == UNCHANGED


def test_tables_of_commands(xopt: Xopt) -> None:
    """``patterns`` concerns every command that has the option.

    A table, one of them; ``verify`` is an option and a command.
    """
    Path(".git").mkdir()
    settings('patterns = "Cast"\nverify = false\n[list]\ntags = true')
    assert xopt("list").out.split()[0] == "word"
    write(TRANSPOSES)
    assert types_with(xopt) == UNCHANGED
    settings('[list]\npatterns = "Cast"')
    assert [each["name"] for each in xopt("list", "--json").json] == ["Cast"]
    assert types_with(xopt) == ["Relu"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'patern = "x"',
            "xoptim.toml: no command has an option --patern; did you mean 'patterns'?",
        ),
        ('[list]\nfix = "x"', "xoptim.toml: `xopt list` has no option --fix"),
        ("[lsit]\ntags = true", "xoptim.toml: there is no command 'lsit'; did you mean 'list'?"),
        ("in-place = true", "xoptim.toml: no command has an option --in-place"),
        ('output = "x"', "xoptim.toml: no command has an option --output"),
        ("verify = 3", "xoptim.toml: verify must be true or false, not 3"),
        ("patterns = [1]", "xoptim.toml: patterns must be a string or a number, not [1]"),
        ("patterns = true", "xoptim.toml: patterns must be a string or a number, not True"),
        ("rtol = true", "xoptim.toml: rtol must be a string or a number, not True"),
        ("drop = [true]", "xoptim.toml: drop must be a string or a number, not [True]"),
        ("patterns = ", "cannot read settings from"),
        ("max-rounds = -3", "-3 is not in the range"),
        ('opset = "old"', "'old' is neither a number nor `newest`"),
    ],
)
def test_mistakes(xopt: Xopt, text: str, message: str) -> None:
    write(TRANSPOSES)
    settings(text)
    assert message in xopt("model.onnx").error
    assert files() == {"model.onnx", "xoptim.toml"}


def test_every_option_of_every_command_can_be_set(tmp_path: Path) -> None:
    """The names come from the options themselves, so that no list has to be kept in step."""
    for name, command in group.commands.items():
        for option in command.params:
            if (
                isinstance(option, click.Option)
                and option.opts[0][2:] not in ("output", "in-place", "help")
                and option.opts[0][:2] == "--"
            ):
                value = "true" if option.is_flag else "1"
                path = tmp_path / "xoptim.toml"
                path.write_text(f"[{name}]\n{option.opts[0][2:]} = {value}")
                assert option.name in read_settings(path, group.commands).defaults[name]


def test_unreadable_settings_of_other_programs_are_ignored(xopt: Xopt) -> None:
    settings("[tool", "pyproject.toml")
    write(TRANSPOSES)
    assert types_with(xopt) == ["Relu"]
    assert os.path.exists("pyproject.toml")
