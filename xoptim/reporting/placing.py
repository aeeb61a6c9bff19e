"""The places at which the nodes of both models run, for the page about a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from xoptim.reporting.drawing import Drawing

Kind: TypeAlias = Literal["there", "elsewhere", "lowered", "ahead"]


@dataclass(frozen=True, slots=True)
class Site:
    """The place at which a node runs.

    Attributes:
        kind: ``there`` for the target, ``elsewhere`` for another provider, ``lowered`` for a node
            that was replaced by other operators, ``ahead`` for one that is computed ahead of time.
        provider: short name of the provider; the lowering, for a node that was lowered.
        partition: number of the partition, -1 outside the target.
        reason: the reason why the target does not take the node, if known.
    """

    kind: Kind
    provider: str = ""
    partition: int = -1
    reason: str = ""

    @property
    def text(self) -> str:
        """The place in words."""
        suffix = f": {self.reason}" if self.reason else ""
        if self.kind == "ahead":
            return "folded or merged by onnxruntime"
        if self.kind == "lowered":
            return f"lowered{f' by {self.provider}' if self.provider else ''}{suffix}"
        if self.kind == "there":
            return f"runs on {self.provider}, partition {self.partition + 1}"
        return f"runs on {self.provider}{suffix}"


@dataclass(frozen=True, slots=True)
class PlacingFacts:
    """The placement of two models on a target.

    Attributes:
        target: name of the target.
        before: the place of each node of the original, by the name of the node or of its first
            result.
        after: the place of each node of the result, in the same form.
        counts: label and text of the placements, in order.
        lowerings: operator, pattern, number and reason of each lowering.
        left: the operators that the target does not take, with their number and the reason.
    """

    target: str
    before: Mapping[str, Site] = field(default_factory=dict)
    after: Mapping[str, Site] = field(default_factory=dict)
    counts: Sequence[tuple[str, str]] = ()
    lowerings: Sequence[tuple[str, str, int, str]] = ()
    left: Sequence[tuple[str, int, str]] = ()


def sites_json(drawing: Drawing, sites: Mapping[str, Site]) -> dict[str, Any]:
    """The places at which the nodes of a drawing run, as JSON values.

    Each node has the number of a text and of its partition, from 1 (0 for none), or ``None`` when
    its place is not known.
    """
    texts: dict[tuple[str, str], int] = {}
    entries: list[tuple[int, int] | None] = []
    for node in drawing.nodes:
        site = sites.get(node.name)
        if site is None:
            entries.append(None)
            continue
        number = texts.setdefault((site.kind, site.text), len(texts))
        entries.append((number, site.partition + 1))
    return {"nodes": entries, "texts": list(texts)} if texts else {}
