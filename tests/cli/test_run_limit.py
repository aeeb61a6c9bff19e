"""A kernel that does not react to its stop: onnxruntime looks between nodes only."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import files, write
from tests.support import parse

pytestmark = pytest.mark.slow

# NonMaxSuppression compares each of n boxes, which do not overlap, with all boxes before it.
BOXES = """agraph (int64 n) => (int64[k,3] y) {
    zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
      r = Range(zero, n, one)
    f = Cast <to = 1> (r) two = Constant <value = float {2}> () a = Mul(f, two)
    unit = Constant <value = float {1}> () b = Add(a, unit) none = Constant <value = float {0}> ()
    c = Mul(f, none) d = Add(c, unit)
    axis = Constant <value = int64[1] {1}> () first = Constant <value = int64[1] {0}> ()
    p = Unsqueeze(c, axis) q = Unsqueeze(a, axis) s = Unsqueeze(d, axis) t = Unsqueeze(b, axis)
    joined = Concat <axis = 1> (p, q, s, t) boxes = Unsqueeze(joined, first)
    axes = Constant <value = int64[2] {0, 1}> () scores = Unsqueeze(f, axes)
    most = Constant <value = int64 {1000000000}> () overlap = Constant <value = float {0.5}> ()
    y = NonMaxSuppression(boxes, scores, most, overlap)
}"""
MANY = 3_000_000
"""Boxes for which the kernel takes hours."""


@pytest.mark.parametrize("words", [("--json",), ("--in-place",)])
def test_a_kernel_that_does_not_return(words: tuple[str, ...]) -> None:
    given = write(BOXES).read_bytes()
    np.savez("feeds.npz", n=np.array(MANY))
    command = "from xoptim.cli.start import main; main()"
    options = ("model.onnx", "--feeds", "feeds.npz", "--run-limit", "2", *words)
    done = subprocess.run(
        [sys.executable, "-c", command, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match("xopt: error: .* 2 seconds.* --run-limit.*\n$", done.stderr)
    assert Path("model.onnx").read_bytes() == given
    assert files() == {"model.onnx", "feeds.npz"}


def test_constants_that_take_too_long() -> None:
    write(parse(BOXES), "model.onnx")
    code = f"""
import os, numpy as np, onnx
from xoptim.operators.evaluate import regions
from xoptim.facts.errors import UnstoppableError
regions._LIMIT = regions._PATIENCE = 0.2
nodes = onnx.load("model.onnx").graph.node
try:
    regions.evaluate_with_onnxruntime(nodes, {{"n": np.array({MANY})}}, ["y"], {{"": 18}}, 10)
except UnstoppableError as error:
    os.write(1, str(error).encode())
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert re.search(" 0.2 seconds.* constant_folding=False ", done.stdout)
