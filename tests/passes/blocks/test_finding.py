import random
from itertools import pairwise

import numpy as np
import onnx
import pytest

from tests.passes.blocks.rows import found, row, shuffled
from tests.passes.repeated.towers import STEPS, WIDTH, Sketch
from tests.support import in_parts, parse

FIXED = tuple(step for step in STEPS if step not in ("centre", "clip"))


@in_parts("part", 4)
def test_random_blocks_are_found_exactly(part: int) -> None:
    """Whatever the order of the nodes.

    The block may be cut at another place only if the nodes around it allow that.
    """
    for seed in range(25):
        rng = random.Random(1000 * part + seed)
        steps = rng.sample(sorted(STEPS), rng.randint(3, 6))
        model, copies = row(rng, steps, times=rng.randint(3, 6))
        best = next(found(model))
        assert sorted(map(sorted, best)) == sorted(map(sorted, copies)), (seed, steps)


def layers(*widths: int, extra: bool = False) -> onnx.ModelProto:
    """Layers of these widths, one after the other."""
    g = Sketch()
    x = g.input("n", widths[0])
    for before, after in pairwise(widths):
        x = g.add(
            "Relu", g.add("Add", g.add("MatMul", x, g.weight(before, after)), g.weight(after))
        )
    return g.model(g.add("MatMul", x, g.weight(widths[-1], widths[-1])) if extra else x)


def sizes(model: onnx.ModelProto) -> list[tuple[int, int]]:
    """Number and size of the copies of each block."""
    return [(len(copies), len(copies[0])) for copies in found(model)]


def test_layers() -> None:
    assert sizes(layers(4, 4, 4, 4, 4)) == [(4, 3)]


def test_layers_of_two_widths_are_one_block() -> None:
    assert sizes(layers(4, 4, 4, 4, 6, 6, 6)) == [(6, 3)]


def test_weights_that_are_rows() -> None:
    """As all layers of a stage but the first one may have them, which reads another operator than
    the others.
    """
    g = Sketch()
    x = g.input("n", WIDTH)
    for number in range(4):
        y = g.add(
            "LayerNormalization",
            x,
            g.weight(*((1, WIDTH) if number else (WIDTH,))),
            g.weight(WIDTH),
        )
        x = g.add("Add", x, g.add("MatMul", g.add("Erf", y), g.weight(WIDTH, WIDTH)))
    assert sizes(g.model(x)) == [(4, 4)]


def test_a_part_of_a_layer_at_the_end_is_omitted() -> None:
    assert sizes(layers(4, 4, 4, 4, extra=True)) == [(3, 3)]


def test_two_nodes_are_too_few() -> None:
    g = Sketch()
    x = g.input("n", WIDTH)
    for _ in range(9):
        x = g.add("Relu", g.add("MatMul", x, g.weight(WIDTH, WIDTH)))
    assert sizes(g.model(x)) == []


@pytest.mark.parametrize(("inner", "outer", "expected"), [(2, 6, (6, 9)), (8, 2, (16, 4))])
def test_nested_blocks(inner: int, outer: int, expected: tuple[int, int]) -> None:
    """The block that leaves the fewest nodes is taken: the outer one, or the inner one if it comes
    many times in each.
    """
    g = Sketch()
    x = g.input("n", WIDTH)
    for _ in range(outer):
        for _ in range(inner):
            x = g.add(
                "Tanh",
                g.add(
                    "Erf", g.add("Add", g.add("MatMul", x, g.weight(WIDTH, WIDTH)), g.weight(WIDTH))
                ),
            )
        x = g.add("Softmax", x)
    assert sizes(g.model(x))[0] == expected


def test_two_kinds_of_layers_in_turn() -> None:
    """Layers of two kinds are one block, in pairs; a value that they share is not part of it."""
    g = Sketch()
    x = g.input("n", WIDTH)
    mask = g.add("Sign", x)
    for number in range(6):
        y = g.add("MatMul", x, g.weight(WIDTH, WIDTH))
        x = g.add(
            "Add", x, g.add("Mul", g.add("Softmax", y) if number % 2 else g.add("Tanh", y), mask)
        )
    assert sizes(g.model(x)) == [(3, 8)]


def test_a_first_and_a_last_copy_that_differ_are_omitted() -> None:
    g = Sketch()
    x = g.input("n", WIDTH)
    for number in range(6):
        y = g.add("Relu", g.add("MatMul", x, g.weight(WIDTH, WIDTH)))
        x = g.add("Add", x, g.add("Erf", g.add("Abs", y) if number in (0, 5) else g.add("Neg", y)))
    assert sizes(g.model(x))[0] == (4, 5)


def test_copies_side_by_side() -> None:
    g = Sketch()
    x = g.input("n", WIDTH)
    towers = [
        g.add("Tanh", g.add("Add", g.add("MatMul", x, g.weight(WIDTH, WIDTH)), g.weight(WIDTH)))
        for _ in range(5)
    ]
    assert sizes(g.model(g.add("Sum", *towers))) == [(5, 3)]


def test_a_copy_runs_as_a_whole() -> None:
    """The nodes between the parts of each copy differ: no copy could run before them, nor behind
    them.
    """
    g = Sketch()
    x = g.input("n", WIDTH)
    for op_type in ("Sin", "Cos", "Erf", "Abs"):
        y = g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH)))
        x = g.add("Softmax", g.add("Add", g.add("Relu", y), g.add(op_type, y)))
    blocks = sizes(g.model(x))
    assert (4, 5) not in blocks
    assert all(size < 5 for _, size in blocks)


@pytest.mark.parametrize(
    "texts",
    [
        [f"LeakyRelu <alpha = 0.{number}>" for number in (1, 2, 3)],
        [f"Softmax <axis = {number}>" for number in (0, 1, -1)],
        ["Relu", "Tanh", "Erf"],
        ["RandomNormalLike <seed = 1.0>", "RandomNormalLike <seed = 2.0>", "RandomNormalLike"],
    ],
)
def test_nodes_that_differ_are_not_in_one_block(texts: list[str]) -> None:
    nodes = "".join(
        f"a{n} = Exp(x{n}) b{n} = {text}(a{n}) x{n + 1} = Neg(b{n}) "
        for n, text in enumerate(texts)
    )
    assert sizes(parse(f"agraph (float[n,4] x0) => (float[n,4] x3) {{ {nodes} }}")) == []


def test_types_that_differ() -> None:
    g = Sketch()
    x = g.input("n", WIDTH)
    for to in (1, 11, 10):
        x = g.add("Cast", g.add("Sqrt", g.add("Abs", g.add("Cast", x, to=to))), to=to)
    assert sizes(g.model(x)) == []


def test_the_order_of_the_nodes_does_not_matter() -> None:
    rng = random.Random(5)
    model, _ = row(rng, ["linear", "norm", "residual", "softmax"], times=4)
    results = [sorted(sorted(copy) for copy in next(found(shuffled(model, rng)))) for _ in range(5)]
    assert all(result == results[0] for result in results)


def test_nothing_repeats_in_an_empty_graph() -> None:
    assert sizes(parse("agraph (float[n] x) => (float[n] x) { }")) == []


def test_values_of_constant_nodes() -> None:
    """Constant nodes are part of the block where their values are equal, and read from outside
    where they differ.
    """
    nodes = []
    for number in range(3):
        for name, value in (("k", 2.0), ("w", float(number))):
            tensor = onnx.numpy_helper.from_array(np.array(value, np.float32))
            nodes.append(onnx.helper.make_node("Constant", [], [f"{name}{number}"], value=tensor))
        nodes.append(onnx.helper.make_node("Mul", [f"x{number}", f"k{number}"], [f"m{number}"]))
        nodes.append(onnx.helper.make_node("Tanh", [f"m{number}"], [f"t{number}"]))
        nodes.append(onnx.helper.make_node("Sub", [f"t{number}", f"w{number}"], [f"x{number + 1}"]))
    values = [onnx.helper.make_tensor_value_info(name, 1, ["n"]) for name in ("x0", "x3")]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", values[:1], values[1:]))
    assert sizes(model) == [(3, 4)]
