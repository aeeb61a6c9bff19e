"""Layers of decoders with a cache: one Attention reads and writes it, and the numbers are equal in
all calls.
"""

from typing import Final

import pytest

from tests.patterns.attention.comparison import assert_same
from tests.patterns.attention.forms import HEADS
from tests.patterns.attention.models import GROUPS, Form, model_of
from tests.support import types
from xoptim import optimize

LENGTHS: Final = (1, 5)
PAST: Final = (0, 1, 17)
PADDINGS: Final = ("left", "right")
ROTARY: Final = Form(
    mask="causal and padding, later", groups=GROUPS, past=True, rotary="halves", positions="later"
)
LAYERS: Final = {
    "LLaMA, eager": ROTARY,
    "LLaMA, sdpa": ROTARY._replace(queries="root", scores="plain", mask="guarded, later"),
    "heads repeated by Gather": ROTARY._replace(repeat="Gather", mask="guarded, later"),
    "heads repeated by Tile": ROTARY._replace(repeat="Tile"),
    "one head of keys": ROTARY._replace(groups=1, mask="guarded, later"),
    "Phi: a part of each head": ROTARY._replace(
        groups=HEADS, rotary="partial", mask="guarded, later"
    ),
    "GPT-2": Form(mask="causal and padding, later", past=True),
    "positions of padded tokens": ROTARY._replace(positions="given"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    form = LAYERS[name]
    before = model_of(form, 24)
    after = optimize(before)
    found = types(after)
    assert (found.count("Attention"), found.count("RotaryEmbedding")) == (
        1,
        2 if form.rotary else 0,
    )
    assert not {"Softmax", "Tile", "Transpose"} & set(found)
    assert (
        sum(bool(node.input[4:]) for node in after.graph.node if node.op_type == "Attention") == 1
    )
    guards = found.count("IsNaN")
    assert guards == (form.mask == "guarded, later")
    finite = optimize(before, patterns="default+finite")
    assert "IsNaN" not in types(finite)
    assert_same(before, after, finite, lengths=LENGTHS, past=PAST, paddings=PADDINGS)


@pytest.mark.parametrize("name", ["LLaMA, sdpa", "GPT-2"])
def test_layer_in_operator_set_18(name: str) -> None:
    before = model_of(LAYERS[name], 18)
    for patterns in ("default", "default+onnxruntime"):
        assert_same(
            before,
            optimize(before, patterns=patterns),
            lengths=LENGTHS,
            past=PAST,
            paddings=PADDINGS,
        )
    assert_same(
        before, optimize(before, opset="newest"), lengths=LENGTHS, past=PAST, paddings=PADDINGS
    )
