from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.blocks.rows import row
from tests.blocks.test_outlining import LAYER, X, chain
from tests.repeated.towers import STEPS, WIDTH, Sketch, feeds
from tests.support import in_parts, parse, run
from tests.support import verify as verify_tables
from xoptim import optimize
from xoptim.blocks import rolling
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model

WITH_STATE = "m{n} = MatMul(x{n}, w{n}) a{n} = Add(m{n}, b{n}) x{o} = Tanh(a{n}) s{o} = Sub(x{o}, s{n})"


def rolled(model: onnx.ModelProto, values: Mapping[str, Any] | None = None) -> tuple[onnx.ModelProto, list[str]]:
    """A model with its blocks as Scan, which computes the same in onnxruntime; and why blocks are not."""
    loaded = load_model(model)
    found = rolling.roll(loaded)
    verify_tables(loaded)
    after = export_model(loaded)
    onnx.checker.check_model(after)
    for optimized in (False, True):
        results = (run(each, X if values is None else values, optimized=optimized) for each in (model, after))
        for expected, got in zip(*results, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    return after, [block.refused for block in found]


def test_layers_become_a_scan() -> None:
    model = parse(chain(LAYER, times=4))
    after, refused = rolled(model)
    (node,) = after.graph.node
    assert (node.op_type, list(node.output), refused) == ("Scan", ["x4"], [""])
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in after.graph.initializer}
    before = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert node.input[0] == "x0"
    for name, letter in zip(node.input[1:], "wb", strict=True):
        np.testing.assert_array_equal(arrays[name], np.stack([before[f"{letter}{number}"] for number in range(4)]))
    assert len(arrays) == 2, "the weights are stored once"


def test_weights_of_constant_nodes() -> None:
    model = parse(chain(LAYER))
    for tensor in model.graph.initializer:
        model.graph.node.insert(0, onnx.helper.make_node("Constant", [], [tensor.name], value=tensor))
    del model.graph.initializer[:]
    after, refused = rolled(model)
    assert (refused, [node.op_type for node in after.graph.node]) == ([""], ["Scan"])


def test_weights_in_files_of_their_own(tmp_path: Path) -> None:
    """Outlining a protobuf leaves them where they are; from a path, the result holds them."""
    model = parse(chain(LAYER))
    for tensor in model.graph.initializer:  # only raw data can move
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    expected = run(parse(chain(LAYER)), X)[0]
    given = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    outlined = optimize(given, patterns=None, outline=True)
    assert all(tensor.external_data for tensor in outlined.graph.initializer)
    onnx.save(outlined, tmp_path / "o.onnx")
    np.testing.assert_array_equal(run(outlined, X, str(tmp_path / "o.onnx"))[0], expected)
    after = optimize(tmp_path / "m.onnx", patterns=None, roll=True)
    assert not any(tensor.external_data for tensor in after.graph.initializer)
    np.testing.assert_allclose(run(after, X)[0], expected, rtol=1e-5)


@in_parts("part", 3)
def test_random_blocks(part: int) -> None:
    count = 0
    for seed in range(12):
        rng = random.Random(900 + 100 * part + seed)
        model, _ = row(rng, ["linear", *rng.sample(sorted(STEPS), rng.randint(2, 5))], times=rng.randint(3, 5))
        after, _ = rolled(model, feeds(model, rows=3))
        count += sum(node.op_type == "Scan" for node in after.graph.node)
    assert count > 8


def test_several_values_are_handed_on() -> None:
    after, refused = rolled(parse(chain(WITH_STATE, header=", float[k,2] s0", results=", float[k,2] s3")), {**X, "s0": X["x0"]})
    (node,) = after.graph.node
    assert refused == [""]
    assert (list(node.input[:2]), list(node.output)) == (["x0", "s0"], ["x3", "s3"])


def test_one_result_for_two_states() -> None:
    """The next copy reads one result as two operands, which begin with different values."""
    g = Sketch()
    x = y = g.add("Sin", g.input("n", WIDTH))
    x = g.add("Cos", g.input("n", WIDTH))
    for _ in range(4):
        x = y = g.add("Tanh", g.add("Sub", g.add("MatMul", x, g.weight(WIDTH, WIDTH)), y))
    first = g.nodes[3]
    assert first.op_type == "Sub"
    first.input[1] = "r0"
    model = g.model(g.add("Neg", x))
    after, refused = rolled(model, feeds(model, rows=2))
    assert refused == [""]
    (scan,) = [node for node in after.graph.node if node.op_type == "Scan"]
    assert len(scan.output) == 2


def test_values_that_all_copies_read() -> None:
    """Shared weights and computed values are read by name."""
    layer = "m{n} = MatMul(x{n}, w{n}) a{n} = Add(m{n}, c) p{n} = Mul(a{n}, t) x{o} = Tanh(p{n})"
    text = chain(layer, header=", float[2] u").replace("<", "<float[2] c = {1, 2}, ", 1).replace("{ m0", "{ t = Exp(u) m0", 1)
    after, refused = rolled(parse(text), {**X, "u": np.array([0.5, 0.25], np.float32)})
    assert (refused, [node.op_type for node in after.graph.node]) == ([""], ["Exp", "Scan"])
    (scan,) = after.graph.node[1:]
    body = next(a.g for a in scan.attribute if a.name == "body")
    assert {"c", "t"} <= {name for node in body.node for name in node.input}


@pytest.mark.parametrize(
    ("header", "results", "reason"),
    [
        ("", ", float[k,2] x1", "'x1' is read by others than the next copy"),
        ("", ", float[k,2] a2", "'a2' is read outside, and not handed on"),
        (", float[2] b1", "", "'b0' is not stored in all copies, and another value in each"),
    ],
)
def test_blocks_that_are_not_rolled(header: str, results: str, reason: str) -> None:
    after, refused = rolled(parse(chain(LAYER, header=header, results=results)))
    assert refused == [reason]
    assert len(after.graph.node) == 9


def test_copies_without_weights_of_their_own() -> None:
    layer = "m{n} = MatMul(x{n}, w0) a{n} = Add(m{n}, b0) x{o} = Tanh(a{n})"
    assert rolled(parse(chain(layer)))[1] == ["the copies have the same weights"]


def test_copies_side_by_side() -> None:
    g = Sketch()
    x = g.input("n", WIDTH)
    towers = [g.add("Tanh", g.add("Add", g.add("MatMul", x, g.weight(WIDTH, WIDTH)), g.weight(WIDTH))) for _ in range(3)]
    model = g.model(g.add("Sum", *towers))
    (reason,) = rolled(model, feeds(model, rows=2))[1]
    assert reason.endswith("is read outside, and not handed on")


def test_nodes_between_the_copies() -> None:
    """A node outside reads the first copy and is read by the last one."""
    layer = "m{n} = MatMul(x{n}, w{n}) a{n} = Add(m{n}, q{n}) x{o} = Tanh(a{n})"
    text = chain(layer).replace("m2 =", "q2 = Sin(x1) m2 =").replace("m0 =", "q0 = Sin(x0) q1 = Cos(x0) m0 =")
    assert rolled(parse(text))[1] == ["nodes between the copies read their results"]


def test_shapes_that_change_from_copy_to_copy() -> None:
    """Each copy keeps some rows only, but the state of a Scan has one shape."""
    g = Sketch()
    x, kept = g.input("n", WIDTH), g.add("Cast", g.input("k"), to=9)
    for _ in range(3):
        m = g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH)))
        x = g.add("Compress", m, kept, axis=0)
    model = g.model(x)
    (reason,) = rolled(model, feeds(model, rows=8))[1]
    assert "is not known to have the shape of" in reason


def test_large_weights_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "LARGEST", 71)
    assert rolled(parse(chain(LAYER)))[1] == ["its weights have 72 bytes, more than are copied"]


def test_an_old_operator_set() -> None:
    assert rolled(parse(chain(LAYER), opset=8))[1] == ["it needs operator set 9"]


def test_functions_for_what_is_not_rolled() -> None:
    model = parse(chain(LAYER, results=", float[k,2] x1"))
    reports: list[Any] = []
    after = optimize(model, patterns=None, roll=True, outline=True, verify=True, report=reports.append)
    assert [block.form for block in reports[0].repetitions] == ["nodes", "function"]
    assert len(after.functions) == 1
    assert reports[0].exactness == "exact"
    optimize(parse(chain(LAYER)), patterns=None, roll=True, verify=True, report=reports.append)
    assert [block.form for block in reports[1].repetitions] == ["scan"]
    assert reports[1].exactness == "rounding"
