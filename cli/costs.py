"""The table of costs of ``xopt stats``."""

from __future__ import annotations

from rich.console import Console

from xoptim.bench.report import bytes_text
from xoptim.diagnose.costs import Cost, Costs

from .tables import Rows

_FIGURES = ("nodes", "parameters", "flops", "read", "written")


def print_costs(console: Console, found: Costs, *, layers: bool = False) -> None:
    """Print costs by operator (or by layer), their sum, and the peak of the memory."""
    rows = Rows("layer" if layers else "operator", *_FIGURES, right=_FIGURES)
    for name, cost in (found.by_layer if layers else found.by_operator).items():
        rows.add(name, *_cells(cost))
    rows.add("all nodes", *_cells(found.total), style="bold")
    rows.print(console)
    sizes = ", ".join(f"{name}={size}" for name, size in found.sizes.items())
    given = f" with {sizes} (--dim)" if sizes else ""
    console.print(f"{'memory':14s}{bytes_text(found.peak)} of results at the peak{given}", highlight=False)
    if found.total.unknown:
        console.print(f"{'unknown':14s}sizes of {found.total.unknown} nodes, which count as 0", highlight=False)


def _cells(cost: Cost) -> list[str]:
    return [str(cost.nodes), f"{cost.parameters:,}", _count(cost.flops), bytes_text(cost.read), bytes_text(cost.written)]


def _count(number: int) -> str:
    """A number of operations with its unit."""
    size = float(number)
    for unit in ("", " k", " M", " G"):
        if size < 1000:
            return f"{size:.0f}" if not unit else f"{size:.1f}{unit}"
        size /= 1000
    return f"{size:.1f} T"
