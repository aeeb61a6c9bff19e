"""The HTML page of a report, with all that it needs inside."""

import base64
import gzip
import hashlib
import inspect
import json
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from xoptim.catalogue.discovery import installed_patterns
from xoptim.diagnose.explanation import Explanation
from xoptim.facts.lazy import lazy_module
from xoptim.match.rewrite import Rewrite
from xoptim.reporting.drawing import Drawing, scopes_of, to_json
from xoptim.reporting.layout import arrange
from xoptim.reporting.links import Links
from xoptim.reporting.placing import PlacingFacts, sites_json
from xoptim.reporting.reports_facts import PageFacts

if TYPE_CHECKING:
    import jinja2
else:
    jinja2 = lazy_module("jinja2")

_SCRIPTS: Final = ("geometry.js", "pane.js", "app.js")


def render(
    facts: PageFacts,
    before: Drawing,
    after: Drawing,
    links: Links,
    misses: Sequence[Explanation] = (),
    rewrites: Sequence[Rewrite | type[Rewrite]] = (),
) -> str:
    """The page as text: both drawings and their relation, patterns that almost applied, and the
    rewrites that were applied.

    The data is compressed JSON, so that names cannot be read as markup; the template escapes all
    other texts. A content security policy allows only the page's own script, and loads nothing.
    """
    rows, patterns = [_miss(miss, after) for miss in misses], installed_patterns()
    about = {
        change.name: _about(patterns[change.name])
        for change in links.changes
        if change.name in patterns
    }
    placing = facts.placing or PlacingFacts("")
    data = {
        "before": {**_side(before), "runs": sites_json(before, placing.before)},
        "after": {
            **_side(after),
            "runs": sites_json(after, placing.after),
            "costs": [] if facts.costs is None else facts.costs.nodes,
        },
        "isSingle": facts.costs is not None,
        "links": links.to_json(),
        "patterns": about | {rewrite.name(): _about(rewrite) for rewrite in rewrites},
        "misses": rows,
    }
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)
    script, style = "".join(map(_text, _SCRIPTS)), _text("page.css")
    template = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).from_string(_text("page.html"))
    return template.render(
        facts=facts,
        misses=rows,
        data=base64.b64encode(packed).decode(),
        script=script,
        style=style,
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def _text(name: str) -> str:
    return (resources.files("xoptim.reporting") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _side(drawing: Drawing) -> dict[str, Any]:
    scopes = scopes_of(drawing)
    boxes = [box.to_json() for box in arrange(drawing, scopes)]
    outlines = [(scope.path, scope.label, scope.parent, scope.nodes) for scope in scopes]
    return {**to_json(drawing), "scopes": outlines, "boxes": boxes}


def _about(rewrite: Rewrite | type[Rewrite]) -> dict[str, Any]:
    """The description of a pattern: the rewrite, its reason, and whether `xopt list` shows it."""
    cls = rewrite if isinstance(rewrite, type) else type(rewrite)
    paragraphs = inspect.cleandoc(cls.__doc__ or "").split("\n\n")
    about = {"arrow": cls.arrow(), "exactness": cls.exactness, "phase": cls.phase}
    lines = [line for paragraph in paragraphs[1:] for line in _sentences(paragraph)]
    return {**about, "doc": lines, "ours": cls.is_shipped()}


def _sentences(paragraph: str) -> list[str]:
    """The lines of a paragraph of a docstring; a continuation line is joined to its first line."""
    lines: list[str] = []
    for line in paragraph.splitlines():
        if (lines and line.startswith(" ")) or (
            lines and not line[:1].isdigit() and ":" not in line[:16]
        ):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
    return lines


def _miss(miss: Explanation, after: Drawing) -> dict[str, Any]:
    """A row about a pattern that almost applied, with the numbers of the nodes that fit."""
    numbers = {
        after.values[node.outputs[0]][0]: number
        for number, node in enumerate(after.nodes)
        if node.outputs
    }
    cls = installed_patterns().get(miss.pattern)
    culprits = [miss.culprit] if miss.culprit is not None else []
    return {
        "pattern": miss.pattern,
        "arrow": "" if cls is None else cls.arrow(),
        "reached": miss.reached,
        "reason": miss.reason or "no reason given",
        "place": str(miss.anchor),
        "nodes": [
            numbers[place.outputs[0]]
            for place in miss.matched
            if place.outputs and place.outputs[0] in numbers
        ],
        "culprit": [
            numbers[place.outputs[0]]
            for place in culprits
            if place.outputs and place.outputs[0] in numbers
        ],
    }
