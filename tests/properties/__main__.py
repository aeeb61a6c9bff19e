"""Draw graphs until stopped, with fresh randomness; keep what fails: ``make fuzz`` or ``python -m tests.properties``."""

import logging
import secrets
import sys
import time
import warnings

from tests.properties.hunting import hunt
from tests.properties.regressions import save

_ROUND = 200


def main() -> int:
    """Draw until interrupted; the exit status is 1 when something was found."""
    logging.basicConfig(level=logging.ERROR)
    warnings.simplefilter("ignore")
    graphs, not_run, kept, start = 0, 0, [], time.monotonic()
    try:
        while True:
            number = secrets.randbelow(2**32)
            found = hunt(number, _ROUND)
            graphs, not_run = graphs + found.graphs, not_run + found.not_run
            if found.failure is not None:
                kept.append(save(found.failure, found.fault))
                sys.stdout.write(f"\nhunt {number}: {found.fault}\nkept in {kept[-1]}\n")
            rate = graphs / (time.monotonic() - start)
            sys.stdout.write(f"\r{graphs} graphs ({rate:.0f} a second), {not_run} that do not run, {len(kept)} faults")
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    return 1 if kept else 0


if __name__ == "__main__":
    sys.exit(main())
