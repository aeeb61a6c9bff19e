"""Formulas meet models that no checker has seen: they never raise, and never answer with what
cannot be.
"""

import random
from typing import Any

import numpy as np
import pytest

from tests.operators.inference.context import FakeContext, Input
from tests.support import load, parse, run
from xoptim.facts.dims import Dim, SymbolicDim, fresh, named
from xoptim.facts.shapes import UNKNOWN, Container, Info
from xoptim.operators.registry import OPERATORS

pytestmark = pytest.mark.slow
FORMULAS = {key: each.formula for key, each in OPERATORS.items() if each.formula}

CONTAINERS: tuple[Container, ...] = ("sequence", "optional", "map", "sparse", "opaque")
CONSTANTS: tuple[list[Any], ...] = (
    [1, 2],
    [1.5, float("nan")],
    [2.0, 0.5, 1, 1],
    [0],
    [],
    [True],
    [[3]],
    [-1, 9, 2],
)
WORDS = ("SAME_UPPER", "VALID", "NOTSET", "bidirectional", "not_larger", "RGB", "ij,jk->ik", "?")
NAMES = (
    "axis",
    "axes",
    "strides",
    "pads",
    "dilations",
    "kernel_shape",
    "group",
    "auto_pad",
    "ceil_mode",
    "output_shape",
    "output_padding",
    "scales",
    "keep_aspect_ratio_policy",
    "hidden_size",
    "direction",
    "layout",
    "num_heads",
    "blocksize",
    "kv_num_heads",
    "q_num_heads",
    "qkv_hidden_sizes",
    "num_scan_inputs",
    "scan_input_axes",
    "scan_output_axes",
    "channels_last",
    "transA",
    "transB",
    "transBatchA",
    "transBatchB",
    "N",
    "K",
    "Nq",
    "Nkv",
    "keepdims",
    "new_axis",
    "spatial",
    "stash_type",
    "onesided",
    "inverse",
    "output_datatype",
    "pooled_shape",
    "output_height",
    "dtype",
    "to",
    "state_window",
    "dilation",
    "ndim",
    "bits",
    "gather_axis",
    "dim",
    "size",
    "step",
    "positive",
    "signal_ndim",
    "pixel_format",
    "stopwords",
    "ngram_indexes",
    "past_present_share_buffer",
    "sliding_window_cache",
    "num_outputs",
    "split",
    "perm",
    "start",
    "end",
    "starts",
    "ends",
    "equation",
    "batch_dims",
    "allowzero",
    "shape",
    "value",
    "type",
    "select_last_index",
    "saturate",
    "block_size",
    "k",
    "largest",
    "noop_with_empty_axes",
    "value_ints",
    "value_float",
)


def odd_dim(rng: random.Random) -> Dim:
    kind = rng.randrange(6)
    if kind < 3:
        return rng.randint(0, 9)
    if kind == 3:
        return named(rng.choice("abc"))
    if kind == 4:
        return fresh()
    dim = named(rng.choice("ab")) * rng.randint(-2, 3) + rng.randint(-3, 5)
    return max(dim, 0) if type(dim) is int else dim


def odd_info(rng: random.Random, depth: int = 0) -> Info | None:
    kind = rng.randrange(12)
    if kind == 0:
        return None
    if kind == 1:
        return UNKNOWN
    if kind == 2 and depth < 2:
        return Info(container=rng.choice(CONTAINERS), element=odd_info(rng, depth + 1))
    dtype = rng.choice((0, 1, 2, 3, 6, 7, 9, 10))
    rank = rng.choice((None, 0, 1, 1, 2, 3, 3, 4, 4, 5))
    if rank is None:
        return Info(dtype)
    shape = tuple(odd_dim(rng) for _ in range(rank))
    size = shape[0] if shape else 1
    if rank < 2 and type(size) is int and dtype in (6, 7) and rng.random() < 0.6:
        return Info(dtype, shape, tuple(odd_dim(rng) for _ in range(size)))
    return Info(dtype, shape)


def odd_attribute(rng: random.Random) -> Any:
    kind = rng.randrange(12)
    if kind < 4:
        return rng.randint(-4, 9)
    if kind < 7:
        return [rng.randint(-2, 5) for _ in range(rng.randint(0, 6))]
    choices = (
        rng.choice(WORDS),
        rng.random() * 4,
        [rng.random()] * rng.randint(0, 5),
        ["a", "b"],
        object(),
    )
    return choices[kind - 7]


def odd_body(rng: random.Random) -> list[Info]:
    return [odd_info(rng) or UNKNOWN for _ in range(rng.randint(0, 6))]


ODD = random.Random("odd")
ATTRIBUTES = [odd_attribute(ODD) for _ in range(1000)]
INPUTS: list[Input] = [
    np.array(ODD.choice(CONSTANTS)) if ODD.random() < 0.2 else odd_info(ODD) for _ in range(1000)
]


def odd_context(rng: random.Random, domain: str, op_type: str) -> FakeContext:
    """A context whose parts are drawn from lists made once: that is many times faster than to make
    each of them.
    """
    return FakeContext(
        op_type,
        rng.choices(INPUTS, k=rng.randint(0, 9)),
        dict(
            zip(
                rng.sample(NAMES, len(NAMES) // 4),
                rng.choices(ATTRIBUTES, k=len(NAMES) // 4),
                strict=True,
            )
        ),
        domain=domain,
        opset=rng.choice((1, 6, 7, 8, 9, 10, 11, 13, 14, 17, 18, 20, 22, 24)),
        num_outputs=rng.randint(1, 5),
        bodies={name: lambda _: odd_body(rng) for name in ("body", "then_branch", "else_branch")},
    )


def assert_sane(info: Info | None) -> None:
    if info is None:
        return
    assert isinstance(info.dtype, int)
    if info.shape is not None:
        assert type(info.shape) is tuple
        assert all((type(d) is int and d >= 0) or isinstance(d, SymbolicDim) for d in info.shape), (
            info
        )


@pytest.mark.parametrize(("domain", "op_type"), sorted(FORMULAS))
def test_formulas_never_raise(domain: str, op_type: str) -> None:
    rng = random.Random(f"{domain}:{op_type}")
    formula = FORMULAS[domain, op_type]
    for _ in range(150):
        for info in formula(odd_context(rng, domain, op_type)):
            assert_sane(info)


@pytest.mark.parametrize(
    "expression",
    ["Squeeze(x, j)", "ReduceSum <keepdims = 0> (x, j)", "ReduceMax <keepdims = 0> (x, j)"],
)
def test_axes_that_a_caller_gives_may_be_equal(expression: str) -> None:
    """onnxruntime takes an axis that is listed twice once, so that the number of axes does not tell
    the rank.
    """
    text = (
        "agraph (float[2,3,1] x, int64[2] j) => (y) <int64[2] j = {2, -1}> { "
        f"y = {expression} }}"
    )
    assert load(text).graph.info_of("y").shape is None
    (found,) = run(parse(text), {"x": np.ones((2, 3, 1), np.float32)})
    assert found.shape == (2, 3)
