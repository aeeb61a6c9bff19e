"""The models of recipes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import xoptim
from tests.support import parse
from tests.tuning.fakes import MODEL
from xoptim import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.tuning import workshop as module
from xoptim.tuning.candidates import SELECTION, UNTOUCHED, Recipe, default_recipe
from xoptim.tuning.workshop import Workshop
from xoptim.validate import LoadError

TARGET = "activations (onnxruntime)"


@pytest.fixture
def shop() -> Workshop:
    """A workshop of the model in which several groups apply."""
    return Workshop(Source(parse(MODEL)), OptimizationOptions(patterns=SELECTION))


def proto_of(shop: Workshop, recipe: Recipe) -> onnx.ModelProto:
    made = shop.make(recipe).model
    assert isinstance(made, onnx.ModelProto)
    return made


@pytest.mark.parametrize(("recipe", "patterns"), [(Recipe(), SELECTION), (default_recipe(), "default")])
def test_recipes_are_selections(shop: Workshop, recipe: Recipe, patterns: str) -> None:
    expected = xoptim.optimize(parse(MODEL), patterns=patterns, tag_nodes=False)
    assert proto_of(shop, recipe).SerializeToString() == expected.SerializeToString()
    options = shop.options(recipe)
    assert xoptim.optimize(parse(MODEL), options) == xoptim.optimize(parse(MODEL), patterns=patterns)


def test_groups_that_are_left_out(shop: Workshop) -> None:
    types = [node.op_type for node in proto_of(shop, Recipe(frozenset(["movement"]))).graph.node]
    assert types == ["Transpose", "Transpose", "QuickGelu", "Relu"]


def test_the_original_stays_as_it_is(shop: Workshop, tmp_path: Path) -> None:
    assert shop.make(UNTOUCHED).model is shop.source.proto
    assert shop.describe(UNTOUCHED).nodes == 7
    assert [node.op_type for node in xoptim.optimize(parse(MODEL), shop.options(UNTOUCHED)).graph.node] == [
        node.op_type for node in parse(MODEL).graph.node
    ]
    path = tmp_path / "model.onnx"
    path.write_bytes(parse(MODEL).SerializeToString())
    assert Workshop(Source(path), OptimizationOptions()).make(UNTOUCHED).model == path


def test_descriptions(shop: Workshop) -> None:
    made = shop.describe(Recipe())
    assert made.nodes == 2
    assert made.size == proto_of(shop, Recipe()).ByteSize()
    assert made.written[TARGET] == {"QuickGelu": 1}
    assert {"movement", TARGET} <= made.written.keys()
    assert TARGET not in shop.describe(default_recipe()).written


def test_equal_models_have_equal_digests(shop: Workshop) -> None:
    """Without a group that does not apply, the model is the same."""
    everything = shop.describe(Recipe())
    assert shop.describe(Recipe(frozenset(["convolutions"]))).digest == everything.digest
    assert shop.describe(Recipe(frozenset(["movement"]))).digest != everything.digest


def test_a_few_models_are_kept(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 2)
    recipes = [Recipe(frozenset([name])) for name in ("movement", "shapes", TARGET)]
    first = shop.make(recipes[0])
    shop.make(recipes[1])
    assert shop.make(recipes[0]) is first
    shop.make(recipes[2])
    assert shop.make(recipes[0]) is first, "the one that was not used for longest is dropped"
    assert set(shop._models) == {recipes[0], recipes[2]}
    assert shop.describe(recipes[1]).nodes > 0


def test_functions_are_replaced_by_their_bodies() -> None:
    text = """
    agraph (float[a,b] x) => (float[a,b] y) { y = local.twice(x) }
    <domain: "local", opset_import: ["" : 18]> twice (x) => (y) { t = Transpose(x) y = Transpose(t) }"""
    plain, inlined = (Workshop(Source(parse(text)), OptimizationOptions(), inline=each) for each in (False, True))
    assert proto_of(plain, Recipe()).functions
    assert not proto_of(inlined, Recipe()).functions


def test_the_folder_of_external_weights(tmp_path: Path) -> None:
    model = parse("g (float[n,64] x) => (float[n,64] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    shop = Workshop(Source(tmp_path / "model.onnx"), OptimizationOptions())
    assert shop.make(Recipe()).base_dir == tmp_path


def test_models_that_cannot_be_made_are_not_hidden(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise LoadError("broken")

    monkeypatch.setattr(Workshop, "_build", broken)
    with pytest.raises(LoadError, match="broken"):
        shop.describe(Recipe())
