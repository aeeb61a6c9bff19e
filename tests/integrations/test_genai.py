"""What onnxruntime-genai feeds a decoder, and the configuration that it reads."""

import json
import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest

from tests.cli.command import runner, types_in
from tests.meta.sources import ROOT
from tests.patterns.attention.decoder import GROUPS, HEADS, PLAIN, SIZE, decoder
from tests.support import parse, values_in
from xoptim import ChoiceError, ModelError, optimize
from xoptim.integrations.genai import (
    FILE,
    PATTERNS,
    FusedLayers,
    assumptions_for,
    config_of,
    fused_layers,
    write_config,
)

CACHE: Final = "float[b,2,p,16] {}_0_key, float[b,2,p,16] {}_0_value"
SETTINGS: Final[dict[str, Any]] = {
    "num_attention_heads": 4,
    "hidden_size": 64,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def folder_with(folder: Path, **settings: Any) -> Path:
    """A folder with the settings of a model; those that are None are left out."""
    given = {key: value for key, value in {**SETTINGS, **settings}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(given))
    return folder


def model_of(
    inputs: str = f"int64[b,s] ids, int64[b,t] mask, {CACHE.format('past', 'past')}",
    outputs: str = "float[b,s,9] logits, float[b,2,t,16] now_0_key, float[b,2,t,16] now_0_value",
) -> onnx.ModelProto:
    """A model with these inputs and outputs, which computes nothing of use."""
    names = [part.split()[-1] for part in outputs.split(", ")]
    body = " ".join(f"{name} = Identity(some)" for name in names)
    return parse(f"agraph ({inputs}) => ({outputs}) <float some = {{1}}> {{ {body} }}")


def whole_decoder(weights: str = PLAIN, sinks: np.ndarray | None = None) -> onnx.ModelProto:
    """A layer with tokens and scores, which computes something; arguments as of `decoder`."""
    model = decoder(0, weights, sinks)
    graph = model.graph
    graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("ids", 7, ["b", "n"]))
    renamed = {"past_key": "past.0.key", "past_value": "past.0.value", "y": "logits"}
    renamed |= {"key": "present.0.key", "value": "present.0.value"}
    for value in (*graph.input, *graph.output):
        value.name = renamed.get(value.name, value.name)
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    table = onnx.helper.make_tensor(
        "table", 1, (9, HEADS * SIZE), [(7 * i % 13 - 6) / 6 for i in range(9 * HEADS * SIZE)]
    )
    graph.initializer.append(table)
    graph.node.insert(0, onnx.helper.make_node("Gather", ["table", "ids"], ["x"]))
    return model


def test_the_line_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "decoders.md").read_text(encoding="utf-8")
    lines = re.findall(r"^```sh\n(.*?)\n```", page, re.DOTALL | re.MULTILINE)
    (line,) = (line for line in lines if "--genai" in line)
    monkeypatch.chdir(tmp_path)
    onnx.save(whole_decoder(), "decoder.onnx")
    Path("out").mkdir()
    folder_with(tmp_path)
    assert line.startswith("xopt ")
    done = runner(capsys)(*line.replace("FOLDER", ".").split()[1:])
    assert done.code == 0, done.err
    assert sorted(each.name for each in Path("out").iterdir()) == [FILE, "model.onnx"]


@pytest.mark.slow
def test_the_export_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader copies the snippet, and each layer of the decoder is fused."""
    pytest.importorskip("transformers.exporters")
    page = (ROOT / "docs" / "decoders.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter warns about its own use of torch
        exec(compile(snippet, "decoders.md", "exec"), {})
    (tmp_path / "out").mkdir()
    (command,) = re.findall(r"`(xopt decoder[^`]*--genai checkpoint)`", page)
    outcome = runner(capsys)(*command.split()[1:])
    assert outcome.code == 0, outcome
    assert re.search("GroupQueryAttention .*2 of 2 ", outcome.out)
    assert "203 → 32" in outcome.out


def test_a_decoder_and_its_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, target = tmp_path / "decoder.onnx", tmp_path / "made.onnx"
    onnx.save(whole_decoder(), path)
    folder = folder_with(tmp_path)
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 3], "top_k": 7}')
    done = runner(capsys)(path, "-o", target, "--genai", folder)
    assert done.code == 0, done.err
    assert types_in(target).count("GroupQueryAttention") == 1
    config = json.loads((tmp_path / FILE).read_text())
    decoding, search = config["model"]["decoder"], config["search"]
    assert decoding["filename"] == "made.onnx"
    assert decoding["inputs"] == {
        "input_ids": "ids",
        "attention_mask": "mask",
        "past_key_names": "past.%d.key",
        "past_value_names": "past.%d.value",
    }
    assert decoding["outputs"] == {
        "logits": "logits",
        "present_key_names": "present.%d.key",
        "present_value_names": "present.%d.value",
    }
    numbers = ("head_size", "num_attention_heads", "num_key_value_heads", "num_hidden_layers")
    assert [decoding[name] for name in numbers] == [SIZE, HEADS, GROUPS, 1]
    assert (config["model"]["eos_token_id"], config["model"]["pad_token_id"]) == ([2, 3], 2)
    assert (search["top_k"], search["max_length"]) == (7, 32)
    assert search["past_present_share_buffer"] is True


def test_a_cache_that_grows(tmp_path: Path) -> None:
    """Other operators than GroupQueryAttention do not write into the memory of earlier keys."""
    before = whole_decoder()
    config = config_of(before, folder_with(tmp_path), "m.onnx")
    assert config["search"]["past_present_share_buffer"] is False


def test_a_cache_whose_length_is_constant(tmp_path: Path) -> None:
    """Only the mask says how many keys a shared buffer has."""
    model = parse(
        f"agraph (int64[b,s] ids, int64[b,t] mask, {CACHE.format('past', 'past')}) "
        "=> (float[b,s,9] logits, float[b,2,t,16] now_0_key, float[b,2,t,16] now_0_value) "
        "{ n = Constant <value = int32[1] {3}> () m = Constant <value = int32 {4}> () "
        "logits, now_0_key, now_0_value = com.microsoft.GroupQueryAttention "
        "<num_heads = 4, kv_num_heads = 2> (q, k, v, past_0_key, past_0_value, n, m) }",
        domains={"com.microsoft": 1},
    )
    config = config_of(model, folder_with(tmp_path), "m.onnx")
    assert config["search"]["past_present_share_buffer"] is False


def test_what_is_assumed(tmp_path: Path) -> None:
    known = assumptions_for(whole_decoder(), folder_with(tmp_path))
    assert known == [
        "finite",
        "t == p + n",
        "b == 1 or n == 1 or p == 0",
        "p <= 31",
        "n <= 32",
        "ones(mask)",
    ]
    after = optimize(whole_decoder(), assume=known, verify=True, patterns=list(PATTERNS))
    assert "Softmax" in {node.op_type for node in after.graph.node}


def test_names_of_sizes_that_are_equal_in_a_run(tmp_path: Path) -> None:
    caches = "float[c,2,p,16] past_0_key, float[c,2,q,16] past_0_value"
    model = model_of(f"int64[b,s] ids, int64[m,t] mask, {caches}")
    known = assumptions_for(model, folder_with(tmp_path))
    assert {"c == b", "q == p", "m == b", "t == p + s"} <= {*known}
    fixed = model_of(f"int64[1,1] ids, int64[1,t] mask, {CACHE.format('past', 'past')}")
    assert not any(" or " in text for text in assumptions_for(fixed, tmp_path))


@pytest.mark.parametrize(
    ("inputs", "outputs", "reason"),
    [
        (
            "int64[b,s] ids, float[b,s] weights, {past}",
            "{out}",
            "input 'weights'",
        ),
        ("int64[b,s] ids, int64[b] kind, {past}", "{out}", "one input of token ids"),
        (
            "int64[b,s] ids, int64[b] kind, {past}",
            "{out}, float[b,9] extra",
            "'ids', 'kind' .*'logits', 'extra'",
        ),
        ("int64[s] ids, {past}", "{out}", "'ids' .* rank 2"),
        ("int64 ids, {past}", "{out}", "'ids' .* rank 2"),
        ("int64[b,s] ids, int64[t] mask, {past}", "{out}", "'mask' .* rank 2"),
        (
            "int64[b,s] ids, {past}",
            "float logits, float[b,2,t,16] now_0_key, float[b,2,t,16] now_0_value",
            "'logits' .* rank 1",
        ),
        ("int64[b,s] ids", "float[b,s,9] logits", "KV cache"),
        ("int64[b,s] ids, {past}", "float[b,s,9] logits", "KV cache"),
        (
            "int64[b,s] ids, float[b,2,p,16] first_key, float[b,2,p,16] first_value",
            "{out}",
            "by layer, .*: first_key",
        ),
    ],
)
def test_other_models_are_refused(inputs: str, outputs: str, reason: str, tmp_path: Path) -> None:
    out = "float[b,s,9] logits, float[b,2,t,16] now_0_key, float[b,2,t,16] now_0_value"
    past = CACHE.format("past", "past")
    model = model_of(inputs.format(past=past), outputs.format(out=out))
    with pytest.raises(ModelError, match=reason) as error:
        config_of(model, folder_with(tmp_path), "m.onnx")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"eos_token_id": None}, "has no eos_token_id"),
        ({"max_position_embeddings": None}, "has no context length"),
    ],
)
def test_settings_that_are_missing(settings: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=reason):
        config_of(model_of(), folder_with(tmp_path, **settings), "m.onnx")


WRONG: Final[Mapping[str, Sequence[object]]] = {
    "eos_token_id": ([], [2, -1], [[2]], "2", -1, 1 << 40, True, {}),
    "bos_token_id": ([1], "1", 1.0),
    "pad_token_id": (-1,),
    "max_position_embeddings": ("32", 0, -1, 1 << 63, 32.0, True),
    "num_attention_heads": ("4", 0, [4]),
    "hidden_size": (-64,),
    "temperature": ("1", -1, math.nan, math.inf, True, 1e300),
    "top_k": (1.5,),
    "do_sample": ("yes",),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG.items() for value in values],
)
@pytest.mark.parametrize("is_nested", [False, True])
def test_settings_of_other_types(name: str, value: object, is_nested: bool, tmp_path: Path) -> None:
    settings = {"text_config": {name: value}} if is_nested else {name: value}
    with pytest.raises(ChoiceError, match=rf"config\.json: {name} ") as caught:
        config_of(model_of(), folder_with(tmp_path, **settings), "m.onnx")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value).removeprefix(str(tmp_path))) < 250


@pytest.mark.parametrize(
    ("name", "number", "size"),
    [("num_hidden_layers", 4, 1), ("num_key_value_heads", 8, 2), ("vocab_size", 32000, 9)],
)
def test_the_folder_of_another_model(
    name: str, number: int, size: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config_of(model_of(), folder_with(tmp_path, **{name: size}), "model.onnx")
    assert caplog.messages == []
    config_of(model_of(), folder_with(tmp_path, **{name: number}), "model.onnx")
    (warning,) = caplog.messages
    assert re.search(rf"config\.json: {name} .* {number}, .* {size}; ", warning)


def test_a_number_of_tokens_that_nothing_tells(tmp_path: Path) -> None:
    outputs = "float[b,s,v] logits, float[b,2,t,16] now_0_key, float[b,2,t,16] now_0_value"
    model = model_of(outputs=outputs)
    with pytest.raises(ChoiceError, match="vocab_size"):
        config_of(model, folder_with(tmp_path), "m.onnx")
    config = config_of(model, folder_with(tmp_path, vocab_size=9), "m.onnx")
    assert config["model"]["vocab_size"] == 9


@pytest.mark.parametrize("text", [None, "{", "[1]", "[" * 100_000, '{"a": 1, "a": 1}', "\udcff"])
def test_settings_that_cannot_be_read(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "decoder.onnx"
    onnx.save(model_of(), path)
    if text is not None:
        (tmp_path / "config.json").write_bytes(text.encode(errors="surrogateescape"))
    done = runner(capsys)(path, "-o", tmp_path / "made.onnx", "--genai", tmp_path)
    assert "config.json" in done.error
    assert not (tmp_path / "made.onnx").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_settings_that_are_a_pipe(name: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(ChoiceError, match=rf"{name}: .* pipe"):
        assumptions_for(model_of(), folder)


def test_options_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "decoder.onnx"
    onnx.save(whole_decoder(), path)
    folder = folder_with(tmp_path)
    xopt = runner(capsys)
    assert FILE in xopt(path, "-o", "-", "--genai", folder).error
    assert "--target" in xopt(path, "--genai", folder, "--target", "onnx").error


def test_the_configuration_is_not_written_through_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, victim, link = tmp_path / "decoder.onnx", tmp_path / "victim", tmp_path / "out" / FILE
    onnx.save(whole_decoder(), path)
    victim.write_text("mine")
    link.parent.mkdir()
    link.symlink_to(victim)
    done = runner(capsys)(path, "-o", link.with_name("made.onnx"), "--genai", folder_with(tmp_path))
    assert re.search(f"{re.escape(str(link))}': .*symbolic link", done.error)
    with pytest.raises(ModelError, match="symbolic link"):
        write_config({}, link.with_name("made.onnx"))
    assert (victim.read_text(), link.is_symlink()) == ("mine", True)
    assert [each.name for each in link.parent.iterdir()] == [FILE]


def test_the_configuration_is_written_with_the_model_or_neither(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, target = tmp_path / "decoder.onnx", tmp_path / "out" / "made.onnx"
    onnx.save(whole_decoder(), path)
    target.parent.mkdir()
    # it appears after the first look
    monkeypatch.setattr("xoptim.cli.commands.optimize.check_derived", lambda _: None)
    target.with_name(FILE).mkdir()
    done = runner(capsys)(path, "-o", target, "--genai", folder_with(tmp_path))
    assert done.code == 2
    assert re.search(f"{re.escape(str(target.with_name(FILE)))}': .*folder", done.err)
    assert [each.name for each in target.parent.iterdir()] == [FILE]


def fused(tmp_path: Path, **options: Any) -> onnx.ModelProto:
    model = whole_decoder()
    known = assumptions_for(model, folder_with(tmp_path))
    return optimize(
        model, patterns="default+onnxruntime+genai", opset="newest", assume=known, **options
    )


def test_all_layers_are_fused(tmp_path: Path) -> None:
    layers = fused_layers(fused(tmp_path))
    assert layers == FusedLayers(1, 1)
    assert values_in(layers.summary()) == ["1", "1"]


def test_a_layer_that_is_not_fused_has_a_reason(tmp_path: Path) -> None:
    layers = fused_layers(fused(tmp_path, drop=[*PATTERNS]))
    assert (layers.fused, layers.layers) == (0, 1)
    assert layers.reasons[0].endswith(" not selected")
    (reason,) = fused_layers(whole_decoder()).reasons
    assert " Attention " in reason
