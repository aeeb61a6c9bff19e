"""Print the verdicts of the verification.

python -m tests.verification.wrong                  # all cases
python -m tests.verification.wrong tolerance relu   # those with a part of a name or kind
"""

import sys
import time
from collections import Counter
from typing import Final

import click

from tests.verification.wrong.case import Pair, judged
from tests.verification.wrong.cases import cases, right_cases

VERDICTS: Final = ("different", "not verified", "equal")


def _title(pair: Pair) -> str:
    return f"{pair.kind} {pair.name}"


def _row(pair: Pair) -> tuple[str, float]:
    """The verdict, and the seconds that it takes."""
    start = time.perf_counter()
    return judged(pair).status, time.perf_counter() - start


def main() -> None:
    """Judge the cases that the arguments name, or all; print a row for each, and totals."""
    pairs = [*cases(), *right_cases()]
    parts = sys.argv[1:]
    chosen = [pair for pair in pairs if not parts or any(part in _title(pair) for part in parts)]
    totals: dict[str, Counter[str]] = {}
    for pair in chosen:
        verdict, seconds = _row(pair)
        totals.setdefault(pair.kind, Counter())[verdict] += 1
        click.echo(f"{pair.name:34} {pair.kind:22} {verdict:14} {seconds:6.2f}")
    click.echo(f"\n{'kind':22} cases {' '.join(f'{verdict:>13}' for verdict in VERDICTS)}")
    for kind, counts in totals.items():
        cells = " ".join(f"{counts[verdict]:13}" for verdict in VERDICTS)
        click.echo(f"{kind:22} {counts.total():5} {cells}")


if __name__ == "__main__":
    main()
