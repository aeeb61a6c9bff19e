"""Forms in which exporters write attention: which operators result, and the numbers for all
batches, lengths and paddings.
"""

import itertools
from collections import Counter
from typing import Final, NamedTuple

import pytest

from tests.patterns.attention import forms
from tests.patterns.attention.comparison import assert_same
from tests.patterns.attention.forms import HEADS
from tests.patterns.attention.models import GROUPS, Form, model_of
from tests.share import is_in_share
from tests.support import types
from xoptim import explain, optimize

pytestmark = pytest.mark.slow

NEWEST: Final = 24
OLDER: Final = 18
FUSED: Final = frozenset(
    ("Attention", "GroupQueryAttention", "MultiHeadAttention", "RotaryEmbedding")
)
SHORT: Final = (1, 7, 64)
LONG: Final = (512,)
ONE: Final = {"Attention": 1}
MANY: Final = {"MultiHeadAttention": 1}
ROTATED: Final = {"Attention": 1, "RotaryEmbedding": 2}


class Case(NamedTuple):
    """A form, and the operators that it becomes.

    Attributes:
        form: the form.
        newest: fused operators in the newest operator set, with the preset ``default``.
        older: the same in operator set 18, with the operators of onnxruntime.
        reason: of `Attention` to refuse it, part of the message.
    """

    form: Form
    newest: dict[str, int] = ONE
    older: dict[str, int] = {}
    reason: str = ""


COUNTS: Final = {"equal heads": HEADS, "Expand": GROUPS, "Expand alone": 1}
"""How heads of keys and values are repeated, and how many there are."""

CASES: Final = {
    "scaled scores": Case(Form(), older=MANY),
    "divided scores": Case(Form(scores="divided"), older=MANY),
    "scaled queries": Case(Form("multiplied", scores="plain"), older=MANY),
    "both scaled by the root": Case(Form("root", scores="plain"), older=MANY),
    "scale in a weight": Case(Form(scores="plain"), older=MANY),
    "casts": Case(Form(scores="between casts"), older=MANY),
    "capped": Case(Form(scores="capped"), {}, reason="expected MatMul"),
    "keys moved at once": Case(Form(keys="moved"), older=MANY),
    "keys of merged batches": Case(Form(keys="merged batches"), older=MANY),
    "four axes": Case(Form(packed=False)),
    "three axes": Case(Form(bmm=True), older=MANY),
    **{
        mask: Case(
            Form(mask=mask, past="later" in mask, groups=GROUPS if "later" in mask else HEADS),
            older={} if "later" in mask or "then" in mask else MANY,
        )
        for mask in (*forms.MASKS, *forms.MORE_MASKS)
        if mask != "none"
    },
    **{mask: Case(Form(mask=mask), older=MANY) for mask in ("infinite causal", "infinite Trilu")},
    **{
        f"{mask}, {heads}, {'past' if past else 'no past'}": Case(
            Form("root", "swapped", "plain", mask, COUNTS[heads], past=past, repeat=heads),
            older=MANY if heads == "equal heads" else {},
        )
        for mask, heads, past in itertools.product((*forms.GIVEN, "none"), COUNTS, (False, True))
    },
    **{
        f"capped, {mask}": Case(Form(mask=mask, scores="capped"), {}, reason="expected")
        for mask in ("none", "given", "lowest chosen")
    },
    **{mask: Case(Form("root", "merged batches", "plain", mask)) for mask in forms.GUARDED},
    "guarded groups": Case(Form("root", "swapped", "plain", "guarded", GROUPS)),
    **{
        mask: Case(Form(mask=mask), {}, reason="expected")
        for mask in (*forms.FINITE_MASKS, *forms.STORED)
    },
    **{
        f"groups by {repeat}": Case(Form(mask="lowest chosen", groups=GROUPS, repeat=repeat))
        for repeat in ("Expand", "Tile", "Gather", "Concat")
    },
    "one head of keys": Case(Form(groups=1)),
    **{
        f"rotary {turn}, {places}": Case(
            Form(mask="causal and padding", rotary=turn, positions=places), ROTATED
        )
        for turn, places in itertools.product(forms.COSINES, ("given", "range"))
    },
    "rotary behind a past": Case(
        Form(
            mask="causal and padding, later",
            groups=GROUPS,
            past=True,
            rotary="halves",
            positions="later",
        ),
        ROTATED,
    ),
    "rotary in groups": Case(
        Form(mask="causal and padding", groups=GROUPS, rotary="stored"), ROTATED
    ),
    "guarded rotary in groups": Case(
        Form("root", "swapped", "plain", "guarded", GROUPS, rotary="halves"), ROTATED
    ),
    "past": Case(Form(past=True), older=MANY),
    "past and padding": Case(Form(mask="lowest chosen", past=True), older=MANY),
    "past in groups": Case(Form(mask="lowest chosen", past=True, groups=GROUPS)),
}
FEW: Final = (
    "both scaled by the root",
    "causal and padding, later",
    "guarded groups",
    "rotary in groups",
)
NAMES: Final = [
    name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in CASES
]
PARTS: Final = 2
"""A run tries one of so many parts of the forms, and the few."""


@pytest.mark.parametrize("name", NAMES)
def test_form(name: str, request: pytest.FixtureRequest) -> None:
    """Without ``-k``, a run tries every second form."""
    is_selected = name in FEW or is_in_share(name, PARTS, "patterns/attention")
    if not (is_selected or request.config.option.keyword):
        pytest.skip("not in the share; -k tries all that it selects")
    case = CASES[name]
    newest, older = model_of(case.form, NEWEST), model_of(case.form, OLDER)
    after = optimize(newest)
    portable = optimize(older, patterns="default+onnxruntime")
    for found, expected in ((after, case.newest), (portable, case.older)):
        assert {op: count for op, count in Counter(types(found)).items() if op in FUSED} == expected
    if case.reason:
        reasons = [str(each) for each in explain(newest, "Attention", after="default")]
        assert any(case.reason in each for each in reasons), reasons
    paddings = (
        ("left", "right") if "mask" in {value.name for value in newest.graph.input} else ("none",)
    )
    # Next to such masks, scores keep three digits behind the point; a row that is hidden as a whole
    # consists of the others.
    atol = 2e-3 if case.form.mask == "ten thousand" else None
    past = (0, 5) if case.form.past else (0,)
    assert_same(newest, after, portable, lengths=SHORT, past=past, paddings=paddings, atol=atol)
    # The order in which hundreds of products are added up differs: that rounds the largest
    # elements, about 4, differently.
    assert_same(
        newest,
        after,
        portable,
        lengths=LONG,
        past=past,
        paddings=paddings,
        atol=atol,
        rounding=5e-6,
    )
