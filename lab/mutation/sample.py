"""Mutation testing of `FILES`: ``python -m lab.mutation.sample --count 150``.

A sample of all mutants of cosmic-ray is tried one by one in a copy of the repository. A mutant is
killed when a test fails or exceeds the time limit. The mutants that survive are printed: no test
depends on the line that they change.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
FILES: Final = (
    "match/pairing.py",
    "match/conditions.py",
    "match/literals.py",
    "match/easy.py",
    "match/easy_checks.py",
    "match/program.py",
    "match/trace.py",
    "match/view.py",
    "match/create.py",
    "graph/edit.py",
    "graph/graph.py",
    "graph/references.py",
    "graph/constants.py",
    "graph/propagate.py",
    "engine/engine.py",
    "engine/index.py",
    "engine/state.py",
    "passes/merge.py",
    "passes/fold.py",
    "passes/fold_conditions.py",
    "passes/cleanup.py",
    "verification/judging/compare.py",
    "verification/judging/judge.py",
)
"""Files whose mistakes could make a wrong model."""
TESTS: Final = (
    "tests/match",
    "tests/graph",
    "tests/engine",
    "tests/passes",
    "tests/patterns/test_shape_deductions.py",
    "tests/seeds",
    "--deselect",
    "tests/match/test_matching_benchmark.py",
)
TESTS_OF: Final = {"verification": ("tests/verification", "-m", "not slow")}
"""Tests of a package that `TESTS` do not cover; they run in place of `TESTS`."""
TIME_LIMIT: Final = 240.0
IGNORED: Final = ("RemoveDecorator", "NumberReplacer", "BinaryOperator_BitOr")
"""Mutation operators that are skipped: they change limits, numbers in messages, or annotations."""


def mutants(folder: Path, count: int, seed: int) -> list[Any]:
    """A random sample of mutants: path, mutation operator, number of the occurrence, and line."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator, operator_names

    candidates = []
    for file in FILES:
        path = folder / "xoptim" / file
        tree = get_ast_from_path(path)
        for name in operator_names():
            if any(word in name for word in IGNORED):
                continue
            operator = get_operator(name)
            if operator.arguments():
                continue
            positions = [p for node in ast_nodes(tree) for p in operator().mutation_positions(node)]
            candidates += [
                (path, name, occurrence, position[0][0])
                for occurrence, position in enumerate(positions)
            ]
    sample = random.Random(seed).sample(candidates, min(count, len(candidates)))
    sys.stdout.write(
        f"{len(candidates)} mutants in {len(FILES)} files, {len(sample)} of them are tried\n"
    )
    return sample


def survives(folder: Path, mutant: Any) -> bool | None:
    """Whether all tests pass with a mutant; ``None`` when it changes nothing."""
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.plugins import get_operator

    path, name, occurrence, _ = mutant
    with use_mutation(path, get_operator(name)(), occurrence) as (before, after):
        return None if after is None or before == after else passes(folder, path.parent.name)


def passes(folder: Path, package: str = "") -> bool:
    """Whether the tests of a package pass in a copy of the repository, which they import."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        *TESTS_OF.get(package, TESTS),
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            timeout=TIME_LIMIT,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


def table(verdicts: Mapping[str, Mapping[bool, int]]) -> str:
    """The share of killed mutants by file, as Markdown. Verdicts are counts of survivors (``True``)
    and of killed mutants.
    """
    lines = ["| file | mutants | killed |", "|---|---:|---:|"]
    total: Counter[bool] = Counter()
    for file, counts in sorted(verdicts.items()):
        total.update(counts)
        lines.append(_row(file, counts))
    return "\n".join([*lines, _row("all", total)]) + "\n"


def _row(name: str, counts: Mapping[bool, int]) -> str:
    number, killed = sum(counts.values()), counts.get(False, 0)
    return f"| {name} | {number} | {100 * killed / max(number, 1):.0f} % |"


def main() -> int:
    """Try a sample of mutants; the exit status is 1 if the tests fail without a mutant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--summary", type=Path, help="append a table of the files to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "copy"
        shutil.copytree(
            ROOT,
            folder,
            symlinks=True,
            ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "*.egg-info"),
        )
        if not all(passes(folder, package) for package in ("", *TESTS_OF)):
            sys.stderr.write("the tests fail without a mutant\n")
            return 1
        start = time.perf_counter()
        verdicts: Counter[bool] = Counter()
        by_file: dict[str, Counter[bool]] = {}
        for mutant in mutants(folder, options.count, options.seed):
            verdict = survives(folder, mutant)
            if verdict is None:
                continue
            verdicts[verdict] += 1
            file = mutant[0].relative_to(folder).as_posix()
            by_file.setdefault(file, Counter())[verdict] += 1
            if verdict:
                path, name, _, line = mutant
                text = path.read_text(encoding="utf-8").splitlines()[line - 1].strip()
                sys.stdout.write(
                    f"survived: {path.relative_to(folder)}:{line} {name.partition('/')[2]}: "
                    f"{text}\n"
                )
            sys.stdout.flush()
        total = verdicts.total()
        score = 100 * verdicts[False] / max(total, 1)
        sys.stdout.write(
            f"killed {verdicts[False]} of {total} ({score:.0f} %) in "
            f"{time.perf_counter() - start:.0f} s\n"
        )
    if options.summary is not None:
        with options.summary.open("a", encoding="utf-8") as stream:
            stream.write(table(by_file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
