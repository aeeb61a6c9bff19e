import re

import numpy as np
import onnx
import pytest

import xoptim
from tests.support import parse
from xoptim.verification import VerificationOptions, verify_models
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.judging.runtime import change_by
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings


def spoilt(monkeypatch: pytest.MonkeyPatch, *operators: str) -> None:
    """Let sessions under all optimizations give other results where a model contains some
    operators.
    """
    make, run = Session.__init__, Session.run
    wrong: dict[int, bool] = {}

    def made(self: Session, model, settings=None, **named):  # type: ignore[no-untyped-def]
        make(self, model, settings, **named)
        types = {node.op_type for node in model.graph.node} if hasattr(model, "graph") else set()
        wrong[id(self)] = (settings or SessionSettings()).level == "all" and bool(
            types & {*operators}
        )

    def ran(self: Session, feeds, limit=None):  # type: ignore[no-untyped-def]
        results = run(self, feeds, limit)
        return [each + 1 for each in results] if wrong.get(id(self)) else results  # type: ignore[operator]

    monkeypatch.setattr(Session, "__init__", made)
    monkeypatch.setattr(Session, "run", ran)


BEFORE = "agraph (float[n,4] x) => (float[n,4] y) { a = Neg(x) y = Neg(a) }"
AFTER = "agraph (float[n,4] x) => (float[n,4] y) { y = Identity(x) }"


def test_nothing_is_noted_where_both_are_right() -> None:
    assert verify_models(parse(BEFORE), parse(AFTER)).notes == ()


def test_a_form_that_onnxruntime_computes_wrongly_is_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoilt(monkeypatch, "Identity")
    report = verify_models(parse(BEFORE), parse(AFTER))
    assert report.status == "different"
    assert re.match("with ORT graph optimizations, .* output 'y'", report.reason)


def test_an_original_that_onnxruntime_computes_wrongly_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoilt(monkeypatch, "Neg")
    report = verify_models(parse(BEFORE), parse(AFTER))
    assert report.ok
    (note,) = report.notes
    assert re.match("ORT graph optimizations .* output 'y'.* right$", note)
    assert "right" not in verify_models(parse(BEFORE), parse(BEFORE)).notes[0]


def _model(nodes: str) -> onnx.ModelProto:
    """A model with random weights ``w`` of a convolution, with as many channels as results have."""
    text = (
        "g (float[N,8,4] x) => (float[N,32] y) <int64[2] s = {-1, 32}, "
        f"float c = {{0.3}}> {{ {nodes} }}"
    )
    model = parse(text, 21)
    weights = np.random.default_rng(0).standard_normal((8, 8, 1)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


def test_fused_kernels_may_round_where_rewrites_are_exact() -> None:
    """Only one of the models has a Conv and a Mul that onnxruntime merges."""
    before = _model("m = Conv(x, w) r = Reshape(m, s) y = Mul(r, c)")
    after = _model("m = Conv(x, w) a = Mul(m, c) y = Reshape(a, s)")
    report = verify_models(before, after, VerificationOptions(exactness="exact"))
    assert report.ok, report.reason


def test_optimizations_that_end_the_process_are_omitted() -> None:
    """onnxruntime crashes while it transposes the first operand of a MatMul in float16; without it,
    this test ends pytest.
    """
    signature = (
        "g (float16[t,b,2] x) => (float16[b,t,2] y) <float16[2,2] w = {15360, 14336, 49152, 16896}>"
    )
    before = parse(f"{signature} {{ z = Transpose <perm = [1, 0, 2]> (x) y = MatMul(z, w) }}", 13)
    after = parse(f"{signature} {{ z = MatMul(x, w) y = Transpose <perm = [1, 0, 2]> (z) }}", 13)
    assert verify_models(before, after).ok


def _blocks() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """MatMulNBits with random weights in blocks of 32, and its form with DequantizeLinear, of which
    onnxruntime makes MatMulNBits with activations of 8 bits.
    """
    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (6, 32, 16)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.02, (6, 32)).astype(np.float32)
    before = parse(
        "g (float[n,1024] x) => (float[n,6] y) { y = com.microsoft.MatMulNBits <K = 1024, N = 6, "
        "bits = 4, block_size = 32> (x, w, s) }",
        21,
        domains={"com.microsoft": 1},
    )
    tensors = (("w", blocks), ("s", scales))
    before.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in tensors)
    return before, xoptim.optimize(before, patterns=["LowerMatMulNBits"])


def test_what_a_kernel_for_integers_rounds_is_the_runtime_s() -> None:
    before, after = _blocks()
    assert [node.op_type for node in after.graph.node] == ["DequantizeLinear", "MatMul"]
    report = verify_models(before, after)
    assert report.ok, report.reason
    (note,) = report.notes
    assert re.search(r", MatMulNBits .* output 'y': .* 0\.00% ", note)


def test_kernels_for_integers_do_not_excuse_another_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, after = _blocks()
    spoilt(monkeypatch, "DequantizeLinear")
    report = verify_models(before, after)
    assert report.status == "different"
    assert report.reason.startswith("with ORT graph optimizations, ")


def test_a_change_by_the_settings_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    spoilt(monkeypatch, "Identity")
    options = VerificationOptions()
    reference = run_reference(parse(AFTER), options)
    assert change_by(reference, SessionSettings(), options.rules) == ""
    text = change_by(reference, SessionSettings(level="all"), options.rules)
    assert text.startswith("output 'y'")
    entries = (("session.intra_op_thread_affinities", "none"),)
    text = change_by(reference, SessionSettings(threads=2, entries=entries), options.rules)
    assert "not run: " in text
