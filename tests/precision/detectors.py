"""Small detection heads, which join boxes in pixels and scores in one output."""

from typing import Literal, TypeAlias, get_args

import numpy as np
import onnx
from onnx import numpy_helper

from tests.support import parse

Layout: TypeAlias = Literal["columns", "scales", "transposed", "one MatMul"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
BOXES, CLASSES, WIDTH, HIDDEN = 4, 8, 64, 256
"""Numbers of a box, classes, features of an anchor, and features of a hidden layer."""
PIXELS = 640.0

_BODIES: dict[Layout, str] = {
    # boxes and scores next to each other
    "columns": """agraph (float[n,64] x) => (float[n,12] y) {
        h = Relu(m) b = MatMul(h, box) s = Sigmoid(b) pixels = Mul(s, size)
        c = MatMul(h, class) scores = Sigmoid(c) y = Concat <axis = 1> (pixels, scores) }""",
    # two scales, as in one output of several feature maps
    "scales": """agraph (float[n,64] x) => (float[2,p,12] y) {
        h = Relu(m) b = MatMul(h, box) s = Sigmoid(b) pixels = Mul(s, size)
        c = MatMul(h, class) scores = Sigmoid(c) first = Concat <axis = 1> (pixels, scores)
        r = Neg(h) q = Relu(m) b2 = MatMul(q, box2) s2 = Sigmoid(b2) pixels2 = Mul(s2, size)
        c2 = MatMul(q, class2) scores2 = Sigmoid(c2) second = Concat <axis = 1> (pixels2, scores2)
        f3 = Reshape(first, shape) s3 = Reshape(second, shape)
        y = Concat <axis = 1> (f3, s3) }""",
    # channels first, as YOLO11 writes them
    "transposed": """agraph (float[n,64] x) => (float[1,12,n] y) {
        h = Relu(m) b = MatMul(h, box) s = Sigmoid(b) pixels = Mul(s, size)
        c = MatMul(h, class) scores = Sigmoid(c) all = Concat <axis = 1> (pixels, scores)
        t = Transpose <perm = [1, 0]> (all) y = Unsqueeze(t, zero) }""",
    # one MatMul makes both
    "one MatMul": """agraph (float[n,64] x) => (float[n,12] y) {
        h = Relu(m) y = MatMul(h, both) }""",
}


def detector(layout: Layout, seed: int = 0) -> onnx.ModelProto:
    """A detector with boxes in pixels and scores between 0 and 1."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray:
        numbers: np.ndarray = rng.standard_normal(shape) * np.sqrt(2 / shape[0])
        return numbers.astype(np.float32)

    body = _BODIES[layout].replace("h = Relu(m)", "m = MatMul(x, first_layer) h = Relu(m)")
    model = parse(body)
    constants = {
        "first_layer": drawn(WIDTH, HIDDEN),
        "box": drawn(HIDDEN, BOXES),
        "class": drawn(HIDDEN, CLASSES),
        "box2": drawn(HIDDEN, BOXES),
        "class2": drawn(HIDDEN, CLASSES),
        "both": drawn(HIDDEN, BOXES + CLASSES)
        * np.array([PIXELS / 4] * BOXES + [0.3] * CLASSES, np.float32),
        "size": np.array(PIXELS, np.float32),
        "shape": np.array([2, -1, BOXES + CLASSES]),
        "zero": np.array([0]),
    }
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in constants.items() if name in read
    )
    return model


def anchors(count: int = 64, seed: int = 0) -> dict[str, np.ndarray]:
    """Values of the input."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((count, WIDTH)).astype(np.float32)}


def parts_of(layout: Layout, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The boxes and the scores of an output."""
    columns = np.moveaxis(value, 1, -1) if layout == "transposed" else value
    return columns[..., :BOXES], columns[..., BOXES:]
