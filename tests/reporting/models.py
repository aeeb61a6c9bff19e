"""Models of reports: small ones with the structure of well-known networks, and their reports."""

import base64
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.support import load, parse
from xoptim import GraphBuilder, OptimizationOptions
from xoptim.facts.errors import XoptimError
from xoptim.reporting.drawing import draw
from xoptim.reporting.links import Journal, Recorder, link
from xoptim.reporting.reports_facts import ReportSubject, facts_of
from xoptim.reporting.reports_page import render

BERT = Path(__file__).resolve().parents[2] / "examples" / "models" / "tiny_bert.onnx"
HOSTILE = "</script><script>alert(1)</script>"


def recorded(model: onnx.ModelProto | Path, **changes: Any) -> tuple[GraphBuilder, Journal]:
    """An optimized model, and the record of its optimization."""
    recorder = Recorder()
    builder = GraphBuilder(
        model, optimization_options=recorder.listening(OptimizationOptions(**changes))
    )
    recorder.loaded(builder.model)
    builder.optimize()
    return builder, recorder.of(builder.model)


def data_of(page: str) -> Any:
    """The data in a page."""
    found = re.search(r'id="data">([^<]*)<', page)
    if found is None:
        raise XoptimError("the page has no data")
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def unet() -> onnx.ModelProto:
    """Two levels of a U-Net as TensorFlow writes it: channels last, with a Transpose around each
    convolution.
    """
    weights = [("a", 8, 3), ("b", 8, 8), ("c", 8, 16), ("d", 2, 8)]
    declared = ", ".join(f"float[{out},{into},3,3] w{name}" for name, out, into in weights)
    return parse(f"""agraph (float[1,16,16,3] x, {declared}) => (float[1,16,16,2] y) {{
        t1 = Transpose <perm = [0, 3, 1, 2]> (x)
        c1 = Conv <pads = [1, 1, 1, 1]> (t1, wa)
        n1 = Transpose <perm = [0, 2, 3, 1]> (c1)
        r1 = Relu (n1)
        t2 = Transpose <perm = [0, 3, 1, 2]> (r1)
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (t2)
        c2 = Conv <pads = [1, 1, 1, 1]> (p, wb)
        n2 = Transpose <perm = [0, 2, 3, 1]> (c2)
        r2 = Relu (n2)
        t3 = Transpose <perm = [0, 3, 1, 2]> (r2)
        none = Constant <value = float[0] {{}}> ()
        scales = Constant <value = float[4] {{1, 1, 2, 2}}> ()
        up = Resize (t3, none, scales)
        n3 = Transpose <perm = [0, 2, 3, 1]> (up)
        both = Concat <axis = 3> (r1, n3)
        t4 = Transpose <perm = [0, 3, 1, 2]> (both)
        c3 = Conv <pads = [1, 1, 1, 1]> (t4, wc)
        n4 = Transpose <perm = [0, 2, 3, 1]> (c3)
        r3 = Relu (n4)
        t5 = Transpose <perm = [0, 3, 1, 2]> (r3)
        c4 = Conv <pads = [1, 1, 1, 1]> (t5, wd)
        y = Transpose <perm = [0, 2, 3, 1]> (c4)
    }}""")


def densenet(layers: int = 4) -> onnx.ModelProto:
    """A dense block: each layer reads the results of all before it.

    Nodes have no names, values have scopes.
    """
    nodes, stem = [], "x"

    def add(op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        nodes.append(onnx.helper.make_node(op_type, inputs, [output], **attributes))
        return output

    weights = []
    for layer in range(1, layers + 1):
        at, channels = f"dense/layer{layer}", 4 * layer
        weights += [
            numpy_helper.from_array(np.ones(shape, np.float32), f"{at}/{name}")
            for name, shape in (("row", (channels,)), ("column", (channels, 1, 1)))
        ]
        shape = numpy_helper.from_array(np.array([4, channels, 3, 3]), f"{at}/shape")
        weights.append(shape)
        weight = add(
            "ConstantOfShape",
            [shape.name],
            f"{at}/weight",
            value=numpy_helper.from_array(np.ones(1, np.float32)),
        )
        norm = add("BatchNormalization", [stem, *[f"{at}/row"] * 4], f"{at}/norm")
        scaled = add(
            "Add",
            [add("Mul", [norm, f"{at}/column"], f"{at}/scaled"), f"{at}/column"],
            f"{at}/shifted",
        )
        result = add(
            "Conv", [add("Relu", [scaled], f"{at}/relu"), weight], f"{at}/conv", pads=[1, 1, 1, 1]
        )
        stem = add("Concat", [stem, result], f"{at}/joined", axis=1)
    add("Relu", [stem], "y")
    x, y = (
        onnx.helper.make_tensor_value_info(name, 1, [1, size, 8, 8])
        for name, size in (("x", 4), ("y", 4 * layers + 4))
    )
    graph = onnx.helper.make_graph(nodes, "densenet", [x], [y], weights)
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10
    )


def large(count: int = 5000) -> str:
    """A page about a model of so many nodes without scopes, the worst case.

    The result is the original.
    """
    nodes = "\n".join(
        f"v{i} = Add (v{i - 1}, v{max(0, i - 1 - i % 7)})" for i in range(1, count + 1)
    )
    model = load(f"agraph (float[n] v0) => (float[n] v{count}) {{ {nodes} }}")
    drawing = draw(model)
    return render(
        facts_of(ReportSubject(title="large", result="same"), drawing, drawing),
        drawing,
        drawing,
        link(drawing, drawing, ()),
    )
