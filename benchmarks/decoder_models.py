"""Decoders of real size with random weights, as torch's exporters and onnxruntime-genai's builder
write them.

Each has a cache: the inputs ``past_key_values.*`` and the outputs ``present.*``. The weights are
drawn with the same seed in every form. Exporting takes several times the memory of the weights, so
each form is written by a process of its own.
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
    """Sizes of a run: sequences, new tokens of each, and tokens in the cache."""

    batch: int
    new: int
    past: int


@dataclass(frozen=True)
class Decoder:
    """An architecture and its sizes.

    Attributes:
        model: class of the model in transformers.
        depth: setting that holds the number of layers.
        heads: heads of the cache.
        width: of a head.
        vocabulary: number of tokens.
        settings: the other settings of the configuration.
        past: tokens in the cache when a single token is measured.
        source: positions of the encoder that a layer reads besides, 0 without an encoder.
        built: whether onnxruntime-genai builds it.
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


DECODERS: Final = {name: Decoder(**each) for name, each in read_toml("decoder_models").items()}


def caches(decoder: Decoder, layers: int) -> list[str]:
    """The parts of the cache in order, as in the names of inputs and outputs."""
    kinds = (
        ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
        if decoder.source
        else ("key", "value")
    )
    return [f"{layer}.{kind}" for layer in range(layers) for kind in kinds]


def values_of(decoder: Decoder, layers: int, load: Load) -> dict[str, np.ndarray]:
    """Inputs of a run: all tokens are seen, and the cache is drawn."""
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
    """Names of the open dimensions of the inputs."""
    axes = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "past + seq"}}
    for name in caches(decoder, layers):
        length = {} if ".encoder." in name else {2: "past"}
        axes[f"past_key_values.{name}"] = {0: "batch", **length}
    return axes


def missing(*packages: str) -> str:
    """Why there is no figure: the packages that are not installed, or ""."""
    names = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"{', '.join(names)} not installed" if names else ""


def module_of(decoder: Decoder, layers: int, exporter: Exporter | None = None) -> Any:
    """The model of transformers with drawn weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    chosen = (
        {"attn_implementation": "eager" if exporter == "tracing" else "sdpa"} if exporter else {}
    )
    made = getattr(transformers, decoder.model)
    return made(made.config_class(**decoder.settings, **{decoder.depth: layers}, **chosen)).eval()


def flat_module(decoder: Decoder, layers: int, exporter: Exporter) -> Any:
    """A module that takes and returns the cache as tensors, key and value of each layer in turn."""
    import torch

    model, crossed = module_of(decoder, layers, exporter), bool(decoder.source)

    class Flat(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: Any, mask: Any, *past: Any) -> Any:
            seen = causal(mask, tokens) if exporter == "tracing" else mask
            if not crossed:
                own = _cache(past)
                made = self.model(
                    input_ids=tokens, attention_mask=seen, past_key_values=own, use_cache=True
                )
                return made.logits, *_tensors(own)
            from transformers import EncoderDecoderCache

            both = EncoderDecoderCache(_cache(_every(past, 0)), _cache(_every(past, 2)))
            # The layers take the keys and values of the encoder out of the cache, and look only
            # whether these states exist.
            states = torch.zeros(1, 1, self.model.config.d_model)
            found = self.model.model.decoder(
                input_ids=tokens,
                attention_mask=seen,
                encoder_hidden_states=states,
                past_key_values=both,
                use_cache=True,
            )
            return self.model.proj_out(found[0]), *_tensors(both.self_attention_cache)

    return Flat().eval()


def _every(past: tuple[Any, ...], first: int) -> list[Any]:
    """Two of every four tensors."""
    return [each for start in range(first, len(past), 4) for each in past[start : start + 2]]


def _cache(past: Any) -> Any:
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer in range(len(past) // 2):
        cache.update(past[2 * layer], past[2 * layer + 1], layer)
    return cache


def _tensors(cache: Any) -> list[Any]:
    return [each for layer in cache.layers for each in (layer.keys, layer.values)]


def causal(mask: Any, tokens: Any = None) -> Any:
    """A mask of four axes, which hides padding and later tokens: tracing cannot follow the one that
    transformers makes.

    It has a row for each new token; by default all tokens are new.
    """
    import torch

    places = torch.arange(mask.shape[1])
    rows = places if tokens is None else places[mask.shape[1] - tokens.shape[1] :]
    allowed = (places[None, :] <= rows[:, None])[None, None] & mask.to(torch.bool)[:, None, None, :]
    return torch.where(allowed, torch.zeros(()), torch.full((), torch.finfo(torch.float32).min))


def export(decoder: Decoder, layers: int, exporter: Exporter, path: pathlib.Path) -> None:
    """Write a decoder as one of torch's exporters does: dynamo without its own optimizations, or
    tracing.
    """
    import torch

    values = {
        name: torch.from_numpy(value)
        for name, value in values_of(decoder, layers, Load(2, 3, 5)).items()
    }
    axes, names = open_axes(decoder, layers), list(values)
    own = [name for name in caches(decoder, layers) if ".encoder." not in name]
    ends: dict[str, Any] = {
        "input_names": names,
        "output_names": ["logits", *(f"present.{name}" for name in own)],
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
            **ends,
        )
        program.save(str(path), external_data=True)
        return
    open_ends = {**axes, **{f"present.{name}": {0: "batch", 2: "past + seq"} for name in own}}
    whole = path.with_suffix(".whole")
    torch.onnx.export(
        module,
        tuple(values.values()),
        str(whole),
        dynamo=False,
        opset_version=17,
        dynamic_axes=open_ends,
        **ends,
    )
    del module
    onnx.save(onnx.load(whole), path, save_as_external_data=True, location=f"{path.name}.data")
    whole.unlink()


def pretrained(decoder: Decoder, layers: int, folder: pathlib.Path) -> None:
    """Write the model as transformers keeps one, with a tokenizer of a few words, for the
    builder.
    """
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    module_of(decoder, layers).save_pretrained(folder)
    words = models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2}, unk_token="<unk>")
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), **special).save_pretrained(folder)


def build(decoder: Decoder, layers: int, target: pathlib.Path, precision: str = "fp32") -> None:
    """Build the same weights with onnxruntime-genai for the CPU, in 32-bit floats, or with
    ``int4``.

    Raises:
        RuntimeError: the builder failed.
    """
    source = target.with_name(f"{target.name}.source")
    apart(pretrained, decoder, layers, source)
    words = {"-i": source, "-o": target, "-p": precision, "-e": "cpu", "-c": source / "cache"}
    command = [sys.executable, "-W", "ignore", "-m", "onnxruntime_genai.models.builder", "-m", "x"]
    command += [str(word) for pair in words.items() for word in pair]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(source)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1])
