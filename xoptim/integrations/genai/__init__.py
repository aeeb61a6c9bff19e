"""Decoders for onnxruntime-genai: their inputs and outputs, and the configuration file."""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import onnx
from onnx import TensorProto

from xoptim import ChoiceError, ModelError, OptimizationOptions, Query, explain
from xoptim.api.preparing import write_derived
from xoptim.facts.assumptions import dimension
from xoptim.facts.dims import SymbolicDim
from xoptim.facts.dtypes import is_float
from xoptim.facts.json_values import read_json_object
from xoptim.facts.protos import fed_inputs
from xoptim.facts.words import abridged, listed, shortened

FILE: Final = "genai_config.json"
PATTERNS: Final = (
    "GroupQueryAttention",
    "SinkGroupQueryAttention",
    "TanhGroupQueryAttention",
    "MatMulGroupQueryAttention",
)
"""The patterns that write attention as onnxruntime-genai runs it."""
_CONTEXT: Final = ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length")
_LOGGER: Final = logging.getLogger("xoptim")
_INTEGERS: Final = (TensorProto.INT32, TensorProto.INT64)
_SAMPLING: Final[Mapping[str, Any]] = {
    "do_sample": False,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
}
"""Settings of a generation and their defaults; the folder of the model may have others."""


class _Kind(NamedTuple):
    """The values that a setting may have."""

    words: str
    accepts: Callable[[Any], bool]


def _is_count(value: Any, least: int = 1) -> bool:
    return type(value) is int and least <= value < 1 << 31


def _is_token(value: Any) -> bool:
    return _is_count(value, 0)


def _are_tokens(value: Any) -> bool:
    tokens = value if isinstance(value, list) else [value]
    return bool(tokens) and all(map(_is_token, tokens))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1 << 31


_KINDS: Final[Mapping[_Kind, Sequence[str]]] = {
    _Kind("an integer from 1 to 2^31 - 1", _is_count): (
        *_CONTEXT,
        *("vocab_size", "num_attention_heads", "n_head", "hidden_size", "n_embd"),
    ),
    _Kind("a token id from 0 to 2^31 - 1", _is_token): ("bos_token_id", "pad_token_id"),
    _Kind("a token id, or a list of them", _are_tokens): ("eos_token_id",),
    _Kind("true or false", lambda value: isinstance(value, bool)): ("do_sample",),
    _Kind("an integer of at least 0", _is_token): ("top_k",),
    _Kind("a number of at least 0", _is_number): ("repetition_penalty", "temperature", "top_p"),
}
"""The settings that are read, by the values that they may have."""


class Ports(NamedTuple):
    """The inputs and outputs of a decoder by their roles; positions and mask may be empty."""

    tokens: onnx.ValueInfoProto
    mask: onnx.ValueInfoProto | None
    positions: onnx.ValueInfoProto | None
    keys: Sequence[onnx.ValueInfoProto]
    values: Sequence[onnx.ValueInfoProto]
    logits: onnx.ValueInfoProto
    present_keys: Sequence[onnx.ValueInfoProto]
    present_values: Sequence[onnx.ValueInfoProto]


def ports_of(model: onnx.ModelProto) -> Ports:
    """The inputs and outputs of a decoder.

    Raises:
        ModelError: its inputs or outputs are not those that onnxruntime-genai feeds and reads.
    """
    inputs, outputs = list(fed_inputs(model)), list(model.graph.output)
    integers = [port for port in inputs if port.type.tensor_type.elem_type in _INTEGERS]
    masks, positions = _named(integers, "mask"), _named(integers, "position")
    tokens = [port for port in integers if port not in (*masks, *positions)]
    caches = [port for port in inputs if _rank(port) == 4 and _holds_floats(port)]
    presents = [port for port in outputs if _rank(port) == 4 and _holds_floats(port)]
    logits = [port for port in outputs if port not in presents]
    extra = next((port.name for port in inputs if port not in (*integers, *caches)), "")
    if extra:
        raise ModelError(f"onnxruntime-genai does not feed the input {extra!r}")
    pairs = [
        [port for port in ports if _kind(port) == kind]
        for ports in (caches, presents)
        for kind in ("key", "value")
    ]
    if len(tokens) != 1 or len(masks) > 1 or len(positions) > 1 or len(logits) != 1:
        raise ModelError(
            "onnxruntime-genai needs one input of token ids, at most one attention mask, at most "
            "one input of position ids, and one output of logits; the model has the inputs "
            f"{_listed(integers)} and the outputs {_listed(logits)}, besides the KV cache"
        )
    counts = {len(ports) for ports in pairs}
    if len(counts) > 1 or not caches or len(caches) != len(pairs[0]) + len(pairs[1]):
        raise ModelError(
            "onnxruntime-genai needs a KV cache: a key and a value per layer, as inputs and "
            "outputs of rank 4 with 'key' and 'value' in their names"
        )
    for port, rank in ((tokens[0], 2), *((mask, 2) for mask in masks), (logits[0], 1)):
        if _rank(port) < rank:
            raise ModelError(
                f"onnxruntime-genai needs {port.name!r} with a shape of rank {rank} or more; the "
                f"model has {_rank(port)}"
            )
    keys, values, present_keys, present_values = pairs
    mask, position = next(iter(masks), None), next(iter(positions), None)
    return Ports(tokens[0], mask, position, keys, values, logits[0], present_keys, present_values)


def assumptions_for(model: onnx.ModelProto, folder: Path) -> list[str]:
    """The assumptions under which onnxruntime-genai runs a decoder.

    Numbers are finite, the mask is all ones, and the lengths of all caches are equal. The batch
    size is 1, or there is one new token, or the cache is empty. There are no more tokens than the
    context has.

    Args:
        model: the decoder.
        folder: holds ``config.json``, as transformers writes it.

    Raises:
        ModelError: the model is no decoder that onnxruntime-genai runs.
        ChoiceError: the files in the folder lack the length of the context.
    """
    ports, context_length = ports_of(model), _context(_read(folder))
    (batch, length), past = _dims(ports.tokens)[:2], _dims(ports.keys[0])[2]
    assumptions = ["finite", *_equal_sizes(ports)]
    cases = {batch: 1, length: 1, past: 0}
    if all(map(_is_symbol, cases)):
        assumptions.append(" or ".join(f"{name} == {number}" for name, number in cases.items()))
    assumptions += [
        f"{name} <= {limit}"
        for name, limit in ((past, context_length - 1), (length, context_length))
        if _is_symbol(name)
    ]
    if ports.mask is not None:
        assumptions.append(f"ones({ports.mask.name})")
    return assumptions


def preceding(names: Sequence[str], assumptions: Sequence[str]) -> Query:
    """The patterns that run before the first of ``names`` with ``--genai``; all if none runs.

    Args:
        names: names of patterns.
        assumptions: the assumptions.
    """
    run = Query.of("default").including("onnxruntime", *PATTERNS)
    order = [p.name() for p in OptimizationOptions(patterns=run, assume=assumptions).selected()]
    first = next((place for place, name in enumerate(order) if name in names), len(order))
    return run.excluding(*order[first:])


def _equal_sizes(ports: Ports) -> Iterator[str]:
    """The sizes that are equal in a run, where they have different names."""
    batch, length = _dims(ports.tokens)[:2]
    past = _dims(ports.keys[0])[2]
    pairs: dict[str, str] = {}
    for cache in (*ports.keys, *ports.values):
        first, _, size, _ = _dims(cache)
        pairs |= {first: batch, size: past}
    if ports.mask is not None:
        first, total = _dims(ports.mask)[:2]
        pairs |= {first: batch, total: f"{past} + {length}"}
    for name, formula in pairs.items():
        if name != formula and _is_symbol(name) and all(map(_is_symbol, formula.split(" + "))):
            yield f"{name} == {formula}"


def config_of(model: onnx.ModelProto, folder: Path, filename: str) -> dict[str, Any]:
    """The content of ``genai_config.json`` for a decoder.

    Args:
        model: the decoder; its weights are not read.
        folder: holds ``config.json`` and, if there is one, ``generation_config.json``, as
            transformers writes them.
        filename: the name of the model's file in the folder of the configuration.

    Raises:
        ModelError: the model is no decoder that onnxruntime-genai runs.
        ChoiceError: the folder lacks a setting.
    """
    ports, settings = ports_of(model), _read(folder)
    length, end, scores = _context(settings), settings.get("eos_token_id"), _dims(ports.logits)
    if end is None:
        raise ChoiceError(
            f"{folder / 'config.json'} has no eos_token_id, the token that ends a generation"
        )
    if not scores[-1].isdecimal() and "vocab_size" not in settings:
        raise ChoiceError(f"{folder / 'config.json'} has no vocab_size, the number of tokens")
    _warn_of_another_model(ports, settings, folder)
    first_end = end[0] if isinstance(end, list) else end
    head = {
        "type": "decoder",
        "context_length": length,
        "vocab_size": int(scores[-1]) if scores[-1].isdecimal() else settings["vocab_size"],
        "bos_token_id": _first(settings, ("bos_token_id",), first_end),
        "eos_token_id": end,
        "pad_token_id": _first(settings, ("pad_token_id",), first_end),
    }
    search = {name: _first(settings, (name,), default) for name, default in _SAMPLING.items()}
    search |= {"max_length": length, "past_present_share_buffer": shares_cache(model, ports)}
    return {
        "model": {**head, "decoder": _decoder(ports, settings, filename)},
        "search": search,
    }


def _warn_of_another_model(ports: Ports, settings: Mapping[str, Any], folder: Path) -> None:
    """Log sizes of ``config.json`` that are not those of the model: the file may belong to another
    model, and its tokens and context length as well.
    """
    sizes = {
        ("num_hidden_layers", "n_layer"): str(len(ports.keys)),
        ("num_key_value_heads",): _dims(ports.keys[0])[1],
        ("vocab_size",): _dims(ports.logits)[-1],
    }
    for names, size in sizes.items():
        expected = _first(settings, names, None)
        if expected is not None and size.isdecimal() and int(size) != expected:
            text = f"{names[0]} is {shortened(json.dumps(expected))}, the model has {size}"
            reason = "if it belongs to another model, its token ids and context length do as well"
            _LOGGER.warning("%s: %s; %s", folder / "config.json", text, reason)
            return


def _decoder(ports: Ports, settings: Mapping[str, Any], filename: str) -> dict[str, Any]:
    """The sizes of a decoder, and the names of its inputs and outputs."""
    _, groups, _, size = _dims(ports.keys[0])
    if not groups.isdecimal() or not size.isdecimal():
        raise ModelError(
            f"the heads of the KV cache {ports.keys[0].name!r} have dynamic dimensions"
        )
    heads = _first(settings, ("num_attention_heads", "n_head"), int(groups))
    optional = {"attention_mask": ports.mask, "position_ids": ports.positions}
    return {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": filename,
        "head_size": int(size),
        "hidden_size": _first(settings, ("hidden_size", "n_embd"), heads * int(size)),
        "inputs": {
            "input_ids": ports.tokens.name,
            **{role: port.name for role, port in optional.items() if port is not None},
            "past_key_names": _numbered(ports.keys),
            "past_value_names": _numbered(ports.values),
        },
        "outputs": {
            "logits": ports.logits.name,
            "present_key_names": _numbered(ports.present_keys),
            "present_value_names": _numbered(ports.present_values),
        },
        "num_attention_heads": heads,
        "num_hidden_layers": len(ports.keys),
        "num_key_value_heads": int(groups),
    }


def shares_cache(model: onnx.ModelProto, ports: Ports) -> bool:
    """Whether past and present keys may share a buffer of the context length: only
    GroupQueryAttention reads the cache, and the mask says how many keys there are.
    """
    caches = {port.name for port in (*ports.keys, *ports.values)}
    producers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if caches.isdisjoint(node.input):
            continue
        if node.op_type != "GroupQueryAttention" or ports.mask is None:
            return False
        for name in node.input[5:7]:
            while name in producers and producers[name].input:
                name = producers[name].input[0]
            if name != ports.mask.name:
                return False
    return True


class FusedLayers(NamedTuple):
    """The layers whose attention is GroupQueryAttention.

    Attributes:
        fused: the number of these layers.
        layers: the number of all layers.
        reasons: the reasons why the other layers are not fused, each with the node.
    """

    fused: int
    layers: int
    reasons: tuple[str, ...] = ()

    def summary(self) -> str:
        """The numbers in a few words."""
        return f"GroupQueryAttention in {self.fused} of {self.layers} layers"


def fused_layers(model: onnx.ModelProto) -> FusedLayers:
    """The number of layers in which GroupQueryAttention reads the cache, and the reasons for the
    other layers, under the assumptions in the metadata of the model.
    """
    keys = {port.name for port in ports_of(model).keys}
    fused = [node for node in model.graph.node if node.op_type == PATTERNS[0]]
    count = sum(bool(keys.intersection(node.input)) for node in fused)
    if count == len(keys):
        return FusedLayers(count, count)
    explanations = explain(model, PATTERNS[0], assume_from_model=True)
    reasons = tuple(
        f"{explanation.anchor.name}: {explanation.reason or 'the pattern is not selected'}"
        for explanation in explanations
    )
    fallback = ("no operator Attention reads the cache: its scores are computed in another form",)
    return FusedLayers(count, len(keys), reasons or fallback)


def config_path(target: Path) -> Path:
    """The file of the configuration of a model: next to it."""
    return target.with_name(FILE)


def config_text(config: Mapping[str, Any]) -> str:
    """The content of the file of a configuration."""
    return json.dumps(config, indent=4) + "\n"


def write_config(config: Mapping[str, Any], target: Path) -> Path:
    """Write a configuration next to a model; returns the file.

    Raises `ModelError` when it cannot be written: it is not written through a link.
    """
    path = config_path(target)
    write_derived(path, config_text(config).encode())
    return path


def _read(folder: Path) -> dict[str, Any]:
    """The settings in ``config.json``; those in ``generation_config.json`` override them."""
    result: dict[str, Any] = {}
    for name in ("config.json", "generation_config.json"):
        path = folder / name
        if name != "config.json" and not path.exists():
            continue
        try:
            content = read_json_object(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ChoiceError(f"cannot read {path}: {reason}") from None
        nested = content.get("text_config")
        for settings in (nested if isinstance(nested, dict) else {}, content):
            _check(settings, path)
            result |= {key: value for key, value in settings.items() if value is not None}
    return result


def _check(settings: Mapping[str, Any], path: Path) -> None:
    """Raise `ChoiceError` for a setting that is read and has a value of another kind.

    ``None`` stands for a setting that is not there.
    """
    for kind, names in _KINDS.items():
        for name in names:
            value = settings.get(name)
            if value is not None and not kind.accepts(value):
                text = shortened(json.dumps(value))
                raise ChoiceError(f"{path}: {name} is {text}, expected {kind.words}")


def _context(settings: Mapping[str, Any]) -> int:
    length: int = _first(settings, _CONTEXT, 0)
    if not length:
        raise ChoiceError(f"config.json has no context length: add {_CONTEXT[0]!r}")
    return length


def _first(settings: Mapping[str, Any], names: Sequence[str], default: Any) -> Any:
    return next((settings[name] for name in names if settings.get(name) is not None), default)


def _named(ports: Sequence[onnx.ValueInfoProto], word: str) -> list[onnx.ValueInfoProto]:
    return [port for port in ports if word in port.name.lower()]


def _kind(port: onnx.ValueInfoProto) -> str:
    """``key`` or ``value``, the word that is last in a name such as past_key_values.0.value."""
    return max(("key", "value"), key=port.name.lower().rfind)


def _numbered(ports: Sequence[onnx.ValueInfoProto]) -> str:
    """The names with ``%d`` in place of the number of the layer."""
    names = [port.name for port in ports]
    template = re.sub(r"(?<!\d)0(?!\d)", "%d", names[0].replace("%", "%%"), count=1)
    if "%d" not in template or [template % layer for layer in range(len(names))] != names:
        raise ModelError(
            f"the KV cache is not named by layer, from 0 in order: {', '.join(names[:3])}"
        )
    return template


def _listed(ports: Sequence[onnx.ValueInfoProto]) -> str:
    return listed([abridged(port.name) for port in ports])


def _rank(port: onnx.ValueInfoProto) -> int:
    return len(port.type.tensor_type.shape.dim)


def _holds_floats(port: onnx.ValueInfoProto) -> bool:
    return is_float(port.type.tensor_type.elem_type)


def _dims(port: onnx.ValueInfoProto) -> list[str]:
    """The dimensions as texts, each a name, a formula, or a number."""
    dims = port.type.tensor_type.shape.dim
    return [
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or f"{port.name}:{axis}"
        for axis, dim in enumerate(dims)
    ]


def _is_symbol(text: str) -> bool:
    """Whether a dimension is a name, and neither a number nor a formula."""
    if text.isdecimal():
        return False
    dim = dimension(text)
    return isinstance(dim, SymbolicDim) and dim.is_symbol
