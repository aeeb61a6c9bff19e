"""Wrong rewrites are noticed; ``python -m tests.verification.wrong`` prints all."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import onnx
import onnxruntime
import pytest

from tests.cli.command import runner
from tests.share import is_in_share
from tests.verification.wrong.case import Pair, Wrong, differ, judged, plain_options
from tests.verification.wrong.cases import MODULES, cases, right_cases
from xoptim.verification import VerificationOptions

ESCAPES: Final[dict[str, str]] = {
    "squeeze_of_first": (
        "the operands that name axes vary at the sizes on which the model first runs"
    ),
    "if_empty": "the first two axes of inputs are assumed not to be empty",
    "square_and_divide": "large integers could make a computed divisor 0, which ends the process",
    "one_row_of_a_table": "an index takes a few of the rows of a large table",
    "split_at_equal": (
        "a tree has no form in 64-bit floats, and its step at an exact number passes for rounding"
    ),
    "mean_of_two": "sums next to the largest number of a type may be reordered",
    "mean_of_row": "sums next to the largest number of a type may be reordered",
    "difference_of_squares": "results next to the largest number of a type may overflow",
    "count_of_tokens_in_a_byte": "no mask keeps 256 positions",
    "more_than_twenty_detections": "no input has some number of elements above a bound",
    "groups_of_eight_channels": "a size is tried at a multiple of a number once, and not above",
    "items_of_no_row": "no item of a sequence is empty where others are not",
    "one_minus_cosine": "the results are smaller than the absolute tolerance",
    "weights_truncated_to_bfloat16": "a matrix that differs in its last bits may have been rounded",
    "green_of_luma": "one of three constants is wrong; the mean error of random colors is small",
    "rotation_matrices": "no orthogonal matrices are made, but for permutations",
}
"""Names of the wrong rewrites that the verification accepts, each with the reason."""
MOST_ESCAPES: Final = 16
PARTS: Final = 12
"""A run judges one of so many parts of the wrong rewrites."""
FOLDERS: Final = ("xoptim/verification", "tests/verification/wrong")
"""What decides how a rewrite is judged; no pattern does."""

CASES: Final = {case.name: case for case in cases()}
RIGHT: Final = {case.name: case for case in right_cases()}
NOTICED: Final = [case for case in CASES.values() if case.name not in ESCAPES]


def load(model: onnx.ModelProto) -> None:
    """Raise if onnxruntime cannot load a model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # one of them ends the process
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = model.SerializeToString()
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def test_there_are_enough_cases_of_each_kind() -> None:
    kinds = Counter(case.kind for case in CASES.values())
    assert len(CASES) == len(cases())
    assert len(CASES) >= 400
    assert len(kinds) == len(MODULES)
    assert min(kinds.values()) >= 10
    assert len(RIGHT) == len(right_cases())
    assert len(RIGHT) >= 80


@pytest.mark.parametrize("case", [*CASES.values(), *RIGHT.values()], ids=lambda case: case.name)
def test_both_models_load(case: Pair) -> None:
    load(case.original)
    load(case.result)


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_results_differ_on_the_witness(case: Wrong) -> None:
    assert differ(case)
    assert not differ(replace(case, after=case.before))


@pytest.mark.slow
@pytest.mark.parametrize("case", NOTICED, ids=lambda case: case.name)
def test_a_wrong_rewrite_is_noticed(case: Wrong, request: pytest.FixtureRequest) -> None:
    """Without ``-k``, a run judges about every twelfth one; ``make wrong-rewrites`` judges all."""
    if not (request.config.option.keyword or is_in_share(case.name, PARTS, *FOLDERS)):
        pytest.skip("not in the share; make wrong-rewrites judges all")
    report = judged(case)
    assert report.status != "equal", case.why


def test_few_rewrites_escape() -> None:
    assert ESCAPES.keys() <= CASES.keys()
    assert len(ESCAPES) <= MOST_ESCAPES
    assert all(ESCAPES.values())


@pytest.mark.slow
def test_each_escape_is_still_one() -> None:
    assert {name: judged(CASES[name]).status for name in ESCAPES} == dict.fromkeys(ESCAPES, "equal")


@pytest.mark.slow
@pytest.mark.parametrize("case", RIGHT.values(), ids=lambda case: case.name)
def test_a_right_rewrite_is_accepted(case: Pair) -> None:
    report = judged(case)
    assert report.status == "equal", report.reason


def test_the_command_judges_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plain_options() == VerificationOptions()
    files = (tmp_path / "a.onnx", tmp_path / "b.onnx")
    for case, code in ((CASES["relu_alone"], 1), (RIGHT["softmax_of_parts"], 0)):
        onnx.save(case.original, files[0])
        onnx.save(case.result, files[1])
        assert runner(capsys)("verify", *map(str, files)).code == code
