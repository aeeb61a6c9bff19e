"""Findings of checks in the forms that other tools read: SARIF, and annotations of GitHub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from xoptim import __version__
from xoptim.diagnose.explanation import JsonForm, JsonResult, member

from .files import readable, readable_path

CHECKS: Final[Mapping[str, str]] = {
    "max-shrink": "Optimizing removes more of the nodes than --max-shrink allows.",
    "against": "The model computes something else than at the revision of --against.",
    "max-larger": "The file is larger than at the revision by more than --max-larger allows.",
    "max-slower": "The model is slower than at the revision by more than --max-slower allows.",
    "target": "The target leaves more nodes or partitions of the model than allowed.",
}
"""The checks of `xopt check`, and the meaning of a failure."""
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class Finding(JsonResult):
    """The result of one check of one model.

    Attributes:
        check: the check: max-shrink, against, max-larger, max-slower or target.
        model: the file of the model.
        ok: whether the model passes.
        detail: the figures, or the reason.
        assumptions: assumptions in force, in addition to the default set.
        code: the exit code of a model that does not pass.
    """

    __json__ = JsonForm("check", member("model", readable_path), "ok detail assumptions")
    check: str
    model: Path
    ok: bool
    detail: str
    assumptions: tuple[str, ...]
    code: int

    @property
    def text(self) -> str:
        """The figures or the reason, with the assumptions."""
        assumed = f"; assumed: {', '.join(self.assumptions)}" if self.assumptions else ""
        return readable(f"{self.detail}{assumed}")

    def __str__(self) -> str:
        return readable(f"{'ok' if self.ok else 'failed'}  {self.model}: {self.text}")


def annotation(finding: Finding) -> str:
    """A failed check as a workflow command of GitHub, which shows the check at the file.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    place = _escaped(finding.model.as_posix(), {":": "%3A", ",": "%2C"})
    title = _escaped(f"xopt check: {finding.check}", {":": "%3A", ",": "%2C"})
    return f"::error file={place},title={title}::{_escaped(finding.text, {})}"


def _escaped(text: str, further: Mapping[str, str]) -> str:
    """A text as a part of a workflow command."""
    escapes = {"%": "%25", "\r": "%0D", "\n": "%0A", **further}
    return "".join(escapes.get(character, character) for character in text)


def sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """The failed checks as a log in SARIF 2.1.0, the format of code scanning.

    https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    driver = {
        "name": "xopt check",
        "version": __version__,
        "rules": [
            {"id": name, "shortDescription": {"text": text}} for name, text in CHECKS.items()
        ],
    }
    failed = [_result(finding) for finding in findings if not finding.ok]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": failed}],
    }


def _result(finding: Finding) -> dict[str, Any]:
    """A failed check as a result of SARIF.

    The result names line 1: code scanning shows only results with a line, and models have none.
    """
    place = {
        "artifactLocation": {"uri": _uri(finding.model)},
        "region": {"startLine": 1},
    }
    return {
        "ruleId": finding.check,
        "ruleIndex": list(CHECKS).index(finding.check),
        "level": "error",
        "message": {"text": finding.text},
        "locations": [{"physicalLocation": place}],
    }


def _uri(path: Path) -> str:
    """A file as a URI: relative to the current folder unless it is absolute."""
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
