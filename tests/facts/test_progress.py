"""Steps of long work, with the number of items that are done."""

from xoptim.facts.progress import StageProgress, with_progress


def test_each_item_is_counted_before_it_is_used() -> None:
    steps: list[str] = []
    items = with_progress("ab", "reading", steps.append)
    assert (next(items), *steps) == ("a", "reading: 0 of 2")
    assert (next(items), *steps) == ("b", "reading: 0 of 2", "reading: 1 of 2")
    assert next(items, None) is None


def test_a_description_has_its_numbers() -> None:
    step = StageProgress("trying", 1, 3, "now A")
    assert step == "trying: 1 of 3, now A"
    assert (step.stage, step.done, step.total) == ("trying", 1, 3)
