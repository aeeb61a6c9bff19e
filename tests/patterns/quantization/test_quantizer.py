"""Models of onnxruntime's quantizer keep their numbers, and the kernels for integers that
onnxruntime forms of them.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.patterns.quantization.networks import (
    NETWORKS,
    SETTINGS,
    as_run,
    feeds_of,
    network,
    quantized,
)
from tests.support import run
from xoptim import optimize

_WITH_INTEGERS = (
    "QLinear",
    "QGemm",
    "MatMulInteger",
    "DynamicQuantizeMatMul",
    "ConvInteger",
    "QAttention",
    "MatMulNBits",
)


def lost(given: Counter[str], found: Counter[str]) -> dict[str, tuple[int, int]]:
    """The operators on integers that became fewer, and conversions that became more."""
    fewer = {
        name: (given[name], found[name])
        for name in given
        if name.startswith(_WITH_INTEGERS) and found[name] < given[name]
    }
    conversions = [count["QuantizeLinear"] + count["DequantizeLinear"] for count in (given, found)]
    return fewer | (
        {"conversions": (conversions[0], conversions[1])} if conversions[1] > conversions[0] else {}
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if i else []) for i, name in enumerate(NETWORKS)],
)
def test_numbers_and_kernels(name: str, tmp_path: Path) -> None:
    original = network(name)
    for setting in (*SETTINGS, "dynamic"):
        before = quantized(original, setting, tmp_path)
        given, feeds = as_run(before, tmp_path), feeds_of(before, 10)
        results = run(before, feeds)
        for selection in ("default", "default+onnxruntime"):
            after = optimize(before, patterns=selection, provider="cpu", strict=True)
            assert lost(given, as_run(after, tmp_path)) == {}, f"{setting}, {selection}"
            for expected, result in zip(results, run(after, feeds), strict=True):
                np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_losses_are_found() -> None:
    given = Counter(QLinearConv=2, QuantizeLinear=1, DequantizeLinear=1, Relu=1)
    assert lost(given, Counter(QLinearConv=3, QuantizeLinear=2)) == {}
    assert lost(given, Counter(QLinearConv=1, QuantizeLinear=2, DequantizeLinear=1)) == {
        "QLinearConv": (2, 1),
        "conversions": (2, 3),
    }
