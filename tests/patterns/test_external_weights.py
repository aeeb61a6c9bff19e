"""Patterns apply to constants in external data as to those in the model: exporters write either."""

from pathlib import Path

import onnx
import pytest
from onnx import external_data_helper

from tests.share import is_pattern_in_share
from tests.support import parse, types, with_external_data
from xoptim import installed_patterns, optimize
from xoptim.match.rewrite import Rewrite
from xoptim.testing.canonical import canonical
from xoptim.testing.variant import Case, provider_of

_PARTS = 8
CASES = [
    pytest.param(pattern, index, id=f"{pattern.name()}-{index}")
    for pattern in installed_patterns().values()
    for index, _ in enumerate(pattern.examples)
    if is_pattern_in_share(pattern, f"external {pattern.name()} {index}", _PARTS)
]


@pytest.mark.parametrize(("pattern", "index"), CASES)
def test_constants_may_be_in_another_file(
    pattern: type[Rewrite], index: int, tmp_path: Path
) -> None:
    example = Case(pattern.examples[index])
    path = with_external_data(example.copy(), tmp_path)
    inside, outside = (
        optimize(
            model,
            patterns=[pattern.name()],
            provider=provider_of(pattern),
            assume_from_model=True,
        )
        for model in (example.copy(), path)
    )
    external_data_helper.load_external_data_for_model(outside, str(tmp_path))
    assert canonical(outside) == canonical(inside)


def test_large_external_data_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight is multiplied by a factor, unless the weights of the model are too large."""
    pattern = installed_patterns()["MatMulMul"]
    path = with_external_data(Case(pattern.examples[1]).copy(), tmp_path)
    count = len(optimize(path, patterns="MatMulMul").graph.node)
    monkeypatch.setattr("xoptim.graph.model._MAX_DATA", 1)
    assert len(optimize(path, patterns="MatMulMul").graph.node) == count + 1


def test_patterns_refuse_constants_whose_file_is_missing(tmp_path: Path) -> None:
    """No pattern fails: patterns that failed were skipped in the whole model, with a warning."""
    model = parse(
        "agraph (float[n,4] x) => (float[n,4] y) <float[4] zero = {0, 0, 0, 0}, float two = {2}> "
        "{ a = Add(x, zero) b = Mul(a, two) c = Neg(b) y = Neg(c) }"
    )
    path = with_external_data(model, tmp_path)
    (tmp_path / "data").unlink()
    stored = onnx.load(path, load_external_data=False)
    assert types(optimize(stored, strict=True)) == ["Add", "Mul"]
