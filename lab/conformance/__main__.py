"""Run all conformance cases, print the figures and write the page: ``make conformance`` or ``python
-m lab.conformance``.

With ``--check``, the page is not written but compared with the results of this machine. Results may
differ between machines.
"""

import argparse
import logging
import sys

from benchmarks.measured import read
from lab.conformance.cases import all_cases
from lab.conformance.judging import judge
from lab.conformance.page import PAGE, differences, summary, tables_of, write


def main() -> int:
    """Write or check the page.

    The exit status is 1 when a case fails, or the page to check differs.
    """
    parser = argparse.ArgumentParser(prog="python -m lab.conformance", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare the page with this machine, and write nothing"
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    outcomes = sorted(map(judge, all_cases()), key=lambda outcome: outcome.case)
    faults = [fault for outcome in outcomes for fault in outcome.faults]
    if options.check:
        faults += differences(read(PAGE), tables_of(outcomes))
    else:
        write(outcomes)
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    sys.stdout.write(
        f"{summary(outcomes)}\n{'compared with' if options.check else 'written to'} {PAGE}\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
