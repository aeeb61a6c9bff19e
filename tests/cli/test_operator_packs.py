"""Custom operators of an installed pack, in the commands."""

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import onnx
import pytest

from tests.cli.command import Xopt, write
from tests.cli.commands.test_check import commit, needs_git
from tests.support import values_in
from xoptim.catalogue import discovery
from xoptim.cli.main import xopt as group

pytestmark = pytest.mark.usefixtures("own_operators")
TWICE = (
    "agraph (float[n,4] x) => (float[n,4] y) { t = acme.Twice(x) u = Neg(t) v = Neg(u) y = Neg(v) }"
)
OTHERS = {"place", "list", "batch", "mcp", "new-pattern"}


@pytest.fixture(autouse=True)
def _pack(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack that describes operators and has no pattern."""
    entry = EntryPoint("acme", "tests.catalogue.operator_facts:OPERATORS", "xoptim.operators")

    def installed(group: str) -> list[EntryPoint]:
        return [entry] if group == entry.group else [*entry_points(group=group)]

    monkeypatch.setattr(discovery, "entry_points", installed)
    write(TWICE, domains={"acme": 1})


def test_every_command_that_reads_facts_has_the_option() -> None:
    has = {
        name
        for name, command in group.commands.items()
        if any("--include" in param.opts for param in command.params)
    }
    assert group.commands.keys() - OTHERS <= has


def test_a_model_is_optimized(xopt: Xopt) -> None:
    assert xopt("model.onnx", "-q").code == 3
    assert xopt("model.onnx", "-q", "--include", "acme").code == 0
    assert [node.op_type for node in onnx.load("model.opt.onnx").graph.node] == ["Twice", "Neg"]


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    "words",
    [
        ("verify", "model.onnx", "model.onnx"),
        ("diff", "model.onnx", "model.onnx", "--values"),
        ("apply", "model.onnx", "NegNeg", "--at", "u", "-o", "out.onnx"),
        ("tune", "model.onnx", "--budget", "0.1"),
        ("bisect", "model.onnx"),
        ("bench", "model.onnx", "--seconds", "0.02"),
        ("doctor", "model.onnx"),
    ],
)
def test_commands_that_run_models(xopt: Xopt, words: tuple[str, ...]) -> None:
    assert xopt(*words, "--include", "acme").code == 0


def test_the_summary_says_whose_implementation_ran(xopt: Xopt) -> None:
    text = "              acme::Twice: ran by the reference implementation of a pack"
    assert text in xopt("model.onnx", "--include", "acme").out.splitlines()


@needs_git
def test_a_comparison_with_a_revision(xopt: Xopt) -> None:
    commit()
    words = "check", "model.onnx", "--against", "main"
    assert "not verified" in xopt(*words).out
    outcome = xopt(*words, "--include", "acme")
    assert (outcome.code, outcome.out[:2]) == (0, "ok")
    error = xopt(*words, "--include", "einsum").error
    assert values_in(error)[:2] == ["--include", "--against"]


def test_shapes_and_costs(xopt: Xopt) -> None:
    assert "\nunknown " in xopt("stats", "model.onnx").out
    assert "\nunknown " not in xopt("stats", "model.onnx", "--include", "acme").out
    assert xopt("extract", "model.onnx", "-o", "all.onnx", "--include", "acme").code == 0
    values = {value.name for value in onnx.load("all.onnx").graph.value_info}
    assert values == {"t", "u", "v"}


def test_settings_name_a_pack_once_for_all_commands(xopt: Xopt) -> None:
    Path("xoptim.toml").write_text("include = ['acme', 'einsum']\n")
    assert xopt("model.onnx", "-q").code == 0
    assert xopt("verify", "model.onnx", "model.opt.onnx").code == 0


def test_a_pack_has_no_effect_on_the_installation(xopt: Xopt) -> None:
    assert values_in(xopt("doctor", "--include", "acme").error) == ["--include"]


def test_a_word_that_is_no_pack_of_operators(xopt: Xopt) -> None:
    assert values_in(xopt("stats", "model.onnx", "--include", "acne").error) == ["acne", "acme"]
    assert "'acne'" in xopt("model.onnx", "--include", "acne").error


def test_the_patterns_of_a_definition_are_listed_and_described(xopt: Xopt) -> None:
    names = [line.split()[0] for line in xopt("list", "--include", "acme").out.splitlines() if line]
    assert {"FuseAcmeTwice", "LowerAcmeTwice"} <= {*names}
    text = xopt("list", "FuseAcmeTwice", "--include", "acme").out
    assert "Add(x, x) → acme.Twice(x)" in text
    assert "--include " in xopt("list", "FuseAcmeTwice", "--include", "casts").error


def test_a_definition_is_written(xopt: Xopt) -> None:
    words = ("--include", "acme", "--include", "LowerAcmeTwice")
    assert xopt("model.onnx", "-q", *words).code == 0
    assert [node.op_type for node in onnx.load("model.opt.onnx").graph.node] == ["Add", "Neg"]
