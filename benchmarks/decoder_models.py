"""Decoders of real size with random weights, as torch's exporters and onnxruntime-genai's builder
write them.

Each has a KV cache: the inputs ``past_key_values.*`` and the outputs ``present.*``. The random
weights have the same seed in every export. Exporting takes several times the memory of the weights,
so each export runs in a process of its own.
"""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import onnx

from benchmarks.tools import apart, read_toml

Exporter = Literal["dynamo", "tracing"]
EXPORTERS: Final[tuple[Exporter, ...]] = ("dynamo", "tracing")


class Load(NamedTuple):
    """Sizes of a run: sequences, new tokens of each sequence, and tokens in the KV cache."""

    batch: int
    new: int
    past: int


@dataclass(frozen=True)
class Decoder:
    """An architecture and its sizes.

    Attributes:
        model: class of the model in transformers.
        depth: setting that holds the number of layers.
        heads: key/value heads of the cache.
        width: size of a head.
        vocabulary: number of tokens.
        settings: the other settings of the configuration.
        past: tokens in the cache when a single token is measured.
        source: sequence length of the encoder that the cross-attention reads, 0 without an encoder.
        built: whether onnxruntime-genai can build the model.
        loads: workloads by name; empty for the three usual ones of `workloads`.
    """

    model: str
    depth: str
    heads: int
    width: int
    vocabulary: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    past: int = 512
    source: int = 0
    built: bool = False
    loads: Mapping[str, Load] = field(default_factory=dict)

    def workloads(self) -> dict[str, Load]:
        """Workloads by name."""
        past = self.past
        usual = {
            f"1 token after {past}": Load(1, 1, past),
            "4 sequences": Load(4, 1, past),
            "128 tokens": Load(1, 128, 0),
        }
        return dict(self.loads) or usual


DECODERS: Final = {name: Decoder(**fields) for name, fields in read_toml("decoder_models").items()}


def caches(decoder: Decoder, layers: int) -> list[str]:
    """The tensors of the KV cache in order, named as in the inputs and outputs."""
    kinds = (
        ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
        if decoder.source
        else ("key", "value")
    )
    return [f"{layer}.{kind}" for layer in range(layers) for kind in kinds]


def values_of(decoder: Decoder, layers: int, load: Load) -> dict[str, np.ndarray]:
    """Inputs of a run: an attention mask of ones, random tokens and a random KV cache."""
    rng = np.random.default_rng(0)
    values: dict[str, np.ndarray] = {
        "input_ids": rng.integers(3, decoder.vocabulary, (load.batch, load.new)),
        "attention_mask": np.ones((load.batch, load.past + load.new), np.int64),
    }
    for name in caches(decoder, layers):
        length = decoder.source if ".encoder." in name else load.past
        shape = (load.batch, decoder.heads, length, decoder.width)
        values[f"past_key_values.{name}"] = rng.standard_normal(shape, np.float32) / 2
    return values


def open_axes(decoder: Decoder, layers: int) -> dict[str, dict[int, str]]:
    """Names of the dynamic dimensions of the inputs."""
    axes = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "past + seq"}}
    for name in caches(decoder, layers):
        length = {} if ".encoder." in name else {2: "past"}
        axes[f"past_key_values.{name}"] = {0: "batch", **length}
    return axes


def missing(*packages: str) -> str:
    """Why nothing can be measured: which packages are not installed; "" if all are."""
    names = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"{', '.join(names)} not installed" if names else ""


def module_of(decoder: Decoder, layers: int, exporter: Exporter | None = None) -> Any:
    """The model of transformers with random weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    attention = (
        {"attn_implementation": "eager" if exporter == "tracing" else "sdpa"} if exporter else {}
    )
    model_class = getattr(transformers, decoder.model)
    config = model_class.config_class(**decoder.settings, **{decoder.depth: layers}, **attention)
    return model_class(config).eval()


def flat_module(decoder: Decoder, layers: int, exporter: Exporter) -> Any:
    """A module that takes and returns the cache as tensors, key and value of each layer in turn."""
    import torch

    model, has_encoder = module_of(decoder, layers, exporter), bool(decoder.source)

    class Flat(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: Any, mask: Any, *past: Any) -> Any:
            full_mask = causal(mask, tokens) if exporter == "tracing" else mask
            if not has_encoder:
                cache = _cache(past)
                result = self.model(
                    input_ids=tokens,
                    attention_mask=full_mask,
                    past_key_values=cache,
                    use_cache=True,
                )
                return result.logits, *_tensors(cache)
            from transformers import EncoderDecoderCache

            cache_pair = EncoderDecoderCache(_cache(_pairs(past, 0)), _cache(_pairs(past, 2)))
            # The cross-attention reads its keys and values from the cache. It only checks that the
            # encoder states are not None, so zeros do.
            states = torch.zeros(1, 1, self.model.config.d_model)
            result = self.model.model.decoder(
                input_ids=tokens,
                attention_mask=full_mask,
                encoder_hidden_states=states,
                past_key_values=cache_pair,
                use_cache=True,
            )
            return self.model.proj_out(result[0]), *_tensors(cache_pair.self_attention_cache)

    return Flat().eval()


def _pairs(past: tuple[Any, ...], first: int) -> list[Any]:
    """The tensors ``first`` and ``first + 1`` of the four that each layer has in the cache."""
    return [tensor for start in range(first, len(past), 4) for tensor in past[start : start + 2]]


def _cache(past: Any) -> Any:
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer in range(len(past) // 2):
        cache.update(past[2 * layer], past[2 * layer + 1], layer)
    return cache


def _tensors(cache: Any) -> list[Any]:
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def causal(mask: Any, tokens: Any = None) -> Any:
    """A float mask ``[batch, 1, new tokens, all tokens]`` that hides padding and later tokens.

    transformers would build the same mask, in a way that tracing cannot follow.

    Args:
        mask: the attention mask, ``[batch, all tokens]``.
        tokens: the new tokens; by default all tokens are new.
    """
    import torch

    positions = torch.arange(mask.shape[1])
    rows = positions if tokens is None else positions[mask.shape[1] - tokens.shape[1] :]
    is_earlier = (positions[None, :] <= rows[:, None])[None, None]
    is_visible = is_earlier & mask.to(torch.bool)[:, None, None, :]
    return torch.where(is_visible, torch.zeros(()), torch.full((), torch.finfo(torch.float32).min))


def export(decoder: Decoder, layers: int, exporter: Exporter, path: pathlib.Path) -> None:
    """Export a decoder with torch: by dynamo without its own optimizations, or by tracing."""
    import torch

    values = {
        name: torch.from_numpy(value)
        for name, value in values_of(decoder, layers, Load(2, 3, 5)).items()
    }
    axes, names = open_axes(decoder, layers), list(values)
    new_caches = [name for name in caches(decoder, layers) if ".encoder." not in name]
    port_names: dict[str, Any] = {
        "input_names": names,
        "output_names": ["logits", *(f"present.{name}" for name in new_caches)],
    }
    module = flat_module(decoder, layers, exporter)
    if exporter == "dynamo":
        dims = tuple(dict.fromkeys(axes[name], torch.export.Dim.DYNAMIC) for name in names)
        shapes = (dims[0], dims[1], dims[2:])
        program = torch.onnx.export(
            module,
            tuple(values.values()),
            dynamo=True,
            optimize=False,
            verbose=False,
            dynamic_shapes=shapes,
            **port_names,
        )
        program.save(str(path), external_data=True)
        return
    present_axes = {f"present.{name}": {0: "batch", 2: "past + seq"} for name in new_caches}
    single_file = path.with_suffix(".whole")
    torch.onnx.export(
        module,
        tuple(values.values()),
        str(single_file),
        dynamo=False,
        opset_version=17,
        dynamic_axes={**axes, **present_axes},
        **port_names,
    )
    del module
    model = onnx.load(single_file)
    onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data")
    single_file.unlink()


def pretrained(decoder: Decoder, layers: int, folder: pathlib.Path) -> None:
    """Write the model by ``save_pretrained``, with a tokenizer of three words, for the builder of
    onnxruntime-genai.
    """
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    module_of(decoder, layers).save_pretrained(folder)
    words = models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2}, unk_token="<unk>")
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), **special).save_pretrained(folder)


def build(decoder: Decoder, layers: int, target: pathlib.Path, precision: str = "fp32") -> None:
    """Build a model of the same weights with onnxruntime-genai for the CPU, in float32 or int4.

    Raises:
        RuntimeError: the builder failed.
    """
    source = target.with_name(f"{target.name}.source")
    apart(pretrained, decoder, layers, source)
    options = {"-i": source, "-o": target, "-p": precision, "-e": "cpu", "-c": source / "cache"}
    command = [sys.executable, "-W", "ignore", "-m", "onnxruntime_genai.models.builder", "-m", "x"]
    command += [str(word) for option in options.items() for word in option]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(source)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1])
