import json

from tests.support import parse, values_in
from xoptim import OptimizationOptions, optimize
from xoptim.proof.observer import ProofObserver

MODEL = """g (float[N,4] x) => (float[N,3] y) <float[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3},
    float s = {0.3}> {
    a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a)
    m = MatMul(b, w) y = Mul(m, s) }"""


def _observed(text: str, patterns: list[str]) -> ProofObserver:
    observer = ProofObserver()
    optimize(parse(text), OptimizationOptions(patterns=patterns, on_application=observer))
    return observer


def test_each_rewrite_has_a_grade() -> None:
    observer = _observed(MODEL, ["TransposeTranspose", "MatMulMul"])
    grades = {step.pattern: step.proof.grade for step in observer.steps}
    assert grades == {
        "TransposeTranspose": "same bits",
        "MatMulMul": "over real numbers, constants folded",
    }
    assert observer.unproved == []
    assert values_in(observer.summary()) == ["2", "2", "0", "1", "1"]


def test_json() -> None:
    observer = _observed(MODEL, ["TransposeTranspose"])
    assert json.loads(json.dumps(observer.to_json())) == {
        "grades": {
            "same bits": 1,
            "over real numbers": 0,
            "over real numbers, constants folded": 0,
            "only run": 0,
        },
        "steps": [
            {
                "number": 1,
                "pattern": "TransposeTranspose",
                "result": "b",
                "grade": "same bits",
                "reason": "",
                "premises": ["sizes from 0"],
            }
        ],
        "passes": [],
        "refused": [],
    }
