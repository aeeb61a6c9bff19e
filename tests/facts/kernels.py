"""The table of the CPU's kernels, for builds of onnxruntime whose registry cannot be read."""

from collections import defaultdict
from pathlib import Path

import onnxruntime

from xoptim.facts import operators
from xoptim.facts.dtypes import ELEMENT_TYPES

TABLE = Path(operators.__file__).with_name("cpu_kernels.toml")
HEAD = """\
# Kernels of the CPU provider in onnxruntime {version}, out of its registry: ranges of operator sets, each with letters for the
# element types of T (`LETTERS` in operators.py; * for all of the schema). `make docs` writes this file.
"""


def text() -> str:
    """The table of the installed onnxruntime."""
    lines, last = [HEAD.format(version=onnxruntime.__version__)], None
    for (_, domain, op_type), kernels in sorted(operators._installed().items()):
        if domain != last:
            lines.append(f'["{domain or "ai.onnx"}"]\n')
            last = domain
        letters: dict[tuple[int, int], set[str]] = defaultdict(set)
        for first, end, types in kernels:
            letters[first, end] |= {"*"} if types is None else {operators.LETTERS[ELEMENT_TYPES[each].name] for each in types}
        ranges = (
            f"{first}-{'' if end == operators._NO_END else end}:{'*' if '*' in known else ''.join(sorted(known))}"
            for (first, end), known in sorted(letters.items())
        )
        lines.append(f'{op_type} = "{" ".join(ranges)}"\n')
    return "".join(lines)


def is_of(version: str) -> bool:
    """Whether the table was written with a version of onnxruntime."""
    return f"onnxruntime {version}," in TABLE.read_text(encoding="utf-8")


if __name__ == "__main__":
    TABLE.write_text(text(), encoding="utf-8")
