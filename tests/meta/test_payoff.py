"""Every fusion was measured, and those that are applied by default pay."""

import re

import xoptim
from benchmarks.operators import PAGE, SIZES, SUBJECTS, model_of, rows_of
from xoptim.match.pattern import PatternOptimization

SLOWER = 1.02
"""A fusion does not pay where the whole interval of its ratio lies above this."""
_INTERVAL = re.compile(r"[\d.]+ \(([\d.]+) to ([\d.]+)\)")
FUSING = ("specialize", "target")
"""Phases of the patterns that write other operators; those of `canonicalize` remove nodes, or write the same ones."""
CHOOSING = "einsum"
"""Tag of the patterns that choose between two forms, and may write more nodes."""


def fusions(selection: str) -> set[str]:
    found = xoptim.OptimizationOptions(patterns=selection, provider="cpu").selected()
    return {
        each.name()
        for each in found
        if isinstance(each, PatternOptimization)
        and (each.phase in FUSING or CHOOSING in each.tags)
        and not each.unfit_for(None, "cpu")
    }


def test_each_fusion_is_measured() -> None:
    measured = {name for name, provider, _ in rows_of(PAGE) if provider == "cpu"}
    assert fusions("default+onnxruntime") - measured == set()
    assert measured == {name for name in SUBJECTS if fusions(name)}


def test_each_row_is_complete() -> None:
    for (name, provider, _), cells in rows_of(PAGE).items():
        sizes = {size for size, cell in zip(SIZES, cells, strict=True) if _INTERVAL.fullmatch(cell)}
        rows = set(SUBJECTS[name].rows)
        assert sizes == rows if provider == "cpu" else (sizes and sizes <= rows), name


def test_the_defaults_pay() -> None:
    default = fusions("default")
    lows = {
        (name, provider, threads, size): float(found[1])
        for (name, provider, threads), cells in rows_of(PAGE).items()
        for size, cell in zip(SIZES, cells, strict=True)
        if name in default and (found := _INTERVAL.fullmatch(cell))
    }
    assert {key: low for key, low in lows.items() if low > SLOWER} == {}


def test_each_fusion_applies_on_its_model() -> None:
    for name in fusions("default+onnxruntime"):
        applied: list[object] = []
        xoptim.optimize(model_of(SUBJECTS[name], SUBJECTS[name].rows[0]), patterns=name, on_application=applied.append)
        assert applied, name
