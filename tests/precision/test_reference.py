"""Errors of models next to the float32 model."""

import numpy as np
import pytest

from tests.precision.models import network, words
from xoptim.catalogue.selection import resolve
from xoptim.precision.candidates import find_candidates
from xoptim.precision.fake_quantization import fake_quantized
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.reference import FloatReference
from xoptim.precision.samples import Samples
from xoptim.precision.switched_session import SwitchedSession
from xoptim.precision.weight_only import WeightOnlyQuantizer
from xoptim.verification.runs.session_settings import SessionSettings

SAMPLES = Samples([words(), words(seed=1)], are_random=False)
SETTINGS = SessionSettings(level="all")


def test_a_model_has_no_error_next_to_itself() -> None:
    reference = FloatReference.of(network(), None, SAMPLES, PrecisionOptions(), SETTINGS)
    assert len(reference.expected) == 2
    assert reference.unseen_error_of(network(), None) == 0.0
    twice = [2 * np.asarray(each) for each in reference.expected[1]]
    assert max(reference.errors(1, twice)) == pytest.approx(1.0)


def test_a_switched_session_has_the_error_of_the_quantized_model() -> None:
    model, patterns = network(layers=2), resolve("int8")
    candidates, subgraphs = find_candidates(model, None, patterns, "cpu")
    constants = WeightOnlyQuantizer(model, None, ())
    session = SwitchedSession(
        model, None, subgraphs, constants, (), SAMPLES, PrecisionOptions(), SETTINGS
    )
    forms = {each.result: each.pattern for each in candidates if each.pattern == "Int8Operands"}
    quantized, _ = fake_quantized(model, None, patterns, forms, "cpu")
    expected = session.reference.unseen_error_of(quantized, None)
    assert 0 < expected < 0.1
    assert max(session.errors(forms, range(2))) == pytest.approx(expected, rel=1e-3)
    assert max(session.errors({}, range(2))) == 0.0
    session.close()
    assert session.reference.unseen_error_of(quantized, None) == expected
