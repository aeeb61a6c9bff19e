"""Multimodal rotary embeddings give what onnxruntime's kernel gives."""

import numpy as np
import pytest

from tests.support import parse, run
from xoptim import optimize


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("sections", [(4, 2, 2), (4, 2, 1), (3, 3, 2)])
@pytest.mark.parametrize("form", ["heads", "flat", "partial"])
def test_each_form(layout: int, sections: tuple[int, ...], form: str) -> None:
    half, heads, size = sum(sections), 2, 2 * sum(sections)
    attributes = f"mrope_section = [{', '.join(map(str, sections))}], mrope_layout = {layout}"
    if form == "partial":
        size += 6
        attributes += f", rotary_embedding_dim = {2 * half}"
    if form != "heads":
        attributes += f", num_heads = {heads}"
    shape = [2, 5, heads * size] if form == "flat" else [2, heads, 5, size]
    dims = f"b,s,{heads * size}" if form == "flat" else f"b,{heads},s,{size}"
    model = parse(
        f"agraph (float[{dims}] x, int64[3,b,s] p, float[20,{half}] c, float[20,{half}] i) => "
        f"(float[{dims}] y) {{ y = com.microsoft.MRotaryEmbedding <{attributes}> (x, p, c, i) }}",
        domains={"com.microsoft": 1},
    )
    after = optimize(model, patterns="lower", strict=True)
    assert all(not node.domain for node in after.graph.node)
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal(shape).astype(np.float32),
        "p": rng.integers(0, 20, (3, 2, 5)),
        "c": rng.standard_normal((20, half)).astype(np.float32),
        "i": rng.standard_normal((20, half)).astype(np.float32),
    }
    np.testing.assert_allclose(run(after, feeds)[0], run(model, feeds)[0], rtol=1e-5, atol=1e-6)
