"""Decoders whose cache has a fixed length, as torch exports them: rows are written in place, and
one Attention reads them.
"""

import itertools
import pathlib
from typing import Any, Final

import numpy as np
import onnx
import pytest

from tests.decoders.comparison import RULES
from tests.decoders.exports import FAMILIES, HEADS, LAYERS, SIZE, VOCABULARY
from tests.patterns.attention.comparison import LEVELS, session
from tests.support import types
from xoptim import optimize
from xoptim.verification.judging.compare import compare_values

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxscript")

# torch's exporter warns about its own use of torch
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

LENGTH: Final = 32


def feeds_of(groups: int, batch: int, new: int, start: int) -> dict[str, np.ndarray]:
    """Tokens, the number of tokens in the cache, and the cache."""
    rng = np.random.default_rng([batch, new, start % LENGTH])
    feeds: dict[str, np.ndarray] = {
        "ids": rng.integers(0, VOCABULARY, (batch, new)),
        "start": np.array(start),
    }
    for layer, kind in itertools.product(range(LAYERS), ("key", "value")):
        feeds[f"past.{layer}.{kind}"] = rng.normal(size=(batch, groups, LENGTH, SIZE)).astype(
            np.float32
        )
    return feeds


def export(groups: int, exporter: str, path: pathlib.Path) -> onnx.ModelProto:
    """A LLaMA that takes and returns a cache of fixed length."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(**FAMILIES["llama"].settings, num_key_value_heads=groups)
    model = transformers.LlamaForCausalLM(config).eval()

    class Decoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, start: Any, *past: Any) -> Any:
            cache = transformers.StaticCache(config=config, max_cache_len=LENGTH)
            for number, layer in enumerate(cache.layers):
                layer.keys, layer.values = past[2 * number] + 0, past[2 * number + 1] + 0
                layer.device, layer.dtype, layer.is_initialized = ids.device, torch.float32, True
                layer.batch_size, layer.num_heads, layer.v_head_dim, layer.k_head_dim = (
                    ids.shape[0],
                    groups,
                    SIZE,
                    SIZE,
                )
                layer.cumulative_length = start.clone()
            places = (torch.arange(ids.shape[1]) + start)[None]
            found = self.model(
                input_ids=ids, position_ids=places, past_key_values=cache, use_cache=True
            )
            return (
                found.logits,
                *(each for layer in cache.layers for each in (layer.keys, layer.values)),
            )

    values = {
        name: torch.from_numpy(np.asarray(value))
        for name, value in feeds_of(groups, 2, 3, 4).items()
    }
    ids, start, *past = values.values()
    if exporter == "dynamo":
        opened: Any = ({0: "batch", 1: "seq"}, {}, tuple({0: "batch"} for _ in past))
        program = torch.onnx.export(
            Decoder().eval(), (ids, start, *past), dynamo=True, optimize=False, verbose=False,
            input_names=list(values), dynamic_shapes=opened,
        )  # fmt: skip
        program.save(str(path), external_data=False)
    else:
        axes = {
            name: {0: "batch", **({1: "seq"} if name == "ids" else {})}
            for name in values
            if name != "start"
        }
        torch.onnx.export(
            Decoder().eval(), (ids, start, *past), str(path), dynamo=False, opset_version=18,
            input_names=list(values), dynamic_axes=axes,
        )  # fmt: skip
    return onnx.load(path)


@pytest.mark.parametrize("exporter", ["dynamo", "script"])
@pytest.mark.parametrize("groups", [2, 4])
def test_a_cache_of_fixed_length(groups: int, exporter: str, tmp_path: pathlib.Path) -> None:
    before = export(groups, exporter, tmp_path / "model.onnx")
    plain = optimize(before)
    after = optimize(before, patterns="default+onnxruntime", opset="newest")
    for model in (plain, after):
        found = types(model)
        assert found.count("ScatterND") == 2 * LAYERS, "keys and values of each layer"
        assert "ScatterElements" not in found
        assert found.count("Expand") <= 8, "layers share the positions of rows"
    attentions = types(after).count("Attention")
    assert attentions == (LAYERS if groups < HEADS else 0), (
        "the guard costs more than it saves unless heads are shared"
    )
    reference = session(before)
    judged = [session(model, level) for model in (plain, after) for level in LEVELS]
    for batch, new, start in itertools.product((1, 3), (1, 5), (0, 7, LENGTH - 5, -5)):
        feeds = feeds_of(groups, batch, new, start)
        expected = reference.run(None, feeds)
        for each in judged:
            for place, (e, a) in enumerate(zip(expected, each.run(None, feeds), strict=True)):
                assert all(result.ok for result in compare_values(str(place), e, a, RULES)), (
                    batch,
                    new,
                    start,
                    place,
                )
