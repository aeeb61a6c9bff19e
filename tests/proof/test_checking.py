"""A certificate is not trusted: each rewrite is proved again, and the chain is followed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from tests.support import parse, values_in
from xoptim import OptimizationOptions
from xoptim.optimizing.plans import Plan, VerifyPlan
from xoptim.optimizing.verified import optimize_verified
from xoptim.proof.certificate import Certificate, CertificateError, Obligation, fingerprint
from xoptim.proof.checking import CertificateCheck, check_certificate

MODEL = """g (float[N,4] x) => (float[N,3] y) <float[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3},
    float s = {0.3}> {
    a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a) d = Neg(s)
    m = MatMul(b, w) y = Mul(m, d) }"""


class Files:
    """A model, its result and their certificate, as files."""

    def __init__(self, folder: Path, model: str = MODEL, patterns: str = "default") -> None:
        self.original, self.result = folder / "a.onnx", folder / "b.onnx"
        self.path = folder / "c.json"
        onnx.save(parse(model), self.original)
        plan = Plan(verify=VerifyPlan(certifies=True, whole=False))
        verified = optimize_verified(self.original, OptimizationOptions(patterns=patterns), plan)
        onnx.save(verified.proto, self.result)
        assert verified.proofs is not None
        self.obligations = verified.proofs.obligations

    def check(self, *obligations: Obligation) -> CertificateCheck:
        """The check of a certificate of these rewrites, whose digests are right."""
        certificate = Certificate(
            fingerprint(self.original), fingerprint(self.result), [], obligations
        )
        certificate.write(self.path)
        return check_certificate(self.original, self.result, self.path)


def _changed(obligation: Obligation, change: Callable[[onnx.ModelProto], None]) -> Obligation:
    models = obligation.models()
    for model in models:
        change(model)
    before, after = (model.SerializeToString() for model in models)
    return replace(obligation, before=before, after=after)


def _obligation(before: str, after: str) -> Obligation:
    sides = (parse(f"g {text}").SerializeToString() for text in (before, after))
    return Obligation(9, "Mine", "same bits", [], *sides)


def _names(rewrites: Sequence[str]) -> list[str]:
    return [rewrite.partition(": ")[0] for rewrite in rewrites]


def test_the_chain_is_proved(tmp_path: Path) -> None:
    files = Files(tmp_path)
    check = files.check(*files.obligations)
    assert (check.grade, check.reason) == ("over real numbers, constants folded", "")
    assert check.grades["same bits"] == 1
    assert check.recomputed == 1
    assert check.unproved == check.unmatched == []
    assert values_in(check.summary()) == ["2", "1", "1"]


def test_without_rewrites_only_passes_are_followed(tmp_path: Path) -> None:
    files = Files(tmp_path, patterns="TransposeTranspose")
    assert files.check(*files.obligations).grade == "same bits"
    assert values_in(files.check().reason) == ["y"]


def test_a_result_that_was_changed(tmp_path: Path) -> None:
    files = Files(tmp_path)
    model = onnx.load(files.result)
    (weight,) = model.graph.initializer
    weight.raw_data = weight.raw_data[:-1] + b"\x40"
    onnx.save(model, files.result)
    check = files.check(*files.obligations)
    assert (check.is_proved, values_in(check.reason)) == (False, ["y"])


def _double_weights(model: onnx.ModelProto) -> None:
    """Double the weights of the replacement, which has one node."""
    if len(model.graph.node) == 1:
        (weight,) = model.graph.initializer
        array = onnx.numpy_helper.to_array(weight)
        weight.CopyFrom(onnx.numpy_helper.from_array(array * 2, weight.name))


def test_a_wrong_rewrite(tmp_path: Path) -> None:
    files = Files(tmp_path)
    first, last = files.obligations
    wrong = _changed(last, _double_weights)
    check = files.check(first, wrong)
    assert not check.is_proved
    assert _names(check.unproved) == ["2 MatMulAddMul"]


def test_a_grade_is_not_believed(tmp_path: Path) -> None:
    files = Files(tmp_path, "g (float[N] x) => (float[N] y) { y = Relu(x) }")
    onnx.save(parse("g (float[N] x) => (float[N] y) { y = Exp(x) }"), files.result)
    lie = _obligation(
        "(float[N] x) => (float[N] y) { y = Relu(x) }",
        "(float[N] x) => (float[N] y) { y = Exp(x) }",
    )
    check = files.check(lie)
    assert check.grade == "only run"
    assert check.reason.endswith("(9 Mine)")


def test_a_rewrite_of_another_model(tmp_path: Path) -> None:
    files = Files(tmp_path)
    other = _obligation(
        "(float[N,4] x) => (float[N,4] q) { p = Neg(x) q = Neg(p) }",
        "(float[N,4] x) => (float[N,4] q) { q = Identity(x) }",
    )
    check = files.check(other)
    assert _names(check.unmatched) == ["9 Mine"]
    assert values_in(check.reason) == ["y", "9"]
    assert check.reason.endswith(check.unmatched[0])
    missing = _obligation(
        "(float[N] own) => (float[N] q) { q = Neg(own) }",
        "(float[N] own) => (float[N] q) { q = Neg(own) }",
    )
    assert [values_in(text) for text in files.check(missing).unmatched] == [["9", "own"]]


SIZES = "g (float[N] x) => (int64[1] y) { q = Neg(x) y = Shape(q) }"
CONSTANT = "g (float[N] x) => (int64[1] y) <int64[1] c = {7}> { y = Identity(c) }"


@pytest.mark.parametrize(
    "lies",
    [
        ["(float[7] q) => (int64[1] y)"],
        ["(float[N] x) => (float[7] q) { q = Neg(x) }", "(float[7] q) => (int64[1] y)"],
        [
            "(float[N] x) => (float[N] z) <float[7] r> { r = Exp(x) z = Neg(x) }",
            "(float[7] r) => (int64[1] y)",
        ],
    ],
)
def test_lies_about_shapes(tmp_path: Path, lies: list[str]) -> None:
    files = Files(tmp_path, SIZES, patterns="TransposeTranspose")
    onnx.save(parse(CONSTANT), files.result)
    name = "r" if "r)" in lies[-1] else "q"
    *first, head = lies
    obligations = [_obligation(text, text) for text in first]
    obligations.append(
        _obligation(
            f"{head} {{ y = Shape({name}) }}", f"{head} <int64[1] c = {{7}}> {{ y = Identity(c) }}"
        )
    )
    check = files.check(*obligations)
    assert not check.is_proved
    assert any("a dimension of" in text for text in check.unmatched), check


def test_shapes_that_the_result_declares_are_not_believed(tmp_path: Path) -> None:
    files = Files(tmp_path, CONSTANT, patterns="TransposeTranspose")
    onnx.save(parse(SIZES.replace("{ q", "<float[7] q> { q")), files.result)
    assert values_in(files.check().reason) == ["y"]


def test_another_input(tmp_path: Path) -> None:
    text = "g (float[N] x) => (float[N] y) { y = Exp(x) }"
    files = Files(tmp_path, text)
    onnx.save(parse(text.replace("float[N]", "float[3]")), files.result)
    assert values_in(files.check().reason) == ["x"]


def test_files_that_the_certificate_is_not_about(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.check(*files.obligations)
    onnx.save(parse(SIZES), files.original)
    with pytest.raises(CertificateError, match=r"'.*a\.onnx': .* original "):
        check_certificate(files.original, files.result, files.path)


def test_invalid_sides(tmp_path: Path) -> None:
    files = Files(tmp_path)
    empty = onnx.ModelProto(graph=onnx.GraphProto(node=[onnx.NodeProto(op_type="Constant")]))
    raw = empty.SerializeToString()
    check = files.check(Obligation(1, "P", "same bits", [], raw, raw))
    (text,) = check.unmatched
    assert text.startswith("1 P: IndexError: ")


BRANCH = """g (float[N,4] x, bool c) => (float[N,4] y) {
    y = If (c) <then_branch = t () => (float[N,4] p) {
        a = Transpose(x) b = Transpose(a) p = Neg(b) },
    else_branch = e () => (float[N,4] q) { k = Abs(x) q = Exp(k) }> }"""
LOOP = """g (float[N,4] x, int64 n) => (float[N,4] y) {
    y = Loop (n, , x) <body = b (int64 i, bool d, float[N,4] s) => (bool e, float[N,4] t) {
        e = Identity(d) a = Transpose(s) b = Transpose(a) t = Mul(b, x) }> }"""


@pytest.mark.parametrize("model", [BRANCH, LOOP])
def test_rewrites_in_subgraphs(tmp_path: Path, model: str) -> None:
    files = Files(tmp_path, model, patterns="TransposeTranspose")
    assert len(files.obligations) == 1
    check = files.check(*files.obligations)
    assert (check.grade, check.reason, check.unmatched) == ("same bits", "", [])
    assert values_in(files.check().reason) == ["y"]


NESTED = """g (float[N] x, int64 n) => (float[N] y) {
    y = Loop (n, , x) <body = b (int64 i, bool d, float[N] s) => (bool e, float[N] t) {
        e = Identity(d)
        t = Loop (n, , x) <body = f (int64 j, bool g, float[N] u) => (bool h, float[N] v) {
            h = Identity(g) v = Sub(u, OPERAND) }> }> }"""


def test_values_of_a_loop_in_a_loop(tmp_path: Path) -> None:
    """A rewrite that confuses the values of both loops is no link, whatever it claims."""
    files = Files(tmp_path, NESTED.replace("OPERAND", "s"), patterns="TransposeTranspose")
    onnx.save(parse(NESTED.replace("OPERAND", "u")), files.result)
    inner = NESTED.partition("e = Identity(d)")[2].rpartition("}> }")[0].rpartition("}>")[0]
    sides = [
        f"(int64 n, float[N] x, float[N] s) => (float[N] t) {{ {inner.replace('OPERAND', x)} }}> }}"
        for x in "ss"
    ]
    check = files.check(_obligation(*sides))
    assert not check.is_proved
    (text,) = check.unmatched
    assert text.startswith("9 Mine: a loop ")


def test_a_wrong_rewrite_in_a_branch(tmp_path: Path) -> None:
    files = Files(tmp_path, BRANCH, patterns="TransposeTranspose")
    onnx.save(parse(BRANCH.replace("Exp(k)", "Exp(x)")), files.result)
    lie = _obligation(
        "(float[N,4] x) => (float[N,4] k) { k = Abs(x) }",
        "(float[N,4] x) => (float[N,4] k) { k = Identity(x) }",
    )
    assert not files.check(lie).is_proved
