"""Search rewrites for the subgraphs of models, and measure them.

# mine the models, search, and print the rewrites that the default patterns lack
python -m lab.discovery optimized/*.onnx
python -m lab.discovery.mine optimized/*.onnx --size 3 --top 100000 --json > mined.json
# read the mined subgraphs from a file, and print all rewrites
python -m lab.discovery --mined mined.json --all
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
    report = bench(
        dict(zip(("left", "right"), sides, strict=True)),
        seconds=seconds,
        threads=1,
        compare=False,
        loading=False,
    )
    return cell(report.models[1].ratio)


def main() -> None:
    """Mine, search, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="optimized models")
    parser.add_argument(
        "--mined",
        type=pathlib.Path,
        help="output of `python -m lab.discovery.mine --json`, in place of models",
    )
    parser.add_argument(
        "--nodes",
        type=int,
        default=3,
        choices=(2, 3, 4),
        help="maximum number of nodes of a left side",
    )
    parser.add_argument(
        "--all", action="store_true", help="also print rewrites that the default patterns do"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.2,
        help="time of measured runs for each side; 0 measures nothing",
    )
    options = parser.parse_args()
    forms = (
        json.loads(options.mined.read_text())
        if options.mined
        else [motif.to_json() for motif in mine(options.models, options.nodes)]
    )
    head = "| occurrences | models | left | right | exactness | time |"
    click.echo(f"{head}\n|---|---|---|---|---|---|")
    for rule in searched(forms, options.nodes):
        if options.all or not is_known(rule):
            time = ratio(rule, options.seconds) if options.seconds else ""
            cells = (rule.occurrences, rule.models, rule.left, rule.right, rule.exactness, time)
            click.echo(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
