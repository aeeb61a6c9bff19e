"""Test the prover on wrong rewrites: ``python -m lab.proof_mutants COUNT``.

Takes rewrites that patterns have applied, makes one random change to each result, and counts the
proof grades. A changed rewrite may be proved to give equal bits only if all runs give equal bits.
`docs/verification.md` shows the figures.
"""

import argparse
import logging
import sys
from collections import Counter

from tests.proof.mutants import compared, drawn
from xoptim.proof.grades import GRADES


def main() -> int:
    """Print the number of changed rewrites of each grade, and each one that is proved."""
    parser = argparse.ArgumentParser(prog="python -m lab.proof_mutants", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    grades, kinds = Counter[str](), Counter[str]()
    outcomes = Counter[str]()
    for number in range(options.count):
        pair = drawn(number)
        if pair is None:
            outcomes["no change is possible"] += 1
            continue
        proof = pair.proof()
        grades[proof.grade] += 1
        kinds[pair.name.rpartition(" ")[2]] += 1
        if proof.is_proved:
            runs = compared(pair, smallest_size=proof.smallest_size)
            outcome = "the same bits" if runs.has_equal_bits else "only special values differ"
            outcome = outcome if runs.is_close else "different"
            outcomes[f"{proof.grade}, runs: {outcome}"] += 1
            sys.stdout.write(f"{number} {pair.name}: {proof.grade}; {runs.runs} runs: {outcome}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dict(kinds)}\n")
    sys.stdout.writelines(f"{grades[grade]:6} {grade}\n" for grade in GRADES)
    sys.stdout.writelines(f"{count:6} {name}\n" for name, count in outcomes.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
