"""Optimize random graphs until interrupted, and keep those that fail: ``make fuzz`` or ``python -m
lab.properties``.

Hypothesis generates the graphs with a new seed in each round. Rounds of graphs built from nothing
alternate with rounds of randomly changed examples of patterns, and of randomly changed models of a
folder (``--models FOLDER``).
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
"""Number of graphs in a round, which come from one strategy."""


def main() -> int:
    """Check graphs until interrupted; the exit status is 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--models", type=Path, help="folder of models to change, besides the examples of patterns"
    )
    parser.add_argument(
        "--only",
        choices=("graphs", "mutants"),
        help="only graphs built from nothing, or only changed examples and models",
    )
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    strategies: list[SearchStrategy[Drawn | None]] = [] if options.only == "mutants" else [graphs()]
    if options.only != "graphs":
        strategies += [mutants(folder) for folder in dict.fromkeys((None, options.models))]
    logging.basicConfig(level=logging.ERROR)
    warnings.simplefilter("ignore")
    graph_count, not_run, files, start = 0, 0, [], time.monotonic()
    try:
        for strategy in itertools.cycle(strategies):
            if time.monotonic() - start > options.seconds:
                break
            seed = secrets.randbelow(2**32)
            outcome = hunt(seed, _ROUND, strategy)
            graph_count, not_run = graph_count + outcome.graphs, not_run + outcome.not_run
            if outcome.failure is not None:
                files.append(save(outcome.failure, outcome.fault))
                sys.stdout.write(f"\nseed {seed}: {outcome.fault}\nkept in {files[-1]}\n")
            rate = graph_count / (time.monotonic() - start)
            sys.stdout.write(
                f"\r{graph_count} graphs ({rate:.0f} a second), {not_run} that do not run, "
                f"{len(files)} faults"
            )
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    sys.stdout.write("\n")
    return 1 if files else 0


if __name__ == "__main__":
    sys.exit(main())
