"""Draw graphs until stopped, with fresh randomness.

Keep what fails: ``make fuzz`` or ``python -m lab.properties``.

Graphs that grow from nothing alternate with examples of patterns, and with the models of a folder
(``--models FOLDER``), in which a few things are changed at random.
"""

import argparse
import itertools
import logging
import secrets
import sys
import time
import warnings
from pathlib import Path

from hypothesis.strategies import SearchStrategy

from tests.properties.growing import Drawn
from tests.properties.hunting import hunt
from tests.properties.mutants import mutants
from tests.properties.regressions import save
from tests.properties.strategy import graphs

_ROUND = 200
"""Graphs that are drawn in one way before the next."""


def main() -> int:
    """Draw until interrupted; the exit status is 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--models", type=Path, help="folder of models to change, besides the examples of patterns"
    )
    parser.add_argument("--only", choices=("graphs", "mutants"), help="draw in one way only")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    chosen = parser.parse_args()
    drawings: list[SearchStrategy[Drawn | None]] = [] if chosen.only == "mutants" else [graphs()]
    if chosen.only != "graphs":
        drawings += [mutants(folder) for folder in dict.fromkeys((None, chosen.models))]
    logging.basicConfig(level=logging.ERROR)
    warnings.simplefilter("ignore")
    checked, not_run, kept, start = 0, 0, [], time.monotonic()
    try:
        for drawing in itertools.cycle(drawings):
            if time.monotonic() - start > chosen.seconds:
                break
            number = secrets.randbelow(2**32)
            found = hunt(number, _ROUND, drawing)
            checked, not_run = checked + found.graphs, not_run + found.not_run
            if found.failure is not None:
                kept.append(save(found.failure, found.fault))
                sys.stdout.write(f"\nhunt {number}: {found.fault}\nkept in {kept[-1]}\n")
            rate = checked / (time.monotonic() - start)
            sys.stdout.write(
                f"\r{checked} graphs ({rate:.0f} a second), {not_run} that do not run, {len(kept)} "
                "faults"
            )
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    sys.stdout.write("\n")
    return 1 if kept else 0


if __name__ == "__main__":
    sys.exit(main())
