"""List changed lines of the product that no test ran: ``python -m lab.coverage_of_change REV``.

Reads the data of coverage.py (``.coverage``). Changed lines are new, or differ from the revision. A
comment ``# not covered: REASON`` excuses a line that need not run. The exit status is 1 when a line
is neither covered nor excused, and 2 when the data lack a changed file.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from coverage import Coverage
from coverage.exceptions import NoSource

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ("xoptim", "patterns", "cli")
_EXCUSE: Final = re.compile(r"#\s*not covered:\s*\S")
_FILE: Final = re.compile(r"^\+\+\+ (?:b/(.*)|/dev/null)$")
_HUNK: Final = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


class Missed(NamedTuple):
    """A changed line that no test ran."""

    path: str
    line: int
    text: str


def changed_lines(diff: str) -> dict[str, set[int]]:
    """The numbers of the lines that a diff without context adds or changes, by file."""
    lines: dict[str, set[int]] = {}
    path = ""
    for text in diff.splitlines():
        if file := _FILE.match(text):
            path = file[1] or ""
        elif path and (hunk := _HUNK.match(text)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    return {path: numbers for path, numbers in lines.items() if numbers}


def diff_since(root: Path, revision: str) -> str:
    """The diff of the Python files of the product in a working tree against a revision."""
    command = ["git", "-c", "core.quotePath=false", "diff", "--unified=0", "--no-renames"]
    command += ["--no-color", "--no-ext-diff", revision, "--", *(f"{top}/**.py" for top in PRODUCT)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git diff {revision}: {done.stderr.strip()}")
    return done.stdout


def missed(
    changed: Mapping[str, set[int]], uncovered: Mapping[str, set[int]], root: Path
) -> Iterator[Missed]:
    """The changed lines that are not covered and have no excuse."""
    for path, numbers in sorted(changed.items()):
        texts = (root / path).read_text(encoding="utf-8").splitlines()
        for number in sorted(numbers & uncovered[path]):
            if not _EXCUSE.search(texts[number - 1]):
                yield Missed(path, number, texts[number - 1].strip())


def uncovered_lines(data: Path, root: Path, paths: Mapping[str, set[int]]) -> dict[str, set[int]]:
    """The lines of statements that did not run according to the data of coverage.py, by file.

    Raises:
        KeyError: the data lack a file.
    """
    coverage = Coverage(data_file=str(data), config_file=False)
    coverage.load()
    files = {_relative(file, root): file for file in coverage.get_data().measured_files()}
    lines = {}
    for path in paths:
        try:
            _, statements, _, absent, _ = coverage.analysis2(files[path])
        except NoSource as error:
            raise KeyError(path) from error
        lines[path] = set(absent) & set(statements)
    return lines


def _relative(file: str, root: Path) -> str:
    path = (root / file).resolve()
    return path.relative_to(root.resolve()).as_posix() if path.is_relative_to(root) else file


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Print the changed lines that are not covered; the exit status is 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m lab.coverage_of_change", description=__doc__)
    parser.add_argument("revision", help="revision to compare the working tree with")
    parser.add_argument("--data", type=Path, default=root / ".coverage")
    options = parser.parse_args(arguments)
    if not options.data.is_file():
        sys.stderr.write(f"there is no {options.data}: run the tests with --cov\n")
        return 2
    changed = changed_lines(diff_since(root, options.revision))
    try:
        uncovered = uncovered_lines(options.data, root, changed)
    except KeyError as error:
        sys.stderr.write(f"the data lack {error.args[0]}, which changed\n")
        return 2
    lines = list(missed(changed, uncovered, root))
    for line in lines:
        sys.stdout.write(f"{line.path}:{line.line}: not covered: {line.text}\n")
    total = sum(map(len, changed.values()))
    sys.stdout.write(f"{total} changed lines in {len(changed)} files, {len(lines)} not covered\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
