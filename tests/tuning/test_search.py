"""The search with given times: no clock, no onnxruntime."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from tests.tuning.fakes import FakeMeter, ratio
from xoptim.bench import Ratio
from xoptim.facts.errors import XoptimError
from xoptim.tuning.choices import (
    EVERYTHING,
    PATTERNS,
    UNTOUCHED,
    Choice,
    Facts,
    Recipe,
    Variation,
    variations,
)
from xoptim.tuning.search import (
    MARGIN,
    Rules,
    Search,
    SearchResult,
    Trial,
    Verdict,
    confirm,
    finalists,
    is_faster,
    is_slower,
    ranking,
)
from xoptim.verification import SessionSettings

SETTINGS = SessionSettings(level="all", threads=1)
ORIGINAL = Choice(UNTOUCHED, SETTINGS)
START = Choice(Recipe(), SETTINGS)
GROUPS = {"shapes": 0.1, "normalizations": 0.5, "matmul": 0.3}
RULES = Rules()


def without(*groups: str) -> Choice:
    return Choice(Recipe(frozenset(groups)), SETTINGS)


def times(costs: Mapping[str, float], base: float = 0.9) -> Callable[[Choice], float]:
    """The time of a model: each group of patterns that runs multiplies it by its cost.

    The original takes 1.
    """

    def seconds(choice: Choice) -> float:
        result = base if choice.recipe.rewrites else 1.0
        for name, cost in costs.items() if choice.recipe.rewrites else ():
            result *= 1.0 if name in choice.recipe.without else cost
        return result * (
            0.8 if choice.settings.disabled_optimizers == ("SkipLayerNormFusion",) else 1.0
        )

    return seconds


def searched(
    meter: FakeMeter, rules: Rules = RULES, is_enough: Callable[[Choice], bool] = lambda _: False
) -> SearchResult:
    facts = Facts(groups=GROUPS)
    return Search(ORIGINAL, lambda best: variations(best, facts, PATTERNS), meter, rules).run(
        START, is_enough=is_enough
    )


def test_what_is_not_faster_in_floats_is_tried_around_integers() -> None:
    def seconds(choice: Choice) -> float:
        recipe = choice.recipe
        return 1.0 if recipe.scheme is None else 0.4 if recipe.newest_opset else 0.5

    facts = Facts(schemes=("int8",))
    found = Search(
        ORIGINAL, lambda best: variations(best, facts, EVERYTHING), FakeMeter(seconds), RULES
    ).run(START)
    assert found.best.recipe == Recipe(newest_opset=True, scheme="int8")
    assert found.changes == ("int8", "newest operator set")


def test_a_group_that_makes_the_model_slower_is_dropped() -> None:
    found = searched(FakeMeter(times({"normalizations": 1.2, "shapes": 0.95})))
    assert found.best == without("normalizations")
    assert found.changes == ("without normalizations",)
    verdicts = {trial.label: trial.verdict for trial in found.trials}
    assert verdicts["without normalizations"] == "faster"
    assert verdicts["without shapes"] == "not faster"
    assert found.not_tried == 0


def test_two_groups_are_dropped_the_worse_one_first() -> None:
    found = searched(FakeMeter(times({"matmul": 1.1, "normalizations": 1.3})))
    assert found.changes == ("without normalizations", "without matmul")
    assert found.best == without("normalizations", "matmul")
    assert found.trials[-1].label == "without normalizations, without matmul"


def test_ratios_are_to_the_original() -> None:
    found = searched(FakeMeter(times({"normalizations": 1.2})))
    trial = next(each for each in found.trials if each.verdict == "faster")
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.9)


@pytest.mark.parametrize("cost", [1.009, 1.0, 0.99])
def test_differences_below_the_margin_change_nothing(cost: float) -> None:
    found = searched(FakeMeter(times({"normalizations": cost}), noise=0.002))
    assert found.best == START
    assert {trial.verdict for trial in found.trials} == {"not faster"}


def test_challengers_that_save_nothing_leave_the_race_early() -> None:
    """However wide their intervals are."""
    meter = FakeMeter(times({}), noise=10.0)
    assert {trial.verdict for trial in searched(meter).trials} == {"not faster"}
    assert len(meter.passes) == RULES.min_passes


def test_noise_changes_nothing() -> None:
    """The intervals stay wide, whatever the values are."""
    meter = FakeMeter(times({"normalizations": 1.2}), noise=10.0)
    found = searched(meter)
    assert found.best == START
    assert {trial.label: trial.verdict for trial in found.trials}[
        "without normalizations"
    ] == "undecided"
    assert len(meter.passes) == RULES.max_passes


def test_a_few_passes_are_not_enough_to_accept() -> None:
    meter = FakeMeter(times({"normalizations": 2.0}), noise=0.0)
    searched(meter)
    assert (
        sum(without("normalizations") in choices for choices in meter.passes)
        >= RULES.passes_to_accept
    )


def test_much_slower_challengers_leave_after_one_pass() -> None:
    meter = FakeMeter(times({"normalizations": 0.7, "shapes": 1.0}), noise=0.02)
    searched(meter)
    assert sum(without("normalizations") in choices for choices in meter.passes) == 1
    assert sum(without("shapes") in choices for choices in meter.passes) == RULES.min_passes


def test_slow_challengers_leave_the_race_early() -> None:
    meter = FakeMeter(times({"normalizations": 1.2, "shapes": 0.5}), noise=0.02)
    searched(meter)
    assert sum(without("shapes") in choices for choices in meter.passes) < RULES.passes_to_accept


def test_a_challenger_behind_another_one_is_tried_again_on_top_of_it() -> None:
    found = searched(FakeMeter(times({"matmul": 1.1, "normalizations": 1.5}), noise=0.02))
    verdicts = {trial.label: trial.verdict for trial in found.trials}
    assert verdicts["without matmul"] == "behind"
    assert verdicts["without normalizations, without matmul"] == "faster"


def test_the_order_is_deterministic() -> None:
    made = [FakeMeter(times({"matmul": 1.1, "normalizations": 1.3})) for _ in range(2)]
    first, second = (searched(meter) for meter in made)
    assert made[0].passes == made[1].passes
    assert [trial.label for trial in first.trials] == [trial.label for trial in second.trials]


def test_the_most_promising_ones_are_tried_first() -> None:
    meter = FakeMeter(times({}), noise=0.0)
    searched(meter, rules=Rules(max_challengers=1))
    order = list(dict.fromkeys(choices[-1] for choices in meter.passes))
    assert order == [without("normalizations"), without("matmul"), without("shapes")]


@pytest.mark.parametrize("most", [0, 5, 11, 12, 40])
def test_the_budget_ends_the_search(most: int) -> None:
    meter = FakeMeter(times({"shapes": 1.3}), most=most)
    found = searched(meter, rules=Rules(max_challengers=1))
    assert sum(map(len, meter.passes)) <= most
    assert len(found.trials) + found.not_tried == len(GROUPS)
    assert found.not_tried == {0: 3, 5: 2, 11: 1, 12: 1, 40: 0}[most]


def test_a_budget_that_ends_within_a_race_decides_nothing() -> None:
    class Ending(FakeMeter):
        def fits(self, runs: int) -> bool:
            return len(self.passes) < RULES.passes_to_accept - 1

    found = searched(Ending(times({"normalizations": 1.5})))
    assert found.best == START
    assert len(found.trials) == 3


def test_what_was_made_is_measured_once_though_making_it_took_the_time() -> None:
    class Late(FakeMeter):
        def fits(self, runs: int) -> bool:
            return not made

    made: list[Choice] = []

    def is_made(choice: Choice, _: Choice) -> bool:
        made.append(choice)
        return True

    meter = Late(times({"normalizations": 2.0}))
    space = [Variation("one", without("normalizations"), 1.0)]
    found = Search(ORIGINAL, lambda _: space, meter, RULES, is_made).run(START)
    assert len(meter.passes) == 1
    assert found.trials[0].verdict == "undecided"
    assert finalists(found, START, lambda _: 0) == [START, without("normalizations")]


def test_the_search_ends_when_the_result_is_good_enough() -> None:
    found = searched(
        FakeMeter(times({"matmul": 1.1, "normalizations": 1.3})),
        is_enough=lambda best: "normalizations" in best.recipe.without,
    )
    assert found.changes == ("without normalizations",)


def test_choices_that_cannot_be_run_are_reported() -> None:
    found = searched(
        FakeMeter(times({"normalizations": 1.2}), failing={without("shapes"): "no kernel"})
    )
    failed = next(trial for trial in found.trials if trial.label == "without shapes")
    assert (failed.verdict, failed.reason, failed.ratio) == ("failed", "no kernel", None)
    assert found.best == without("normalizations")


def test_choices_that_change_nothing_are_not_measured() -> None:
    meter = FakeMeter(times({}))
    facts = Facts(groups=GROUPS)
    search = Search(
        ORIGINAL,
        lambda best: variations(best, facts, PATTERNS),
        meter,
        RULES,
        lambda choice, _: choice != without("shapes"),
    )
    found = search.run(START)
    assert {trial.label: trial.verdict for trial in found.trials}["without shapes"] == "no effect"
    assert all(without("shapes") not in choices for choices in meter.passes)


def test_the_selection_comes_before_its_groups_and_the_settings() -> None:
    """Patterns of the target make the model faster, but for one group.

    So does an optimizer that is switched off.
    """
    target = ("activations (onnxruntime)", "matmul (onnxruntime)")
    costs = {target[0]: 0.7, target[1]: 1.2}
    facts = Facts(
        groups=dict.fromkeys((*GROUPS, *target), 0.1), shares={"SkipLayerNormalization": 0.6}
    )
    start = Choice(Recipe(frozenset(target)), SETTINGS)
    meter = FakeMeter(times(costs))
    found = Search(ORIGINAL, lambda best: variations(best, facts, EVERYTHING), meter, RULES).run(
        start
    )
    assert found.changes == (
        "default+onnxruntime",
        "SkipLayerNormFusion off",
        "without matmul (onnxruntime)",
    )
    raised = replace(start, recipe=replace(start.recipe, newest_opset=True))
    assert meter.passes[0] == [ORIGINAL, start, raised, START]


# -------------------------------------------------------------------- the end


def test_the_confirmation_ends_when_the_intervals_are_clear() -> None:
    meter = FakeMeter(times({}, base=0.9))
    assert confirm(ORIGINAL, [START, START], meter, RULES)[START].value == pytest.approx(0.9)
    assert meter.passes == [[ORIGINAL, START]] * RULES.passes_to_confirm


def test_passes_of_the_search_count_in_the_confirmation() -> None:
    meter = FakeMeter(times({}, base=0.9))
    for _ in range(RULES.passes_to_confirm):
        meter.measure([ORIGINAL, START])
    confirm(ORIGINAL, [START], meter, RULES)
    assert len(meter.passes) == RULES.passes_to_confirm + RULES.min_passes


def test_the_confirmation_goes_on_while_they_are_not() -> None:
    meter = FakeMeter(times({}, base=1.0), noise=1.0)
    confirm(ORIGINAL, [START], meter, RULES)
    assert len(meter.passes) == 3 * RULES.passes_to_confirm


@pytest.mark.parametrize(
    ("cost", "passes"), [(1.0 - MARGIN / 2, 11), (1.0 - MARGIN - 0.002, 15), (0.7, 5)]
)
def test_the_confirmation_goes_on_while_the_finalists_are_at_the_margin(
    cost: float, passes: int
) -> None:
    """Their intervals to the original are clear long before."""
    seconds = times({"shapes": 1.0 / cost}, base=0.5)
    meter = FakeMeter(lambda choice: 1.0 if choice == ORIGINAL else seconds(choice), noise=0.2)
    confirm(ORIGINAL, [START, without("shapes")], meter, RULES)
    assert len(meter.passes) == passes


def test_the_confirmation_takes_place_without_a_budget() -> None:
    meter = FakeMeter(times({}, base=0.9), most=0)
    assert is_faster(confirm(ORIGINAL, [START, ORIGINAL], meter, RULES)[START])
    assert len(meter.passes) == RULES.min_passes


def test_the_confirmation_needs_models_that_run() -> None:
    with pytest.raises(XoptimError, match="no memory"):
        confirm(ORIGINAL, [START], FakeMeter(times({}), failing={START: "no memory"}), RULES)


BEST = Choice(Recipe(frozenset(["shapes"])), replace(SETTINGS, memory_pattern=False))
SMALL = without("matmul")


def ranked(
    choices: Sequence[Choice],
    final: Mapping[Choice, Ratio],
    others: Sequence[tuple[Choice, Ratio]],
    width: float = 0.004,
) -> list[Choice]:
    """The order of finalists whose ratios to each other have intervals of a width."""
    return ranking(
        choices,
        final,
        others,
        lambda one, other: ratio(final[one].value / final[other].value, width),
    )


def test_a_faster_result_is_preferred() -> None:
    final = {BEST: ratio(0.8), START: ratio(0.9)}
    others = [(SMALL, ratio(0.95)), (START, ratio(0.9)), (ORIGINAL, ratio(1.0, 0.0))]
    assert ranked([START, BEST], final, others) == [BEST, START, SMALL, ORIGINAL]


def test_the_best_result_of_the_search_is_not_slower_than_the_first_one() -> None:
    assert ranked([START, BEST], {BEST: ratio(0.95), START: ratio(0.9)}, [])[0] == START


@pytest.mark.parametrize(("value", "expected"), [(0.885, START), (0.879, BEST)])
def test_a_simpler_result_is_preferred_within_the_margin(value: float, expected: Choice) -> None:
    assert ranked([START, BEST], {BEST: ratio(value), START: ratio(0.9)}, [])[0] == expected


@pytest.mark.parametrize(("width", "expected"), [(0.04, BEST), (0.08, START)])
def test_a_simpler_result_is_preferred_that_may_be_as_fast(width: float, expected: Choice) -> None:
    assert ranked([START, BEST], {BEST: ratio(0.87), START: ratio(0.9)}, [], width)[0] == expected


def test_finalists_are_the_start_and_the_fastest_ones_floats_first() -> None:
    bits = Choice(Recipe(scheme="int8"), SETTINGS)
    verdicts: dict[Choice, tuple[Verdict, float]] = {
        bits: ("undecided", 0.5),
        SMALL: ("behind", 0.7),
        without("shapes"): ("not faster", 0.1),
        BEST: ("faster", 0.8),
    }
    trials = [
        Trial(("one",), choice, verdict, ratio(value))
        for choice, (verdict, value) in verdicts.items()
    ]
    assert finalists(SearchResult(BEST, trials=trials), START, lambda _: 0) == [
        START,
        SMALL,
        BEST,
        bits,
    ]


def test_of_finalists_with_fewer_bits_the_one_with_fewer_nodes_is_simpler() -> None:
    bits = Choice(Recipe(scheme="int8"), SETTINGS)
    raised, tuned = (
        Choice(Recipe(scheme="int8", newest_opset=True), SETTINGS),
        replace(bits, settings=BEST.settings),
    )
    seconds = {tuned: 0.48, bits: 0.5, raised: 0.49}
    trials = [
        Trial(("one",), choice, "undecided", ratio(value)) for choice, value in seconds.items()
    ]
    found = finalists(
        SearchResult(bits, trials=trials),
        START,
        lambda choice: 1 if choice.recipe.newest_opset else 2,
    )
    assert found == [START, raised, bits, tuned]


def test_the_model_with_fewest_nodes_is_a_finalist_where_it_may_be_as_fast() -> None:
    """Noise alone decides whether it was found to be faster."""
    bits = Choice(Recipe(scheme="int8"), SETTINGS)
    raised, smallest = (
        Choice(Recipe(scheme="int8", newest_opset=True), SETTINGS),
        replace(bits, recipe=replace(SMALL.recipe, scheme="int8")),
    )
    for seconds, expected in ((0.505, [START, raised, bits]), (0.6, [START, bits])):
        trials = [
            Trial(("one",), bits, "faster", ratio(0.5)),
            Trial(("two",), raised, "not faster", ratio(seconds, 0.01)),
        ]
        trials.append(Trial(("three",), smallest, "failed"))
        assert (
            finalists(
                SearchResult(bits, trials=trials),
                START,
                lambda choice: 1 if choice.recipe.newest_opset else 2,
            )
            == expected
        )


def test_where_nothing_is_faster_the_smallest_result_that_is_not_slower_is_preferred() -> None:
    """With the settings of the start: others were not confirmed to help."""
    final = {BEST: ratio(0.995), START: ratio(1.001)}
    others = [
        (BEST, ratio(0.97)),
        (without("shapes"), ratio(1.1)),
        (SMALL, ratio(1.002)),
        (START, ratio(0.9)),
    ]
    assert ranked([START, BEST], final, others) == [SMALL, START]


def test_where_everything_is_slower_the_original_remains() -> None:
    final = {START: ratio(1.2)}
    assert ranked([START], final, [(START, ratio(1.0)), (ORIGINAL, ratio(1.0, 0.0))]) == [ORIGINAL]


@pytest.mark.parametrize(
    ("value", "faster", "slower"),
    [(0.985, True, False), (0.991, False, False), (1.004, False, False), (1.01, False, True)],
)
def test_measurable_differences(value: float, faster: bool, slower: bool) -> None:
    assert (is_faster(ratio(value)), is_slower(ratio(value))) == (faster, slower)
    assert not is_faster(ratio(value, 0.2))
    assert not is_slower(ratio(value, 0.2))
