"""Records of optimizations."""

import pytest

from tests.reporting.models import recorded
from tests.support import parse
from xoptim import GraphBuilder, OptimizationOptions
from xoptim.engine.events import Event
from xoptim.reporting.links import Recorder

pytest.importorskip("igraph")

TEXT = (
    "agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Neg(a) "
    "c = Constant <value = float {2}> () d = Exp(c) y = Mul(b, d) }"
)


def test_rewrites_are_recorded() -> None:
    builder, journal = recorded(parse(TEXT))
    assert [node.op_type for node in journal.before.nodes] == [
        "Neg",
        "Neg",
        "Constant",
        "Exp",
        "Mul",
    ]
    assert builder.count_types() == {"Mul": 1}
    (step,) = journal.steps
    assert step.name == "NegNeg"
    assert [node.op_type for node in step.removed] == ["Neg", "Neg"]
    assert step.rewrite is not None
    assert [node.op_type for node in journal.folded] == ["Exp"]


def test_the_listener_of_the_caller_still_listens() -> None:
    heard: list[Event] = []
    recorder = Recorder()
    options = recorder.listening(OptimizationOptions(on_event=heard.append))
    builders = [GraphBuilder(parse(TEXT), optimization_options=options) for _ in range(2)]
    for builder in builders:
        recorder.loaded(builder.model)
        builder.optimize()
    assert sum(event.kind == "applied" for event in heard) == 2
    journals = [recorder.of(builder.model) for builder in builders]
    assert [len(journal.steps) for journal in journals] == [1, 1]
    assert journals[0] is not journals[1]


def test_events_of_other_models_are_ignored() -> None:
    """The search for a wrong rewrite optimizes the same model again and again with the same
    listener.
    """
    recorder = Recorder()
    options = recorder.listening(OptimizationOptions())
    builder, other = (GraphBuilder(parse(TEXT), optimization_options=options) for _ in range(2))
    recorder.loaded(builder.model)
    builder.optimize()
    other.optimize()
    assert len(recorder.of(builder.model).steps) == 1
