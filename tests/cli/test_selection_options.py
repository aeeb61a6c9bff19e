"""Patterns that a command line selects: ``--include``, ``--require``, ``--exclude``.

The words that ``xopt list`` prints.
"""

import re

import pytest

from tests.cli.command import ONLY, TRANSPOSES, Xopt, types_in, write
from tests.support import values_in
from xoptim import PatternOptimization, database, installed_patterns, register, select
from xoptim.api.whole_model import GlobalRewriter
from xoptim.catalogue.discovery import InstalledPattern
from xoptim.catalogue.entries import warn_once
from xoptim.cli.selection import is_pass


def listed(xopt: Xopt, *words: str) -> list[str]:
    outcome = xopt("list", "--json", *words)
    assert (outcome.code, outcome.err) == (0, "")
    return [pattern["name"] for pattern in outcome.json]


def names(text: str) -> set[str]:
    return {pattern.name() for pattern in select(text)}


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns that are not stable, and a pass that was renamed, in a database for one test."""
    found = {name: InstalledPattern(cls, "") for name, cls in installed_patterns().items()}
    monkeypatch.setattr("xoptim.catalogue.registry.installed", lambda: found)
    warn_once.cache_clear()
    common = {"__doc__": "A → B", "anchors": ("acme::Nothing",)}
    for name, status in (("Early", "preview"), ("Late", "deprecated")):
        register(
            type(f"{name}Pattern", (PatternOptimization,), {**common, "status": status}),
            "extra",
            "own",
        )
    register(
        type("Whole", (GlobalRewriter,), {"__doc__": "A → B", "former_names": ("Entire",)}), "own"
    )


# ---------------------------------------------------------------- what is chosen


def test_include_adds(xopt: Xopt) -> None:
    assert listed(xopt, "--patterns", "Cast", "--include", "einsum") == sorted(
        {"Cast"} | names("einsum")
    )
    assert listed(xopt, "--patterns", "", "--include", "Cast", "--include", "DropoutPattern") == [
        "Cast",
        "Dropout",
    ]


def test_require_keeps_what_has_all_words(xopt: Xopt) -> None:
    assert listed(xopt, "--require", "einsum") == sorted(names("einsum"))
    both = listed(xopt, "--require", "einsum", "--require", "exact")
    assert both == sorted(names("einsum") & names("exact"))
    assert 0 < len(both) < len(names("einsum"))
    assert listed(
        xopt, "--patterns", "Cast", "--include", "einsum", "--require", "einsum"
    ) == sorted(names("einsum"))
    assert listed(xopt, "--patterns", "Cast", "--require", "einsum") == []


def test_exclude_beats_include(xopt: Xopt) -> None:
    assert listed(xopt, "--exclude", "fast_run") == sorted(names("all+lower-fast_run"))
    assert listed(xopt, "--patterns", "Cast", "--include", "einsum", "--exclude", "einsum") == [
        "Cast"
    ]
    assert listed(xopt, "--patterns", "Cast", "--exclude", "Cast", "--include", "Cast") == []
    assert listed(
        xopt, "--patterns", "Cast+Dropout", "--exclude", "Cast", "--exclude", "onnxruntime"
    ) == ["Dropout"]


@pytest.mark.parametrize("option", ["--include", "--require", "--exclude"])
def test_a_word_that_nothing_knows(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the model was read")

    write(TRANSPOSES)
    monkeypatch.setattr("xoptim.optimizing.verified.GraphBuilder", fail)
    for command in ("list", "model.onnx"):
        assert values_in(xopt(command, option, "fastrun").error)[-2:] == ["fastrun", "fast_run"]
        assert "'Cast+Dropout'" in xopt(command, option, "Cast+Dropout").error, "one word"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("default+", ["+", "default+"]),
        ("-Cast", ["-Cast", "default-Cast"]),
        ("defualt", ["defualt", "default"]),
    ],
)
def test_selections_that_cannot_be_meant(xopt: Xopt, text: str, names: list[str]) -> None:
    path = write(TRANSPOSES)
    for words in (("list",), (path,), ("bisect", path), ("check", path)):
        assert values_in(xopt(*words, f"--patterns={text}").error)[-2:] == names
    for options in ((), ("--matches",)):
        error = xopt("explain", path, "Cast", *options, f"--after={text}").error
        assert values_in(error)[-2:] == names


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--patterns", "Cast", "--include", "TransposeTranspose"), 1),
        ((*ONLY, "--require", "canonicalize", "--require", "exact"), 1),
        ((*ONLY, "--require", "specialize"), 0),
        ((*ONLY, "--include", "einsum", "--exclude", "TransposeTranspose"), 0),
        ((*ONLY, "--include", "TransposeTranspose", "--drop", "TransposeTranspose"), 0),
        (("--patterns", "fast_compile"), 1),
    ],
)
def test_a_model_is_optimized_by_what_is_chosen(
    xopt: Xopt, words: tuple[str, ...], count: int
) -> None:
    write(TRANSPOSES)
    assert (
        xopt("model.onnx", *words, "--json").json["patterns"].get("TransposeTranspose", 0) == count
    )
    assert types_in("model.opt.onnx") == (["Relu"] if count else ["Transpose", "Transpose", "Relu"])


@pytest.mark.usefixtures("own")
def test_status_and_former_names_are_spoken_of(xopt: Xopt) -> None:
    deprecated = "pattern 'Late' is deprecated: it may be removed in a later version"
    renamed = "pattern 'Entire' is now called 'Whole'; the old name may be removed"
    write(TRANSPOSES)
    idle = "--include Late applied nowhere; `xopt explain MODEL Late` says why"
    assert xopt("model.onnx", "-q", "--include", "Late", *ONLY).warnings == [deprecated, idle]
    assert xopt("model.onnx", "-q", "--drop", "Entire", *ONLY).warnings == [renamed]
    both = xopt("model.onnx", "-q", "--drop", "Entire", "--include", "Late", *ONLY)
    assert both.warnings == [idle], "the status is said once"


def test_only_patterns_are_explained_at_nodes() -> None:
    assert is_pass("ShapeArithmetic")
    assert not is_pass("TransposeTranspose")


# ---------------------------------------------------------------- what is listed


@pytest.mark.usefixtures("own")
def test_the_status_is_shown_where_it_matters(xopt: Xopt) -> None:
    plain, mixed = (
        xopt("list", "--patterns", text).out.splitlines() for text in ("Cast", "Cast+own")
    )
    assert plain[0].split() == [
        "pattern",
        "phase",
        "exactness",
        "opset",
        "provider",
        "tags",
        "rewrite",
    ]
    assert mixed[0].split() == [
        "pattern",
        "phase",
        "exactness",
        "opset",
        "status",
        "provider",
        "tags",
        "rewrite",
    ]
    assert {line.split()[0]: line.split()[4] for line in mixed if line.startswith("  ")} == {
        "Cast": "stable", "Early": "preview", "Late": "deprecated", "Whole": "stable",
    }  # fmt: skip


@pytest.mark.usefixtures("own")
def test_rewriters_of_whole_models_are_listed(xopt: Xopt) -> None:
    lines = xopt("list", "--patterns", "Cast+Whole").out.splitlines()
    rows = [line.split() for line in lines if line.startswith("  ")]
    assert ["Whole", "global", "exact", "1+", "any", "A", "→", "B"] in rows
    assert len(rows) == 2
    assert lines[-1] == f"2 of {len(installed_patterns()) + 3} patterns"
    phases = {
        row["name"]: row["phase"] for row in xopt("list", "--patterns", "global", "--json").json
    }
    assert phases["Whole"] == "global"
    assert "phase global, " in xopt("list", "Whole").out


@pytest.mark.usefixtures("own")
def test_words_with_their_numbers(xopt: Xopt) -> None:
    outcome = xopt("list", "--tags")
    assert (outcome.code, outcome.err) == (0, "")
    header, *lines = outcome.out.splitlines()
    assert header.split() == ["word", "patterns"]
    counts = {line.split()[0]: int(line.split()[1]) for line in lines}
    assert list(counts) == sorted(counts)
    assert counts == database().words() == xopt("list", "--tags", "--json").json
    assert all(counts[word] == len(names(word)) for word in counts)
    assert (counts["all"], counts["own"], counts["deprecated"]) == (
        len(installed_patterns()) + 3 - counts["lower"],
        3,
        1,
    )
    assert not counts.keys() & {"Cast", "Early", "EarlyPattern"}
    some = xopt("list", "--tags", "--json", "--patterns", "Cast", "--include", "own").json
    assert (some["all"], some["own"], some["extra"], some["einsum"]) == (4, 3, 2, 0)


@pytest.mark.usefixtures("bad_patterns")
def test_words_of_a_pack(xopt: Xopt) -> None:
    found = listed(xopt, "--patterns", "", "--include", "extra", "--require", "rounding")
    assert [
        name for name in found if not installed_patterns()[name].__module__.startswith("xoptim.")
    ] == ["ShiftedRelu"]


def test_help(xopt: Xopt) -> None:
    for command in ("optimize", "list"):
        text = xopt(command, "--help-all" if command == "optimize" else "--help").out
        assert all(
            re.search(rf"{option} +TAG ", text)
            for option in ("--include", "--require", "--exclude")
        )
