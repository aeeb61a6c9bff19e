"""The page about one model: its graph with shapes and costs, and where its nodes run."""

from collections.abc import Mapping
from typing import Any

from xoptim.diagnose.costs import Cost, Costs, node_costs
from xoptim.facts.words import bytes_text
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.sources import Source, size_of, title_of
from xoptim.reporting.drawing import Drawing, draw
from xoptim.reporting.libraries import check_libraries
from xoptim.reporting.links import Links
from xoptim.reporting.placing import PlacingFacts
from xoptim.reporting.reports import HtmlReport
from xoptim.reporting.reports_facts import Card, CostFacts, CostRow, PageFacts, viewers_of
from xoptim.reporting.reports_page import render

_NONE = -1
"""Stands for no change in `Links.made`."""


def view(
    model: Any, dims: Mapping[str, int] | None = None, placing: PlacingFacts | None = None
) -> HtmlReport:
    """Show one model: its graph, and the operations and bytes of each node.

    Args:
        model: a model as for `xoptim.optimize`; external weights may be missing.
        dims: sizes of dynamic dimensions; the others are 1.
        placing: where the nodes run, as the placement of the result.

    Raises:
        ModelError: the model cannot be read, or has no dimension that ``dims`` names.
        MissingLibraryError: a library of the report is not installed.
    """
    check_libraries()
    source = Source(model, needs_weights=False)
    loaded = load_model(source.proto, source.base_dir)
    drawing = draw(loaded)
    costs, by_node = node_costs(loaded, source.proto, dims or {}, source.base_dir)
    title = title_of(source)
    facts = PageFacts(
        title=title,
        subtitle="",
        status="",
        verdict="",
        nodes=(0, len(drawing.nodes)),
        cards=_cards(costs, size_of(source), loaded.opsets.get("", 0), placing),
        operators=[],
        has_times=False,
        times_note="",
        verified=[],
        placing=placing,
        viewers=viewers_of(title),
        costs=_cost_facts(costs, drawing, by_node),
    )
    unchanged = Links([], [], [], [_NONE] * len(drawing.nodes))
    return HtmlReport(render(facts, Drawing(), drawing, unchanged))


def _cards(costs: Costs, size: int, opset: int, placing: PlacingFacts | None) -> list[Card]:
    nodes, parameters, operations, _, _ = costs.total.texts
    cards = [
        Card("nodes", nodes),
        Card("parameters", parameters),
        Card("size", bytes_text(size)),
        Card("operations", operations, _sizes_text(costs)),
        Card("memory of results", bytes_text(costs.peak), "at the peak, at least"),
    ]
    if opset:
        cards.append(Card("operator set", str(opset)))
    if placing is not None:
        cards.append(Card(f"on {placing.target}", placing.counts[-1][1]))
    return cards


def _cost_facts(costs: Costs, drawing: Drawing, by_node: Mapping[Node, Cost]) -> CostFacts:
    tables = {"operator": costs.by_operator, "layer": costs.by_layer}
    texts = [""] * len(drawing.nodes)
    for node, number in drawing.index.items():
        if node in by_node:
            texts[number] = _text(by_node[node])
    rows = {heading: _rows(entries, costs.total) for heading, entries in tables.items()}
    unknown = costs.total.unknown
    note = f"Dynamic dimensions: {_sizes_text(costs) or 'none'}."
    if unknown:
        note += f" Shapes at {unknown} nodes are unknown; their operations count as 0."
    return CostFacts(rows, texts, note)


def _sizes_text(costs: Costs) -> str:
    return ", ".join(f"{name}={size}" for name, size in costs.sizes.items())


def _rows(entries: Mapping[str, Cost], total: Cost) -> list[CostRow]:
    return [
        *((name, *cost.texts) for name, cost in entries.items()),
        ("all nodes", *total.texts),
    ]


def _text(cost: Cost) -> str:
    """The cost of one node in words."""
    if cost.unknown:
        return "unknown: it has an unknown shape"
    _, parameters, operations, read, written = cost.texts
    text = f"{operations} operations, reads {read}, writes {written}"
    return f"{text}, {parameters} parameters" if cost.parameters else text
