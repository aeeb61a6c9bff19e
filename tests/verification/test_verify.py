import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import xoptim
from tests.support import values_in
from xoptim.verification import (
    ProviderUnavailable,
    Session,
    VerificationOptions,
    VerificationReport,
    verify_models,
)
from xoptim.verification.errors import ChoiceError

HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1, "ai.onnx.ml" : 4]> '
GELU = (
    "g (float[batch,seq,8] x) => (float[batch,seq,8] y) <float half = {0.5}, float one = {1}, "
    "float root = {1.41421356}> { a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) "
    "y = Mul(d, half) }"
)


def model_of(text: str) -> onnx.ModelProto:
    return parser.parse_model(HEAD + text)


def check(original: str, optimized: str, **options: Any) -> VerificationReport:
    report = verify_models(model_of(original), model_of(optimized), VerificationOptions(**options))
    json.dumps(report.to_json(), allow_nan=False)
    assert report.summary().startswith(report.status)
    assert "\n" not in report.summary()
    return report


def with_weights(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    model = model_of(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in weights.items()
    )
    return model


def test_a_rewrite_that_rounds() -> None:
    report = check(GELU, "g (float[batch,seq,8] x) => (float[batch,seq,8] y) { y = Gelu(x) }")
    assert report.ok
    assert [(run.source, dict(run.dims)) for run in report.runs[:5]] == [
        ("random", {"batch": 2, "seq": 6}),
        ("random", {"batch": 3, "seq": 9}),
        ("random", {"batch": 1, "seq": 1}),
        ("random", {"batch": 1, "seq": 6}),
        ("random", {"batch": 2, "seq": 1}),
    ]
    sources = {run.source for run in report.runs}
    numbers = {"wide", "far", "ties", "tiny", "offset", "level", "odd", "range"}
    assert sources == {"random", "free", *numbers}
    assert report.largest is not None
    assert 0 < report.largest.max_abs < 1e-6
    assert report.original_seconds > 0
    assert report.optimized_seconds > 0
    assert report.notes == ()


def test_a_rewrite_that_is_not_exact_enough() -> None:
    fast = "g (float[batch,seq,8] x) => (float[batch,seq,8] y) { y = com.microsoft.FastGelu(x) }"
    report = check(GELU, fast)
    assert report.status == "different"
    assert re.search("'y' .*batch=2, seq=6", report.reason)
    assert check(GELU, fast, exactness="approximate").ok
    assert check(GELU, fast, atol=1e-2).ok
    exact = check(
        GELU,
        "g (float[batch,seq,8] x) => (float[batch,seq,8] y) { y = Gelu(x) }",
        exactness="exact",
    )
    assert exact.status == "different"


def test_off_by_a_thousandth() -> None:
    report = check(
        "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = Neg(x) z = Abs(x) }",
        "g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float e = {0.001}> { y = Neg(x) "
        "a = Abs(x) z = Add(a, e) }",
    )
    assert report.status == "different"
    assert report.largest is not None
    assert (report.largest.output, report.largest.fault) == ("z", "value")
    assert report.largest.max_abs == pytest.approx(1e-3, rel=1e-2)
    assert [c.ok for c in report.runs[0].comparisons] == [True, False]


def test_one_element_of_a_hundred_thousand() -> None:
    w = np.zeros(100_000, np.float32)
    other = w.copy()
    other[77_777] = 1e-3
    text = "g (float x) => (float[100000] y) { y = Add(x, w) }"
    report = verify_models(with_weights(text, w=w), with_weights(text, w=other))
    assert report.status == "different"
    assert report.largest is not None
    assert (report.largest.index, report.largest.mismatches) == ((77_777,), 1)


@pytest.mark.parametrize(
    ("optimized", "fault", "reason"),
    [
        (
            "g (float[N] x) => (double[N] y, float[N] z) { y = Cast <to = 11> (x) z = Abs(x) }",
            "dtype",
            "tensor(double)",
        ),
        (
            "g (float[N] x) => (float[N] y) { y = Neg(x) }",
            "missing",
            "output 'z': only the original has it",
        ),
        (
            "g (float[N] x) => (float[N] y, float[N] w) { y = Neg(x) w = Abs(x) }",
            "missing",
            "output 'z': only the original has it",
        ),
        (
            "g (float[N] x) => (float[N] z, float[N] y) { y = Neg(x) z = Abs(x) }",
            "structure",
            "order",
        ),
        (
            "g (float[N] a) => (float[N] y, float[N] z) { y = Neg(a) z = Abs(a) }",
            "missing",
            "input 'x': only the original has it",
        ),
        (
            "g (float[N] x, float[N] b) => (float[N] y, float[N] z) { y = Neg(x) z = Abs(b) }",
            "structure",
            "'b': the original does not have it",
        ),
        (
            (
                "g (float[N] x) => (float[N] y, float[N] z, float[N] t) { y = Neg(x) z = Abs(x) "
                "t = Abs(y) }"
            ),
            "structure",
            "'t': the original does not have it",
        ),
    ],
)
def test_other_signatures(optimized: str, fault: str, reason: str) -> None:
    report = check(
        "g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Abs(x) }", optimized
    )
    assert report.status == "different"
    assert report.faults[0].fault == fault
    assert reason in report.reason


def test_another_shape() -> None:
    report = check(
        "g (float[N,4] x) => (float y) <int64[1] a = {1}> { y = ReduceSum(x, a) }",
        "g (float[N,4] x) => (float y) <int64[1] a = {1}> { y = ReduceSum <keepdims = 0> (x, a) }",
    )
    assert report.status == "different"
    assert values_in(report.reason)[-3:] == ["2", "2", "1"]


def test_nan_in_another_place() -> None:
    text = "g (float[4] x) => (float[4] y) {{ z = Sub(x, x) y = {}(z, w) }}"
    w = np.array([0, 1, 1, 1], np.float32)
    report = verify_models(
        with_weights(text.format("Div"), w=w), with_weights(text.format("Div"), w=w)
    )
    assert report.ok  # NaN in the same place
    report = verify_models(
        with_weights(text.format("Div"), w=w), with_weights(text.format("Mul"), w=w)
    )
    assert report.status == "different"
    assert report.largest is not None
    assert report.largest.index == (0,)
    assert re.search(r"\b0\.0 .* nan\b", report.reason)
    json.dumps(report.to_json(), allow_nan=False)


def test_only_nan_is_no_evidence() -> None:
    text = "g (float[4] x) => (float[4] y) { z = Sub(x, x) y = Div(z, z) }"
    report = check(text, text)
    assert (report.status, report.cause) == ("not verified", "evidence")
    assert "finite" in report.reason
    report = check(
        "g (float[4] x) => (float[4] y, float[4] t) { z = Sub(x, x) y = Div(z, z) t = Neg(x) }",
        "g (float[4] x) => (float[4] y, float[4] t) { z = Sub(x, x) y = Div(z, z) t = Neg(x) }",
    )
    assert (report.status, report.cause) == ("not verified", "evidence")
    assert re.search("'y' .* no finite ", report.reason)


def test_models_that_do_not_load_or_run() -> None:
    good = "g (float[N] x) => (float[N] y) { y = Neg(x) }"
    bad = "g (float[N] x) => (float[N] y) { y = com.microsoft.NoSuchOperator(x) }"
    fails = (
        "g (float[N] x) => (float[N] y) <int64[2] s = {7, 77}> { z = Neg(x) r = Reshape(z, s) "
        "y = Add(x, r) }"
    )
    report = check(bad, good)
    assert (report.status, report.cause) == ("not verified", "load")
    assert "NoSuchOperator" in report.reason
    report = check(good, bad)
    assert report.status == "different"
    assert "NoSuchOperator" in report.reason
    report = check(fails, good, max_attempts=5)
    assert (report.status, report.cause) == ("not verified", "run")
    assert re.search(r" 5 .* feeds=numpy\.load.*: .*Reshape", report.reason)
    report = check(good, fails)
    assert report.status == "different"
    assert re.search(" N=2.*Reshape", report.reason)
    missing = verify_models("no/such/file.onnx", model_of(good))
    assert missing.status == "not verified"


def test_inputs_of_odd_kinds_say_why() -> None:
    model = model_of("g (float[N] x) => (float[N] y) { y = Neg(x) }")
    model.graph.input[0].type.CopyFrom(helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2]))
    report = verify_models(model, model)
    assert report.status == "not verified"
    assert report.reason


def test_a_bug_that_shows_for_one_assignment_only() -> None:
    original = "g (float[batch,seq] x) => (float[batch,seq] y) { y = Identity(x) }"
    frozen = (
        "g (float[batch,seq] x) => (float[batch,seq] y) <int64[2] s = {2, -1}> { "
        "y = Reshape(x, s) }"
    )
    assert check(original, frozen, assignments=1).ok
    assert check(original, frozen).status == "different"
    assert check(original, frozen, dims={"batch": 2}).ok


@pytest.mark.parametrize(
    ("text", "accepts"),
    [
        # frozen to a size that only the output tells
        (
            (
                "g (float[batch,seq] x) => (float[batch,24] y) <int64[2] s = {24, 24}, "
                "float one = {1}> { w = Expand(one, s) y = MatMul(x, w) }"
            ),
            {"seq": 24},
        ),
        # frozen to a size that only the shapes inside tell
        (
            (
                "g (float[B,S] x) => (float y) <int64[1] s = {7}, int64[1] b = {-1}> "
                "{ t = Concat <axis = 0> (b, s) r = Reshape(x, t) y = Add(r, x) }"
            ),
            {"S": 7},
        ),
        # a power of two
        (
            (
                "g (float[B,S] x) => (float y) <int64[3] s = {0, 8, -1}> { t = Reshape(x, s) "
                "y = Identity(t) }"
            ),
            {"S": 16},
        ),
        # batch of one
        (
            (
                "g (float[B,S] x) => (float y) <int64[2] s = {1, -1}> "
                "{ t = Reshape(x, s) y = Add(t, x) }"
            ),
            {"B": 1},
        ),
    ],
)
def test_sizes_that_the_original_accepts_are_found(text: str, accepts: dict[str, int]) -> None:
    report = check(text, text)
    assert report.ok
    assert any(accepts.items() <= dict(run.dims).items() for run in report.runs)


def test_the_length_of_a_loop_that_was_written_out() -> None:
    places = range(11)
    stored = ", ".join(f"int64 p{place} = {{{place}}}" for place in places)
    steps = " ".join(
        f"g{place} = Gather <axis = 1> (x, p{place}) s{place} = Unsqueeze(g{place}, axis)"
        for place in places
    )
    joined = ", ".join(f"s{place}" for place in places)
    nodes = f"{steps} z = Concat <axis = 1> ({joined}) y = Add(x, z)"
    text = f"g (float[B,S] x) => (float[B,S] y) <int64[1] axis = {{1}}, {stored}> {{ {nodes} }}"
    assert {run.dims["S"] for run in check(text, text).runs} == {11}


def test_two_inputs_that_must_agree_without_a_common_name() -> None:
    text = "g (float[?,?] a, float[?,?] b) => (float y) { y = Add(a, b) }"
    report = check(text, text)
    assert report.ok
    assert dict(report.runs[0].dims) == {"a:0": 2, "a:1": 6, "b:0": 2, "b:1": 6}


def test_a_rank_that_is_unknown() -> None:
    model = model_of("g (float[N] x) => (float y) { y = Transpose <perm = [2, 0, 1]> (x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    report = verify_models(model, model)
    assert report.ok
    assert report.runs[0].dims["x:rank"] == 3


def test_initializers_listed_as_inputs_are_not_fed() -> None:
    model = parser.parse_model(
        '<ir_version: 3, opset_import: ["" : 9]> g (float[2] x, float[2] w) => (float[2] y)'
        " <float[2] w = {1, 2}> { y = Add(x, w) }"
    )
    newer = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[2] x) => (float[2] y) <float[2] w = {1,'
        " 2}> { y = Add(w, x) }"
    )
    assert verify_models(model, newer).ok


def test_values_of_the_user(tmp_path: Path) -> None:
    text = (
        "g (float[N] x, int64[N] i, float[10] t) => (float[N] y) { g = Gather(t, i) y = Mul(x, g) }"
    )
    np.savez(
        tmp_path / "feeds.npz",
        x=np.ones(4, np.float32),
        i=np.array([9, 8, 7, 6]),
        t=np.arange(10, dtype=np.float32),
    )
    with np.load(tmp_path / "feeds.npz") as stored:
        report = check(text, text, feeds=dict(stored))
        partly = check(text, text, feeds={"i": stored["i"]})
    assert [run.source for run in report.runs] == ["given"]
    assert report.ok
    assert [run.source for run in partly.runs][:2] == ["random", "random"]
    assert "odd" in {run.source for run in partly.runs}
    assert all(run.dims == {"N": 4} for run in partly.runs)
    wrong = check(
        text,
        text,
        feeds={"i": np.array([99]), "x": np.ones(1, np.float32), "t": np.ones(10, np.float32)},
    )
    assert wrong.status == "not verified"
    assert "Gather" in wrong.reason


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"feeds": {"q": np.ones(1)}}, r"the model has no input 'q' \(it has x\)"),
        ({"dims": {"q": 3}}, r"the model has no dynamic dimension 'q' \(it has N\)"),
    ],
)
def test_choices_that_do_not_fit(options: dict[str, Any], reason: str) -> None:
    text = "g (float[N] x) => (float[N] y) { y = Neg(x) }"
    with pytest.raises(ChoiceError, match=reason):
        check(text, text, **options)


def test_data_next_to_the_model(tmp_path: Path) -> None:
    text = (
        "g (seq(float[N]) s, float[N] x) => (float y) { a = ConcatFromSequence <axis = 0> (s) "
        "y = Mul(a, x) }"
    )
    for number, count in ((0, 2), (10, 4), (2, 6)):
        folder = tmp_path / f"test_data_set_{number}"
        folder.mkdir()
        items = [np.ones(count // 2, np.float32), np.zeros(count // 2, np.float32)]
        (folder / "input_0.pb").write_bytes(numpy_helper.from_list(items).SerializeToString())
        (folder / "input_1.pb").write_bytes(
            numpy_helper.from_array(np.ones(count, np.float32)).SerializeToString()
        )
    report = check(text, text, test_data=tmp_path)
    assert report.ok
    assert [(run.source, run.comparisons[0].count) for run in report.runs] == [
        ("test data", n) for n in (2, 6, 4)
    ]
    assert len(check(text, text, test_data=tmp_path / "test_data_set_0").runs) == 1
    (tmp_path / "test_data_set_0" / "input_1.pb").write_bytes(b"\xff\xff")
    (tmp_path / "empty").mkdir()
    for folder, reason in (
        (tmp_path, "input_1.pb cannot be read"),
        (tmp_path / "empty", "no test data"),
    ):
        with pytest.raises(ChoiceError, match=reason):
            check(text, text, test_data=folder)


def test_noise_excuses_rounding_but_not_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Centred data of large offset: the variance as E[x^2] - E[x]^2 cancels all digits but a
    few.
    """
    monkeypatch.setattr("xoptim.verification.judging.arbiter._MAX_BYTES", 0)
    template = (
        "g (float[4,512] x) => (float[4,1] y) <int64[1] a = {{1}}, float o = {{{offset}}}> "
        "{{ z = Add(x, o) {body} }}"
    )
    naive = "m = ReduceMean(z, a) q = Mul(z, z) n = ReduceMean(q, a) s = Mul(m, m) y = Sub(n, s)"
    other = (
        "m = ReduceMean(z, a) q = Mul(z, z) n = ReduceMean(q, a) s = Mul(m, m) t = Neg(s) "
        "y = Add(t, n)"
    )
    centred = "m = ReduceMean(z, a) d = Sub(z, m) q = Mul(d, d) y = ReduceMean(q, a)"
    assert check(template.format(offset=20, body=naive), template.format(offset=20, body=other)).ok
    report = check(template.format(offset=20, body=naive), template.format(offset=20, body=centred))
    assert report.ok
    assert report.largest is not None
    assert not report.largest.ok
    assert any(re.search("'y': .* rounding", note) for note in report.notes)
    noise = report.runs[0].noise["y"]
    assert noise.accepted
    assert noise.level > 1e-6
    wrong = (
        centred.replace("ReduceMean(q, a)", "ReduceMean(q, a) ").replace("y = ", "v = ")
        + " y = Mul(v, f)"
    )
    wrong_text = template.format(offset=20, body=wrong).replace(
        "float o", "float f = {1.01}, float o"
    )
    assert check(template.format(offset=20, body=naive), wrong_text).status == "different"
    # Neither for rewrites that promise the same bits, nor against a tolerance of the user.
    naive_text, centred_text = (
        template.format(offset=20, body=naive),
        template.format(offset=20, body=centred),
    )
    assert check(naive_text, centred_text, exactness="exact").status == "different"
    assert check(naive_text, centred_text, rtol=1e-6).status == "different"


def test_many_outputs_that_round_are_one_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.verification.judging.arbiter._MAX_BYTES", 0)
    head = (
        "g (float[4,512] x) => (float[4,1] y, float[4,1] z) <int64[1] a = {1}, float o = {20}> { "
        "w = Add(x, o) "
    )
    naive = (
        "m = ReduceMean(w, a) q = Mul(w, w) n = ReduceMean(q, a) s = Mul(m, m) y = Sub(n, s) "
        "z = Neg(y) }"
    )
    centred = "m = ReduceMean(w, a) d = Sub(w, m) q = Mul(d, d) y = ReduceMean(q, a) z = Neg(y) }"
    report = check(head + naive, head + centred)
    assert report.ok
    assert any(re.match("2 outputs: .* rounding", note) for note in report.notes)
    assert [line.partition(":")[0] for line in report.rounded] == ["output 'y'", "output 'z'"]
    assert set(report.to_json()["runs"][0]["noise"]) == {"y", "z"}


def test_a_hopelessly_sensitive_model_is_not_judged() -> None:
    text = "g (float[64] x) => (float[64] y) <float o = {{3e7}}> {{ z = Mul(x, o) y = Sin({}) }}"
    report = check(
        text.format("z"),
        text.format("z")
        .replace("Mul(x, o)", "Mul(x, p)")
        .replace("float o = {3e7}", "float p = {30000002}"),
    )
    assert (report.status, report.cause) == ("not verified", "evidence")
    assert "1 ULP" in report.reason


def test_an_original_that_does_not_repeat_itself() -> None:
    text = "g (float[64] x) => (float[64] y) {{ {} r = RandomNormalLike(x) y = Add(x, r) }}"
    report = check(text.format(""), text.format("a = Neg(x) b = Neg(a)"))
    assert (report.status, report.cause) == ("not verified", "evidence")
    assert re.search("deterministic: RandomNormalLike ", report.reason)


def test_a_session_that_computes_something_else_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    run, calls = Session.run, itertools.count()
    monkeypatch.setattr(
        Session,
        "run",
        lambda self, feeds, *_: [r + next(calls) for r in run(self, feeds)],  # type: ignore[operator]
    )
    text = "g (float[64] x) => (float[64] y) { y = Neg(x) }"
    report = check(text, text)
    assert report.status == "not verified"
    assert "deterministic: output 'y'" in report.reason


def test_inputs_without_given_values_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    text = "g (float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }"
    assert check(text, text, feeds={"x": np.ones(2, np.float32)}).ok
    told = "no values are given for 'z'; random values are used"
    assert told in caplog.messages
    caplog.clear()
    assert check(text, text).ok
    assert caplog.messages == []


def test_models_without_inputs_and_with_empty_outputs() -> None:
    text = "g () => (float[2] y) <float[2] w = {1, 2}> { y = Neg(w) }"
    assert check(text, text).ok
    text = "g (float[0,4] x) => (float[0,4] y) { y = Neg(x) }"
    report = check(text, text)
    assert report.ok
    assert any("empty" in note for note in report.notes)


@pytest.mark.parametrize(
    ("outputs", "which"), [("", "the outputs"), (", float[n] z", "output 'y'")]
)
def test_outputs_that_are_always_empty_are_no_evidence(outputs: str, which: str) -> None:
    text = f"g (float[n] x) => (float y{outputs}) <int64[1] a = {{0}}> "
    text += "{ y = Slice(x, a, a) z = Neg(x) }"
    model = model_of(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    report = verify_models(model, model)
    assert (report.status, report.cause) == ("not verified", "evidence")
    assert re.match(f"{which} .* no element ", report.reason)


def test_an_output_of_a_section_that_is_empty_by_its_type() -> None:
    text = "g (float[0,4] x, float[2] u) => (float[0,4] y, float[2] z) { y = Neg(x) z = Abs(u) }"
    assert check(text, text, sections=True).ok


def test_maps_strings_and_integers() -> None:
    text = (
        "g (string[N] x) => (int64[N] y) {{ y = ai.onnx.ml.LabelEncoder "
        '<keys_strings = ["a", "b", "c"], values_int64s = [1, 2, {}], default_int64 = -1> (x) }}'
    )
    assert check(text.format(3), text.format(3)).ok
    assert check(text.format(3), text.format(4), dims={"N": 20}).status == "different"
    zipped = helper.make_model(
        helper.make_graph(
            [
                helper.make_node(
                    "ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["a", "b"]
                )
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 2])],
            [
                helper.make_value_info(
                    "y",
                    helper.make_sequence_type_proto(
                        helper.make_map_type_proto(
                            TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
                        )
                    ),
                )
            ],
        ),
        opset_imports=[helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 17)],
        ir_version=8,
    )
    report = verify_models(zipped, zipped)
    assert report.ok
    assert report.runs[0].comparisons[0].output == "y[0]['a']"


def test_a_batch_that_is_a_multiple_of_a_size() -> None:
    """Empty outputs verify nothing: the number in a shape is tried for the batch too."""
    text = (
        "g (float[a,4] x) => (float[b,5,4] y) <int64[3] s = {{-1, 5, 4}}> {{ r = Reshape(x, s) "
        "y = {}(r) }}"
    )
    assert {5} <= {run.dims["a"] for run in check(text.format("Abs"), text.format("Abs")).runs}
    assert check(text.format("Abs"), text.format("Relu")).status == "different"


def test_files_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("g (bfloat16[N] x) => (bfloat16[N] y) { y = Identity(x) }")
    onnx.save(model, tmp_path / "a.onnx")
    report = verify_models(
        tmp_path / "a.onnx", str(tmp_path / "a.onnx"), VerificationOptions(assignments=3, seed=7)
    )
    assert report.ok
    assert [run.seed for run in report.runs][:3] == [7, 8, 9]
    assert report.to_json()["runs"][0]["outputs"][0]["tolerance"] == {"rtol": 4e-2, "atol": 1e-6}
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ProviderUnavailable):
        verify_models(model, model, VerificationOptions(providers=("cuda",)))


def test_runs_are_repeatable() -> None:
    original, optimized = GELU, "g (float[batch,seq,8] x) => (float[batch,seq,8] y) { y = Gelu(x) }"
    first, second = (check(original, optimized, seed=3).largest for _ in range(2))
    assert first == second


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    check(
        "g (float[N] x) => (float[9] y) { y = Neg(x) }",
        "g (float[N] x) => (float[9] y) { y = NoSuchOperator(x) }",
    )
    check(
        GELU, "g (float[batch,seq,8] x) => (float[batch,seq,8] y) { y = com.microsoft.FastGelu(x) }"
    )
    out, err = capfd.readouterr()
    assert out == err == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"assignments": 0}, "at least 1"),
        ({"providers": "cpu"}, "must be a sequence"),
        ({"custom_op_libs": "lib.so"}, "must be a sequence"),
        ({"seed": -1}, "must not be negative"),
        ({"rtol": -1.0}, "rtol must not be negative"),
        ({"ulp": -1}, "ulp must not be negative"),
        ({"rtol": float("nan")}, "rtol must be finite, not nan"),
        ({"atol": float("inf")}, "atol must be finite, not inf"),
        ({"dims": {"N": -1}}, "at least 0, not -1"),
        ({"dims": {"N": "4"}}, "at least 0, not '4'"),
    ],
)
def test_values_of_options_that_no_run_could_use(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VerificationOptions(**options)


def test_one_run_is_tried_in_no_time() -> None:
    text = "g (float[N,4] x) => (float[N,4] y) { y = Neg(x) }"
    report = check(text, text, time_limit=0.0)
    assert report.ok
    never = "g (float[4] x) => (float y) <int64[1] s = {3}> { t = Add(s, s) y = Reshape(x, t) }"
    assert "Reshape" in check(never, never, time_limit=0.0).reason


def test_items_of_a_sequence_are_one_output() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[6] x) => (seq(float[2]) y,
          float[6] z) { y = SplitToSequence <axis = 0> (x, two) z = Neg(x) }""")
    model.graph.initializer.append(numpy_helper.from_array(np.array(2, np.int64), "two"))
    report = verify_models(model, model, VerificationOptions(assignments=1))
    assert {c.output for run in report.runs for c in run.comparisons} == {
        "y[0]",
        "y[1]",
        "y[2]",
        "z",
    }
    whole = {c.whole or c.output for run in report.runs for c in run.comparisons}
    assert (report.status, whole) == ("equal", {"y", "z"})


def test_steps_are_announced() -> None:
    steps: list[str] = []
    text = "g (float[n] x) => (float[n] y) { y = Neg(x) }"
    report = xoptim.verify(model_of(text), model_of(text), on_step=steps.append)
    assert steps[0].startswith("verifying: ")
    assert any(step.endswith(f": 1 of {len(report.runs)}") for step in steps)
