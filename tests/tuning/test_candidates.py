"""The models of recipes."""

import math
from pathlib import Path

import numpy as np
import onnx
import pytest

import xoptim
from tests.precision.models import network, words
from tests.support import parse
from tests.tuning.fakes import MODEL
from xoptim import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.precision.options import PrecisionOptions
from xoptim.tuning import candidates as module
from xoptim.tuning.candidates import Candidates
from xoptim.tuning.choices import SELECTION, UNTOUCHED, Recipe, default_recipe
from xoptim.verification import LoadError
from xoptim.verification.errors import ChoiceError
from xoptim.workflow.job import JobOptions

TARGET = "activations (onnxruntime)"


@pytest.fixture
def candidates() -> Candidates:
    """Candidates for the model in which several groups apply."""
    return Candidates(Source(parse(MODEL)), OptimizationOptions(patterns=SELECTION))


def proto_of(candidates: Candidates, recipe: Recipe) -> onnx.ModelProto:
    made = candidates.make(recipe).model
    assert isinstance(made, onnx.ModelProto)
    return made


@pytest.mark.parametrize(
    ("recipe", "patterns"), [(Recipe(), SELECTION), (default_recipe(), "default")]
)
def test_recipes_are_selections(candidates: Candidates, recipe: Recipe, patterns: str) -> None:
    expected = xoptim.optimize(parse(MODEL), patterns=patterns, tag_nodes=False)
    assert proto_of(candidates, recipe).SerializeToString() == expected.SerializeToString()
    options = candidates.options(recipe)
    assert xoptim.optimize(parse(MODEL), options) == xoptim.optimize(
        parse(MODEL), patterns=patterns
    )


def test_groups_that_are_dropped(candidates: Candidates) -> None:
    types = [
        node.op_type for node in proto_of(candidates, Recipe(frozenset(["movement"]))).graph.node
    ]
    assert types == ["Transpose", "Transpose", "QuickGelu", "Relu"]


def test_the_original_stays_as_it_is(candidates: Candidates, tmp_path: Path) -> None:
    assert candidates.make(UNTOUCHED).model is candidates.source.proto
    assert candidates.describe(UNTOUCHED).nodes == 7
    assert [
        node.op_type
        for node in xoptim.optimize(parse(MODEL), candidates.options(UNTOUCHED)).graph.node
    ] == [node.op_type for node in parse(MODEL).graph.node]
    path = tmp_path / "model.onnx"
    path.write_bytes(parse(MODEL).SerializeToString())
    assert Candidates(Source(path), OptimizationOptions()).make(UNTOUCHED).model == path


def test_descriptions(candidates: Candidates) -> None:
    made = candidates.describe(Recipe())
    assert made.nodes == 2
    assert made.size == proto_of(candidates, Recipe()).ByteSize()
    assert made.written[TARGET] == {"QuickGelu": 1}
    assert {"movement", TARGET} <= made.written.keys()
    assert TARGET not in candidates.describe(default_recipe()).written


def test_equal_models_have_equal_digests(candidates: Candidates) -> None:
    """Without a group that does not apply, the model is the same."""
    everything = candidates.describe(Recipe())
    assert candidates.describe(Recipe(frozenset(["convolutions"]))).digest == everything.digest
    assert candidates.describe(Recipe(frozenset(["movement"]))).digest != everything.digest


def test_a_few_models_are_kept(candidates: Candidates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_MODELS", 2)
    recipes = [Recipe(frozenset([name])) for name in ("movement", "shapes", TARGET)]
    first = candidates.make(recipes[0])
    candidates.make(recipes[1])
    assert candidates.make(recipes[0]) is first
    candidates.make(recipes[2])
    assert candidates.make(recipes[0]) is first, "the one that was not used for longest is dropped"
    assert set(candidates._models) == {recipes[0], recipes[2]}
    assert candidates.describe(recipes[1]).nodes > 0


def test_functions_are_replaced_by_their_bodies() -> None:
    text = """
    agraph (float[a,b] x) => (float[a,b] y) { y = local.twice(x) }
    <domain: "local",
      opset_import: ["" : 18]> twice (x) => (y) { t = Transpose(x) y = Transpose(t) }"""
    plain, inlined = (
        Candidates(Source(parse(text)), OptimizationOptions(), inline=each)
        for each in (False, True)
    )
    assert proto_of(plain, Recipe()).functions
    assert not proto_of(inlined, Recipe()).functions


def test_the_folder_of_external_weights(tmp_path: Path) -> None:
    model = parse("g (float[n,64] x) => (float[n,64] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    onnx.save(
        model,
        tmp_path / "model.onnx",
        save_as_external_data=True,
        location="weights",
        size_threshold=0,
    )
    candidates = Candidates(Source(tmp_path / "model.onnx"), OptimizationOptions())
    assert candidates.make(Recipe()).base_dir == tmp_path


def test_models_that_cannot_be_made_are_not_hidden(
    candidates: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise LoadError("broken")

    monkeypatch.setattr(Candidates, "_build", broken)
    with pytest.raises(LoadError, match="broken"):
        candidates.describe(Recipe())


def test_fewer_bits() -> None:
    precision = PrecisionOptions(goal="size", tolerance=0.5, feeds=[words()])
    made = Candidates(Source(network(layers=1)), OptimizationOptions(), precision=precision)
    assert "MatMulInteger" in {
        node.op_type for node in proto_of(made, Recipe(scheme="int8")).graph.node
    }
    assert made.describe(Recipe(scheme="int8")).digest != made.describe(Recipe()).digest
    assert made.quantized(Recipe(scheme="int8")) is made.quantized(Recipe(scheme="int8"))
    assert [report.status for report in made.quantized(Recipe(scheme="int8")).comparisons] == [
        "equal"
    ]


@pytest.mark.parametrize(
    ("left", "own", "seconds"),
    [(60.0, None, 30), (60.0, 10.0, 10), (-5.0, None, 1), (math.inf, None, None)],
)
def test_a_quantization_takes_half_of_the_time_left(
    monkeypatch: pytest.MonkeyPatch, left: float, own: float | None, seconds: float | None
) -> None:
    budgets = list[float | None]()

    def job(_: Source, options: JobOptions) -> None:
        assert options.precision is not None
        budgets.append(options.precision.budget)
        raise LoadError("no model")

    monkeypatch.setattr(module, "Job", job)
    source, precision = Source(network(layers=1)), PrecisionOptions(budget=own)
    made = Candidates(source, OptimizationOptions(), precision=precision, seconds_left=lambda: left)
    with pytest.raises(LoadError):
        made.quantized(Recipe(scheme="int8"))
    assert budgets == [seconds]


@pytest.mark.parametrize("tolerance", [1e-9, 1e-3])
def test_fewer_bits_that_do_not_keep_the_tolerance(
    tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the larger one allows weights of 16 bits
    precision = PrecisionOptions(tolerance=tolerance, feeds=[words()])
    made = Candidates(Source(network(layers=1)), OptimizationOptions(), precision=precision)
    for _ in range(2):
        with pytest.raises(ChoiceError, match="tolerance"):
            made.make(Recipe(scheme="int8"))
        monkeypatch.setattr(module, "Job", None)  # the reason is known from the first time
