"""Rewrites found by search, and their times.

    # mine the models, search, and print what the catalogue lacks
    python -m lab.discovery optimized/*.onnx
    python -m lab.discovery.mine optimized/*.onnx --size 3 --top 100000 --json > mined.json
    # the same from a file; rewrites that the catalogue has too
    python -m lab.discovery --mined mined.json --all

What the default patterns do already is left out; the rest is measured.
"""

import argparse
import json
import pathlib

import click

from benchmarks.tools import cell
from lab.discovery.mining import mine
from lab.discovery.search import Rule, is_known, searched, side_of
from xoptim.bench import bench


def ratio(rule: Rule, seconds: float) -> str:
    """The time of the right side divided by the time of the left side, with its interval."""
    sides = [side_of(rule, side, (8, 128, 128)) for side in (rule.left, rule.right)]
    found = bench(
        dict(zip(("left", "right"), sides, strict=True)),
        seconds=seconds,
        threads=1,
        compare=False,
        loading=False,
    )
    return cell(found.models[1].ratio)


def main() -> None:
    """Mine, search, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="optimized models")
    parser.add_argument(
        "--mined",
        type=pathlib.Path,
        help="what `python -m lab.discovery.mine --json` printed, in place of models",
    )
    parser.add_argument(
        "--nodes", type=int, default=3, choices=(2, 3, 4), help="most nodes of a left side"
    )
    parser.add_argument("--all", action="store_true", help="print what the default patterns do too")
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.2,
        help="of measured runs for each side; 0 measures nothing",
    )
    given = parser.parse_args()
    forms = (
        json.loads(given.mined.read_text())
        if given.mined
        else [each.to_json() for each in mine(given.models, given.nodes)]
    )
    click.echo("| places | models | left | right | exactness | time |\n|---|---|---|---|---|---|")
    for rule in searched(forms, given.nodes):
        if given.all or not is_known(rule):
            time = ratio(rule, given.seconds) if given.seconds else ""
            cells = (rule.places, rule.models, rule.left, rule.right, rule.exactness, time)
            click.echo(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
