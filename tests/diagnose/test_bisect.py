# mypy: disable-error-code="no-any-return"
"""The rewrite that changes a result, a small model that shows it, and the same optimization without
it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.properties.strategy import random_model
from tests.share import is_whole
from tests.support import in_parts, parse, types
from xoptim import EasyPatternOptimization, OptimizationOptions, optimize
from xoptim.diagnose.bisect import Bisection, Optimized
from xoptim.engine.environment import DebugSettings
from xoptim.graph.sources import Source
from xoptim.graph.tensors import Tensor
from xoptim.match import PatternBuilder, PatternRewriter, Symbol
from xoptim.optimizing.suspect import Suspect
from xoptim.passes.fold import Folder
from xoptim.verification import VerificationOptions, run_reference, verify_models

pytestmark = pytest.mark.slow

CHAIN = (
    "agraph (float[N,3] x) => (float[N,3] y) { a = Neg(x) b = Floor(a) c = Relu(b) d = Neg(c) "
    "e = Floor(d) y = Exp(e) }"
)
TINY_BERT = Path("examples/models/tiny_bert.onnx")


class WrongFloorPattern(EasyPatternOptimization):
    """Floor(Neg(x)) → Floor(x) * 1.5"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Floor(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Mul(g.op.Floor(x), 1.5)


def right_for(count: int) -> type[EasyPatternOptimization]:
    """A pattern that is right for just so many rows."""

    class RightForPattern(EasyPatternOptimization):
        """Relu(x) → (x + |x|) / 2 for so many rows, something else for others"""

        exactness = "rounding"

        def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
            return g.op.Relu(x)

        def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
            positive = g.op.Mul(g.op.Add(x, g.op.Abs(x)), 0.5)
            return g.op.Where(
                g.op.Equal(g.op.Shape(x, end=1), np.array([count])), positive, g.op.Neg(positive)
            )

    return RightForPattern


def suspect(model: onnx.ModelProto | Path, *patterns: Any, **options: Any) -> Suspect:
    checks = VerificationOptions(assignments=options.pop("assignments", 2))
    return Suspect(model, OptimizationOptions(patterns=[*patterns], **options), checks)


def test_nothing_to_blame() -> None:
    assert suspect(parse(CHAIN), "default").find_culprit() is None


def test_a_wrong_rewrite_is_found_by_itself() -> None:
    culprit = suspect(parse(CHAIN), "default", WrongFloorPattern).find_culprit()
    assert culprit is not None
    assert (culprit.step, culprit.name) == ("pattern", "WrongFloor")
    assert culprit.number >= 1
    assert "pattern WrongFloor " in str(culprit)
    assert culprit.to_json()["name"] == "WrongFloor"


def rows_of_the_first_run(model: onnx.ModelProto) -> int:
    feeds = run_reference(model, VerificationOptions()).runs[0].feeds
    return int(np.asarray(feeds["x"]).shape[0])


def test_what_is_right_on_the_recorded_run_is_bisected() -> None:
    model = parse(
        "agraph (float[N,3] x) => (float[N,3] y) { "
        + " ".join(
            f"t{i + 1} ="
            f" {'Relu' if i == 11 else 'Neg' if i % 2 else 'Exp'}({f't{i}' if i else 'x'})"
            for i in range(16)
        )
        + " y = Sin(t16) }"
    )
    wrong = right_for(rows_of_the_first_run(model))
    found = suspect(model, "default", wrong, merge=False)
    culprit = found.find_culprit()
    assert culprit is not None
    assert (culprit.step, culprit.name) == ("pattern", "RightFor")
    assert "different" not in culprit.evidence
    assert culprit.avoided_by(found.options).drop == ("RightFor",)


@in_parts("seed", 3 if is_whole("xoptim/diagnose") else 1)
def test_the_number_of_runs_grows_slowly(seed: int) -> None:
    """Many right rewrites, up to hundreds, and a wrong one among them."""
    count = 40 + 70 * seed
    body = [f"n{i} = Neg(t{i}) m{i} = Neg(n{i}) t{i + 1} = Sin(m{i})" for i in range(count)]
    body[17 + seed] = (
        f"n{17 + seed} = Neg(t{17 + seed}) m{17 + seed} = Neg(n{17 + seed}) "
        f"t{18 + seed} = Relu(m{17 + seed})"
    )
    model = parse(
        f"agraph (float[N,3] t0) => (float[N,3] y) {{ {' '.join(body)} y = Identity(t{count}) }}"
    )
    rows = int(np.asarray(run_reference(model, VerificationOptions()).runs[0].feeds["t0"]).shape[0])
    culprit = suspect(model, "default", right_for(rows)).find_culprit()
    assert culprit is not None
    assert culprit.name == "RightFor"
    assert culprit.runs <= 4 + np.log2(count)


def plus_one(tensor: Tensor) -> Tensor:
    return Tensor.from_array(tensor.numpy() + 1)


def test_folding_can_be_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Folder._add
    monkeypatch.setattr(
        Folder, "_add", lambda self, name, value, *rest: add(self, name, plus_one(value), *rest)
    )
    model = parse(
        "agraph (float[N,3] x) => (float[N,3] y) <float[3] k = {1, 2, 3}> { e = Exp(k) "
        "y = Mul(x, e) }"
    )
    found = suspect(model, "default")
    culprit = found.find_culprit()
    assert culprit is not None
    assert culprit.step == "constant_folding"
    without = culprit.avoided_by(found.options)
    assert not without.constant_folding
    assert verify_models(model, optimize(model, without)).ok


def large_model(seed: int) -> onnx.ModelProto:
    """A random graph with one place at which the wrong pattern matches."""
    model = random_model(seed)
    output = next(
        value
        for value in model.graph.output
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    )
    made = parse("agraph (float[N] x) => (float[N] q) { p = Neg(x) q = Floor(p) }").graph.node
    made[0].input[0], output.name, made[1].output[0] = output.name, "floor", "floor"
    model.graph.node.extend(made)
    return model


@pytest.mark.parametrize("seed", [7, 20, 38])
def test_a_minimal_model_has_few_nodes_and_shows_it(seed: int) -> None:
    model = large_model(seed)
    found = suspect(model, "default", WrongFloorPattern)
    culprit = found.find_culprit()
    assert culprit is not None
    assert culprit.name == "WrongFloor"
    small = found.minimal_model(culprit)
    assert small is not None
    assert types(small) == ["Neg", "Floor"]
    assert verify_models(small, optimize(small, patterns=[WrongFloorPattern])).status == "different"


def test_a_fault_that_needs_its_surroundings_keeps_them() -> None:
    class DeepFloorPattern(WrongFloorPattern):
        """Floor(Neg(x)) → Floor(x) * 1.5, wrong only where three operators lead to it"""

        def validate_mapping(self, g: Any, m: Any) -> bool | None:
            name = m.x
            for op_type in ("Exp", "Sin", "Cos"):
                node = g.node_before(name)
                if node is None or node.op_type != op_type:
                    return None
                name = node.input[0]
            return True

    text = """agraph (float[N,3] x) => (float[N,3] y)
        { r = Relu(x) a = Cos(r) b = Sin(a) c = Exp(b) d = Neg(c) e = Floor(d) y = Tanh(e) }"""
    found = suspect(parse(text), DeepFloorPattern)
    culprit = found.find_culprit()
    assert culprit is not None
    small = found.minimal_model(culprit)
    assert small is not None
    assert types(small) == ["Cos", "Sin", "Exp", "Neg", "Floor"]


def test_the_same_first_rewrites_are_made_whatever_their_number() -> None:
    made: list[str] = []
    options: dict[str, Any] = {
        "patterns": "default",
        "on_application": lambda a: made.append(f"{a.pattern.name()} {a.anchor.name}"),
    }
    optimize(TINY_BERT, **options)
    whole, made[:] = made[:], []
    assert len(whole) > 10
    for most in (0, 1, 7, len(whole) - 1, len(whole)):
        made.clear()
        optimize(TINY_BERT, max_rewrites=most, **options)
        assert made == whole[:most]


def test_looking_for_it_writes_no_dumps(tmp_path: Path) -> None:
    debug = DebugSettings(dump=tmp_path / "dumps")
    found = suspect(parse(CHAIN), WrongFloorPattern, debug=debug)
    culprit = found.find_culprit()
    assert culprit is not None
    assert culprit.runs > 0
    assert found.minimal_model(culprit) is not None
    assert not list(tmp_path.iterdir())


def test_any_optimizer_can_be_searched() -> None:
    """The room below the public door is given what optimizes."""
    asked: list[int] = []

    def negates(source: Source, options: OptimizationOptions) -> Optimized:
        asked.append(options.max_rewrites)
        result = onnx.ModelProto()
        result.CopyFrom(source.proto)
        if options.merge:
            result.graph.node[-1].op_type = "Neg"
        return Optimized(result, "exact", None)

    culprit = Bisection(parse(CHAIN), negates, OptimizationOptions(patterns=None)).find_culprit()
    assert culprit is not None
    assert (culprit.step, culprit.runs) == ("merge", 4)
    assert asked == [-1, 0, 0, 0]
