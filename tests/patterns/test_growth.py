"""The work that patterns do grows with the size of a graph, not with its square: counted in calls,
not in seconds.
"""

import sys
from pathlib import Path
from types import FrameType

import onnx
import pytest

from benchmarks.families import FAMILIES
from tests.meta.sources import ROOT
from xoptim import optimize

SQUARE = {
    "cuts": "each Slice of a Concat looks at all operands",
    "inputs": "each size may be that of any input",
}
"""Families that may take more, and why."""


def calls(model: onnx.ModelProto, patterns: str) -> int:
    """Number of calls of functions in the catalogue and in the matcher while a model is
    optimized.
    """
    counted = 0
    folders = tuple(str(ROOT / folder) for folder in ("patterns", "xoptim/match"))
    within: dict[str, bool] = {}

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal counted
        if event == "call":
            name = frame.f_code.co_filename
            if name not in within:
                within[name] = str(Path(name).resolve()).startswith(folders)
            counted += within[name]

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        optimize(model, patterns=patterns, strict=True)
    finally:
        sys.setprofile(before)
    return counted


@pytest.mark.slow
@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in SQUARE])
def test_work_grows_with_the_size(family: str) -> None:
    first, second = (calls(FAMILIES[family](n), "default+onnxruntime") for n in (80, 320))
    assert second <= 5.5 * first


def test_long_chains_of_movements() -> None:
    """Each node is looked at from a limited number of those behind it."""
    # the first one fills caches
    _, *counts = [calls(FAMILIES["movements"](n), "MovementChain") for n in (2, 50, 100, 200)]
    assert counts[1] - counts[0] > 0
    assert counts[2] - counts[1] <= 2.1 * (counts[1] - counts[0])
