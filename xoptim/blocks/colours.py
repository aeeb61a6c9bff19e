"""Colours of nodes: equal ones have equal settings and equal neighbours, up to a distance."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from xoptim.blocks.links import NONE, Links

DISTANCES: Final = (0, 1, 2, 3, 5, 8)
"""At a larger distance fewer places of a block look alike, but more blocks differ, those near the ends of the row."""


def classes(links: Links) -> Iterator[list[int]]:
    """Sets of nodes that look alike up to each of `DISTANCES`, in the order of the graph, the smallest distance first.

    The colours are refined by those of producers and readers, as in the test of graph isomorphism of Weisfeiler and Leman; they
    do not depend on the order of the nodes.
    """
    colours = list(links.settings)
    for distance in range(DISTANCES[-1] + 1):
        if distance:
            colours = _refined(links, colours)
        if distance in DISTANCES:
            alike: dict[int, list[int]] = {}
            for node, colour in enumerate(colours):
                if colour != NONE:
                    alike.setdefault(colour, []).append(node)
            yield from (members for members in alike.values() if len(members) > 1)


def _refined(links: Links, colours: list[int]) -> list[int]:
    found: dict[Hashable, int] = {}
    refined = []
    for node, colour in enumerate(colours):
        if colour == NONE:
            refined.append(NONE)
            continue
        operands = tuple((colours[producer] if producer != NONE else NONE, output) for producer, output in links.operands[node])
        readers = tuple(sorted((output, slot, colours[reader]) for output, reader, slot in links.readers[node]))
        refined.append(found.setdefault((colour, operands, readers), len(found)))
    return refined
