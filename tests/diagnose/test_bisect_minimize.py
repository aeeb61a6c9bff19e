"""A model is cut down to the nodes without which it does not show a fault."""

from collections.abc import Callable

import onnx
import pytest

from tests.support import parse, types
from xoptim.diagnose.bisect import minimize

LENGTH = 40
CHAIN = " ".join(f"t{i + 1} = {'Relu' if i in (11, 29) else 'Neg'}(t{i})" for i in range(LENGTH))
MODEL = parse(f"agraph (float[n] t0) => (float[n] t{LENGTH}) {{ {CHAIN} }}")


def shows(op_type: str, count: int = 1) -> Callable[[onnx.ModelProto], bool]:
    """Whether an operator occurs so often."""
    return lambda model: types(model).count(op_type) >= count


@pytest.mark.parametrize("around", [(), ("t12",), ("t12", "nothing")])
def test_one_node_is_left(around: tuple[str, ...]) -> None:
    small = minimize(MODEL, shows("Relu"), around)
    assert small is not None
    onnx.checker.check_model(small)
    assert types(small) == ["Relu"]


def test_nodes_far_from_each_other_are_kept_together() -> None:
    small = minimize(MODEL, shows("Relu", 2), ("t12",))
    assert small is not None
    assert types(small) == ["Relu", "Relu"]
    assert [value.name for value in small.graph.input] == ["t11", "t29"]
    assert [value.name for value in small.graph.output] == ["t12", "t30"]


def test_the_neighbourhood_is_tried_first() -> None:
    sizes: list[int] = []

    def look(model: onnx.ModelProto) -> bool:
        sizes.append(len(model.graph.node))
        return shows("Relu")(model)

    minimize(MODEL, look, ("t14",))
    assert sizes[:3] == [1, 3, 5]
    assert max(sizes) == 5, "the whole model was never looked at"


def test_nothing_shows_it() -> None:
    assert minimize(MODEL, shows("Exp")) is None
    assert minimize(MODEL, shows("Exp"), ("t12",)) is None


def test_trials_are_limited() -> None:
    count, trials = 250, 0  # about two trials a node, if they were not limited

    def stubborn(model: onnx.ModelProto) -> bool:
        nonlocal trials
        trials += 1
        return len(model.graph.node) == count

    wide = " ".join(f"t{i + 1} = Neg(t{i})" for i in range(count))
    found = minimize(parse(f"agraph (float[n] t0) => (float[n] t{count}) {{ {wide} }}"), stubborn)
    assert found is not None
    assert len(found.graph.node) == count
    assert trials <= 401
