"""GroupQueryAttention written out gives what onnxruntime's kernel gives, in all its forms and for
all lengths.
"""

import itertools
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse, run
from xoptim import optimize

DOMAINS = {"com.microsoft": 1}
LATER = [
    ((1, 3, 5), [7], 8),  # a longer prompt: the cache grows
    ((1, 3, 8), [7], 8),  # a buffer that is filled
    ((1, 3, 9), [7], 8),  # a buffer with room behind
    ((1, 3, 5), [5], 8),  # fewer tokens than the total length
    ((2, 1, 5), [5, 2], 6),  # one token, after texts of different lengths
    ((2, 1, 8), [5, 2], 6),
    ((2, 3, 5), [2, 1], 3),  # the first prompt, with padding behind the second text
    ((2, 1, 5), [0, 0], 6),
]
FIRST = [((1, 3, 0), [2], 3), ((2, 3, 0), [2, 1], 3), ((1, 1, 0), [0], 1)]
FORMS = (
    "",
    ", local_window_size = 2",
    ", softcap = 0.5, scale = 0.3",
    ", softcap = 0.0, smooth_softmax = 0",
)
TURNS = ("", ", do_rotary = 1", ", do_rotary = 1, rotary_interleaved = 1")


def model_of(
    form: str, turn: str, *, is_packed: bool, has_past: bool, kind: str = "float"
) -> onnx.ModelProto:
    new = (
        f"{kind}[b,s,64] q"
        if is_packed
        else f"{kind}[b,s,32] q, {kind}[b,s,16] k, {kind}[b,s,16] v"
    )
    past = f", {kind}[b,1,p,16] i, {kind}[b,1,p,16] j" if has_past else ""
    tables = f", {kind}[40,8] c, {kind}[40,8] s" if turn else ""
    operands = (
        f"{'q, ,' if is_packed else 'q, k, v'}, {'i, j' if has_past else ','}, n, "
        f"t{', c, s' if turn else ''}"
    )
    attributes = f"num_heads = 2, kv_num_heads = 1{form}{turn}"
    text = f"""agraph ({new}{past}, int32[b] n, int32 t{tables}) => (y, kc, vc) {{
        y, kc, vc = com.microsoft.GroupQueryAttention <{attributes}> ({operands}) }}"""
    return parse(text, 21, domains=DOMAINS)


def feeds_of(
    model: onnx.ModelProto, sizes: tuple[int, int, int], last: list[int], total: int
) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    batch, length, past = sizes
    known = {"b": batch, "s": length, "p": past}
    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        shape = [
            known.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim
        ]
        feeds[value.name] = rng.standard_normal(shape).astype(
            onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        )
    return {**feeds, "n": np.array(last, np.int32), "t": np.array(total, np.int32)}


@pytest.mark.parametrize(("form", "turn"), list(itertools.product(FORMS, TURNS)))
def test_results_are_those_of_the_kernel(form: str, turn: str) -> None:
    for is_packed, has_past in itertools.product((False, True), repeat=2):
        model = model_of(form, turn, is_packed=is_packed, has_past=has_past)
        lowered = optimize(model, patterns=["LowerGroupQueryAttention"])
        assert "GroupQueryAttention" not in {node.op_type for node in lowered.graph.node}
        for case in LATER if has_past else FIRST:
            feeds = feeds_of(model, *case)
            for expected, found in zip(run(model, feeds), run(lowered, feeds), strict=True):
                np.testing.assert_allclose(
                    found, expected, rtol=1e-5, atol=1e-5, err_msg=str((is_packed, has_past, case))
                )


def test_numbers_of_16_bits() -> None:
    model = model_of("", "", is_packed=False, has_past=True, kind="float16")
    lowered = optimize(model, patterns=["LowerGroupQueryAttention"])
    feeds = feeds_of(model, *LATER[0])
    for expected, found in zip(run(model, feeds), run(lowered, feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("form", "turn"),
    [
        (", smooth_softmax = 1", ""),
        (", local_window_size = 0", ""),
        (", do_rotary = 2", ""),
        ("", ", do_rotary = 1, rotary_interleaved = 2"),
    ],
)
def test_other_attributes_are_refused(form: str, turn: str) -> None:
    model = model_of(form, turn, is_packed=False, has_past=True)
    assert optimize(model, patterns=["LowerGroupQueryAttention"]) == model
