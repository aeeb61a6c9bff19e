"""Run all conformance cases, print the figures and write the page: ``make conformance`` or ``python -m tests.conformance``."""

import logging
import sys

from tests.conformance.cases import all_cases
from tests.conformance.judging import judge
from tests.conformance.page import PAGE, render, summary


def main() -> int:
    """Write the page; the exit status is 1 when a case fails."""
    logging.basicConfig(level=logging.ERROR)
    found = sorted(map(judge, all_cases()), key=lambda outcome: outcome.case)
    PAGE.write_text(render(found), encoding="utf-8")
    faults = [fault for outcome in found for fault in outcome.faults]
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    sys.stdout.write(f"{summary(found)}\nwritten to {PAGE}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
