"""The table of the CPU's kernels, for builds of onnxruntime whose registry cannot be read."""

import argparse
import difflib
import sys
from collections import defaultdict
from pathlib import Path

import onnxruntime

from xoptim.facts import operators
from xoptim.facts.dtypes import ELEMENT_TYPES

TABLE = Path(operators.__file__).with_name("cpu_kernels.toml")
HEAD = """\
# Kernels of the CPU provider in onnxruntime {version}, out of its registry: ranges of operator \
sets, each with letters for the
# element types of T (`LETTERS` in operators.py; * for all of the schema). `make docs` writes this \
file.
"""


def _range(first: int, end: int, known: set[str]) -> str:
    """One range with its letters."""
    last = "" if end == operators._NO_END else end
    letters = "*" if "*" in known else "".join(sorted(known))
    return f"{first}-{last}:{letters}"


def text() -> str:
    """The table of the installed onnxruntime."""
    lines, last = [HEAD.format(version=onnxruntime.__version__)], None
    for (_, domain, op_type), kernels in sorted(operators._installed().items()):
        if domain != last:
            lines.append(f'["{domain or "ai.onnx"}"]\n')
            last = domain
        letters: dict[tuple[int, int], set[str]] = defaultdict(set)
        for first, end, types in kernels:
            letters[first, end] |= (
                {"*"}
                if types is None
                else {operators.LETTERS[ELEMENT_TYPES[each].name] for each in types}
            )
        ranges = (_range(*ends, known) for ends, known in sorted(letters.items()))
        lines.append(f'{op_type} = "{" ".join(ranges)}"\n')
    return "".join(lines)


def main() -> int:
    """Write the table, or compare it with the registry of this machine.

    The exit status is 1 when it differs.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.facts.kernels", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    if not parser.parse_args().check:
        TABLE.write_text(text(), encoding="utf-8")
        return 0
    shown, found = TABLE.read_text(encoding="utf-8").splitlines(), text().splitlines()
    sys.stdout.writelines(
        f"{line}\n"
        for line in difflib.unified_diff(shown, found, TABLE.name, "registry", lineterm="")
    )
    return int(shown != found)


if __name__ == "__main__":
    sys.exit(main())
