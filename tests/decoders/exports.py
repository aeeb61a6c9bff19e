"""Tiny decoders of many families with a cache, as torch's two exporters write them.

Needs torch and transformers.
"""

import pathlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from tests.share import is_in_share, is_whole

LAYERS: Final = 2
HEADS: Final = 4
SIZE: Final = 16
VOCABULARY: Final = 99
SOURCE: Final = 6
"""Positions of the encoder's states that an encoder-decoder is exported with."""
_PARTS: Final = 2
_PACKAGES: Final = ("patterns/attention", "patterns/rotary", "xoptim/integrations")

_WIDTH: Final[Mapping[str, Any]] = {
    "vocab_size": VOCABULARY,
    "hidden_size": HEADS * SIZE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_TOKENS: Final[Mapping[str, Any]] = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


class Family(NamedTuple):
    """A family of decoders.

    Attributes:
        config: the class of its settings.
        model: its class.
        settings: the settings.
        groups: the numbers of heads of keys and values to try.
        crosses: whether it attends to the states of an encoder too.
    """

    config: str
    model: str
    settings: Mapping[str, Any]
    groups: tuple[int, ...] = (2, 4)
    crosses: bool = False


FAMILIES: Final[Mapping[str, Family]] = {
    "llama": Family("LlamaConfig", "LlamaForCausalLM", _WIDTH),
    "mistral": Family("MistralConfig", "MistralForCausalLM", {**_WIDTH, "sliding_window": 8}),
    "qwen2": Family("Qwen2Config", "Qwen2ForCausalLM", {**_WIDTH, "tie_word_embeddings": True}),
    "gemma": Family("GemmaConfig", "GemmaForCausalLM", {**_WIDTH, "head_dim": SIZE}),
    "phi": Family("PhiConfig", "PhiForCausalLM", _WIDTH),
    "gemma3": Family(
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        {
            **_WIDTH,
            "head_dim": SIZE,
            "sliding_window": 8,
            "query_pre_attn_scalar": SIZE,
            "num_key_value_heads": 2,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        (2,),
    ),
    "gpt2": Family(
        "GPT2Config",
        "GPT2LMHeadModel",
        {
            **_TOKENS,
            "vocab_size": VOCABULARY,
            "n_embd": HEADS * SIZE,
            "n_layer": LAYERS,
            "n_head": HEADS,
            "n_positions": 64,
        },
        (4,),
    ),
    "opt": Family(
        "OPTConfig",
        "OPTForCausalLM",
        {**_WIDTH, "ffn_dim": 96, "word_embed_proj_dim": HEADS * SIZE},
        (4,),
    ),
    "whisper": Family(
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        {
            **_TOKENS,
            "vocab_size": VOCABULARY,
            "d_model": HEADS * SIZE,
            "encoder_layers": 1,
            "decoder_layers": LAYERS,
            "encoder_attention_heads": HEADS,
            "decoder_attention_heads": HEADS,
            "encoder_ffn_dim": 96,
            "decoder_ffn_dim": 96,
            "max_target_positions": 64,
            "decoder_start_token_id": 1,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
        (4,),
        crosses=True,
    ),
    "t5": Family(
        "T5Config",
        "T5ForConditionalGeneration",
        {
            "vocab_size": VOCABULARY,
            "d_model": HEADS * SIZE,
            "d_kv": SIZE,
            "d_ff": 96,
            "num_layers": LAYERS,
            "num_decoder_layers": LAYERS,
            "num_heads": HEADS,
            "pad_token_id": 0,
            "eos_token_id": 2,
            "decoder_start_token_id": 0,
            "bos_token_id": 1,
        },
        (4,),
        crosses=True,
    ),
}


_HEADS: Final[Mapping[str, Any]] = {**_WIDTH, "head_dim": SIZE}
_EXPERTS: Final[Mapping[str, Any]] = {
    **_HEADS,
    "num_experts_per_tok": 2,
    "experts_implementation": "batched_mm",
}
NEWER: Final[Mapping[str, Family]] = {
    "qwen3": Family("Qwen3Config", "Qwen3ForCausalLM", _HEADS),
    "qwen3_moe": Family(
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        {**_EXPERTS, "num_experts": 4, "moe_intermediate_size": 32},
    ),
    "gemma2": Family(
        "Gemma2Config",
        "Gemma2ForCausalLM",
        {**_HEADS, "sliding_window": 8, "query_pre_attn_scalar": SIZE},
    ),
    "gpt_oss": Family(
        "GptOssConfig",
        "GptOssForCausalLM",
        {**_EXPERTS, "num_local_experts": 4, "sliding_window": 8},
    ),
    "smollm3": Family("SmolLM3Config", "SmolLM3ForCausalLM", {**_WIDTH, "no_rope_layers": [1, 0]}),
    "granite": Family(
        "GraniteConfig",
        "GraniteForCausalLM",
        {
            **_WIDTH,
            "attention_multiplier": 0.3,
            "residual_multiplier": 0.5,
            "embedding_multiplier": 2.0,
            "logits_scaling": 2.0,
        },
    ),
    "glm4": Family("Glm4Config", "Glm4ForCausalLM", {**_HEADS, "partial_rotary_factor": 0.5}),
    "olmo2": Family("Olmo2Config", "Olmo2ForCausalLM", _WIDTH),
    "cohere": Family("CohereConfig", "CohereForCausalLM", _WIDTH),
    "starcoder2": Family(
        "Starcoder2Config", "Starcoder2ForCausalLM", {**_WIDTH, "sliding_window": None}
    ),
    "exaone4": Family(
        "Exaone4Config",
        "Exaone4ForCausalLM",
        {
            **_WIDTH,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "phi3": Family("Phi3Config", "Phi3ForCausalLM", _WIDTH),
}
"""Families that are exported for onnxruntime-genai only."""


def family_of(name: str) -> Family:
    """A family of `FAMILIES` or `NEWER`."""
    return NEWER[name] if name in NEWER else FAMILIES[name]


class Form(NamedTuple):
    """How a decoder is exported.

    Attributes:
        family: a key of `FAMILIES` or `NEWER`.
        exporter: ``dynamo`` or ``script``.
        attention: ``eager`` or ``sdpa``.
        groups: heads of keys and values.
    """

    family: str
    exporter: str
    attention: str
    groups: int

    @property
    def name(self) -> str:
        """The name of a file without its suffix."""
        return f"{self.family}{self.groups}.{self.exporter}.{self.attention}"


def forms() -> list[Form]:
    """The forms of every family in which any two of exporter, attention and groups meet, and a
    share of them (`is_in_share`). ``BATTERIES=all`` gives all forms.
    """
    found = [
        Form(name, exporter, attention, groups)
        for name, family in FAMILIES.items()
        for groups in family.groups
        for exporter in ("dynamo", "script")
        for attention in ("sdpa", "eager")
    ]
    if is_whole():
        return found
    odd = [
        (form.exporter == "dynamo") ^ (form.attention == "sdpa") ^ (form.groups == HEADS)
        for form in found
    ]
    return [
        form
        for form, chosen in zip(found, odd, strict=True)
        if (chosen or len(FAMILIES[form.family].groups) == 1)
        and is_in_share(form.name, _PARTS, *_PACKAGES)
    ]


def feeds_of(form: Form, batch: int, length: int, past: int, padding: str) -> dict[str, np.ndarray]:
    """Values of the inputs: tokens, a mask with zeros where there is padding, and the cache.

    Args:
        form: the form.
        batch: sequences.
        length: new tokens.
        past: earlier tokens.
        padding: ``none``, ``left``, or ``right`` (of the earlier tokens and the new ones together).
    """
    rng = np.random.default_rng(batch + 10 * length + 100 * past)
    mask = np.ones((batch, past + length), dtype=np.int64)
    for row in range(batch):
        count = min(row + 1, past + length - 1)
        if padding == "left":
            mask[row, :count] = 0
        elif padding == "right":
            mask[row, past + length - count :] = 0
    feeds: dict[str, np.ndarray] = {
        "input_ids": rng.integers(3, VOCABULARY, (batch, length)),
        "attention_mask": mask,
    }
    if family_of(form.family).crosses:
        feeds["encoder_hidden_states"] = rng.normal(size=(batch, SOURCE, HEADS * SIZE)).astype(
            np.float32
        )
    for layer in range(LAYERS):
        for kind in ("key", "value"):
            cache = rng.normal(size=(batch, form.groups, past, SIZE)).astype(np.float32)
            feeds[f"past_key_values.{layer}.{kind}"] = cache
    return feeds


def export(form: Form, folder: pathlib.Path) -> pathlib.Path:
    """Write a model; returns its path. What exists is kept."""
    import torch

    path = folder / f"{form.name}.onnx"
    if path.exists():
        return path
    module = _module(form)
    values = {
        name: torch.from_numpy(value) for name, value in feeds_of(form, 2, 3, 4, "none").items()
    }
    total = "total" if form.exporter == "dynamo" else "past + seq"
    dims = {
        name: {axis: total if dim == "total" else dim for axis, dim in _dims(name).items()}
        for name in values
    }
    given, names = tuple(values.values()), list(values)
    if form.exporter == "dynamo":
        opened = (tuple(dims[name] for name in names),)
        program = torch.onnx.export(
            module,
            given,
            dynamo=True,
            optimize=False,
            verbose=False,
            input_names=names,
            output_names=_results(),
            dynamic_shapes=opened,
        )
        program.save(str(path), external_data=False)
    else:
        torch.onnx.export(
            module,
            given,
            str(path),
            dynamo=False,
            opset_version=18,
            input_names=names,
            output_names=_results(),
            dynamic_axes={
                **dims,
                **{name: _dims(name.replace("present", "past")) for name in _results()[1:]},
            },
        )
    return path


def _results() -> list[str]:
    return [
        "logits",
        *(f"present.{layer}.{kind}" for layer in range(LAYERS) for kind in ("key", "value")),
    ]


def _dims(name: str) -> dict[int, str]:
    if name.startswith("past"):
        return {0: "batch", 2: "past" if "values" in name else "total"}
    if name == "encoder_hidden_states":
        return {0: "batch", 1: "source"}
    return {0: "batch", 1: "seq" if name == "input_ids" else "total"}


def module_of(form: Form) -> Any:
    """The model of transformers, with drawn weights."""
    import torch
    import transformers

    family = family_of(form.family)
    torch.manual_seed(0)
    settings = {**family.settings}
    if len(family.groups) > 1:
        settings["num_key_value_heads"] = form.groups
    config = getattr(transformers, family.config)(**settings, attn_implementation=form.attention)
    model = getattr(transformers, family.model)(config).eval()
    with torch.no_grad():  # weights of norms are 1, and biases 0, in a new model
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def _module(form: Form) -> Any:
    """A module whose forward takes the inputs by position, and returns scores, keys and values."""
    import torch
    from transformers import DynamicCache, EncoderDecoderCache
    from transformers.modeling_outputs import BaseModelOutput

    family, model = family_of(form.family), module_of(form)

    class Decoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> Any:
            ids, mask, *past = values
            states = past.pop(0) if family.crosses else None
            cache = DynamicCache()
            for layer in range(LAYERS):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            if family.crosses:
                both = EncoderDecoderCache(cache, DynamicCache())
                found = self.model(
                    encoder_outputs=BaseModelOutput(last_hidden_state=states),
                    decoder_input_ids=ids,
                    decoder_attention_mask=mask,
                    past_key_values=both,
                    use_cache=True,
                )
                cache = found.past_key_values.self_attention_cache
            else:
                found = self.model(
                    input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True
                )
                cache = found.past_key_values
            return (
                found.logits,
                *(each for layer in cache.layers for each in (layer.keys, layer.values)),
            )

    return Decoder().eval()
