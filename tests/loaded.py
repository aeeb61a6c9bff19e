"""Run a share of the tests that are not slow on a slowed machine: ``make test-loaded`` or ``python
-m tests.loaded``.

One thread in each library, a random order, and a busy loop on each core. The result must be that of
a quiet machine. The share is about every tenth file, the same in each run; ``--shares 1`` runs all.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.share import PART

ROOT = Path(__file__).resolve().parents[1]
LOOPS = 2
LOW = 10
"""Niceness of the tests and of the loops: both get the same time, and other programs more."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def busy() -> Iterator[None]:
    """Busy loops in processes of their own, which end with the block."""
    loops = [
        subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(LOOPS)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> int:
    """The exit status is that of pytest."""
    parser = argparse.ArgumentParser(prog="python -m tests.loaded", description=__doc__)
    parser.add_argument(
        "--shares", type=int, default=10, help="parts of which one is run (default: %(default)s)"
    )
    parser.add_argument("words", nargs="*", help="further words for pytest, such as files")
    given = parser.parse_args()
    share = f"{PART % given.shares}/{given.shares}"
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "auto",
        "--dist",
        "loadgroup",
        "-m",
        "not slow",
        "--share",
        share,
    ]
    if hasattr(os, "nice"):
        os.nice(LOW)
    with busy():
        environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
        return subprocess.run(
            [*words, *given.words], cwd=ROOT, env=environment, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
