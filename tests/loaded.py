"""Run a share of the tests that are not slow on a slowed machine: ``make test-loaded`` or ``python
-m tests.loaded``.

One thread in each library, a random order, and a busy loop on each core. The result must be that of
a quiet machine. The share is every tenth file, another one after each commit, so that the tests of
all files are run in turn.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOOPS = 2
LOW = 10
"""Of the tests and of the loops alike, so that both get the same time, and other programs more."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@cache
def commits() -> int:
    """The number of commits, 0 where it is not known."""
    words = ["git", "rev-list", "--count", "HEAD"]
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return 0
    return int(done.stdout) if done.returncode == 0 else 0


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
    share = f"{commits() % given.shares}/{given.shares}"
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
