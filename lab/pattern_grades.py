"""Write `xoptim/proof/pattern_grades.py`: ``python -m lab.pattern_grades``.

The file has the weakest proof grade of the examples of each pattern. It is stored because proving
all examples takes one to two minutes.
"""

import textwrap
from pathlib import Path
from typing import Final

from xoptim import installed_patterns
from xoptim.optimizing.examples import grade_of
from xoptim.proof import pattern_grades
from xoptim.proof.grades import GRADES

FILE: Final = Path(pattern_grades.__file__)
_HEAD: Final = '''\
# fmt: off
"""The weakest grade of the examples of each built-in pattern; written by `lab.pattern_grades`."""

from collections.abc import Mapping
from typing import Final

from xoptim.proof.grades import Grade

_NAMES: Final[Mapping[Grade, str]] = {
'''
_TAIL: Final = '''\
}
PATTERN_GRADES: Final[Mapping[str, Grade]] = {
    name: grade for grade, names in _NAMES.items() for name in names.split()
}
"""The grade of each pattern, by name, without patterns of the grade ``only run``."""
'''
_WIDTH: Final = 92


def grades() -> dict[str, str]:
    """The grades of all built-in patterns, by name."""
    patterns = installed_patterns().values()
    return {cls.name(): grade_of(cls) for cls in patterns if cls.is_shipped()}


def text(grade_by_name: dict[str, str]) -> str:
    """The content of the file for these grades."""
    parts: list[str] = []
    for grade in GRADES[:-1]:
        names = sorted(name for name in grade_by_name if grade_by_name[name] == grade)
        lines = "\n".join(f"        {line}" for line in textwrap.wrap(" ".join(names), _WIDTH))
        parts.append(f'    "{grade}": """\n{lines}\n    """,\n')
    return _HEAD + "".join(parts) + _TAIL


def main() -> None:
    """Write the file."""
    FILE.write_text(text(grades()), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
