"""The environment variables of the pattern optimizer's document."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.seeds import snippets_002 as snippets
from tests.support import parse, run, same_results, types
from xoptim import (
    GraphBuilder,
    MatchResult,
    Node,
    OptimizationOptions,
    PatternOptimization,
    UnknownPatternError,
    XoptimError,
    optimize,
)
from xoptim.doc import demo_mlp_model
from xoptim.engine.environment import DebugSettings, read_environment
from xoptim.engine.events import Event
from xoptim.facts.errors import BudgetError

FEEDS = {"x": np.linspace(-1, 1, 30, dtype=np.float32).reshape(3, 10)}
VARIABLES = (
    "LOG_PATTERN_OPTIMIZE",
    "PATTERN",
    "DROPPATTERN",
    "DUMPPATTERNS",
    "PATTERNNOREMOVE",
    "PATTERNSTEP",
)
CHOSEN = "NeutralAdd,MatMulAdd,TransposeTranspose"
PAIRS = 12


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="module")
def not_not() -> type[PatternOptimization]:
    """A pattern that is not installed."""
    namespace: dict[str, Any] = {}
    exec(compile(snippets.NOT_NOT, __file__, "exec"), namespace)
    cls: type[PatternOptimization] = namespace["NotNotPattern"]
    return cls


def nots() -> onnx.ModelProto:
    return parse(
        "agraph (bool[n] x) => (bool[n] y, bool[n] z) { a = Not(x) b = Not(a) y = And(b, x) "
        "z = Or(a, x) }"
    )


def pairs() -> onnx.ModelProto:
    """Places at which something can be rewritten, far from each other."""
    names = [f"x{i}" for i in range(PAIRS)]
    nodes = " ".join(f"a{n} = Not({n}) b{n} = Not(a{n}) y{n} = Or(b{n}, {n})" for n in names)
    inputs, outputs = (", ".join(f"bool[n] {prefix}{n}" for n in names) for prefix in ("", "y"))
    return parse(f"agraph ({inputs}) => ({outputs}) {{ {nodes} }}")


def shown(capsys: pytest.CaptureFixture[str], **changes: Any) -> list[str]:
    """Return the output of an optimization of the demo model."""
    optimize(demo_mlp_model(), **{"patterns": CHOSEN, **changes})
    return capsys.readouterr().out.splitlines()


# ---------------------------------------------------------------- reading


def test_all_variables_together() -> None:
    found = read_environment(
        {
            "LOG_PATTERN_OPTIMIZE": "3",
            "PATTERN": "CastPattern, MatMulAdd,,",
            "MatMulAddPattern": "10",
            "MinePattern": "7",
            "DROPPATTERN": "TransposeTransposePattern,Cast ",
            "DUMPPATTERNS": "some/folder",
            "PATTERNNOREMOVE": "output_0",
            "PATTERNSTEP": "True",
        }
    )
    assert found == DebugSettings(
        verbose=3,
        patterns=("Cast", "MatMulAdd"),
        levels={"MatMulAdd": 10, "Mine": 7},
        drop=("TransposeTranspose", "Cast"),
        dump=Path("some/folder"),
        keep="output_0",
        step=True,
    )


def test_nothing_is_set() -> None:
    assert (
        read_environment({})
        == read_environment(dict.fromkeys((*VARIABLES, "CastPattern"), ""))
        == DebugSettings()
    )


def test_variables_of_others_are_left_alone() -> None:
    others = {
        "Cast": "0.1",
        "Dropout": "yes",
        "SomePattern": "*.txt",
        "Pattern": "-",
        "PATTERNS": "1",
        "pattern": "1",
    }
    assert read_environment(others) == DebugSettings()
    assert read_environment({"MyOwnPattern": "5", "HOME": "3"}) == DebugSettings(
        levels={"MyOwn": 5}
    )
    assert read_environment({"PATTERN": " , "}) == DebugSettings()


@pytest.mark.parametrize("variable", ["LOG_PATTERN_OPTIMIZE", "CastPattern"])
def test_not_a_number(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "loud")
    with pytest.raises(XoptimError, match=f"{variable}='loud' is not a number"):
        optimize(nots())


def test_the_environment_is_read_once_when_options_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = OptimizationOptions()
    monkeypatch.setenv("PATTERNSTEP", "1")
    assert not before.debug.step
    assert OptimizationOptions().debug.step
    given = DebugSettings()
    assert OptimizationOptions(debug=given).debug is given


# ---------------------------------------------------------------- verbosity


def test_log_pattern_optimize(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys) == []
    loud, rounds = shown(capsys, verbose=10), shown(capsys, verbose=1)
    for level, expected in (("10", loud), ("1", rounds), ("0", [])):
        monkeypatch.setenv("LOG_PATTERN_OPTIMIZE", level)
        assert shown(capsys) == expected
    assert set(rounds) < set(loud)
    assert any("NeutralAdd refused" in line for line in loud)
    assert any("applied MatMulAdd" in line for line in loud)


@pytest.mark.parametrize(
    "value", ["NeutralAddPattern", "NeutralAdd", " NeutralAdd ,", "NeutralAddPattern,CastPattern"]
)
def test_pattern(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATTERN", value)
    lines = shown(capsys)
    assert [re.sub(r":\d+\)", "", line).split("/")[-1] for line in lines] == [
        "neutral_element.py"
    ] * 2
    assert all(line.startswith("[xoptim] NeutralAdd refused at 'add_") for line in lines)


def test_several_patterns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATTERN", "MatMulAddPattern,NeutralAdd")
    assert [line.split()[1:3] for line in shown(capsys)] == [
        *[["NeutralAdd", "refused"]] * 2,
        *[["matched", "MatMulAdd"], ["applied", "MatMulAdd"]] * 2,
    ]


def test_variable_named_after_a_pattern(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATTERN", "MatMulAdd")
    expected = shown(capsys)
    monkeypatch.delenv("PATTERN")
    monkeypatch.setenv("MatMulAddPattern", "10")
    assert shown(capsys) == expected != []
    monkeypatch.setenv("MatMulAddPattern", "1")
    assert shown(capsys) == []


@pytest.mark.parametrize("variable", ["PATTERN", "NotNotPattern"])
def test_verbosity_of_a_pattern_that_is_not_installed(
    variable: str,
    not_not: type[PatternOptimization],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, "NotNot" if variable == "PATTERN" else "10")
    optimize(nots(), patterns=["default", not_not])
    lines = capsys.readouterr().out.splitlines()
    assert all("NotNot" in line for line in lines)
    assert any(line.startswith("[xoptim] applied NotNot") for line in lines)


# ---------------------------------------------------------------- DROPPATTERN


@pytest.mark.parametrize(
    "value", ["MatMulAddPattern", "MatMulAdd", "MatMulAddPattern,CastPattern", " Cast , MatMulAdd "]
)
def test_drop_pattern(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert types(optimize(demo_mlp_model(), patterns=CHOSEN)) == ["Gemm", "Relu", "Gemm"]
    monkeypatch.setenv("DROPPATTERN", value)
    result = optimize(demo_mlp_model(), patterns=CHOSEN)
    assert types(result) == ["MatMul", "Add", "Relu", "MatMul", "Add"]
    names = [pattern.name() for pattern in OptimizationOptions(patterns="all").selected()]
    assert "MatMulAdd" not in names
    assert ("Cast" in names) == ("Cast" not in value)


def test_drop_pattern_that_is_not_installed(
    not_not: type[PatternOptimization], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DROPPATTERN", "NotNotPattern")
    assert types(optimize(nots(), patterns=[not_not])).count("Not") == 2


@pytest.mark.parametrize("variable", ["PATTERN", "DROPPATTERN"])
@pytest.mark.parametrize(("word", "nearest"), [("MatMulAd", "MatMulAdd"), ("castPattern", "Cast")])
def test_unknown_names_are_errors(
    variable: str, word: str, nearest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, f"GeluErf,{word}")
    short = word.removesuffix("Pattern")
    with pytest.raises(
        UnknownPatternError,
        match=f"^{variable}: unknown pattern '{short}'; did you mean '{nearest}'",
    ):
        optimize(nots())
    monkeypatch.setenv(variable, "default")
    with pytest.raises(UnknownPatternError, match="unknown pattern 'default'") as error:
        optimize(nots())
    assert "did you mean 'default'" not in str(error.value), "what is suggested can be used"


# ---------------------------------------------------------------- DUMPPATTERNS


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    feeds = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value or 3 for dim in tensor.shape.dim]
        feeds[value.name] = rng.integers(0, 2, shape).astype(
            helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        )
    return feeds


def check_dump(folder: Path, names: list[str]) -> list[tuple[onnx.ModelProto, onnx.ModelProto]]:
    """Both models of each application are valid, and compute the same in onnxruntime."""
    stems = [f"{number:05d}_{name}" for number, name in enumerate(names)]
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        stem + suffix for stem in stems for suffix in (".before.onnx", ".after.onnx", ".txt")
    )
    found = []
    for stem, name in zip(stems, names, strict=True):
        before, after = (onnx.load(folder / f"{stem}.{when}.onnx") for when in ("before", "after"))
        onnx.checker.check_model(before)
        assert [o.name for o in before.graph.output] == [o.name for o in after.graph.output]
        assert {i.name for i in after.graph.input} <= {i.name for i in before.graph.input}
        feeds = feeds_of(before)
        needed = {value.name for value in after.graph.input}
        for expected, got in zip(
            run(before, feeds),
            run(after, {n: v for n, v in feeds.items() if n in needed}),
            strict=True,
        ):
            np.testing.assert_allclose(got, expected, rtol=1e-5)
        assert (folder / f"{stem}.txt").read_text().startswith(f"{name}\n\nmatched:\n")
        found.append((before, after))
    return found


def test_dump_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "new" / "dump"
    monkeypatch.setenv("DUMPPATTERNS", str(folder))
    optimize(demo_mlp_model(), patterns=CHOSEN)
    for before, after in check_dump(folder, ["MatMulAdd"] * 2):
        assert types(before) == ["MatMul", "Add"]
        assert types(after) == ["Gemm"]
        assert len(before.graph.initializer) == 2, "constants are part of the models"
    text = (folder / "00000_MatMulAdd.txt").read_text()
    assert "linear.product = MatMul(x, layers.0.weight.t)" in text
    assert "linear = Gemm(x, layers.0.weight.t, layers.0.bias)" in text
    optimize(demo_mlp_model(), patterns=CHOSEN)
    check_dump(folder, ["MatMulAdd"] * 4)


def test_dump_of_a_rewrite_that_keeps_a_node(
    tmp_path: Path, not_not: type[PatternOptimization], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUMPPATTERNS", str(tmp_path))
    result = optimize(nots(), patterns=[not_not], strict=True)
    assert types(result) == ["Not", "And", "Or"]
    ((before, after),) = check_dump(tmp_path, ["NotNot"])
    assert types(before) == ["Not", "Not"], "all that was matched"
    assert types(after) == ["Not", "Identity"]


def test_dump_puts_large_constants_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUMPPATTERNS", str(tmp_path))
    model = parse("agraph (float[2,600] x) => (float[2,600] y) { t = MatMul(x, w) y = Add(t, b) }")
    for name, shape in (("w", (600, 600)), ("b", (600,))):
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    optimize(model, patterns="MatMulAdd")
    ((before, _),) = check_dump(tmp_path, ["MatMulAdd"])
    assert [value.name for value in before.graph.input] == ["x", "w"]
    assert [tensor.name for tensor in before.graph.initializer] == ["b"]


def test_dump_into_what_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("here")
    monkeypatch.setenv("DUMPPATTERNS", str(tmp_path / "file"))
    with pytest.raises(XoptimError, match="DUMPPATTERNS: cannot write into"):
        optimize(demo_mlp_model(), patterns=CHOSEN)
    assert types(optimize(nots(), patterns=CHOSEN)).count("Not") == 2, "nothing to write, no error"


# ---------------------------------------------------------------- PATTERNNOREMOVE


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("linear.product", "pattern MatMulAdd"),
        ("output.product", "pattern MatMulAdd"),
        ("layers.0.weight", "step remove_initializers"),
        ("same", "step remove_identity"),
        ("idle", "step remove_unused"),
        ("folded", "step remove_initializers"),
        ("twin", "step merge_nodes"),
        ("copy", "step merge_initializers"),
    ],
)
def test_pattern_no_remove(name: str, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = demo_mlp_model()
    model.graph.initializer.extend(
        numpy_helper.from_array(np.array([4, 5], np.float32), name) for name in ("one", "copy")
    )
    model.graph.node.extend(
        [
            helper.make_node("Identity", ["output"], ["same"]),
            helper.make_node("Sub", ["same", "output"], ["idle"]),
            helper.make_node("Neg", ["one"], ["folded"]),
            helper.make_node("Neg", ["folded"], ["deep"]),
            helper.make_node("Sub", ["output", "deep"], ["y1"]),
            helper.make_node("Sub", ["output", "one"], ["y2"]),
            helper.make_node("Sub", ["output", "copy"], ["y3"]),
            helper.make_node("Abs", ["y1"], ["first"]),
            helper.make_node("Abs", ["y1"], ["twin"]),
            helper.make_node("Sum", ["first", "twin", "y2", "y3", "same"], ["z"]),
        ]
    )
    model.graph.output.append(helper.make_tensor_value_info("z", 1, [3, 2]))
    onnx.checker.check_model(model)
    monkeypatch.setenv("PATTERNNOREMOVE", name)
    builder = GraphBuilder(model, optimization_options=OptimizationOptions(patterns=CHOSEN))
    with pytest.raises(BudgetError, match=f"^PATTERNNOREMOVE: {who} removes result '{name}'$"):
        builder.optimize()
    same_results(model, builder.to_onnx(optimize=False), FEEDS)


@pytest.mark.parametrize("name", ["output", "x", "relu", "layers.0.weight.t", "no such result"])
def test_results_that_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = optimize(demo_mlp_model(), patterns=CHOSEN)
    monkeypatch.setenv("PATTERNNOREMOVE", name)
    assert optimize(demo_mlp_model(), patterns=CHOSEN) == expected


def test_identities_that_patterns_leave(
    not_not: type[PatternOptimization], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATTERNNOREMOVE", "b")
    with pytest.raises(BudgetError, match="PATTERNNOREMOVE: cleaning removes result 'b'"):
        optimize(nots(), patterns=[not_not])
    assert types(optimize(nots(), patterns=[not_not], remove_identity=False)).count("Identity") == 1


# ---------------------------------------------------------------- PATTERNSTEP


def applied_in_rounds(
    not_not: type[PatternOptimization], **changes: Any
) -> tuple[onnx.ModelProto, list[int]]:
    events: list[Event] = []
    result = optimize(pairs(), patterns=[not_not], on_event=events.append, strict=True, **changes)
    texts = [event.text for event in events if event.kind == "round"]
    return result, [int(text.split(", ")[1].split()[0]) for text in texts]


@pytest.mark.parametrize("value", ["1", "True", "true"])
@pytest.mark.parametrize("strategy", ["priority", "largest"])
def test_pattern_step(
    value: str, strategy: str, not_not: type[PatternOptimization], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, rounds = applied_in_rounds(not_not)
    assert rounds[0] == PAIRS
    monkeypatch.setenv("PATTERNSTEP", value)
    result, rounds = applied_in_rounds(not_not, strategy=strategy)
    assert rounds[:PAIRS] == [1] * PAIRS, "one rewrite a round"
    assert not any(rounds[PAIRS:])
    assert result == expected
    assert types(result) == ["Or"] * PAIRS


@pytest.mark.parametrize("value", ["0", "", "False", "no", "yes"])
def test_no_step(
    value: str, not_not: type[PatternOptimization], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATTERNSTEP", value)
    assert applied_in_rounds(not_not)[1][0] == PAIRS


def test_steps_may_be_many(monkeypatch: pytest.MonkeyPatch) -> None:
    class CountdownPattern(PatternOptimization):
        """Elu(x, alpha) → Elu(x, alpha - 1), which is wrong and takes several rewrites of each
        node.
        """

        anchors = ("Elu",)

        def match(self, g: Any, node: Node, matched: list[MatchResult]) -> MatchResult | None:
            return (
                MatchResult(self, [node], self.apply)
                if node.get_attribute("alpha") > 1
                else self.none(node)
            )

        def apply(self, g: Any, *nodes: Node) -> list[Node]:
            (node,) = nodes
            return [
                g.make_node("Elu", node.input, node.output, alpha=node.get_attribute("alpha") - 1)
            ]

    nodes = " ".join(f"y{i} = Elu <alpha = 5.0> (x{i})" for i in range(60))
    inputs, outputs = (", ".join(f"float[n] {prefix}{i}" for i in range(60)) for prefix in "xy")
    model = parse(f"agraph ({inputs}) => ({outputs}) {{ {nodes} }}")
    monkeypatch.setenv("PATTERNSTEP", "1")
    result = optimize(model, patterns=CountdownPattern, strict=True)
    assert {helper.get_node_attr_value(node, "alpha") for node in result.graph.node} == {1.0}


def test_step_and_limit_together(
    not_not: type[PatternOptimization], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATTERNSTEP", "1")
    result, rounds = applied_in_rounds(not_not, max_iter=3)
    assert sum(rounds) < PAIRS
    assert run(result, feeds_of(pairs()))[0].dtype == bool
