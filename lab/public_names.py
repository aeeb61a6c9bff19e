"""Write `xoptim/facts/public_names.py`, the table of public names: ``python -m lab.public_names``.

Packages list their names as imports for type checkers. The table has these names as data, because
an installed application may not contain the sources.
"""

import ast
import pprint
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from xoptim.facts import public_names

ROOT: Final = Path(__file__).parents[1]
FILE: Final = Path(public_names.__file__)
_HEAD: Final = '''\
# fmt: off
"""Names that packages import on demand, by their modules; written by ``make docs``.

``name:other``: the package has ``name`` of the module as ``other``.
"""

from collections.abc import Mapping
from typing import Final

PUBLIC_NAMES: Final[Mapping[str, Mapping[str, str]]] = \\
'''


def imported(source: str) -> dict[str, str]:
    """The names that the source of a package imports for type checkers, by module."""
    names: dict[str, list[str]] = {}
    for module, alias in _aliases(source):
        is_renamed = alias.asname not in (None, alias.name)
        names.setdefault(module, []).append(
            f"{alias.name}:{alias.asname}" if is_renamed else alias.name
        )
    return {module: " ".join(words) for module, words in names.items()}


def _aliases(source: str) -> Iterator[tuple[str, ast.alias]]:
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.If):
            continue
        for line in statement.body:
            if isinstance(line, ast.ImportFrom):
                yield from ((line.module or "", alias) for alias in line.names)


def table() -> dict[str, dict[str, str]]:
    """The names of all packages that call `on_demand`."""
    sources = {
        path: path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "xoptim").rglob("__init__.py"))
    }
    return {
        ".".join(path.parent.relative_to(ROOT).parts): imported(source)
        for path, source in sources.items()
        if "on_demand(__name__)" in source
    }


def text() -> str:
    """The content of the file `FILE`."""
    return _HEAD + pprint.pformat(table(), width=99, sort_dicts=False) + "\n"


def main() -> None:
    """Write the file."""
    FILE.write_text(text(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
