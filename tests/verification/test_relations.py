from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import parser

from xoptim.verification import VerificationOptions, run_reference, verify_models
from xoptim.verification.inputs.feeding import ReferenceRun

HEAD = '<ir_version: 10, opset_import: ["" : {}, "com.microsoft" : 1]> g '
KERNEL = ", ".join(["0.5"] * 54)


def model_of(text: str, opset: int) -> onnx.ModelProto:
    return parser.parse_model(HEAD.format(opset) + text)


def fed(run: ReferenceRun, name: str) -> np.ndarray:
    return np.asarray(run.feeds[name])


def boxes_lie_within(run: ReferenceRun) -> bool:
    height, width = fed(run, "x").shape[2:]
    left, top, right, bottom = np.moveaxis(fed(run, "r")[:, -4:], 1, 0)
    inside = (left >= 0) & (top >= 0) & (right <= width) & (bottom <= height)
    return bool(np.all(inside & (left < right) & (top < bottom)))


def ends_with_buffer(run: ReferenceRun) -> bool:
    update, whole = fed(run, "u").shape[2], fed(run, "p").shape[2]
    return bool(fed(run, "w").max() == whole - update)


def fills_keys(run: ReferenceRun) -> bool:
    total = int(fed(run, "t"))
    return bool(fed(run, "n").max() == total - 1 == fed(run, "z").shape[2])


GROUPED = """com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2>"""
CASES: dict[str, tuple[int, str, Callable[[ReferenceRun], bool]]] = {
    "RoiAlign": (
        16,
        """(float[b,2,6,6] x, float[k,4] r, int64[k] i) => (float[k,2,2,2] y)
        { y = RoiAlign <output_height = 2, output_width = 2> (x, r, i) }""",
        boxes_lie_within,
    ),
    "MaxRoiPool": (
        16,
        """(float[b,2,h,w] x, float[k,5] r) => (float[k,2,2,2] y)
        { y = MaxRoiPool <pooled_shape = [2, 2]> (x, r) }""",
        boxes_lie_within,
    ),
    "AffineGrid": (
        20,
        "(float[n,2,3] x, int64[4] s) => (float[n,h,w,2] y) { y = AffineGrid (x, s) }",
        lambda run: fed(run, "s")[0] == len(fed(run, "x")),
    ),
    "Split": (
        18,
        """(float[n,m] x, int64[2] s) => (float[n,a] y, float[n,c] z)
        { y, z = Split <axis = 1> (x, s) }""",
        lambda run: fed(run, "s").sum() == fed(run, "x").shape[1] and bool(np.all(fed(run, "s"))),
    ),
    "Col2Im": (
        18,
        """(float[n,c,l] x, int64[2] i, int64[2] b) => (float[n,d,h,w] y)
        { y = Col2Im (x, i, b) }""",
        lambda run: fed(run, "i").prod() == fed(run, "x").shape[2],
    ),
    "CenterCropPad": (
        18,
        "(float[n,m] x, int64[2] s) => (float[a,c] y) { y = CenterCropPad (x, s) }",
        lambda run: bool(np.all(fed(run, "s") > 1)),
    ),
    "GridSample": (
        20,
        "(float[n,c,h,w] x, float[n,a,b,2] s) => (float[n,c,a,b] y) { y = GridSample (x, s) }",
        lambda run: bool(np.all(np.abs(fed(run, "s")) <= 1)),
    ),
    "NonMaxSuppression": (
        11,
        """(float[b,n,4] x, float[b,c,n] s, int64[1] m) => (int64[k,3] y)
        { y = NonMaxSuppression <center_point_box = 1> (x, s, m) }""",
        lambda run: bool(np.all((fed(run, "x") >= 0) & (fed(run, "x") <= 1))),
    ),
    "TensorScatter": (
        24,
        """(float[b,2,m,4] p, float[b,2,s,4] u, int64[b] w) => (float[b,2,m,4] y)
        { y = TensorScatter (p, u, w) }""",
        ends_with_buffer,
    ),
    "Attention": (
        24,
        """(float[b,2,q,4] x, float[b,2,k,4] y, float[b,2,k,4] v, int64[b] n) => (float[b,2,q,4] o)
        { o = Attention (x, y, v, , , , n) }""",
        lambda run: fed(run, "n").max() == fed(run, "y").shape[2] and fed(run, "n").min() > 0,
    ),
    "GroupQueryAttention": (
        16,
        f"""(float[b,1,16] x, float[b,1,16] k, float[b,1,16] v, float[b,2,p,8] z, int32[b] n,
          int32 t) => (float[b,1,16] o, float[b,2,a,8] c, float[b,2,a,8] d)
        {{ o, c, d = {GROUPED} (x, k, v, z, z, n, t) }}""",
        fills_keys,
    ),
    "CropAndResize": (
        16,
        """(float[b,2,h,w] x, float[k,4] r, int32[k] i, int32[2] s) => (float[k,2,c,d] y)
        { y = com.microsoft.CropAndResize (x, r, i, s) }""",
        lambda run: fed(run, "i").max() < len(fed(run, "x")) and fed(run, "r").max() <= 1,
    ),
    "MaxUnpool": (
        11,
        """(float[b,2,h,w] x, int64[b,2,h,w] i) => (float[b,2,a,c] y)
        { y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i) }""",
        lambda run: len(np.unique(fed(run, "i"))) == fed(run, "i").size,
    ),
    "DeformConv": (
        19,
        f"""(float[n,2,h,w] x, float[n,18,oh,ow] o) => (float[n,3,oh,ow] y)
        <float[3,2,3,3] k = {{{KERNEL}}}> {{ y = DeformConv <pads = [1, 0, 0, 0]> (x, k, o) }}""",
        lambda run: fed(run, "o").shape[2] == fed(run, "x").shape[2] - 1,
    ),
    "lengths of an attention": (
        16,
        """(float[b,s,8] x, float[b,k,8] u, float[b,k,8] v, int32[b] m) => (float[b,s,8] y)
        { y = com.microsoft.MultiHeadAttention <num_heads = 2> (x, u, v, , m) }""",
        lambda run: fed(run, "m").max() == fed(run, "u").shape[1] and fed(run, "m").min() > 0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operands_fit_the_others(name: str) -> None:
    opset, text, fits = CASES[name]
    model = model_of(text, opset)
    for seed in (0, 1):
        (run,) = run_reference(model, VerificationOptions(assignments=1, seed=seed)).runs
        assert fits(run), run.feeds
        assert not run.refused
        assert len(np.unique(np.asarray(run.results[0]))) > 2


def test_several_sizes_are_tried_for_each() -> None:
    opset, text, _ = CASES["AffineGrid"]
    model = model_of(text, opset)
    report = verify_models(model, model)
    assert report.ok
    assert len({tuple(run.dims.items()) for run in report.runs}) > 2


@pytest.mark.parametrize("options", [{}, {"dims": {"oh": 4, "ow": 5, "h": 5, "w": 7}}])
def test_a_size_that_the_caller_chooses_is_kept(options: dict[str, dict[str, int]]) -> None:
    opset, text, _ = CASES["DeformConv"]
    model = model_of(text, opset)
    report = verify_models(model, model, VerificationOptions(**options))  # type: ignore[arg-type]
    assert report.ok
    chosen = options.get("dims", {})
    assert all(dict(run.dims) | chosen == dict(run.dims) for run in report.runs)
