"""Decoders for onnxruntime-genai compute, and generate there, what their originals do; skipped
where torch or onnxruntime-genai is missing.
"""

import itertools
import json
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest

from tests.cli.command import runner
from tests.decoders.comparison import BATCHES, LENGTHS, PAST, RULES
from tests.decoders.exports import (
    FAMILIES,
    HEADS,
    LAYERS,
    NEWER,
    SIZE,
    VOCABULARY,
    Form,
    export,
    family_of,
    feeds_of,
    forms,
    module_of,
)
from tests.patterns.attention.comparison import LEVELS, session
from tests.share import is_whole
from tests.support import types
from xoptim import optimize
from xoptim.integrations.genai import FILE, assumptions_for
from xoptim.verification.judging.compare import compare_values

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxscript")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

FORMS: Final = [
    form
    for form in forms()
    if not FAMILIES[form.family].crosses and form[1:3] in (("dynamo", "sdpa"), ("script", "eager"))
]
ALWAYS: Final = ("gpt_oss",)
"""Families of `NEWER` that run each time: with sinks, a window and experts. ``BATTERIES=all`` runs
all.
"""
STEPS: Final = 32
PROMPT: Final = [5, 17, 3, 60, 42]
COUNT: Final = 20


def by_onnxruntime(model: onnx.ModelProto, groups: int, count: int = COUNT) -> list[int]:
    """The tokens that a model generates, the likeliest each time, with the cache it returns."""
    names = [value.name for value in model.graph.input]
    cache = [np.zeros((1, groups, 0, SIZE), np.float32)] * (2 * LAYERS)
    run, new, found = session(model), PROMPT, list(PROMPT)
    while len(found) < len(PROMPT) + count:
        given = [np.array([new]), np.ones((1, len(found)), np.int64), *cache]
        scores, *cache = run.run(None, dict(zip(names, given, strict=True)))
        new = [int(scores[0, -1].argmax())]
        found += new
    return found[len(PROMPT) :]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_form(form: Form, tmp_path: Path) -> None:
    """One GroupQueryAttention a layer, and equal numbers where the assumptions hold."""
    before = onnx.load(export(form, tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(settings_of(form)))
    after = optimize(
        before,
        patterns="default+onnxruntime+genai",
        opset="newest",
        assume=assumptions_for(before, tmp_path),
    )
    found = types(after)
    assert found.count("GroupQueryAttention") == LAYERS
    assert not {"Attention", "MultiHeadAttention", "Softmax", "IsNaN"} & set(found)
    reference, judged = session(before), [session(after, level) for level in LEVELS]
    for batch, length, past in itertools.product(BATCHES, LENGTHS, PAST):
        if batch > 1 and length > 1 and past:
            continue
        values = feeds_of(form, batch, length, past, "none")
        expected = reference.run(None, values)
        for each in judged:
            for e, a in zip(expected, each.run(None, values), strict=True):
                result = compare_values("", e, a, RULES)
                assert all(part.ok for part in result), (batch, length, past, result)


def is_runnable(family: str) -> bool:
    """Whether all families run, and this one has no encoder."""
    return is_whole() and not family_of(family).crosses


def by_genai(folder: Path) -> list[int]:
    """The same in onnxruntime-genai."""
    genai = pytest.importorskip("onnxruntime_genai")
    model = genai.Model(str(folder))
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=len(PROMPT) + COUNT, do_sample=False)
    generator = genai.Generator(model, params)
    generator.append_tokens(np.array([PROMPT], dtype=np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(0)[len(PROMPT) :]]


def settings_of(form: Form) -> dict[str, Any]:
    """The settings as transformers writes them; no token ends a text before its length."""
    return {
        **family_of(form.family).settings,
        "eos_token_id": 98,
        "num_key_value_heads": form.groups,
    }


@pytest.mark.parametrize(
    ("family", "exporter"), [("llama", "dynamo"), ("llama", "script"), ("qwen2", "dynamo")]
)
def test_it_generates_the_same_tokens(
    family: str, exporter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    form = Form(family, exporter, "sdpa" if exporter == "dynamo" else "eager", 2)
    path = export(form, tmp_path)
    before = onnx.load(path)
    (tmp_path / "config.json").write_text(json.dumps(settings_of(form)))
    target = tmp_path / "made" / "model.onnx"
    target.parent.mkdir()
    done = runner(capsys)(str(path), "-o", str(target), "--genai", str(tmp_path))
    assert done.code == 0, done.err
    after = onnx.load(target)
    assert types(after).count("GroupQueryAttention") == LAYERS
    assert json.loads((target.parent / FILE).read_text())["search"]["past_present_share_buffer"]
    expected = by_onnxruntime(before, form.groups)
    assert len(set(expected)) > 1
    assert by_onnxruntime(after, form.groups) == expected
    assert by_genai(target.parent) == expected
    tokens = torch.tensor([PROMPT])
    for _ in range(COUNT):
        scores = module_of(form)(input_ids=tokens).logits[:, -1]
        tokens = torch.cat([tokens, scores.argmax(-1, keepdim=True)], dim=1)
    assert tokens[0, len(PROMPT) :].tolist() == expected


@pytest.mark.parametrize(
    "family", [name for name in (*FAMILIES, *NEWER) if name in ALWAYS or is_runnable(name)]
)
def test_a_family(family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The layers that are fused, and equal tokens for 32 steps."""
    chosen = family_of(family)
    attention = "eager" if family in ("gpt_oss", "gemma2") else "sdpa"
    form = Form(family, "dynamo", attention, chosen.groups[0])
    path = export(form, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(settings_of(form)))
    target = tmp_path / "made.onnx"
    done = runner(capsys)(str(path), "-o", str(target), "--genai", str(tmp_path))
    assert done.code == 0, done.err
    assert re.search(f"GroupQueryAttention .* {LAYERS} of {LAYERS} ", done.out)
    expected = by_onnxruntime(onnx.load(path), form.groups, STEPS)
    assert by_onnxruntime(onnx.load(target), form.groups, STEPS) == expected


@pytest.mark.parametrize("precision", ["", "int8", "int4"])
def test_a_tied_embedding_is_stored_once(
    precision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In Qwen2, the embedding of the tokens is the matrix of the scores."""
    form = Form("qwen2", "dynamo", "sdpa", 2)
    path = export(form, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(settings_of(form)))
    target = tmp_path / "made.onnx"
    words = ["--max-growth", "0"]  # nor as a transposed copy, which a small model would get
    words += ["--precision", precision, "--for", "size", "--tolerance", "99%"] if precision else []
    done = runner(capsys)(str(path), "-o", str(target), "--genai", str(tmp_path), *words)
    assert done.code == 0, done.err
    size = VOCABULARY * HEADS * SIZE * {"": 32, "int8": 8, "int4": 4}[precision] // 8
    stored = [each for each in onnx.load(target).graph.initializer if len(each.raw_data) == size]
    assert [each.name.partition(".weight")[0] for each in stored] == ["model.lm_head"]
