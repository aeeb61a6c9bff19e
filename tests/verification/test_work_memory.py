"""The memory of a verification: one session at a time, weights that stay in their files, results on
disk.
"""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.support import parse
from xoptim.system.machine import resident_size
from xoptim.verification import (
    Session,
    SessionSettings,
    VerificationOptions,
    VerificationReport,
    verify_models,
)
from xoptim.verification.inputs import feeding as runs
from xoptim.verification.inputs.feeding import ReferenceRun, ResultStore, on_disk
from xoptim.verification.inputs.input_kinds import input_kinds
from xoptim.verification.inputs.size_bounds import size_bounds
from xoptim.verification.inputs.sized import SizedModel
from xoptim.verification.inputs.work import NODE, Work, is_large, is_mapped
from xoptim.verification.judging.noise import NoisyModel

HEAD = (
    "agraph (float[n,512] x) => (float[n,1] y) <int64[1] a = {1}, float o = {20}> { z = Mul(x, w) "
    "w2 = Add(z, o)"
)
NAIVE = (
    f"{HEAD} m = ReduceMean(w2, a) q = Mul(w2, w2) n2 = ReduceMean(q, a) s = Mul(m, m) "
    "y = Sub(n2, s) }"
)
CENTRED = f"{HEAD} m = ReduceMean(w2, a) d = Sub(w2, m) q = Mul(d, d) y = ReduceMean(q, a) }}"
WRONG = (
    f"{HEAD} m = ReduceMean(w2, a) d = Sub(w2, m) q = Mul(d, d) p = ReduceMean(q, a) "
    "y = Add(p, p) }"
)


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of other sessions in memory, each time one is made."""
    sessions: weakref.WeakSet[Session] = weakref.WeakSet()
    numbers: list[int] = []
    make = Session.__init__

    def noted(self: Session, *args: Any, **named: Any) -> None:
        numbers.append(len(sessions))
        sessions.add(self)
        make(self, *args, **named)

    monkeypatch.setattr(Session, "__init__", noted)
    gc.disable()  # sessions must not wait for it
    yield numbers
    gc.enable()


def written(folder: Path, name: str, text: str) -> Path:
    """A model with its weight in a file of its own."""
    model = parse(text)
    model.graph.initializer.append(
        numpy_helper.from_array(np.linspace(0.9, 1.1, 512, dtype=np.float32), "w")
    )
    path = folder / f"{name}.onnx"
    onnx.save(model, path, save_as_external_data=True, location=f"{name}.data", size_threshold=0)
    return path


def check(folder: Path, other: str, **options: Any) -> VerificationReport:
    return verify_models(
        written(folder, "a", NAIVE), written(folder, "b", other), VerificationOptions(**options)
    )


@pytest.mark.parametrize(
    ("other", "status", "sessions"),
    [(NAIVE, "equal", 2), (CENTRED, "equal", 3), (WRONG, "different", 4)],
)
def test_one_session_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
    alive: list[int],
    tmp_path: Path,
    other: str,
    status: str,
    sessions: int,
) -> None:
    """The original, the other model.

    The original once more for the noise, and for a doubt a second time.

    Models that are small, or run in a short time, are also run in double and under onnxruntime's
    own optimizations.
    """
    monkeypatch.setattr("xoptim.verification.judging.arbiter._MAX_BYTES", 0)
    monkeypatch.setattr("xoptim.verification.inputs.reference.SHORT", 0)
    assert check(tmp_path, other).status == status
    assert alive == [0] * sessions


def test_sessions_end_with_errors_too(alive: list[int], tmp_path: Path) -> None:
    fails = f"{HEAD} c = Constant <value = int64[2] {{7, 7}}> () y = Reshape(w2, c) }}"
    assert check(tmp_path, fails).status == "different"
    assert (
        verify_models(written(tmp_path, "c", fails), written(tmp_path, "d", fails)).status
        == "not verified"
    )
    assert alive == [0, 0, 0]


def test_large_results_are_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept: list[ReferenceRun] = []
    keep = ResultStore.keep

    def noted(self: ResultStore, run: ReferenceRun) -> ReferenceRun:
        kept.append(keep(self, run))
        return kept[-1]

    monkeypatch.setattr(runs, "_IN_MEMORY", 100_000)
    monkeypatch.setattr(ResultStore, "keep", noted)
    assert check(tmp_path, CENTRED, dims={"n": 40}).ok
    assert [isinstance(run.feeds["x"], np.memmap) for run in kept[:2]] == [False, True]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4", "bool", "complex64"])
def test_arrays_on_disk(dtype: str) -> None:
    numbers = np.arange(24).reshape(2, 3, 4) % 7 - 3
    array = numbers.astype(onnx.helper.tensor_dtype_to_np_dtype(getattr(TensorProto, dtype.upper()))
                           if dtype in ("bfloat16", "int4") else dtype)  # fmt: skip
    found = on_disk(np.swapaxes(array, 0, 2))
    assert (found.dtype, found.shape) == (array.dtype, (4, 3, 2))
    assert np.array_equal(found, np.swapaxes(array, 0, 2))


def test_what_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = (
        parse(NAIVE),
        onnx.load(written(tmp_path, "a", NAIVE), load_external_data=False),
    )
    assert is_mapped(outside)
    assert not is_mapped(inside)
    assert not is_large(outside)
    assert not is_large(outside, limit=2 * 2060)
    assert is_large(outside, limit=2 * 2059)
    monkeypatch.setattr("xoptim.verification.inputs.work._MAX_PACKED", 2000)
    assert is_large(outside)


@pytest.mark.parametrize(("limit", "is_whole"), [(40_000, True), (20_000, True), (12_000, False)])
def test_mapped_weights_need_no_second_copy(tmp_path: Path, limit: int, is_whole: bool) -> None:
    model = parse("agraph (float[1,64] x) => (float[1,64] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    inside = verify_models(model, model, VerificationOptions(memory_limit=limit))
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    outside = verify_models(
        tmp_path / "m.onnx", tmp_path / "m.onnx", VerificationOptions(memory_limit=limit)
    )
    assert outside.ok == is_whole
    assert inside.ok == (limit == 40_000)
    assert (outside.cause, inside.cause) == (
        "" if is_whole else "memory",
        "" if limit == 40_000 else "memory",
    )


def test_settings_without_copies_reach_all_sessions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Unpacked products add up in another order: a comparison with packed ones would show it."""
    monkeypatch.setattr("xoptim.verification.inputs.work._MAX_PACKED", 0)
    monkeypatch.setattr("xoptim.verification.judging.arbiter._MAX_BYTES", 0)
    used: list[SessionSettings] = []
    make = Session.__init__

    def noted(self: Session, model: Any, settings: Any, **named: Any) -> None:
        used.append(settings)
        make(self, model, settings, **named)

    monkeypatch.setattr(Session, "__init__", noted)
    assert check(tmp_path, WRONG).status == "different"
    assert used == [VerificationOptions().settings.without_copies()] * 4
    assert not used[0].arena


@pytest.mark.skipif(
    resident_size() is None, reason="the system does not report the memory of a process"
)
def test_the_plan_reads_no_weights(tmp_path: Path) -> None:
    """A weight of 2 GiB, a hole in a file, is in memory neither for the plan nor for the noise."""
    model = parse("agraph (float[n,s,16384] x) => (float[n,s,32768] y) { y = MatMul(x, w) }")
    weight = TensorProto(
        name="w",
        data_type=TensorProto.FLOAT,
        dims=(16384, 32768),
        data_location=TensorProto.EXTERNAL,
    )
    weight.external_data.add(key="location", value="w.bin")
    model.graph.initializer.append(weight)
    with (tmp_path / "w.bin").open("wb") as stream:
        stream.truncate(1 << 31)
    before = resident_size()
    sized = SizedModel(model, tmp_path)
    assert Work(sized).of({"n": 2, "s": 3}) == NODE + 2 * 6 * 16384 * 32768 + 16 * 6 * 32768
    assert size_bounds(sized) == []
    assert input_kinds(model, {"x": 1})["x"].kind == "free"
    assert NoisyModel(model, tmp_path, np.random.default_rng(0)).weights == {}
    after = resident_size()
    assert before is not None
    assert after is not None
    assert after - before < 1 << 28
