"""Declared workarounds of onnxruntime's defects, and what `make workarounds` says about them."""

import pytest
from packaging.version import Version

from lab.workarounds import (
    REFUSALS,
    Workaround,
    has_defect,
    is_correct,
    judgement,
    oldest_supported,
    workarounds,
)
from tests.support import run
from xoptim.match.making import fault
from xoptim.match.rewrite import Example
from xoptim.testing.feeds import make_all_feeds
from xoptim.testing.variant import parse

MODEL = "agraph (float[n] x) => (float[n] y) { y = Neg(x) }"


def test_rewrites_declare_defects() -> None:
    declared = {each.place: each.versions for each in workarounds()}
    assert declared["TransposeMatMulVector"] == "<1.33"
    assert len(declared) > len(REFUSALS)


@pytest.mark.parametrize("workaround", workarounds(), ids=lambda each: each.place)
def test_their_models_run_without_optimizations(workaround: Workaround) -> None:
    for example in workaround.models:
        model = parse(example.before, example.opset, example.domains)
        run(model, next(iter(make_all_feeds(model, example.ranges, special="finite"))))


def test_a_size_that_the_model_refuses_does_not_count() -> None:
    """A Resize has no scale that makes an empty dimension larger."""
    text = "agraph (float[n] x) => (float[m] y) <int64[1] c = {3}> { y = Resize(x, , , c) }"
    assert is_correct(Example(text, "{}", opset=18))
    with pytest.raises(RuntimeError, match="not run"):
        is_correct(Example(text.replace("{3}", "{-1}"), "{}", opset=18))


def test_a_model_without_a_defect() -> None:
    assert not has_defect(Example(MODEL, "{ y = Neg(x) }"))
    with pytest.raises(RuntimeError, match="Nag"):
        has_defect(Example(MODEL.replace("Neg", "Nag"), "{ y = Neg(x) }"))


@pytest.mark.parametrize(
    ("installed", "oldest", "is_there", "is_right", "text"),
    [
        ("1.32.0", "1.22", True, True, "needed, 1.32.0 has the defect"),
        ("1.33.0.dev7", "1.22", True, False, "still has the defect: declare more than <1.33"),
        ("1.32.0", "1.22", False, False, "does not have the defect: declare less than <1.33"),
        ("1.33.0", "1.22", False, True, "fixed in 1.33.0; still needed for supported versions"),
        ("1.34.0", "1.33", False, False, "can be removed: no supported version has the defect"),
    ],
)
def test_judgement(installed: str, oldest: str, is_there: bool, is_right: bool, text: str) -> None:
    found = judgement("<1.33", Version(installed), Version(oldest), is_there)
    assert found[0] == is_right
    assert text in found[1]


def test_the_oldest_supported_version() -> None:
    assert Version("1.0") < oldest_supported() < Version("2.0")


@pytest.mark.parametrize("value", ["", "<1.33", ">=1.30,<1.33", "==1.32.0"])
def test_versions(value: str) -> None:
    assert fault("onnxruntime", value) == ""


@pytest.mark.parametrize("value", ["1.33", "<1.33,", "< 1.33", "<one", 1.33, None])
def test_wrong_versions(value: object) -> None:
    assert "'>=1.30,<1.33'" in fault("onnxruntime", value)
