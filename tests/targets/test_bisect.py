from collections.abc import Collection
from pathlib import Path

import onnx
import pytest

from tests.plugged import needs
from tests.support import parse
from xoptim import targets
from xoptim.targets import Placement, PlacementError, smallest_failing

CHAIN = parse(
    "agraph (float[2,3] x) => (float[2,3] f) { a = Relu(x) b = Neg(a) c = Erf(b) d = Exp(c) "
    "e = Add(d, a) f = Abs(e) }"
)
QNN = targets.named("qnn")


def stops_at(monkeypatch: pytest.MonkeyPatch, *sets: Collection[str]) -> list[int]:
    """Let models not compile that have all operators of a set.

    Returns the sizes of the parts that are tried.
    """
    tried: list[int] = []

    def placed(
        model: onnx.ModelProto, target: object, base_dir: Path | None = None, **_: object
    ) -> Placement:
        onnx.checker.check_model(model)
        tried.append(len(model.graph.node))
        found = {node.op_type for node in model.graph.node}
        return Placement(
            "qnn", (), compiles=not any(found >= set(each) for each in sets), error="it stops"
        )

    monkeypatch.setattr("xoptim.targets.bisect.place", placed)
    return tried


@pytest.mark.parametrize(
    ("stops", "nodes"),
    [
        (["Erf"], ("Erf",)),
        (["Abs"], ("Abs",)),
        (["Relu"], ("Relu",)),
        (["Neg", "Exp"], ("Neg", "Erf", "Exp")),
    ],
)
def test_the_smallest_part(
    stops: list[str], nodes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = stops_at(monkeypatch, stops)
    found = smallest_failing(CHAIN, QNN)
    assert found is not None
    assert (found.operators, found.error, found.is_smallest) == (nodes, "it stops", True)
    assert [node.op_type for node in found.model.graph.node] == list(nodes)
    assert len(tried) < 8


def test_a_model_that_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    stops_at(monkeypatch)
    assert smallest_failing(CHAIN, QNN) is None


def test_a_model_without_nodes() -> None:
    model = parse("agraph (float[2] x) => (float[2] x) { }", opset=99)
    found = smallest_failing(model, targets.named("cpu"))
    assert found is not None
    assert (found.nodes, found.is_smallest) == ((), True)
    assert "99" in found.error


def test_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = stops_at(monkeypatch, ["Erf"])
    found = smallest_failing(CHAIN, QNN, seconds=0)
    assert found is not None
    assert (found.is_smallest, len(found.nodes), len(tried)) == (False, 6, 1)


def test_an_answer_that_takes_too_long_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def placed(model: onnx.ModelProto, *_: object, **__: object) -> Placement:
        calls.append(len(model.graph.node))
        if len(calls) > 1:
            raise PlacementError("no answer")
        return Placement("qnn", (), compiles=False, error="it stops")

    monkeypatch.setattr("xoptim.targets.bisect.place", placed)
    found = smallest_failing(CHAIN, QNN)
    assert found is not None
    assert (found.is_smallest, len(found.nodes), len(calls)) == (False, 6, 2)


@pytest.mark.slow
@needs("qnn")
def test_the_operator_at_which_qnn_stops() -> None:
    model = parse(
        "agraph (float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Neg(a) c = Gelu(b) "
        "y = Add(c, x) }",
        opset=20,
    )
    found = smallest_failing(model, QNN)
    assert found is not None
    assert found.operators == ("Gelu",)
