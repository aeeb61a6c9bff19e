"""The environment variables for debugging; no other module reads them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xoptim.catalogue.discovery import installed
from xoptim.catalogue.entries import class_name, short
from xoptim.facts.errors import XoptimError


@dataclass(frozen=True, slots=True)
class DebugSettings:
    """The settings from the environment."""

    verbose: int = 0  # ``LOG_PATTERN_OPTIMIZE``: minimal verbosity of all patterns
    patterns: tuple[str, ...] = ()  # ``PATTERN``: patterns that are logged in full (verbosity 10)
    # Variables named after the class of a pattern, installed or not: verbosity by name
    levels: Mapping[str, int] = field(default_factory=dict)
    drop: tuple[str, ...] = ()  # ``DROPPATTERN``: patterns to drop
    # ``DUMPPATTERNS``: folder for the matched nodes and their replacements
    dump: Path | None = None
    keep: str = ""  # ``PATTERNNOREMOVE``: a result that has to stay
    step: bool = False  # ``PATTERNSTEP``: one rewrite per round


def read_environment(variables: Mapping[str, str] | None = None) -> DebugSettings:
    """Read the variables; raises XoptimError when a value that must be a number is not."""
    env = os.environ if variables is None else variables
    patterns = installed()
    names = [name for name in env if name.endswith("Pattern") or name in patterns]
    # A variable named like an unknown pattern may belong to another program unless its value is a
    # number.
    classes = {class_name(pattern.item) for pattern in patterns.values()} if names else set()
    names = [
        name
        for name in names
        if name in classes or (name.endswith("Pattern") and env[name].isdecimal())
    ]
    return DebugSettings(
        verbose=_number("LOG_PATTERN_OPTIMIZE", env.get("LOG_PATTERN_OPTIMIZE") or "0"),
        patterns=_names(env.get("PATTERN", "")),
        levels={short(name): _number(name, env[name]) for name in names if env[name]},
        drop=_names(env.get("DROPPATTERN", "")),
        dump=Path(env["DUMPPATTERNS"]) if env.get("DUMPPATTERNS") else None,
        keep=env.get("PATTERNNOREMOVE", ""),
        step=env.get("PATTERNSTEP", "") in ("1", "True", "true"),
    )


def wants_log() -> bool:
    """Whether the environment asks for a log; the other variables are not checked."""
    return os.environ.get("LOG_PATTERN_OPTIMIZE", "0") not in ("", "0")


def _names(text: str) -> tuple[str, ...]:
    return tuple(short(word) for word in text.split(",") if word.strip())


def _number(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise XoptimError(f"{variable}={text!r} is not a number") from None
