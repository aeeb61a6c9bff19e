"""Options that are described by dataclasses."""

import inspect
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest
from click.testing import CliRunner

from xoptim.cli.commands import COMMANDS
from xoptim.cli.options import command, duration, flag, names_of, option, repeated, switch


@dataclass(frozen=True)
class _Inner:
    size: int | None = option("Size.", type=int)
    tags: tuple[str, ...] = repeated("A tag.", "--tag")


@dataclass(frozen=True)
class _Outer:
    dry_run: bool = flag("Do nothing.")
    inner: _Inner = field(default_factory=_Inner)
    check: bool = switch("Check.")
    fixed: int = 3


@dataclass(frozen=True)
class _Further:
    last: str = option("Last.", default="z")


@command("try", model=click.Path(path_type=Path))
def _try(model: Path, choices: _Outer, further: _Further) -> None:
    """Try MODEL."""
    click.echo(f"{model} {choices} {further}")


def test_a_command_is_given_objects() -> None:
    done = CliRunner().invoke(
        _try, ["m", "--dry-run", "--size", "2", "--tag", "a", "--tag", "b", "--no-check"]
    )
    inner = _Inner(size=2, tags=("a", "b"))
    assert done.output == f"m {_Outer(True, inner, False)} {_Further()}\n"


def test_defaults_are_those_of_the_objects() -> None:
    assert CliRunner().invoke(_try, ["m"]).output == f"m {_Outer()} {_Further()}\n"
    assert _Outer() == _Outer(False, _Inner(None, ()), True, 3)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("30s", 30),
        ("2m", 120),
        ("1.5 min", 90),
        ("250ms", 0.25),
        ("1h", 3600),
        ("1e-9", 1e-9),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert duration("Time.").metadata["option"][1]["type"](text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "0", "-1", "3x", "inf", "nan", "2 m s", "1_0 k"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(click.BadParameter):
        duration("Time.").metadata["option"][1]["type"](text)


def test_names_and_help_come_in_the_order_of_the_fields() -> None:
    assert names_of(_Outer) == ["dry_run", "size", "tags", "check"]
    text = CliRunner().invoke(_try, ["--help"]).output
    places = [
        text.index(word)
        for word in (
            "Try MODEL.",
            "--dry-run",
            "--size",
            "--tag",
            "--check / --no-check",
            "[default: check]",
        )
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("words", [["m", "--fixed", "2"], ["m", "--size", "x"], []])
def test_other_words_are_refused(words: list[str]) -> None:
    assert CliRunner().invoke(_try, words).exit_code == 2


def _groups(kind: Any) -> list[Any]:
    """A dataclass of options, and the groups in it."""
    hints = get_type_hints(kind)
    return [
        kind,
        *(
            group
            for each in fields(kind)
            if is_dataclass(hints[each.name])
            for group in _groups(hints[each.name])
        ),
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_types_of_fields_are_those_of_the_values(name: str) -> None:
    """Flags are Booleans, options that may be repeated are tuples, and what may be missing may be
    ``None``.
    """
    subject = COMMANDS[name]
    options = {each.name: each for each in subject.params if isinstance(each, click.Option)}
    function = inspect.unwrap(subject.callback) if subject.callback else None
    kinds = [hint for hint in get_type_hints(function).values() if is_dataclass(hint)]
    described = [
        (kind, each)
        for top in kinds
        for kind in _groups(top)
        for each in fields(kind)
        if each.metadata
    ]
    for kind, each in described:
        hint, found = str(get_type_hints(kind)[each.name]), options[each.name]
        assert found.multiple == hint.startswith("tuple["), each.name
        is_bool = hint in ("<class 'bool'>", "bool | None")
        assert (found.is_flag and not found.count) == is_bool, each.name
        assert (each.default is None and not found.required) == (
            "None" in hint or "Optional" in hint
        ), each.name
    assert {each.name for _, each in described} == set(options)
