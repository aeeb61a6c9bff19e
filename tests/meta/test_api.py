"""All that was released stays: names, members, parameters and options of the command."""

import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import xoptim
from tests.meta.sources import ROOT

ADVICE = (
    "this breaks code that uses the last release: keep the old name, with a DeprecationWarning "
    "when it has another one now (docs/stability.md); only for a new major version, write "
    "docs/released_api.txt by `python docs/api.py --release`"
)
_NO_DEFAULT = inspect.Parameter.empty
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@pytest.fixture(scope="module")
def api() -> Iterator[Any]:
    """The program of the documentation that lists what is public."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        yield importlib.import_module("api")
    finally:
        sys.path.remove(str(ROOT / "docs"))
        sys.modules.pop("api", None)


def broken(released: Iterable[str], now: Iterable[str]) -> list[str]:
    """The differences that break callers: names that are gone, calls that fail or mean something
    else.
    """
    current = dict(map(_divided, now))
    found = []
    for name, parameters in map(_divided, released):
        if name not in current:
            found.append(f"{name} is gone")
        elif not _accepts(current[name], parameters):
            found.append(f"{name}{parameters} is now {name}{current[name]}")
    return found


def _divided(line: str) -> tuple[str, str]:
    name, bracket, rest = line.partition("(")
    return name, bracket + rest


def _parameters(text: str) -> list[inspect.Parameter]:
    return list(inspect.signature(eval(f"lambda {text[1:-1]}: 0")).parameters.values())


def _accepts(now: str, released: str) -> bool:
    """Whether each call that was right before is right now, and means the same."""
    if now == released or not released:
        return True
    if not now:
        return False
    new = {each.name: each for each in _parameters(now)}
    old = {each.name: each for each in _parameters(released)}
    places = [name for name, each in old.items() if each.kind in _BY_PLACE]
    return (
        [name for name, each in new.items() if each.kind in _BY_PLACE][: len(places)] == places
        and all(
            name in new and repr(new[name].default) == repr(each.default)
            for name, each in old.items()
        )
        and all(
            new[name].kind == each.kind or new[name].kind in _BY_PLACE for name, each in old.items()
        )
        and all(
            each.default is not _NO_DEFAULT
            or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            or name in old
            for name, each in new.items()
        )
    )


def test_what_was_released_is_there(api: Any) -> None:
    released = api.RELEASED.read_text(encoding="utf-8").splitlines()
    assert len(released) > 1000
    assert broken(released, api.surface()) == [], ADVICE


def test_the_page_names_them_all(api: Any) -> None:
    page = api.page()
    assert [name for _, name, _ in api.public_names() if f"- `{name}" not in page] == []


def test_the_list_has_the_usual_names(api: Any) -> None:
    listed = {line.partition("(")[0] for line in api.surface()}
    assert {f"xoptim.{name}" for name in xoptim.__all__} <= listed
    assert {
        "xoptim.GraphBuilder.to_onnx",
        "xoptim.testing.check_example",
    } <= listed
    assert {
        "xopt optimize --patterns",
        "xopt optimize -o",
        "xoptim.integrations.onnx_ir.OptimizePass",
    } <= listed
    assert "xoptim.optimize(model, options=None, *, inline=False" in "\n".join(api.surface())


@pytest.mark.parametrize(
    ("released", "now", "is_broken"),
    [
        ("a.f(x)", "a.f(x)", False),
        ("a.f(x)", "a.f(x, y=1)", False),
        ("a.f(x)", "a.f(x, *, y=1)", False),
        ("a.f(x, *, y=1)", "a.f(x, y=1)", False),
        ("a.f(x)", "a.f(x, **more)", False),
        ("a.f(x)", "a.f(x, y)", True),
        ("a.f(x)", "a.f(x, *, y)", True),
        ("a.f(x)", "a.f(y)", True),
        ("a.f(x, y=1)", "a.f(x)", True),
        ("a.f(x, y=1)", "a.f(x, y=2)", True),
        ("a.f(x, y=1)", "a.f(x, z=1, y=1)", True),
        ("a.f(x, y=1)", "a.f(x, *, y=1)", True),
        ("a.f(x, **more)", "a.f(x)", True),
        ("a.f(x)", "a.f", True),
        ("a.f", "a.f(x)", False),
        ("a.f(x)", "a.g(x)", True),
    ],
)
def test_what_breaks_callers(released: str, now: str, *, is_broken: bool) -> None:
    assert bool(broken([released], [now, "a.other(x)"])) is is_broken


def test_a_removed_or_changed_field_of_json_is_reported(api: Any) -> None:
    released = api.surface()
    field = "json 1 Verification.status: string"
    assert field in released
    assert "json 1 verify: array of [Verification] or TargetCheck" in released
    assert "json 1 Verification.largest: Comparison or null" in released
    now = [line for line in released if line != field]
    assert broken(released, now) == [f"{field} is gone"]
    assert broken(released, [*now, "json 1 Verification.status: integer"]) == [f"{field} is gone"]
    assert broken(now, released) == []


def test_a_removed_name_is_reported(api: Any) -> None:
    now = [line for line in api.surface() if not line.startswith("xoptim.verify(")]
    assert broken(api.surface(), now) == ["xoptim.verify is gone"]


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+)", changes, re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    major = version.partition(".")[0]
    assert f"From {major}.0 on" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
