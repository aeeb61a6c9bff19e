"""Options that contradict a target."""

import re
from dataclasses import replace

import click
import pytest

from tests.cli.command import RELU, write
from tests.support import values_in
from xoptim.api.advice import on_command_line
from xoptim.cli.targeting import check_target, exceeded, fixed_source, left_texts, map_of
from xoptim.targets import PlacedNode, Placement


@pytest.mark.parametrize(
    ("name", "providers"),
    [
        ("", ("cuda",)),
        ("webgpu", ("cpu",)),
        ("webgpu", ("cpu", "WebGpuExecutionProvider")),
        ("tensorrt", ("NvTensorRTRTXExecutionProvider",)),
        ("onnx", ("cuda",)),
    ],
)
def test_providers_that_go_with_a_target(name: str, providers: tuple[str, ...]) -> None:
    check_target(name, providers)


def test_a_provider_of_another_kind() -> None:
    with on_command_line(), pytest.raises(click.UsageError, match=r"--provider qnn .*webgpu"):
        check_target("webgpu", ("cpu", "qnn"))


def test_operators_of_onnxruntime() -> None:
    check_target("webgpu", (), needs_contrib=True)
    check_target("qnn", ())
    with pytest.raises(click.UsageError, match="qnn"):
        check_target("qnn", (), needs_contrib=True)


def test_limits_that_are_exceeded() -> None:
    left = PlacedNode(
        "b", "Erf", "", "CPUExecutionProvider", -1, "there is no kernel", "another form"
    )
    found = Placement("fake", (PlacedNode("a", "Abs", "", "Fake", 0), left, left))
    assert exceeded(found, None, None) == []
    assert exceeded(found, 2, 1) == []
    assert [values_in(text) for text in exceeded(found, 1, 0)] == [["2", "1"], ["1", "0"]]
    (text,) = exceeded(replace(found, compiles=False), None, 9)
    assert (text.partition(":")[0], values_in(text)) == ("partitions", ["9"])
    (text,) = left_texts(found)
    assert re.match(rf"Erf 2: {left.reason} \(.*: {left.advice}\)", text)


def test_only_the_most_frequent_operators_are_named() -> None:
    nodes = [
        PlacedNode(f"n{number}", f"Op{number}", "acme", "CPUExecutionProvider")
        for number in range(8)
    ]
    texts = list(left_texts(Placement("fake", tuple(nodes))))
    assert texts[0].startswith("acme::Op0 1: ")
    assert values_in(texts[-1]) == ["2", "xopt place"]
    assert list(left_texts(Placement("fake", tuple(nodes), compiles=False))) == []


def test_sizes_are_written() -> None:
    path = write(RELU)
    assert fixed_source(path, ()).kind == "path"
    found = fixed_source(path, ("batch=3",))
    assert found.proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 3


def placed(text: str) -> Placement:
    """A placement by letters: digits are partitions, capitals operators elsewhere, ``s`` shapes,
    ``a`` nodes computed ahead.
    """
    cpu = "CPUExecutionProvider"
    nodes: list[PlacedNode] = []
    for place, each in enumerate(text):
        name = f"n{place}"
        if each.isdigit():
            nodes.append(PlacedNode(name, "Abs", "", "Gpu", int(each)))
        elif each == "a":
            nodes.append(PlacedNode(name, "Add"))
        else:
            nodes.append(PlacedNode(name, each, "", cpu, is_shape_arithmetic=each == "s"))
    return Placement("fake", tuple(nodes))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("000", ""),
        ("0s0a", ""),
        ("AB", ""),
        ("", ""),
        ("00A1", "[2 nodes] cpu: A 1 [1 node]"),
        ("0sA0a1", "[2 nodes] cpu: A 1 [1 node]"),
        ("AAB0", "cpu: A 2, B 1 [1 node]"),
        ("0ABCDDEE", "[1 node] cpu: D 2, E 2, A 1, 2 more"),
    ],
)
def test_the_map_of_a_placement(text: str, expected: str) -> None:
    assert map_of(placed(text)) == expected


def test_a_model_that_does_not_compile_has_no_map() -> None:
    assert map_of(replace(placed("0A1"), compiles=False)) == ""
