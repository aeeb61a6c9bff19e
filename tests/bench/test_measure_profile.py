"""Times by operator."""

from pathlib import Path

import pytest

from tests.support import parse
from xoptim.bench import profile

MODEL = (
    "g (float[N,N] x) => (float[N,N] y) { a = MatMul(x, x) b = MatMul(a, x) c = Exp(b) y = Abs(c) }"
)


def test_operators_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    both = profile(
        {"a": parse(MODEL), "b": parse(MODEL)}, seconds=0.05, threads=1, dims={"N": 64}, level="off"
    )
    assert list(both) == ["a", "b"]
    for operators in both.values():
        assert {name: each.calls for name, each in operators.items()} == {
            "MatMul": 2,
            "Exp": 1,
            "Abs": 1,
        }
        assert all(each.seconds > 0 for each in operators.values())
    assert not list(tmp_path.iterdir())  # the profiler writes elsewhere


def test_onnxruntime_fuses_first() -> None:
    found = profile(
        [parse("g (float[N] x) => (float[N] y) { a = Identity(x) y = Abs(a) }")], seconds=0.01
    )
    assert {name: each.calls for name, each in found["model 1"].items()} == {"Abs": 1}
