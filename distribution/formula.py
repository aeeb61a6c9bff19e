"""Writes the Homebrew formula of a release: ``python distribution/formula.py SDIST``.

The formula has the checksum of the sdist, which is known only when the sdist is built.
"""

import hashlib
import sys
import tomllib
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
_PYTHON: Final = "3.13"
"""The newest version of Python in Homebrew that ``pyproject.toml`` names."""


def formula(sdist: Path) -> str:
    """The text of the formula for an sdist of this version.

    Raises `ValueError` when the file has another name than the sdist of this version.
    """
    text = (_HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    name = f"xoptim-{project['version']}.tar.gz"
    if sdist.name != name:
        raise ValueError(f"{str(sdist)!r} is not the sdist of this version, {name}")
    values = {
        "VERSION": project["version"],
        "SHA256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
        "LICENSE": project["license"],
        "PYTHON": _PYTHON,
    }
    formula_text = (_HERE / "homebrew" / "xoptim.rb.in").read_text(encoding="utf-8")
    for marker, value in values.items():
        formula_text = formula_text.replace(f"@{marker}@", value)
    return formula_text


if __name__ == "__main__":
    sys.stdout.write(formula(Path(sys.argv[1])))
