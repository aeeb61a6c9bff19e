"""The environment variables for debugging, read here and nowhere else, once, when options are made."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xoptim.catalogue.discovery import installed_patterns
from xoptim.facts.errors import XoptimError


@dataclass(frozen=True, slots=True)
class DebugSettings:
    """What the environment asks for.

    Attributes:
        verbose: ``LOG_PATTERN_OPTIMIZE``: least verbosity of all patterns.
        patterns: ``PATTERN`` (verbosity 10) and variables named after patterns: verbosity by name.
        drop: ``DROPPATTERN``: patterns to leave out.
        dump: ``DUMPPATTERNS``: folder for the matched nodes and their replacements.
        keep: ``PATTERNNOREMOVE``: a result whose disappearance is an error.
        step: ``PATTERNSTEP``: one rewrite a round.
    """

    verbose: int = 0
    patterns: Mapping[str, int] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    dump: Path | None = None
    keep: str = ""
    step: bool = False


def read_environment(variables: Mapping[str, str] | None = None) -> DebugSettings:
    """Read the variables.

    Args:
        variables: in place of the environment of the process.

    Raises:
        XoptimError: when a number is expected and something else is found.
    """
    env = os.environ if variables is None else variables
    patterns = dict.fromkeys(_names(env.get("PATTERN", "")), 10)
    for name in installed_patterns():
        for variable in (name, f"{name}Pattern"):
            if env.get(variable):
                patterns[name] = _number(variable, env[variable])
    return DebugSettings(
        verbose=_number("LOG_PATTERN_OPTIMIZE", env.get("LOG_PATTERN_OPTIMIZE") or "0"),
        patterns=patterns,
        drop=tuple(_names(env.get("DROPPATTERN", ""))),
        dump=Path(env["DUMPPATTERNS"]) if env.get("DUMPPATTERNS") else None,
        keep=env.get("PATTERNNOREMOVE", ""),
        step=env.get("PATTERNSTEP", "") in ("1", "True", "true"),
    )


def _names(text: str) -> Iterable[str]:
    return [word.strip().removesuffix("Pattern") for word in text.split(",") if word.strip()]


def _number(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise XoptimError(f"{variable}={text!r} is not a number") from None
