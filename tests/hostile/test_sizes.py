"""Bombs: models of a few hundred bytes that need terabytes, and models that are large
themselves.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.command import Xopt, files, write
from tests.hostile.cases import Case, Made, check, listed, not_verified, text
from tests.hostile.process import is_limited, measure
from tests.support import run
from xoptim import optimize, save
from xoptim.verification import VerificationOptions, verify_models

pytestmark = pytest.mark.slow

TERA = 1 << 40
GRAPH = "agraph (float x) => (y) {{ {} d = Neg(c) y = Add(d, x) }}"
ONE = "o = Constant <value = float {1}> () "
SIZE = f"s = Constant <value = int64[1] {{{TERA}}}> () "
# Numbers whose size is known when the operators before have run only; the kernels of Exp and Erf
# are onnxruntime's.
LATE = (
    "k = Constant <value = float[2] {13.9, 13.9}> () e = Exp(k) f = Erf(k) g = Mul(e, f) "
    "s = Cast <to = 7> (g) "
)
BOMBS = {
    "constantofshape": SIZE + "c = ConstantOfShape(s)",
    "expand": ONE + SIZE + "c = Expand(o, s)",
    "tile": SIZE + "o = Constant <value = float[1] {1}> () c = Tile(o, s)",
    "pad": (
        "o = Constant <value = float[1] {0}> () "
        f"s = Constant <value = int64[2] {{{TERA}, 0}}> () c = Pad(o, s)"
    ),
    "range": (
        f"{ONE} a = Constant <value = float {{0}}> () b = Constant <value = float {{{TERA}}}> () "
        "c = Range(a, b, o)"
    ),
    "onehot": (
        f"i = Constant <value = int64[1] {{3}}> () s = Constant <value = int64 {{{TERA}}}> () "
        "v = Constant <value = float[2] {0, 1}> () c = OneHot(i, s, v)"
    ),
    "resize": "i = Constant <value = float[1] {3}> () " + SIZE + "c = Resize(i, , , s)",
    "eyelike": (
        "s = Constant <value = int64[2] {1048576, 1048576}> () e = ConstantOfShape(s) "
        "c = EyeLike(e)"
    ),
    "einsum": (
        "s = Constant <value = int64[1] {1048576}> () v = ConstantOfShape(s) c = Einsum <equation ="
        ' "i,j->ij"> (v, v)'
    ),
    "random": f"c = RandomNormal <shape = [{TERA}]> ()",
    "shapes": (
        "w = Constant <value = float[2,2] {1,2,3,4}> () a = Shape(w) "
        "b = Constant <value = int64[2] {524288, 524288}> () s = Mul(a, b) c = ConstantOfShape(s)"
    ),
    "cast": LATE + "c = ConstantOfShape(s)",
    "doubling": (
        "c0 = Constant <value = float[2] {1,2}> () "
        + " ".join(f"c{i + 1} = Concat <axis = 0> (c{i}, c{i})" for i in range(40))
        + " c = Identity(c40)"
    ),
    "sixteenfold": (
        "c0 = Constant <value = float[2] {1,2}> () "
        + " ".join(f"c{i + 1} = Concat <axis = 0> ({', '.join([f'c{i}'] * 16)})" for i in range(10))
        + " c = Identity(c10)"
    ),
}
WORDS = {
    "einsum": "an outer product of two vectors of 2^20 elements",
    "random": "RandomNormal of 2^40 elements",
    "shapes": "the same, its shape computed from shapes",
    "cast": "the same, its shape computed from floating-point numbers",
    "doubling": "a constant doubled forty times by Concat",
    "sixteenfold": "a constant multiplied by 16, ten times, by Concat",
}
NOT_RUN = (
    "optimized in moments, not folded; not verified: “… a run needs at least … GiB of memory …”"
)
BIG = 600_000


def bomb(name: str) -> Case:
    what = WORDS.get(name, f"{name} of 2^40 elements")
    reason = "onnxruntime cannot run" if name == "cast" else "GiB of memory"
    return not_verified(f"bomb-{name}", what, text(GRAPH.format(BOMBS[name])), reason, does=NOT_RUN)


def giant(*dims: int) -> Callable[[], Made]:
    def make() -> onnx.ModelProto:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)

    return make


CASES = [
    *(bomb(name) for name in BOMBS),
    not_verified("bomb-input", "an input of 2^40 elements", giant(TERA), "GiB of memory", "Neg"),
    not_verified(
        "bomb-input-rank",
        "an input of 2^186 elements",
        giant(1 << 62, 1 << 62, 1 << 62),
        "GiB of memory",
        "Neg",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bombs(xopt: Xopt, case: Case) -> None:
    check(case, xopt)
    # a constant of 1 MB may well be folded
    assert Path("model.opt.onnx").stat().st_size < 2_000_000


UNKNOWN = "k = Constant <value = float[2] {1, 2}> () c0 = Unique(k) " + " ".join(
    f"c{i + 1} = Concat <axis = 0> (c{i}, c{i})" for i in range(40)
)


@pytest.mark.slow
@listed(
    "bomb-process",
    "any of these in a process of its own",
    "never more memory than is free, and seconds",
)
@pytest.mark.parametrize(
    "graph",
    [BOMBS["doubling"], BOMBS["cast"], UNKNOWN + " c = Identity(c40)"],
    ids=["known", "late", "unknown"],
)
def test_bombs_take_neither_memory_nor_time(graph: str) -> None:
    write(GRAPH.format(graph))
    measured = measure("model.onnx", limit=("RLIMIT_DATA", 1 << 30) if is_limited() else None)
    assert (measured.outcome.code, len(measured.outcome.warnings)) == (3, 1)
    assert "not verified" in measured.outcome.out
    assert measured.megabytes < 1200


DOUBLING = """agraph (float x) => (y) {
  n = Constant <value = int64 {40}> () t = Constant <value = bool {1}> ()
    c = Constant <value = float[1] {1}> ()
  r = Loop (n, t, c) <body = b (int64 i, bool k, float[m] a) => (bool k2, float[q] d) {
    k2 = Identity(k) d = Concat <axis = 0> (a, a)
  }> y = Add(r, x)
}"""


@pytest.mark.slow
@listed(
    "bomb-loop",
    "a Loop that doubles a tensor forty times, so that no shape shows the size",
    "optimized; not verified: “… Failed to allocate memory …”; never more memory than is free, "
    "and no process is killed",
)
@pytest.mark.skipif(not is_limited(), reason="only Linux limits the data of a process")
def test_memory_that_no_shape_tells() -> None:
    write(DOUBLING)
    measured = measure("model.onnx", limit=("RLIMIT_DATA", 1 << 30))
    assert (measured.outcome.code, len(measured.outcome.warnings)) == (3, 1)
    assert "not verified: " in measured.outcome.err
    assert measured.megabytes < 1200


@pytest.mark.slow
@listed("bomb-limit", "too little memory to optimize at all", "error: one line; nothing is written")
@pytest.mark.skipif(not is_limited(), reason="only Linux limits the data of a process")
@pytest.mark.parametrize("megabytes", [8, 40, 60])
def test_too_little_memory(megabytes: int) -> None:
    """The limit takes hold once everything is imported, while a large model is parsed, or
    wrapped.
    """
    count = 50_000
    nodes = [helper.make_node("Sin", [f"x{i}"], [f"x{i + 1}"]) for i in range(count)]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])
        for name in ("x0", f"x{count}")
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    room = "import onnxruntime, xoptim.cli.main, xoptim.verification; xoptim.installed_patterns()\n"
    room += f"LIMIT = xoptim.verification.data_size() + ({megabytes} << 20)"
    measured = measure("model.onnx", before=room, limit=("RLIMIT_DATA", "LIMIT"))
    code, out, err = measured.outcome
    *ignored, last = err.splitlines()
    assert (code, out, last) == (2, "", "xopt: error: out of memory; nothing was written")
    # Python itself writes such a line where there is no memory left to call the hook for errors in
    # destructors.
    assert all(line.startswith("Exception ignored in") for line in ignored)
    assert files() == {"model.onnx"}


def large(count: int) -> onnx.ModelProto:
    """``x`` plus ``count`` weights of 2.4 MB each, all zeros but the first element."""
    nodes = [helper.make_node("Add", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(count)]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [BIG])
        for name in ("x0", f"x{count}")
    ]
    graph = helper.make_graph(nodes, "sum", ends[:1], ends[1:])
    for index in range(count):
        array = np.zeros(BIG, np.float32)
        array[0] = index + 1
        graph.initializer.append(numpy_helper.from_array(array, f"w{index}"))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@listed(
    "large-result",
    "a result that does not fit into a protobuf of 2 GB",
    "its weights are written to `NAME.data`; the numbers are equal",
)
def test_results_above_the_limit_of_protobuf(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered: the code is the same, and the test is quick."""
    write(large(4))
    monkeypatch.setattr("xoptim.graph.save.PROTO_LIMIT", 5_000_000)
    assert xopt("model.onnx", "--patterns", "Cast", "--strict", "-q") == (0, "", "")
    assert Path("model.opt.onnx").stat().st_size < 100_000
    assert Path("model.opt.onnx.data").stat().st_size >= 4 * 4 * BIG
    assert xopt("verify", "model.onnx", "model.opt.onnx").code == 0


@listed(
    "large-bytes",
    "the same through `save_proto`, with the weights in file order",
    "the numbers are equal",
)
def test_weights_keep_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.graph.save.PROTO_LIMIT", 5_000_000)
    given = large(3)
    save(optimize(given), Path("out.onnx"))
    x = np.arange(BIG, dtype=np.float32)
    expected, found = run(given, {"x0": x}), run(onnx.ModelProto(), {"x0": x}, "out.onnx")
    np.testing.assert_array_equal(found[0], expected[0])


@listed(
    "limit-python",
    "a memory limit in Python, `VerificationOptions(memory_limit=1000)`",
    "“not verified” where a run takes more",
)
def test_a_memory_limit() -> None:
    model = text("agraph (float[n,100] x) => (float[n,100] y) { y = Neg(x) }")()
    for size, status in ((1, "equal"), (2, "not verified")):
        report = verify_models(
            model, model, VerificationOptions(memory_limit=1000, dims={"n": size})
        )
        assert report.status == status
        assert (" 0.0 MiB" in report.reason) == (size == 2)
