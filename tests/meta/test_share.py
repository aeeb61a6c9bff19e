"""A run without options runs the same part of the large batteries in each checkout."""

from tests.meta.sources import ROOT
from tests.share import is_in_share


def test_a_case_is_chosen_by_its_name() -> None:
    names = [f"case {number}" for number in range(1000)]
    chosen = [name for name in names if is_in_share(name, 10)]
    assert 60 < len(chosen) < 140
    assert chosen == [name for name in reversed(names) if is_in_share(name, 10)][::-1]
    assert all(is_in_share(name, 1) for name in names)


def test_no_test_asks_for_the_number_of_commits() -> None:
    """A checkout of depth 1 has one, so that the others would never be chosen there."""
    asking = "rev-list" + " --count"
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in ROOT.glob("tests/**/*.py")
    }
    words = '"rev-list", ' + '"--count"'
    assert [name for name, text in texts.items() if asking in text or words in text] == []
