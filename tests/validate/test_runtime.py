import pytest

from tests.support import parse
from xoptim.validate import ValidationOptions, validate
from xoptim.validate.reference import run_reference
from xoptim.validate.runtime import under_optimizations
from xoptim.validate.session import Session, SessionSettings


def spoilt(monkeypatch: pytest.MonkeyPatch, *operators: str) -> None:
    """Let sessions under all optimizations give other results where a model contains some operators."""
    make, run = Session.__init__, Session.run
    wrong: dict[int, bool] = {}

    def made(self: Session, model, settings=None, **named):  # type: ignore[no-untyped-def]
        make(self, model, settings, **named)
        types = {node.op_type for node in model.graph.node} if hasattr(model, "graph") else set()
        wrong[id(self)] = (settings or SessionSettings()).level == "all" and bool(types & {*operators})

    def ran(self: Session, feeds, limit=None):  # type: ignore[no-untyped-def]
        results = run(self, feeds, limit)
        return [each + 1 for each in results] if wrong.get(id(self)) else results  # type: ignore[operator]

    monkeypatch.setattr(Session, "__init__", made)
    monkeypatch.setattr(Session, "run", ran)


BEFORE = "agraph (float[n,4] x) => (float[n,4] y) { a = Neg(x) y = Neg(a) }"
AFTER = "agraph (float[n,4] x) => (float[n,4] y) { y = Identity(x) }"


def test_nothing_is_noted_where_both_are_right() -> None:
    assert validate(parse(BEFORE), parse(AFTER)).notes == ()


def test_a_form_that_onnxruntime_computes_wrongly_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    spoilt(monkeypatch, "Identity")
    report = validate(parse(BEFORE), parse(AFTER))
    assert report.status == "different"
    assert report.reason.startswith("with onnxruntime's own optimizations, which leave the original right, output 'y'")


def test_an_original_that_onnxruntime_computes_wrongly_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    spoilt(monkeypatch, "Neg")
    report = validate(parse(BEFORE), parse(AFTER))
    assert report.ok
    (note,) = report.notes
    assert note.startswith("onnxruntime's own optimizations change the results of the original: output 'y'")
    assert note.endswith("those of the optimized model are right")
    assert "right" not in validate(parse(BEFORE), parse(BEFORE)).notes[0]


def test_models_of_16_bits_are_left_out() -> None:
    """onnxruntime ends the process while it optimizes some of them."""
    model = parse("agraph (float16[n,4] x) => (float16[n,4] y) { y = Neg(x) }")
    options = ValidationOptions()
    reference = run_reference(model, options)
    found = under_optimizations(reference, model, None, options.rules)
    assert found == ("", "")
