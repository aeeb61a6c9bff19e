"""The document of the pattern optimizer: its snippets run as they stand and do what it says."""

import inspect
import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.seeds import snippets_002 as snippets
from tests.support import node_of, parse, run, same_results, types
from xoptim import (
    EasyPatternOptimization,
    GraphBuilder,
    Match,
    MatchResult,
    Node,
    OptimizationOptions,
    PatternOptimization,
    optimize,
)
from xoptim.doc import demo_mlp_model, pretty_onnx
from xoptim.engine.events import Event
from xoptim.match import Refusal
from xoptim.match.refusal import listening

FEEDS = {"x": np.linspace(-1, 1, 30, dtype=np.float32).reshape(3, 10)}
NOTS = "agraph (bool[n] x) => (bool[n] y) { a = Not(x) b = Not(a) y = Not(b) }"
ROUND = re.compile(r"\[xoptim\] mlp round (\d+): \d+ matches, (\d+) applied, (\d+) nodes")
Play = Callable[..., dict[str, Any]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Run a snippet as a file of its own in an empty folder; gives its variables."""
    monkeypatch.chdir(tmp_path)

    def play(text: str, **variables: Any) -> dict[str, Any]:
        path = tmp_path / f"snippet_{len(list(tmp_path.glob('*.py')))}.py"
        path.write_text(text)
        namespace = {"__name__": path.stem, **variables}
        exec(compile(text, str(path), "exec"), namespace)
        return namespace

    return play


def optimized(namespace: dict[str, Any]) -> onnx.ModelProto:
    """The result of a snippet, which computes what the demo model does."""
    model = namespace["opt_onx"]
    assert isinstance(model, onnx.ModelProto)
    same_results(demo_mlp_model(), model, FEEDS)
    assert namespace["onx"] == demo_mlp_model(), "the model given is not modified"
    return model


# ---------------------------------------------------------------- simple API


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")  # torch's exporter warns about its own use of torch
def test_export(play: Play, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    model = play(snippets.EXPORT)["onx"]
    assert onnx.load(tmp_path / "temp_doc_mlp.onnx") == model
    assert [value.name for value in model.graph.input] == ["x"]
    assert pretty_onnx(model) in capsys.readouterr().out
    assert not any(
        node.metadata_props and "xoptim.pattern" in str(node.metadata_props)
        for node in model.graph.node
    )
    same_results(model, GraphBuilder(model).to_onnx(optimize=True), FEEDS)


def test_draw(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play(snippets.DRAW)
    text = capsys.readouterr().out
    assert text.startswith("DOT-SECTION digraph {")
    assert [
        text.count(f'label="{op_type}') for op_type in ("Transpose", "MatMul", "Add", "Relu")
    ] == [2, 2, 2, 1]


def test_optimize(play: Play, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace = play(snippets.OPTIMIZE)
    model = optimized(namespace)
    text = capsys.readouterr().out
    assert text == pretty_onnx(model) + "\n"
    assert onnx.load(tmp_path / "temp_doc_mlp_opt.onnx") == model
    assert len(namespace["onx"].graph.node) == 7
    assert types(model) == ["Gemm", "Relu", "Gemm"], "the model got smaller"
    assert "Transpose(" not in text
    play(snippets.DRAW_OPTIMIZED)
    text = capsys.readouterr().out
    assert text.startswith("DOT-SECTION digraph {")
    assert text.count('label="Gemm') == 2


def test_verbosity_of_1_prints_a_line_a_round(
    play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = play(snippets.VERBOSE)
    lines = capsys.readouterr().out.splitlines()
    rounds = [ROUND.fullmatch(line) for line in lines]
    assert [m and int(m[1]) for m in rounds] == list(range(1, len(lines) + 1))
    assert [m and int(m[3]) for m in rounds][-1] == len(optimized(namespace).graph.node)
    assert sum(int(m[2]) for m in rounds if m) == sum(namespace["gr"].report().applied.values()) > 0
    optimize(demo_mlp_model())
    assert capsys.readouterr().out == "", "others are still quiet"


def test_verbosity_of_11_tells_why_matches_are_refused(
    play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = play(snippets.MORE_VERBOSE)
    lines = capsys.readouterr().out.splitlines()
    assert types(optimized(namespace)) == ["Gemm", "Relu", "Gemm"]
    assert any(ROUND.fullmatch(line) for line in lines)
    applied = namespace["gr"].report().applied
    for word in ("matched", "applied"):
        found = [line.split()[2] for line in lines if line.startswith(f"[xoptim] {word} ")]
        assert {name: found.count(name) for name in found} == applied
    refusals = [line for line in lines if " refused " in line]
    assert refusals
    for line in refusals:
        match = re.fullmatch(r"\[xoptim\] \w+ refused at '\w+': .+ \((.+\.py):(\d+)\)", line)
        assert match, line
        assert linecache.getline(match[1], int(match[2])).strip(), "the condition is in that line"


def test_selected_patterns(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    namespace = play(snippets.SELECT)
    optimized(namespace)
    assert all(ROUND.fullmatch(line) for line in capsys.readouterr().out.splitlines())
    assert namespace["gr"].report().applied.keys() <= {"TransposeTranspose", "TransposeMatMul"}
    names = [pattern.name() for pattern in namespace["gr"].optimization_options.selected()]
    assert sorted(names) == ["TransposeMatMul", "TransposeTranspose"]


def test_selected_lists(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    namespace = play(snippets.SELECT_LISTS)
    assert len(optimized(namespace).graph.node) <= 3
    assert all(ROUND.fullmatch(line) for line in capsys.readouterr().out.splitlines())
    standard = {p.name() for p in OptimizationOptions(patterns="default").selected()}
    both = {p.name() for p in namespace["gr"].optimization_options.selected()}
    assert standard <= both
    for pattern in OptimizationOptions(patterns="default").selected():
        assert "com.microsoft" not in pattern.produces, "default makes standard operators only"


# ---------------------------------------------------------------- statistics


def test_statistics(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    namespace = play(snippets.STATISTICS)
    assert "pattern" in capsys.readouterr().out
    rows, applied = namespace["stat"], namespace["gr"].report().applied
    columns = [
        "pattern",
        "iteration",
        "time_in",
        "instances",
        "match_index",
        "tried",
        "added",
        "removed",
        "exit_point",
    ]
    assert all(list(row) == columns for row in rows)
    assert all(0 <= row["time_in"] < 60 for row in rows)
    for name, count in applied.items():
        assert [row["instances"] for row in rows if row["pattern"] == f"apply_{name}"] == [
            1
        ] * count
        assert sum(row["instances"] for row in rows if row["pattern"] == f"match_{name}") >= count
    indices = [row["match_index"] for row in rows if row["pattern"].startswith("apply_")]
    assert indices == list(range(1, sum(applied.values()) + 1))


def test_aggregated_statistics(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    namespace = play(snippets.AGGREGATE)
    assert "apply_" in capsys.readouterr().out
    table = namespace["df"].groupby("pattern").agg(namespace["aggs"])
    assert list(table.columns) == [
        "time_in",
        "added",
        "removed",
        "iteration",
        "match_index",
        "instances",
    ]
    assert table.loc["constant_folding", "removed"] == 2, (
        "both weights are transposed ahead of time"
    )
    applied = namespace["gr"].report().applied
    assert {name: table.loc[f"apply_{name}", "instances"] for name in applied} == applied
    assert table["match_index"].max() == sum(applied.values())
    rounds = [row for row in namespace["stat"] if row["pattern"] == "iteration"]
    assert table.loc["iteration", "iteration"] == len(rounds)


def test_statistics_have_all_columns_even_when_nothing_matches(play: Play) -> None:
    text = snippets.AGGREGATE.replace('patterns="default"', "patterns=None")
    namespace = play(text)
    table = namespace["df"].groupby("pattern").agg(namespace["aggs"])
    assert table["instances"].sum() == 0


# ---------------------------------------------------------------- patterns by hand


@pytest.mark.parametrize(
    ("header", "ours"),
    [
        ("def match(self, g, node, matched): ...", PatternOptimization.match),
        ("def none(self, node=None, lineno=None, msg=None): ...", PatternOptimization.none),
        ("def apply(self, g, *nodes): ...", PatternOptimization.apply),
        ("def optimize(self, max_iter=-1, remove_identity=True): ...", GraphBuilder.optimize),
    ],
)
def test_signatures(header: str, ours: Callable[..., Any]) -> None:
    namespace: dict[str, Any] = {}
    exec(header, namespace)
    theirs = next(value for value in namespace.values() if inspect.isfunction(value))
    for a, b in zip(
        *(inspect.signature(f).parameters.values() for f in (theirs, ours)), strict=True
    ):
        assert (a.name, a.kind, a.default) == (b.name, b.kind, b.default)


@pytest.mark.parametrize("snippet", [snippets.NOT_NOT, snippets.NOT_NOT_EASY])
def test_both_worked_examples(play: Play, snippet: str) -> None:
    namespace = play(snippet)
    cls = next(value for name, value in namespace.items() if name.startswith("NotNot"))
    model = parse(
        "agraph (bool[n] x) => (bool[n] y) { a = Not(x) b = Not(a) c = Not(b) d = Not(c) "
        "y = And(d, x) }"
    )
    result = optimize(model, patterns=[cls()], strict=True)
    assert types(result) == ["And"]
    same_results(model, result, {"x": np.array([True, False])})
    single = parse("agraph (bool[n] x) => (bool[n] y) { a = Not(x) y = And(a, x) }")
    assert types(optimize(single, patterns=[cls], strict=True)) == ["Not", "And"]


def test_worked_example_keeps_what_is_read_elsewhere(play: Play) -> None:
    cls = play(snippets.NOT_NOT)["NotNotPattern"]
    model = parse(
        "agraph (bool[n] x) => (bool[n] y, bool[n] z) { a = Not(x) b = Not(a) y = And(a, x) "
        "z = Or(b, x) }"
    )
    events: list[Event] = []
    result = optimize(model, patterns=[cls], on_event=events.append, strict=True)
    assert types(result) == ["Not", "And", "Or"]
    same_results(model, result, {"x": np.array([True, False])})
    (applied,) = [event for event in events if event.kind == "applied"]
    (identity,) = applied.added
    assert identity.name.startswith("NotNotPattern--"), "the pattern named the node"
    assert [node.output for node in applied.removed] == [("b",)]
    easy = play(snippets.NOT_NOT_EASY)["NotNotEasyPattern"]
    assert types(optimize(model, patterns=[easy], strict=True)) == ["Not", "Not", "And", "Or"]


def test_refusals_of_the_worked_example(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    namespace = play(snippets.NOT_NOT)
    model = parse("agraph (bool[n] x) => (bool[n] y) { a = Not(x) y = Xor(a, x) }")
    optimize(model, patterns=[namespace["NotNotPattern"]], verbose=10)
    path = namespace["NotNotPattern"].match.__code__.co_filename
    lines = [
        number
        for number, line in enumerate(Path(path).read_text().splitlines(), 1)
        if "self.none(" in line
    ]
    told = [line for line in capsys.readouterr().out.splitlines() if "refused" in line]
    assert [line.endswith(f"({path}:{lines[1]})") for line in told] == [True, False]
    assert told[1].endswith(f"({path}:{lines[0]})"), "without an argument the line is found"


def test_easy_transpose_transpose(play: Play) -> None:
    cls = play(snippets.TRANSPOSE_TRANSPOSE, EasyPatternOptimization=EasyPatternOptimization)[
        "TransposeTransposePattern"
    ]
    assert cls().anchor_keys() == {("", "Transpose")}, "the last node is the anchor"
    text = (
        "agraph (float[a,b,c] x) => (float[a,b,c] y) { t = Transpose%s(x) u = Transpose%s(t) "
        "y = Relu(u) }"
    )
    for first, second, expected in (
        ("", "", ["Relu"]),
        ("<perm = [2, 1, 0]>", "", ["Relu"]),
        ("<perm = [1, 2, 0]>", "<perm = [2, 0, 1]>", ["Transpose", "Transpose", "Relu"]),
        ("<perm = [0, 2, 1]>", "<perm = [2, 1, 0]>", ["Transpose", "Transpose", "Relu"]),
    ):
        model = parse(text % (first, second))
        result = optimize(model, patterns=[cls], strict=True)
        assert types(result) == expected
        if "Transpose" not in expected:
            same_results(model, result, {"x": np.ones((2, 3, 4), np.float32)})


# ---------------------------------------------------------------- match, apply, none


class ClassMethodPattern(PatternOptimization):
    """Sub(Neg(a), b) → Neg(Add(a, b)), with what the document allows: a class method, ``None``
    among the nodes, a kept node.
    """

    def match(self, g: Any, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        if node.op_type != "Sub":
            return None
        before = g.node_before(node.input[0])
        if before is None or before.op_type != "Neg":
            return None
        assert matched == []
        return MatchResult(self, [None, before, node], self.apply)

    @classmethod
    def apply(cls, g: Any, *nodes: Any) -> list[Node]:
        nothing, negation, node = nodes
        assert nothing is None
        total = g.make_node("Add", [negation.input[0], node.input[1]])
        return [negation, total, g.make_node("Neg", total.output, node.output)]


@pytest.mark.parametrize("use", ["y = Sub(t, b)", "k = Exp(t) y = Sub(t, b) z = Mul(k, y)"])
def test_apply_as_the_document_has_it(use: str) -> None:
    outputs = "float[n] y" + (", float[n] z" if "z" in use else "")
    model = parse(f"agraph (float[n] a, float[n] b) => ({outputs}) {{ t = Neg(a) {use} }}")
    result = optimize(model, patterns=[ClassMethodPattern], strict=True)
    same_results(
        model, result, {"a": np.array([1, 2], np.float32), "b": np.array([3, 5], np.float32)}
    )
    assert types(result).count("Add") == 1
    assert types(result).count("Neg") == 1 + use.count("Exp"), (
        "a node that is given back stays if anything reads it"
    )


def test_none_costs_nothing_when_nobody_listens() -> None:
    def reason() -> str:
        made.append(1)
        return "because"

    made: list[int] = []
    node = node_of(GraphBuilder(parse(NOTS)).graph, "Not")
    pattern = ClassMethodPattern()
    assert pattern.none(node, 7, reason) is None
    assert made == []
    heard: list[Refusal] = []
    with listening(heard.append):
        assert pattern.none(node, 7, reason) is None
        assert pattern.none(node, 8, "text") is None
    assert [(r.pattern, r.node, r.line, r.reason, r.file) for r in heard] == [
        ("ClassMethod", node, 7, "because", __file__),
        ("ClassMethod", node, 8, "text", __file__),
    ]


# ---------------------------------------------------------------- the algorithm


def test_overlapping_matches_are_not_applied_in_the_same_round(play: Play) -> None:
    cls = play(snippets.NOT_NOT)["NotNotPattern"]
    events: list[Event] = []
    model = parse(NOTS)
    result = optimize(
        model, patterns=[cls], on_event=events.append, strict=True, remove_identity=False
    )
    same_results(model, result, {"x": np.array([True, False])})
    assert next(event.text for event in events if event.kind == "round") == "1 matches, 1 applied"


def test_a_round_may_apply_several_rewrites(play: Play) -> None:
    cls = play(snippets.NOT_NOT_EASY)["NotNotEasyPattern"]
    nodes = " ".join(f"a{i} = Not(x{i}) b{i} = Not(a{i}) y{i} = Not(b{i})" for i in range(5))
    inputs, outputs = (", ".join(f"bool[n] {v}{i}" for i in range(5)) for v in "xy")
    events: list[Event] = []
    optimize(
        parse(f"agraph ({inputs}) => ({outputs}) {{ {nodes} }}"),
        patterns=[cls],
        on_event=events.append,
    )
    assert next(event.text for event in events if event.kind == "round") == "5 matches, 5 applied"


def test_one_result_of_the_pattern_is_one_result_of_the_graph() -> None:
    class SwishPattern(EasyPatternOptimization):
        """Mul(x, Sigmoid(x)) → Selu(x), which is wrong and easy to see."""

        def match_pattern(self, g: Any, x: Any) -> Any:
            return g.op.Mul(x, g.op.Sigmoid(x))

        def apply_pattern(self, g: Any, x: str) -> Any:
            return g.op.Selu(x)

    text = "agraph (float[n] x, float[n] z) => (float[n] y) {{ s = Sigmoid(x) y = Mul({}) }}"
    for operands, expected in (
        ("x, s", ["Selu"]),
        ("s, x", ["Selu"]),
        ("z, s", ["Sigmoid", "Mul"]),
        ("s, s", ["Sigmoid", "Mul"]),
    ):
        assert (
            types(optimize(parse(text.format(operands)), patterns=[SwishPattern], strict=True))
            == expected
        )


@pytest.mark.parametrize("hook", ["validate_mapping", "validate_attribute_mapping"])
def test_hooks_may_refuse(play: Play, hook: str) -> None:
    base = play(snippets.NOT_NOT_EASY)["NotNotEasyPattern"]
    seen: list[tuple[str, list[str]]] = []

    def refuse(self: Any, g: Any, m: Match) -> bool | None:
        seen.append((m.x, [node.op_type for node in m.nodes]))
        return bool(self.none(msg="no"))

    picky = type("PickyPattern", (base,), {hook: refuse})
    assert types(optimize(parse(NOTS), patterns=[picky], strict=True)) == ["Not"] * 3
    assert set(map(str, seen)) == {"('x', ['Not', 'Not'])", "('a', ['Not', 'Not'])"}


def test_shapes_may_come_with_the_model() -> None:
    header = "agraph (float[] x, float[] w, float[4] b) => (float[n,4] y)"
    nodes = "{ x1 = Relu(x) w1 = Relu(w) t = MatMul(x1, w1) y = Add(t, b) }"
    unknown = parse(header + nodes)
    assert not GraphBuilder(unknown).has_shape("x1")
    assert "Gemm" not in types(GraphBuilder(unknown).to_onnx(optimize=True)), (
        "what is not known for sure is not rewritten"
    )
    known = parse(f"{header} <float[n,3] x1, float[3,4] w1, float[n,4] t> {nodes}")
    feeds = {
        "x": np.ones((2, 3), np.float32),
        "w": np.ones((3, 4), np.float32),
        "b": np.arange(4, dtype=np.float32),
    }
    for infer in (True, False):
        builder = GraphBuilder(known, infer_shapes_options=infer)
        assert [str(dim) for dim in builder.get_shape("x1")] == ["n", "3"]
        result = builder.to_onnx(optimize=True)
        assert types(result) == ["Relu", "Relu", "Gemm"]
        np.testing.assert_allclose(run(result, feeds)[0], run(known, feeds)[0])
