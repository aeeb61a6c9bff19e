"""Decoders with a cache, as torch exports them; skipped where torch or transformers is missing."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

import onnx
import pytest

from tests.decoders.comparison import assert_same
from tests.decoders.exports import FAMILIES, LAYERS, Form, export, feeds_of, forms
from tests.support import types
from xoptim import optimize

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxscript")

# torch's exporter warns about its own use of torch
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

ROTATED: Final = ("llama", "mistral", "qwen2", "gemma", "phi", "gemma3")
"""Families with rotary embeddings."""
NOT_WRITTEN: Final = (("t5", "dynamo", "sdpa"),)
"""Forms that torch's exporter fails on."""
OPEN: Final = (("opt", "dynamo"),)
"""Forms whose lengths of queries come from the mask too, so that they may be 0 (onnxruntime's
kernel refuses that), unless the name of the mask's length says what it is.
"""


@pytest.mark.parametrize(
    "form", [form for form in forms() if form[:3] not in NOT_WRITTEN], ids=lambda form: form.name
)
def test_form(form: Form, tmp_path: Path) -> None:
    """One Attention a layer, which reads the cache, shares heads and splits and merges them, and
    equal numbers.
    """
    before = onnx.load(export(form, tmp_path))
    after = optimize(before, patterns="default+onnxruntime", opset="newest")
    finite = optimize(before, patterns="default+onnxruntime+finite", opset="newest")
    assert_same(before, partial(feeds_of, form), after, finite)
    if form[:2] in OPEN:
        return
    found = Counter(types(after))
    attentions = [node for node in after.graph.node if node.op_type == "Attention"]
    with_past = [node for node in attentions if len(node.input) > 4 and node.input[4]]
    crosses = FAMILIES[form.family].crosses
    assert (len(attentions), len(with_past)) == (LAYERS * (2 if crosses else 1), LAYERS)
    assert found["RotaryEmbedding"] == (2 * LAYERS if form.family in ROTATED else 0)
    assert not {"FusedMatMul", "Softmax"} & set(found)
    assert "IsNaN" not in types(finite)
    assert found["Transpose"] <= 1, "one of the bias of positions"


def test_the_operator_set_of_the_exporter(tmp_path: Path) -> None:
    form = Form("llama", "dynamo", "sdpa", 2)
    before = onnx.load(export(form, tmp_path))
    assert_same(before, partial(feeds_of, form), optimize(before))
