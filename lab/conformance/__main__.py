"""Run all conformance cases, print the figures and write the page: ``make conformance`` or ``python
-m lab.conformance``.

With ``--check``, the page stays as it is, and is compared with the result of this machine, which
may differ on another one.
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
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    found = sorted(map(judge, all_cases()), key=lambda outcome: outcome.case)
    faults = [fault for outcome in found for fault in outcome.faults]
    if given.check:
        faults += differences(read(PAGE), tables_of(found))
    else:
        write(found)
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    sys.stdout.write(
        f"{summary(found)}\n{'compared with' if given.check else 'written to'} {PAGE}\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
