"""How the numbers of nodes changed, and by which patterns: in two lines, or as tables."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Console

from xoptim import database

from .tables import Rows

_SHOWN: Final = 6
"""Operators whose numbers are shown in a line, those that change most."""
_HARDLY: Final = 0.02
"""Part of the nodes below which as few nodes and rewrites are hardly a change."""
_NAMED: Final = 6
"""Patterns that are named in a line; more are counted by family."""


def print_changes(
    console: Console, before: Counter[str], after: Counter[str], applied: Mapping[str, int], *, verbose: bool = False
) -> None:
    """Print the numbers of nodes and of rewrites: two lines, or with ``verbose`` a table of operators and one of patterns.

    Args:
        console: to print to.
        before: numbers of nodes by operator.
        after: the same of the result.
        applied: numbers of rewrites by pattern.
        verbose: whether to print tables.
    """
    if not verbose:
        for line in _lines(before, after, applied):
            console.print(line, highlight=False)
        return
    _operators(before, after).print(console)
    if applied:
        console.print()
        _patterns(applied).print(console)


def _lines(before: Counter[str], after: Counter[str], applied: Mapping[str, int]) -> Iterator[str]:
    total = before.total(), after.total()
    if before == after and not applied:
        yield f"nodes       {total[0]}, as before: no pattern applies"
        return
    changed = [name for name in before | after if before[name] != after[name]]
    changed.sort(key=lambda name: (-abs(before[name] - after[name]), name))
    texts = [f"{name} {before[name]} → {after[name]}" for name in changed[:_SHOWN]]
    texts += [f"{len(changed) - _SHOWN} more"] if len(changed) > _SHOWN else []
    part = (total[0] - total[1]) / total[0] if total[0] else 0.0
    if max(abs(part), sum(applied.values()) / max(total)) < _HARDLY:
        texts += [f"{name} {count} times" if count > 1 else name for name, count in _most_first(applied)]
        yield f"nodes       {total[0]} → {total[1]}, hardly a change: {', '.join(texts)}"
        return
    more = f", {abs(part):.0%} {'fewer' if part > 0 else 'more'}" if part else ""
    yield f"nodes       {total[0]} → {total[1]}{more}{': ' if texts else ''}{', '.join(texts)}"
    if applied and len(applied) <= _NAMED:
        yield f"patterns    {', '.join(f'{name} {count}' for name, count in _most_first(applied))}"
    elif applied:
        texts = [f"{family} {count}" for family, count in _by_family(applied).most_common()]
        numbers = f"{sum(applied.values())} rewrites by {len(applied)} patterns (-v names them)"
        yield f"patterns    {numbers}: {', '.join(texts)}"


def _by_family(applied: Mapping[str, int]) -> Counter[str]:
    known = {entry.item.name(): entry.item.family() for entry in database().entries()}
    found: Counter[str] = Counter()
    for name, count in applied.items():
        found[known.get(name, "rules")] += count
    return found


def _operators(before: Counter[str], after: Counter[str]) -> Rows:
    rows = Rows("operator", "before", "after", right={"before", "after"})
    for name in sorted(before | after, key=lambda name: (-before[name], name)):
        style = "green" if after[name] < before[name] else "yellow" if after[name] > before[name] else ""
        rows.add(name, str(before[name] or ""), str(after[name] or ""), style=style)
    rows.add("all nodes", str(before.total()), str(after.total()), style="bold")
    return rows


def _patterns(applied: Mapping[str, int]) -> Rows:
    rows = Rows("pattern", "applied", right={"applied"})
    for name, count in _most_first(applied):
        rows.add(name, str(count))
    return rows


def _most_first(applied: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(applied.items(), key=lambda item: (-item[1], item[0]))
