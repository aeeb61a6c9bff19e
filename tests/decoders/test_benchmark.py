"""The benchmark of decoders, on tiny ones where torch is installed.

Its figures are computed without.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import decoders
from benchmarks.decoder_models import (
    DECODERS,
    EXPORTERS,
    Load,
    caches,
    missing,
    open_axes,
    values_of,
)
from benchmarks.decoders import (
    GENAI,
    INT4,
    Figures,
    Plan,
    difference,
    fill,
    head,
    lines_of,
    row,
    usual,
)
from benchmarks.measured import read
from tests.meta.sources import ROOT
from xoptim.bench.rounds import Times
from xoptim.bench.subjects import Loading

PAGE = ROOT / "lab" / "decoders.md"
FOUR = {
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
}
WIDTHS = {
    "llama": {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
    },
    "whisper": {
        "d_model": 64,
        **FOUR,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
    },
    "gpt2": {"n_embd": 64, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2},
}
"""Settings that make the decoders tiny."""
FEW = {"2 sequences": Load(2, 1, 3), "3 tokens": Load(1, 3, 0)}


def tiny(name: str) -> Plan:
    """A decoder of one layer and four heads, optimized with the widest selection."""
    full = DECODERS[name]
    settings = {**full.settings, **WIDTHS[name], "vocab_size": 64}
    small = replace(
        full,
        settings=settings,
        heads=4,
        width=16,
        vocabulary=64,
        source=full.source and 30,
        loads=FEW,
    )
    return Plan(small, 1, 0.01, 1, ["onnxruntime newest"])


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DECODERS)
def test_a_tiny_decoder(name: str, tmp_path: Path, brief: None) -> None:
    if reason := missing("torch", "transformers", "onnxscript"):
        pytest.skip(reason)
    lines = [*lines_of(tiny(name), ("dynamo", "tracing"), tmp_path)]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("| o")
    ]
    assert [cells[0] for cells in rows] == ["original", "onnxruntime newest"] * 2
    for original, ours in (rows[:2], rows[2:]):
        assert int(ours[1]) < int(original[1]) / 2
        assert float(ours[-2]) < 1e-5
    if DECODERS[name].built:
        reason = missing("onnxruntime_genai")
        assert any(
            line.startswith(f"built: not measured: {reason}" if reason else "| built")
            for line in lines
        )


def test_inputs() -> None:
    decoder = replace(DECODERS["whisper"], heads=2, width=4, source=6)
    assert caches(decoder, 1) == [
        "0.decoder.key",
        "0.decoder.value",
        "0.encoder.key",
        "0.encoder.value",
    ]
    assert caches(DECODERS["gpt2"], 2) == ["0.key", "0.value", "1.key", "1.value"]
    shapes = {name: value.shape for name, value in values_of(decoder, 1, Load(3, 2, 5)).items()}
    assert shapes["input_ids"] == (3, 2)
    assert shapes["attention_mask"] == (3, 7)
    assert shapes["past_key_values.0.decoder.value"] == (3, 2, 5, 4)
    assert shapes["past_key_values.0.encoder.value"] == (3, 2, 6, 4)
    axes = open_axes(decoder, 1)
    assert [*axes] == [*shapes]
    assert axes["past_key_values.0.encoder.key"] == {0: "batch"}


def test_workloads_are_named_by_the_length_of_the_cache() -> None:
    loads = DECODERS["whisper"].workloads()
    assert [*loads] == ["1 token after 256", "4 sequences", "128 tokens"]
    assert loads["4 sequences"] == Load(4, 1, 256)


def test_logits_that_are_not_numbers_differ() -> None:
    logits = np.array([1.0, -4.0])
    assert difference(logits + np.array([0, 1]), logits) == 0.25
    assert difference(np.array([1.0, np.nan]), logits) == np.inf


def test_a_row() -> None:
    times = {
        "original": Times([[0.002, 0.002]]),
        "built": Times([[0.004, 0.004]]),
        "default": Times([[0.001, 0.001]]),
    }
    figures = {label: Figures(9, Loading(1.5, 2_000_000_000)) for label in times}
    figures["default"].seconds = 7.0
    fill(figures, {"1 token": times}, {"original": 0.0, "built": 1e-6, "default": 2e-7})
    base = {"1 token": 2.0}
    assert (
        row("original", figures["original"], base)
        == "| original | 9 | 2.00 ms (0.50) | 1.5 | 2.0 |  |  |"
    )
    assert (
        row("default", figures["default"], base)
        == "| default | 9 | 0.50 (0.25) | 1.5 | 2.0 | 2e-07 | 7 |"
    )
    widths = [line.count("|") for line in head(tiny("gpt2")).splitlines()]
    assert widths == [row("default", figures["default"], base).count("|") + 1] * 2


def test_the_page() -> None:
    """Its commands have options that exist, its tables the columns of a run."""
    page = PAGE.read_text(encoding="utf-8")
    options = {each for option in decoders.main.params for each in option.opts}
    words = {
        word
        for line in page.splitlines()
        if line.startswith("python")
        for word in line.split("#")[0].split()[3:]
    }
    assert {word for word in words if word.startswith("--")} <= options
    tables = read(PAGE)
    for name in DECODERS:
        expected = head(replace(tiny(name), decoder=DECODERS[name])).splitlines()[0]
        for exporter in EXPORTERS:
            assert tables[f"{name} {exporter}"].markdown().splitlines()[0] == expected


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_weights_of_4_bits(tmp_path: Path, brief: None) -> None:
    if reason := missing("torch", "transformers", "onnxscript"):
        pytest.skip(reason)
    lines = [*lines_of(replace(tiny("gpt2"), selections=[INT4]), ["tracing"], tmp_path)]
    (rounded,) = [line for line in lines if line.startswith("| int4")]
    assert 1e-3 < float(rounded.split(" | ")[-2]) < 1


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_decoder_for_genai(tmp_path: Path, brief: None) -> None:
    if reason := missing("torch", "transformers", "onnxscript"):
        pytest.skip(reason)
    plan = replace(tiny("gpt2"), selections=[GENAI])
    lines = [*lines_of(plan, ["dynamo"], tmp_path)]
    (found,) = [line.strip("| ").split(" | ") for line in lines if line.startswith("| genai")]
    assert int(found[1]) < 40
    assert float(found[-2]) < 1e-5


def test_selections_of_a_decoder() -> None:
    assert [GENAI in usual(DECODERS[name]) for name in ("llama", "whisper")] == [True, False]
    assert INT4 not in usual(DECODERS["llama"])


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "missing", lambda *names: f"no {names[0]}")
    done = CliRunner().invoke(decoders.main, ["--only", "gpt2"])
    assert done.exit_code == 1
    assert "no torch" in done.output


def test_the_builder_may_be_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(decoders, "missing", lambda *_: "no builder")
    (line,) = lines_of(tiny("llama"), (), tmp_path)
    assert line.startswith("built: ")
    assert line.endswith(": no builder")
