"""The README shows rows of docs/performance.md, and the page has a column for each of our
selections.
"""

from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from benchmarks.measured import read
from benchmarks.performance import (
    INT8,
    OWN_ERRORS,
    PAGE,
    README,
    TABLES,
    TOOLS,
    errors_of,
    mean,
    number_of_nodes,
    readme,
    table,
    tables_of,
)
from benchmarks.precision import drawn_values, main as measure_precision
from tests.support import parse


def test_the_readme_shows_the_averages_of_the_page() -> None:
    text = README.read_text(encoding="utf-8")
    assert readme(text, read(PAGE)) == text


def test_the_columns_of_the_page() -> None:
    tables = read(PAGE)
    assert TABLES.keys() <= tables.keys()
    for field in TABLES:
        tools = tables[field].columns[2:]
        assert "xopt" in tools
        assert set(tools) <= set(TOOLS)


def test_averages_are_geometric() -> None:
    figures: dict[str, dict[str, Any]] = {
        "a.x.y": {"xopt": {"time": 0.5}},
        "a.z.y": {"xopt": {"time": 2.0}},
        "b.u.y": {"xopt": {"failed": "no"}},
    }
    assert mean([0.5, 2.0]) == 1.0
    assert table(figures, "time").rows == [["a", "2", "1.00"], ["b", "1", ""], ["all", "3", "1.00"]]


FIGURES: dict[str, dict[str, Any]] = {
    name: {
        "the same": {"time": 1.0},
        "xopt": {
            "nodes": 0.5,
            "time": time,
            "interval": [time, time],
            "time off": 1.1,
            "interval off": [1.05, 1.2],
            "size": 0.5,
            **lengths,
        },
        INT8: {"error": 0.1 * time},
        "onnxslim": {"failed": "not equal"},
    }
    for name, time, lengths in (
        ("bert.a.script", 0.8, {"at 1": 0.4, "at 512": 1.1}),
        ("cnn.b.script", 0.9, {}),
    )
}


def test_each_figure_has_a_table_and_the_readme_its_last_row() -> None:
    tables = tables_of(FIGURES)
    averages = {field: [*tables[field].rows[-1]] for field in TABLES}
    assert averages == {
        "nodes": ["all", "2", "0.50", "", ""],
        "time": ["all", "2", "0.85", "", ""],
        "at 1": ["all", "1", "0.40", "", ""],
        "at 128": ["all", "0"],
        "at 512": ["all", "1", "1.10", "", ""],
        "time off": ["all", "2", "1.10", "", ""],
        "size": ["all", "2", "0.50", "", ""],
    }


def test_errors_of_quantized_models_beyond_the_tolerance_are_named() -> None:
    table = errors_of({"a": {INT8: {"error": 0.01}}, "b": {INT8: {"error": 0.05}}, "c": {}})
    assert table.rows == [["1 model within 2%", "1.0%"], ["b", "5.0%"]]


def test_errors_relative_to_each_sample_have_a_table_of_their_own() -> None:
    figures = {"a": {INT8: {"error": 0.01, "own error": 0.04}}, "b": {INT8: {"error": 0.01}}}
    assert errors_of(figures).rows == [["2 models within 2%", "1.0%"]]
    assert errors_of(figures, "own error").rows == [["0 models within 2%", "0.0%"], ["a", "4.0%"]]
    assert tables_of(figures)[OWN_ERRORS].rows == errors_of(figures, "own error").rows


def test_drawn_values_are_of_the_kind_of_the_given_ones(tmp_path: Path) -> None:
    given: dict[str, np.ndarray] = {
        "x": np.array([3.0, 5.0, 7.0], np.float32),
        "ids": np.array([4, 9, 0], np.int64),
        "mask": np.array([1, 5, 0], np.int64),
        "one": np.array([7], np.int64),
    }
    np.savez(tmp_path / "m.npz", **given)  # type: ignore[arg-type]
    samples = drawn_values(tmp_path / "m.onnx", 50)
    assert {name: value.dtype for name, value in samples[0].items()} == {
        name: value.dtype for name, value in given.items()
    }
    numbers = np.concatenate([sample["x"] for sample in samples])
    assert abs(numbers.mean() - 5) < 1
    assert 0 < numbers.std() < 3
    assert {int(number) for sample in samples for number in sample["ids"]} == {*range(10)}
    for name in ("mask", "one"):
        assert all(np.array_equal(sample[name], given[name]) for sample in samples)


def test_results_that_are_slower_are_named() -> None:
    ours = tables_of(FIGURES)["time off, remarks"].rows[0]
    assert [*ours] == ["xopt", "2", "2", "bert.a.script 1.10, cnn.b.script 1.10", ""]


def test_nodes_of_subgraphs_count_and_constants_do_not() -> None:
    text = """agraph (float[n] x,
      bool c) => (float[n] y) { o = Constant <value = float {1}> () t = Add(x, o)
        y = If (c) <then_branch = a () => (float[n] z) { z = Neg(t) },
          else_branch = b () => (float[n] z) { z = Abs(t) }> }"""
    assert number_of_nodes(parse(text).graph) == 4


def test_precision_of_a_folder_without_models(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(measure_precision, [str(tmp_path)])
    assert outcome.exit_code == 1
    assert f"nothing measured: no model of {tmp_path} could be measured" in outcome.output
