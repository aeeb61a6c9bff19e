"""The stored grades of the examples of patterns are those that the prover gives now."""

from typing import Final

import pytest

from lab import pattern_grades as lab
from tests.share import is_in_share
from xoptim import installed_patterns
from xoptim.optimizing.examples import grade_of
from xoptim.proof import pattern_grades
from xoptim.proof.pattern_grades import PATTERN_GRADES

PARTS: Final = 20
FOLDERS: Final = ("xoptim/proof",)
SHIPPED: Final = {name: cls for name, cls in installed_patterns().items() if cls.is_shipped()}
IN_SHARE: Final = [name for name in sorted(SHIPPED) if is_in_share(name, PARTS, *FOLDERS)]


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_SHARE)
def test_grades_are_stored(name: str) -> None:
    stored = PATTERN_GRADES.get(name, "only run")
    assert grade_of(SHIPPED[name]) == stored, "run `python -m lab.pattern_grades`"


def test_all_names_are_patterns() -> None:
    assert PATTERN_GRADES.keys() <= SHIPPED.keys()


def test_the_file_is_as_written() -> None:
    with open(pattern_grades.__file__, encoding="utf-8") as file:
        assert file.read() == lab.text(dict(PATTERN_GRADES))
