"""Pictures of the flowcharts on the pages, as SVG: for the site, whose pages load no script from
elsewhere.
"""

import re
from collections import defaultdict
from html import escape
from itertools import pairwise
from typing import Final, NamedTuple

_WIDTH: Final = 7.2  # of a character
_LINE: Final = 16
_GAP: Final = 28
_TOKEN = re.compile(r"""(\w+)(?:(\(\[|\[/|\[)"?(.*?)"?(?:\]\)|/\]|\]))?(?=\s*(?:-->|$))""")


class Box(NamedTuple):
    """A vertex: its lines of text, and its kind, which is the bracket around it."""

    lines: list[str]
    kind: str

    @property
    def width(self) -> float:
        """In pixels."""
        return max(map(len, self.lines)) * _WIDTH + 20

    @property
    def height(self) -> float:
        """In pixels."""
        return len(self.lines) * _LINE + 12


def picture(chart: str) -> str:
    """A flowchart of mermaid as SVG, from top to bottom.

    A subgraph is a picture of its own, below its title.

    Args:
        chart: vertices ``a["text"]``, ``a([text])``, ``a[/"text"/]`` and edges ``a --> b --> c``,
            one chain a line.
    """
    titles, lines = [""], chart.splitlines()[1:]
    parts: list[list[str]] = [[]]
    for line in map(str.strip, lines):
        if line.startswith("subgraph "):
            titles.append(line.removeprefix("subgraph "))
            parts.append([])
        elif line and line != "end":
            parts[-1].append(line)
    drawn = [(title, _drawn(part)) for title, part in zip(titles, parts, strict=True) if part]
    drawn.sort(key=lambda item: item[0] != "before")
    return "\n\n".join(f"<p>{escape(title)}</p>\n{svg}" if title else svg for title, svg in drawn)


def _drawn(lines: list[str]) -> str:
    boxes: dict[str, Box] = {}
    edges: list[tuple[str, str]] = []
    for line in lines:
        chain = []
        for name, kind, text in _TOKEN.findall(line):
            if kind or name not in boxes:
                boxes[name] = Box(
                    [re.sub(r"<[^>]*>", "", each) for each in re.split("<br/>", text or name)], kind
                )
            chain.append(name)
        edges += pairwise(chain)
    places, size = _places(boxes, edges)
    shapes = [_edge(places[a], boxes[a], places[b], boxes[b]) for a, b in edges]
    shapes += [_vertex(box, *places[name]) for name, box in boxes.items()]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]:.0f}" height="{size[1]:.0f}" '
        'class="graph">'
    )
    return "\n".join((head, *shapes, "</svg>"))


def _places(
    boxes: dict[str, Box], edges: list[tuple[str, str]]
) -> tuple[dict[str, tuple[float, float]], tuple[float, float]]:
    """The middle of each box, and the size of the picture.

    A box is below all that lead to it, and inputs are near readers.
    """
    depth = dict.fromkeys(boxes, 0)
    for _ in boxes:
        for a, b in edges:
            depth[b] = max(depth[b], depth[a] + 1)
    targets = {b for _, b in edges}
    for name in boxes:
        readers = [depth[b] for a, b in edges if a == name]
        if name not in targets and readers:
            depth[name] = min(readers) - 1
    rows: defaultdict[int, list[str]] = defaultdict(list)
    for name in boxes:
        rows[depth[name]].append(name)
    wide = max(sum(boxes[n].width + _GAP for n in row) for row in rows.values())
    places: dict[str, tuple[float, float]] = {}
    top = 4.0
    for level in sorted(rows):
        row = rows[level]
        row.sort(
            key=lambda name: _mean(
                [places[a][0] for a, b in edges if b == name and a in places], wide / 2
            )
        )
        left = (wide - sum(boxes[n].width + _GAP for n in row) + _GAP) / 2
        height = max(boxes[n].height for n in row)
        for name in row:
            places[name] = left + boxes[name].width / 2, top + height / 2
            left += boxes[name].width + _GAP
        top += height + _GAP
    return places, (wide, top - _GAP + 4)


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _edge(start: tuple[float, float], first: Box, end: tuple[float, float], second: Box) -> str:
    y1, y2 = start[1] + first.height / 2, end[1] - second.height / 2
    middle = (y1 + y2) / 2
    path = (
        f"M{start[0]:.0f},{y1:.0f} C{start[0]:.0f},{middle:.0f} {end[0]:.0f},{middle:.0f} "
        f"{end[0]:.0f},{y2:.0f}"
    )
    return f'<path d="{path}" fill="none" stroke="currentColor" opacity="0.6"/>'


def _vertex(box: Box, x: float, y: float) -> str:
    round_ = {"([": box.height / 2, "[": 3}.get(box.kind, 0)
    dash = ' stroke-dasharray="4 2"' if box.kind == "[/" else ""
    corner = f'x="{x - box.width / 2:.0f}" y="{y - box.height / 2:.0f}"'
    shape = f'<rect {corner} width="{box.width:.0f}" height="{box.height:.0f}" rx="{round_:.0f}"'
    texts = [
        f'<text x="{x:.0f}"'
        f' y="{y + (i - (len(box.lines) - 1) / 2) * _LINE + 4:.0f}">{escape(line)}</text>'
        for i, line in enumerate(box.lines)
    ]
    return "\n".join(
        (
            (
                f'{shape} style="fill: var(--color-background-primary, white)" '
                f'stroke="currentColor"{dash}/>'
            ),
            *texts,
        )
    )
