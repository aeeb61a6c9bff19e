"""The search space: groups of patterns, and the variations of a choice."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from xoptim import select
from xoptim.tuning.choices import (
    EVERYTHING,
    SELECTION,
    SPINNING,
    UNTOUCHED,
    Choice,
    Dimension,
    Facts,
    Recipe,
    Variation,
    default_recipe,
    groups_of,
    levels,
    memory_pattern,
    newest_opset,
    quantized_matmuls,
    selection,
    single_groups,
    single_optimizers,
    spinning,
    threads,
    variations,
    whole_selection,
)
from xoptim.verification import SessionSettings

SETTINGS = SessionSettings(level="all", threads=1)
START = Choice(default_recipe(), SETTINGS)
TARGET = "matmul (onnxruntime)"
FACTS = Facts(groups={"shapes": 0.1, TARGET: 0.4}, shares={"Gemm": 0.2, "Transpose": 0.3})


def names(found: Iterable[Variation]) -> list[str]:
    return [each.name for each in found]


def test_groups_are_families_and_those_of_onnxruntime_apart() -> None:
    found = groups_of(select(SELECTION))
    assert {name.removesuffix(" (onnxruntime)") for name in found} == {
        rewrite.family() for rewrite in select(SELECTION)
    }
    assert "FusedMatMul" in [rewrite.name() for rewrite in found[TARGET]]
    assert sum(map(len, found.values())) == len(select(SELECTION))


def test_the_default_recipe_is_the_preset() -> None:
    dropped = default_recipe().without
    kept = [
        each
        for name, group in groups_of(select(SELECTION)).items()
        if name not in dropped
        for each in group
    ]
    assert {rewrite.name() for rewrite in kept} == {rewrite.name() for rewrite in select("default")}


def test_included_patterns_are_apart_and_dropped_first() -> None:
    assert all(name.endswith(" (finite)") for name in groups_of(select("finite")))
    more = default_recipe(["finite"]).without - default_recipe().without
    assert more == groups_of(select("finite")).keys()
    (found,) = whole_selection(
        Choice(Recipe(more), SETTINGS),
        Facts(groups=dict.fromkeys(more, 0.1), selection=selection(["finite"])),
    )
    assert (found.name, found.choice.recipe) == ("default+onnxruntime+finite", Recipe())


def test_the_newest_operator_set_is_tried_once() -> None:
    (found,) = newest_opset(START, FACTS)
    assert found.choice.recipe.newest_opset
    assert found.stage == 0
    assert names(newest_opset(found.choice, FACTS)) == []
    assert names(newest_opset(Choice(UNTOUCHED, SETTINGS), FACTS)) == []


def test_fewer_bits_come_before_all_others() -> None:
    facts = replace(FACTS, schemes=("int8", "int4"))
    assert names(variations(START, facts, EVERYTHING))[:3] == [
        "int8",
        "int4",
        "newest operator set",
    ]
    assert (
        names(quantized_matmuls(Choice(replace(START.recipe, scheme="int8"), SETTINGS), facts))
        == []
    )
    assert names(quantized_matmuls(START, FACTS)) == []


def test_the_whole_selection_comes_first_and_once() -> None:
    (found,) = whole_selection(START, FACTS)
    assert (found.name, found.stage) == (SELECTION, 0)
    assert TARGET not in found.choice.recipe.without
    assert names(whole_selection(found.choice, FACTS)) == []
    assert names(whole_selection(START, Facts(groups={"shapes": 0.1}))) == []


def test_groups_are_dropped_and_added_again() -> None:
    by_name = {each.name: each.choice.recipe.without for each in single_groups(START, FACTS)}
    assert by_name == {
        "without shapes": START.recipe.without | {"shapes"},
        f"with {TARGET}": START.recipe.without - {TARGET},
    }


def test_the_original_has_no_patterns_to_leave_out() -> None:
    found = variations(Choice(UNTOUCHED, SETTINGS), FACTS, EVERYTHING)
    assert {each.choice.recipe for each in found} == {UNTOUCHED}
    assert "memory pattern off" in names(found)


def test_optimizers_that_have_changed_the_model() -> None:
    first, second = single_optimizers(START, FACTS)
    assert names((first, second)) == ["TransposeOptimizer off", "MatMulAddFusion off"]
    assert [first.promise, second.promise] == [0.3, 0.2]
    assert names(single_optimizers(first.choice, FACTS)) == ["MatMulAddFusion off"]
    assert next(
        iter(single_optimizers(first.choice, FACTS))
    ).choice.settings.disabled_optimizers == (
        "TransposeOptimizer",
        "MatMulAddFusion",
    )


def test_threads_that_wait() -> None:
    assert names(spinning(START, FACTS)) == [], "one thread does not wait"
    (found,) = spinning(replace(START, settings=SessionSettings(level="all")), FACTS)
    assert found.choice.settings.entries == ((SPINNING, "0"),)
    assert names(spinning(found.choice, FACTS)) == []


@pytest.mark.parametrize(
    ("dimension", "expected"),
    [
        (levels, ["level extended", "level basic"]),
        (memory_pattern, ["memory pattern off"]),
        (threads, ["2 threads"]),
    ],
)
def test_settings(dimension: Dimension, expected: list[str]) -> None:
    facts = replace(FACTS, threads=(1, 2))
    found = list(dimension(START, facts))
    assert names(found) == expected
    for each in found:
        assert each.choice.recipe == START.recipe
        assert each.choice.settings != SETTINGS
        assert each.name not in names(dimension(each.choice, facts))


def test_the_order_does_not_follow_small_differences_of_the_profile() -> None:
    orders = [
        names(variations(START, replace(FACTS, groups={"shapes": 0.1, "casts": share}), EVERYTHING))
        for share in (0.09, 0.11)
    ]
    assert orders[0] == orders[1]
    assert orders[0].index("without casts") < orders[0].index("without shapes"), "by name"
    assert orders[0].index("TransposeOptimizer off") < orders[0].index("without casts"), (
        "by promise"
    )


def test_a_further_dimension_is_one_more_function() -> None:
    def constant(choice: Choice, facts: Facts) -> Iterable[Variation]:
        yield Variation("another", Choice(Recipe(), choice.settings), 0.9)

    assert names(variations(START, FACTS, (*EVERYTHING, constant)))[2] == "another"
