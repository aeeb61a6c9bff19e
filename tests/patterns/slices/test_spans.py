import itertools

from xoptim.facts.dims import named
from xoptim.patterns.slices._spans import composed, spans_by_axis

FAR = 2**63 - 1
BOUNDS = (0, 1, 3, -1, -2, FAR, -FAR)
SPANS = [(start, end, 1) for start in BOUNDS for end in BOUNDS]


def taken(size: int, *spans: tuple[int, int, int]) -> list[int]:
    positions = list(range(size))
    for start, end, step in spans:
        positions = positions[start:end:step]
    return positions


def test_composed_spans_take_the_same_from_axes_of_every_size() -> None:
    merged = 0
    for first, second in itertools.product(SPANS, repeat=2):
        found = composed(named("n"), first, second, 2**31 - 1)
        merged += found is not None
        for size in range(9):
            if found is not None:
                assert taken(size, found) == taken(size, first, second), (size, first, second)
    assert merged > len(SPANS)


def test_a_size_that_is_a_number_allows_steps_and_mixed_ends() -> None:
    for size in range(7):
        for first, second in itertools.product(
            [(1, -1, 1), (0, FAR, 2), (-4, 5, 1), (1, 4, 3)], repeat=2
        ):
            found = composed(size, first, second, 2**31 - 1)
            assert found is not None
            assert taken(size, found) == taken(size, first, second), (size, first, second)


def test_negative_axes_need_the_rank() -> None:
    assert spans_by_axis(None, [1], [2], [-1], None) is None
    assert spans_by_axis((3, named("n")), [1], [2], [-1], None) == {1: (1, 2, 1)}
    assert spans_by_axis((3, 3), [1, 1], [2, 2], [1, -1], None) is None  # one axis twice
    assert spans_by_axis(None, [1, 0], [2, 5], None, [1, 2]) == {0: (1, 2, 1), 1: (0, 5, 2)}


def test_composed_bounds_fit_into_int64() -> None:
    last, half = 2**63 - 1, 2**62
    size = named("n")
    assert composed(size, (half, last, 1), (half, last, 1), last) == (last, last, 1)
    assert composed(size, (0, -half, 1), (0, -half - 2, 1), last) == (0, -last, 1)
    assert composed(size, (half, last, 1), (0, half, 1), last) == (half, last, 1)
