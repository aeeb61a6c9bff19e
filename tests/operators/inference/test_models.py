"""Facts about whole models: against the onnx package, against another symbolic inference, and
against runs.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
import onnx_shape_inference
import pytest

from tests.operators.inference.nested import assert_not_less, check_value
from tests.operators.inference.oracle import session
from tests.support import parse
from xoptim.facts.dims import SymbolicDim, evaluate
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.shapes import Info
from xoptim.graph.load import load_model
from xoptim.operators.inference.types import info_to_type_proto, type_proto_to_info

Sizes = Mapping[str, int]
BOOL = onnx.TensorProto.BOOL

EXAMPLES = Path(__file__).parents[3] / "examples" / "models"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
BATCH = (("squeezenet", 256, 192), ("densenet121", 224, 256))
"""Light models that take any batch, and sides of an image that their convolutions accept."""

BRANCHES = """
agraph (float[n,4] x, float[m,4] z, bool c) => (float[p,4] y, float[q] s)
{
    big = If (c) <
        then_branch = t () => (float[a,4] both) { both = Concat <axis = 0> (x, z) },
        else_branch = e () => (float[b,4] twice) { twice = Concat <axis = 0> (z, x) }
    >
    one = If (c) <
        then_branch = t2 () => (float[d,4] keep) { keep = Neg(x) },
        else_branch = e2 () => (float[g,4] other) { other = Exp(z) }
    >
    axes = Constant <value = int64[1] {1}> ()
    s = ReduceSum <keepdims = 0> (one, axes)
    y = Relu(big)
}"""
LOOP = """
agraph (float[n,k] x, int64 trips) => (float[i,n,k] y, float[n,k] last, float[n,w] wide)
{
    run = Constant <value = bool {1}> ()
    last, y = Loop (trips, run, x) <
        body = b (int64 step, bool go, float[n,k] state) => (bool on, float[n,k] next,
          float[n,k] seen) {
            on = Identity(go)
            next = Add(state, x)
            seen = Mul(next, next)
        }
    >
    wide = Concat <axis = 1> (last, x, x)
}"""
SHAPES = """
agraph (float[batch,seq,12] x) => (float[batch,h,seq,d] y, float[r,4] flat, float[batch,f] some)
{
    sizes = Shape(x)
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    batch = Gather(sizes, zero)
    seq = Gather(sizes, one)
    axes = Constant <value = int64[1] {0}> ()
    b1 = Unsqueeze(batch, axes)
    s1 = Unsqueeze(seq, axes)
    heads = Constant <value = int64[2] {3, 4}> ()
    target = Concat <axis = 0> (b1, s1, heads)
    split = Reshape(x, target)
    y = Transpose <perm = [0, 2, 1, 3]> (split)
    rows = Mul(b1, s1)
    three = Constant <value = int64[1] {3}> ()
    four = Constant <value = int64[1] {4}> ()
    all = Mul(rows, three)
    flatten = Concat <axis = 0> (all, four)
    flat = Reshape(x, flatten)
    two = Constant <value = int64[1] {2}> ()
    half = Div(s1, two)
    ax = Constant <value = int64[1] {1}> ()
    cut = Slice(x, axes, half, ax)
    joined = Concat <axis = 1> (cut, x)
    last = Constant <value = int64[1] {2}> ()
    some = ReduceMax <keepdims = 0> (joined, last)
}"""


class Case(NamedTuple):
    """A model, sizes of its symbols on which it runs, and how large values of integer inputs may
    get.
    """

    model: onnx.ModelProto
    assignments: tuple[Sizes, ...]
    below: int = 2


def _light(name: str) -> Case:
    """A model of the onnx package whose image may have any batch and size, as far as inference is
    concerned.
    """
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    for value in _inputs(model):
        for dim, symbol in zip(value.type.tensor_type.shape.dim, ("n", "", "h", "w"), strict=True):
            if symbol:
                dim.dim_param = symbol
    for value in model.graph.output:
        value.ClearField("type")
    del model.graph.value_info[:]
    given = {"n": 1, "h": 224, "w": 224}
    more = tuple({"n": 2, "h": h, "w": w} for found, h, w in BATCH if found == name)
    return Case(model, (given, *more))


@cache
def case(name: str) -> Case:
    """One of the models below."""
    if name.startswith("light "):
        return _light(name.removeprefix("light "))
    if name.endswith(".onnx"):
        return Case(onnx.load(EXAMPLES / name), ({"batch": 2, "seq": 5}, {"batch": 3, "seq": 64}))
    texts: dict[str, tuple[str, tuple[Sizes, ...]]] = {
        "branches": (BRANCHES, ({"n": 2, "m": 3}, {"n": 1, "m": 1})),
        "loop": (LOOP, ({"n": 2, "k": 3}, {"n": 1, "k": 5})),
        "shapes": (SHAPES, ({"batch": 2, "seq": 5}, {"batch": 1, "seq": 1})),
    }
    text, assignments = texts[name]
    return Case(parse(text), assignments, below=4)


NAMES = (
    "branches",
    "loop",
    "shapes",
    *sorted(path.name for path in EXAMPLES.glob("*.onnx")),
    *sorted(path.stem.replace("light_", "light ") for path in LIGHT.glob("*.onnx")),
)
each_model = pytest.mark.parametrize("name", NAMES)
_SLOW_TO_SIMPLIFY = {
    "light densenet121",
    "light inception_v1",
    "light inception_v2",
    "light resnet50",
}
"""Models of the operators of the others, for which the other symbolic inference takes a minute."""


@cache
def facts(name: str) -> dict[str, Info]:
    """Facts about every result of the main graph of a model."""
    graph = load_model(case(name).model).graph
    return {
        result: graph.info_of(result) for node in graph.nodes for result in node.output if result
    }


def _inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    given = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in given]


def _symbols(model: onnx.ModelProto) -> set[str]:
    return {
        d.dim_param
        for value in _inputs(model)
        for d in value.type.tensor_type.shape.dim
        if d.dim_param
    }


def test_all_models_are_here() -> None:
    assert len(NAMES) >= 3 + 1 + 9


@each_model
def test_not_less_than_the_onnx_package_knows(name: str) -> None:
    model, symbols = case(name).model, _symbols(case(name).model)
    inferred = onnx.shape_inference.infer_shapes(
        model, check_type=True, strict_mode=True, data_prop=True
    )
    known = facts(name)
    results = [
        value
        for value in (*inferred.graph.value_info, *inferred.graph.output)
        if value.name in known
    ]
    declared = {value.name for value in model.graph.output if value.type.WhichOneof("value")}
    for value in results:
        theirs, mine = type_proto_to_info(value.type), known[value.name]
        if value.name not in declared:
            assert_not_less(mine, theirs)
        for a, b in zip(mine.shape or (), theirs.shape or (), strict=False):
            if isinstance(b, SymbolicDim) and b.symbols <= symbols:
                assert not isinstance(a, SymbolicDim) or not a.is_anonymous, (
                    value.name,
                    mine,
                    theirs,
                )
    assert len(results) > len(known) / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in _SLOW_TO_SIMPLIFY])
def test_no_conflict_with_symbolic_inference(name: str) -> None:
    model, assignments, _ = case(name)
    theirs = onnx_shape_inference.infer_symbolic_shapes(ir.from_proto(model), warn_on_missing=False)
    known, compared = facts(name), 0
    for node in theirs.graph:
        for value in node.outputs:
            info = known.get(value.name or "")
            if info is None or not info.is_tensor:
                continue
            assert value.dtype is None or not info.dtype or int(value.dtype) == info.dtype, value
            if value.shape is None or info.shape is None:
                continue
            assert len(value.shape) == len(info.shape), (value, info)
            for a, b in zip(info.shape, value.shape, strict=True):
                compared += _compare(a, b, assignments, f"{value}: {info}")
    assert compared > 2


def _compare(mine: Any, theirs: Any, assignments: Iterable[Sizes], message: str) -> bool:
    """Whether both sides know a dimension; fails when they disagree on its size."""
    if isinstance(mine, SymbolicDim) and mine.is_anonymous:
        return False
    for sizes in assignments:
        number = theirs if isinstance(theirs, int) else theirs.evaluate(sizes)
        if not isinstance(number, int) or (
            isinstance(mine, SymbolicDim) and not mine.symbols <= sizes.keys()
        ):
            return False
        assert evaluate(mine, sizes) == number, message
    return True


@pytest.mark.slow
@each_model
def test_facts_hold_in_runs(name: str) -> None:
    model, assignments, below = case(name)
    known = facts(name)
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    del watched.graph.output[:]
    for result, info in known.items():
        if info.dtype:
            watched.graph.output.add(name=result).type.CopyFrom(
                info_to_type_proto(Info(info.dtype))
            )
    runner = session(watched)
    for seed, sizes in enumerate(assignments):
        values = dict(sizes)
        for output, array in zip(
            watched.graph.output, runner.run(None, _feeds(model, sizes, below, seed)), strict=True
        ):
            check_value(known[output.name], array, values)
    assert len(watched.graph.output) >= len(known) - 1


def _feeds(model: onnx.ModelProto, sizes: Sizes, below: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    feeds: dict[str, np.ndarray] = {}
    for value in _inputs(model):
        tensor = value.type.tensor_type
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim]
        # A Loop that never runs stacks nothing; onnxruntime then makes all symbolic dimensions 0.
        numbers = (
            rng.integers(0 if shape else 1, below, shape)
            if tensor.elem_type != BOOL
            else np.full(shape, seed == 0)
        )
        feeds[value.name] = np.asarray(numbers).astype(numpy_dtype(tensor.elem_type))
    return feeds
