"""The table of a sample of mutants, and the files and tests that it names."""

from lab.mutation.sample import FILES, TESTS, TESTS_OF, table
from tests.meta.sources import ROOT


def test_the_table_counts_killed_mutants() -> None:
    verdicts = {"xoptim/b.py": {False: 3, True: 1}, "xoptim/a.py": {True: 2}}
    assert table(verdicts).splitlines() == [
        "| file | mutants | killed |",
        "|---|---:|---:|",
        "| xoptim/a.py | 2 | 0 % |",
        "| xoptim/b.py | 4 | 75 % |",
        "| all | 6 | 50 % |",
    ]


def test_the_sample_is_of_files_that_exist() -> None:
    """Matching, edits, and how a verification compares and judges are among them."""
    assert [file for file in FILES if not (ROOT / "xoptim" / file).is_file()] == []
    assert {
        "match/pairing.py",
        "graph/edit.py",
        "verification/judging/compare.py",
        "verification/judging/judge.py",
    } <= set(FILES)
    words = [*TESTS, *(word for tests in TESTS_OF.values() for word in tests)]
    paths = [word for word in words if word.startswith("tests/")]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert TESTS_OF.keys() <= {file.partition("/")[0] for file in FILES}
