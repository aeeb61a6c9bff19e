"""Results under onnxruntime's own optimizations: the numbers of the original, where they leave
these as they are.

The verification runs models as they are written. A rewrite may write a form that a fusion of
onnxruntime computes wrongly, as that of a Transpose and a product with a vector in 1.32.
"""

import onnx
import pytest

import xoptim
from tests.properties.strategy import random_model
from tests.support import in_parts, parse
from xoptim.verification import (
    ComparisonRules,
    LoadError,
    RunError,
    VerificationOptions,
    compare_values,
)
from xoptim.verification.inputs.reference import Reference, run_reference
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings

GRAPHS, CHUNKS = 120, 4
FURTHER = SessionSettings(level="all", threads=1)
RULES = ComparisonRules(rtol=1e-3, atol=1e-4)
"""Wide, so that only another result counts, and not sums in another order."""


def difference(model: onnx.ModelProto, reference: Reference) -> str:
    """The first difference of a model, with all optimizations of onnxruntime, from runs of the
    original without them.
    """
    session = Session(model, FURTHER)
    for run in reference.runs:
        pairs = zip(reference.outputs, run.results, session.run(run.feeds), strict=True)
        compared = (
            c
            for port, expected, actual in pairs
            for c in compare_values(port.name, expected, actual, RULES)
        )
        if run.source != "odd" and (fault := next((c for c in compared if not c.ok), None)):
            return f"{fault.output} with {dict(run.sizes)}: {fault.message}"
    return ""


def test_a_difference_is_found() -> None:
    one, other = (
        parse(f"agraph (float[n,4] x) => (float[n,4] y) {{ y = {name}(x) }}")
        for name in ("Relu", "LeakyRelu")
    )
    reference = run_reference(one, VerificationOptions())
    assert not difference(one, reference)
    assert difference(other, reference).startswith("y with")


@in_parts("chunk", CHUNKS)
@pytest.mark.filterwarnings("ignore")
def test_results_stay_right(chunk: int) -> None:
    count = 0
    for seed in range(chunk, GRAPHS, CHUNKS):
        model = random_model(seed)
        try:
            reference = run_reference(model, VerificationOptions(threads=1, extremes=False))
        except (LoadError, RunError):  # no model that onnxruntime runs
            continue
        result = xoptim.optimize(model, patterns="default+onnxruntime" if seed % 2 else "default")
        count += 1
        assert not difference(result, reference) or difference(model, reference), seed
    assert count > GRAPHS // CHUNKS // 2
