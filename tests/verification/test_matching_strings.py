import re
from types import SimpleNamespace

import pytest

from xoptim.verification.inputs import matching_strings
from xoptim.verification.inputs.matching_strings import matches, near_misses, probing_strings

PATTERNS = (
    "",
    "yes|no|maybe",
    "-?[0-9]+([.][0-9]+)?",
    "[0-9]{4}-[0-9]{1,2}",
    r"(?i)ab\d\w*|[^a-c\d]+x??",
    "(a(b(c|d)*)?){3}",
    "(?P<host>[a-z]+)(:[0-9]{2,5})?",
    r"^\S+\s\D$",
    ".+@[^@]+",
    "(?:|x)y{0}z",
    "a{1000}|b",
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_strings_match_the_pattern(pattern: str) -> None:
    found = matches(pattern)
    assert found
    assert all(re.fullmatch(pattern, text) for text in found)
    assert found == matches(pattern)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("yes|no|maybe", {"yes", "no", "maybe"}),
        ("-?7", {"-7", "7"}),
        ("a{2,4}", {"aa", "aaa", "aaaa"}),
        ("(ab)*", {"", "ab", "ababab"}),
        ("[a-cx]", {"a", "c", "x"}),
        ("[[:digit:]]", {"0", "9"}),
        ("(a|b)+", {"a", "b", "ab"}),
    ],
)
def test_each_alternative_and_number_of_repetitions(pattern: str, texts: set[str]) -> None:
    assert texts <= set(matches(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        "((((",
        "[",
        r"\pL+",
        r"(a)\1",
        "(?=a)a",
        "a{99999999999}",
        "(" * 450 + "a" + ")" * 450,
        "a" * 2000,
        "(a{200}){9}",
    ],
)
def test_no_string_for_what_is_not_read(pattern: str) -> None:
    assert not [text for text in matches(pattern) if len(text) > 256]
    assert probing_strings(pattern, 8) == matches(pattern)[:8]


def test_no_string_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a private module of Python, which a later version may lack or change."""
    monkeypatch.setattr(matching_strings, "_parser", None)
    assert matches("yes|no") == []
    monkeypatch.setattr(matching_strings, "_parser", SimpleNamespace(parse=lambda _: [1, 2]))
    assert matches("yes|no") == []


def test_few_and_short_strings_for_large_patterns() -> None:
    assert len(probing_strings("((a|b|c|d|e)*[a-z]{3,9}){1,60}" * 9, 100)) <= 100
    assert all(len(text) <= 257 for text in probing_strings("(.{0,99}x){0,99}", 500))


def test_near_misses_change_one_character() -> None:
    assert {"a@com", "a@.co", "a@xcom", "a@..com"} <= {*near_misses("a@.com")}
    assert {"A@.com", "a@.comx", "-a@.com", "a@.com "} <= {*near_misses("a@.com")}
    assert [*near_misses("")] == ["x", "-", " "]


def test_near_misses_follow_the_matches() -> None:
    texts = probing_strings("[a-z]+[.]com", 60)
    assert texts[: len(matches("[a-z]+[.]com"))] == matches("[a-z]+[.]com")
    assert "axcom" in texts
    assert probing_strings("[a-z]+[.]com", 3) == texts[:3]
