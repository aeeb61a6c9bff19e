import json

import pytest

from xoptim.targets import PlacedNode, Placement

TAKEN = PlacedNode("a", "Add", "", "GPU", 0)
OTHER = PlacedNode("b", "Mul", "", "GPU", 1)
LEFT = PlacedNode("c", "Erf", "", "CPU", reason="no kernel")
SHAPE = PlacedNode("d", "Shape", "", "CPU", is_shape_arithmetic=True)
ABSENT = PlacedNode("e", "Constant")


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ((TAKEN,), "gpu: 1 of 1 node in 1 partition"),
        (
            (TAKEN, OTHER, LEFT, SHAPE, ABSENT),
            "gpu: 2 of 4 nodes in 2 partitions, 1 of the others computes shapes",
        ),
        ((SHAPE, SHAPE, LEFT), "gpu: 0 of 3 nodes, 2 of the others compute shapes"),
        ((), "gpu: 0 of 0 nodes"),
    ],
)
def test_the_summary_counts(nodes: tuple[PlacedNode, ...], expected: str) -> None:
    assert Placement("gpu", nodes).summary() == expected


def test_a_table_is_not_verified() -> None:
    assert (
        Placement("webnn", (TAKEN,), source="table").summary().endswith("(by table, not verified)")
    )


def test_a_model_that_does_not_compile() -> None:
    found = Placement("qnn", (PlacedNode("a", "Add"),), compiles=False, error="x" * 1000)
    assert found.summary() == f"qnn: does not compile: {'x' * 400}"
    assert (len(found.taken), len(found.left), found.partitions, found.absent) == (0, 1, 0, ())


def test_the_kinds_of_nodes() -> None:
    found = Placement("gpu", (TAKEN, OTHER, LEFT, SHAPE, ABSENT))
    assert (found.taken, found.left, found.shapes, found.absent) == (
        (TAKEN, OTHER),
        (LEFT,),
        (SHAPE,),
        (ABSENT,),
    )
    told = json.loads(json.dumps(found.to_json()))
    assert (told["taken"], told["left"], told["shapes"], told["absent"], told["partitions"]) == (
        2,
        1,
        1,
        1,
        2,
    )
    assert told["nodes"][2].pop("reason") == "no kernel"
    assert (
        told["nodes"][2]
        | {
            "name": "c",
            "op_type": "Erf",
            "provider": "CPU",
            "partition": -1,
            "is_taken": False,
        }
        == told["nodes"][2]
    )
