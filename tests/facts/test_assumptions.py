"""Assumptions as texts."""

import itertools

import pytest

from xoptim.facts.assumptions import DEFAULTS, Assumptions, SizeFact
from xoptim.facts.errors import AssumptionError


@pytest.mark.parametrize(
    ("texts", "canonical"),
    [
        ((), ""),
        (("past >= 1",), "past >= 1"),
        (("0 < past", "past<6"), "1 <= past <= 5"),
        (("1 <= batch == 1",), "!compare"),
        (("batch == 1",), "batch == 1"),
        (("4096 >= width >= 64", "width % 8 == 0"), "64 <= width <= 4096; width % 8 == 0"),
        (("n % 4 == 2", "n % 6 == 0"), "n % 12 == 6"),
        (("total == past+seq", "a == b"), "a == b; total == past+seq"),
        (("past + seq == total",), "total == past + seq"),
        (("x:1 >= 2",), "x:1 >= 2"),
        (("b == 1  or 0 == p", "a >= 2"), "a >= 2; b == 1 or p == 0"),
        (("ones(m)", "b <= 2 or n % 8 == 0"), "b <= 2 or n % 8 == 0; ones(m)"),
        (("p == 0 or b <= 4", "b == 1"), "b == 1"),
        (("p == 0 or b == 1", "b == 1 or p == 0"), "b == 1 or p == 0"),
        (("b == 1 or n >= 0",), "!write a range of each dimension"),
        (("b == 1 or finite",), "!write a range of each dimension"),
        (("b == 1 or t == p",), "!write a range of each dimension"),
        (("b == 1 or b == 3",), "!a dimension occurs twice"),
        (("b == 1 or p == 0", "b >= 2", "p >= 1"), "!cannot hold with the others"),
        (("b == 1 or t == 0", "t == p + s"), "!t follows from other dimensions"),
        (("finite(x)", "bool( mask )", "sorted(s)", "unit(u)", "right_padded(m)"),
         "bool(mask); finite(x); right_padded(m); sorted(s); unit(u)"),
        (("finite(x)", "finite"), "finite"),
        (("nothing",), "nothing"),
        (("nonempty", "nothing", "open_ends"), "nothing; open_ends; nonempty"),
        (("past = 1",), "!compare with =="),
        (("past >= -1",), "!an integer of at least 0"),
        (("n < 0",), "!a dimension is at least 0"),
        (("past >= 4", "past < 4"), "!'past < 4' cannot hold: past >= 4"),
        (("n == 3", "n % 2 == 0"), "!cannot hold: n == 3"),
        (("n % 4 == 1", "n % 2 == 0"), "!cannot hold"),
        (("n % 8 == 9",), "!n % 8 == 0"),
        (("n % 0 == 0",), "!n % 8 == 0"),
        (("a + b >= 1",), "!write one dimension on one side"),
        (("5 == 5",), "!write one dimension on one side"),
        (("a >= b",), "!an integer of at least 0"),
        (("a == a",), "!one other dimension"),
        (("a == b", "a == c"), "!one other dimension"),
        (("1 <= n >= 3",), "!compare with =="),
        (("bool",), "!bool(attention_mask)"),
        (("boool(x)",), "!unknown assumption"),
        (("finite()",), "!the name of an input"),
        (("nonempty(x)",), "!unknown assumption"),
        (("",), "!unknown assumption"),
    ],
)  # fmt: skip
def test_texts(texts: tuple[str, ...], canonical: str) -> None:
    if canonical.startswith("!"):
        with pytest.raises(AssumptionError) as error:
            Assumptions.of(texts)
        assert canonical[1:] in str(error.value)
        assert "\n" not in str(error.value)
        return
    found = Assumptions.of(texts)
    assert str(found) == canonical
    assert Assumptions.of(found.texts) == found


def test_what_is_no_list_of_texts() -> None:
    with pytest.raises(AssumptionError, match="sequence"):
        Assumptions.of("past >= 1")
    with pytest.raises(AssumptionError, match="not 3"):
        Assumptions.of([3])  # type: ignore[list-item]


def test_words_that_are_assumed() -> None:
    usual, less = Assumptions(), Assumptions.of(["nothing", "nonempty", "bool(m)"])
    assert all(map(usual.has, DEFAULTS))
    assert [word for word in DEFAULTS if less.has(word)] == ["nonempty"]
    assert (less.has("bool", "m"), less.has("bool", "x"), less.about("bool")) == (
        True,
        False,
        ["m"],
    )
    assert Assumptions.of(["finite"]).has("finite", "x")


@pytest.mark.parametrize(
    "fact",
    [SizeFact(3, 17, 5, 2), SizeFact(1), SizeFact(0, 4), SizeFact(divisor=8), SizeFact(6, 6)],
)
def test_allowed_sizes(fact: SizeFact) -> None:
    for size in range(40):
        allowed = fact.allowed_size(size)
        assert fact.holds(allowed), (size, allowed)
        assert allowed == size or not fact.holds(size)


def test_sizes_are_fitted_and_refused() -> None:
    known = Assumptions.of(["past >= 1", "width % 8 == 0", "total == past + seq", "batch == 1"])
    fitted = known.fitted({"past": 0, "seq": 3, "total": 9, "width": 9, "batch": 2, "other": 5})
    assert fitted == {"past": 1, "seq": 3, "total": 4, "width": 16, "batch": 1, "other": 5}
    assert known.broken(fitted) == ""
    others = {
        "past": (0, "past >= 1"),
        "width": (9, "width % 8 == 0"),
        "total": (9, "total == past + seq"),
    }
    for name, (size, text) in others.items():
        assert known.broken({**fitted, name: size}) == text


def test_one_of_several_ranges_is_fitted() -> None:
    known = Assumptions.of(["batch == 1 or seq == 1 or past == 0", "seq >= 2"])
    good = {"batch": 1, "seq": 3, "past": 2}
    assert (known.fitted(good), known.broken(good)) == (good, "")
    chosen = set()
    for past in range(1, 9):
        sizes = {"batch": 2, "seq": 3, "past": past}
        assert known.broken(sizes) == "batch == 1 or past == 0 or seq == 1"
        fitted = known.fitted(sizes)
        assert known.broken(fitted) == ""
        chosen |= {name for name in sizes if fitted[name] != sizes[name]}
    assert chosen == {"batch", "past"}  # seq is 2 or more
    assert known.names()["past"] == "batch == 1 or past == 0 or seq == 1"


@pytest.mark.parametrize("text", ["n >= 0", "n % 1 == 0"])
def test_an_assumption_that_always_holds_names_its_dimension(text: str) -> None:
    assert Assumptions.of([text]).names() == {"n": "n >= 0"}


def test_remainders_of_large_divisors_meet_without_a_search() -> None:
    """Metadata of a model may list many.

    The common multiple of the divisors of one size is bounded.
    """
    primes = [
        1048573,
        1048571,
        1048559,
        1048549,
        1048517,
        1048507,
        1048447,
        1048433,
        1048423,
        1048391,
    ] * 20
    known = Assumptions.of([f"m{i} % {p} == 1" for i, p in enumerate(primes)])
    assert dict(known.sizes)["m7"].rest == 1
    with pytest.raises(AssumptionError, match=r"common multiple .*1048576"):
        Assumptions.of([f"n % {prime} == 5" for prime in primes])
    small = itertools.product(range(1, 9), repeat=2)
    for first, second in small:
        for rests in itertools.product(range(first), range(second)):
            met = SizeFact(divisor=first, rest=rests[0]).meet(
                SizeFact(divisor=second, rest=rests[1])
            )
            both = [
                size for size in range(first * second) if (size % first, size % second) == rests
            ]
            assert (None if met is None else met.rest) == (both[0] if both else None)
