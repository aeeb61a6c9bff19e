from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.plugged import needs
from tests.support import parse
from xoptim import targets
from xoptim.targets import Placement, Target, place
from xoptim.targets.process import Answer
from xoptim.verification import ProviderUnavailable
from xoptim.verification.runs.plugins import Plugin

BERT = Path(__file__).parents[2] / "examples" / "models" / "tiny_bert.onnx"
CHAIN = parse("agraph (float[2,3] x) => (float[2,3] y) { t = Relu(x) u = Erf(t) y = Neg(u) }")


def answered(
    monkeypatch: pytest.MonkeyPatch,
    parts: dict[str, list[int]] | list[tuple[str, list[int]]],
    log: list[str],
    **fields: Any,
) -> None:
    """Let the process give this answer: the numbers of nodes, for each part."""
    pairs = list(parts.items()) if isinstance(parts, dict) else parts
    made = tuple(
        (name, tuple(f"xopt_node_{number}" for number in numbers)) for name, numbers in pairs
    )
    monkeypatch.setattr("xoptim.targets.oracle.ask", lambda *_: (Answer(parts=made, **fields), log))


def reasons(found: Placement) -> dict[str, tuple[str, str]]:
    return {node.name: (node.reason, node.advice) for node in found.left}


def test_the_processor_takes_everything() -> None:
    found = place(onnx.load(BERT), targets.named("cpu"))
    assert (found.compiles, found.source, found.left, found.partitions) == (True, "asked", (), 1)
    assert len(found.taken) + len(found.absent) == 181


def test_the_model_is_unchanged() -> None:
    before = CHAIN.SerializeToString()
    place(CHAIN, targets.named("cpu"))
    assert CHAIN.SerializeToString() == before


def test_a_model_with_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse("agraph (float[300] x) => (float[300] y) { y = Add(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(300, np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    monkeypatch.chdir(tmp_path)
    light = onnx.load("m.onnx", load_external_data=False)
    found = place(light, targets.named("cpu"), Path())
    assert (found.target, len(found.taken), found.left) == ("cpu", 1, ())


def test_operators_without_a_kernel_are_placed_as_simpler_ones() -> None:
    model = parse("agraph (float[2] x) => (float[2] y) { t = Relu(x) y = Mish(t) }", opset=21)
    found = place(model, targets.named("cpu"))
    assert [node.op_type for node in found.taken] == ["Relu", "Softplus", "Tanh", "Mul"]
    assert {node.name for node in found.taken[1:]} == {"y/Softplus", "y/Tanh", "y/Mul"}


def test_a_model_that_does_not_load_does_not_compile() -> None:
    model = parse(
        "agraph (float[2] x) => (float[2] y) { t = Relu(x) y = foo.Bar(t) }", domains={"foo": 1}
    )
    found = place(model, targets.named("cpu"))
    assert not found.compiles
    assert "foo" in found.error
    assert "\n" not in found.summary()


def test_a_provider_that_is_missing() -> None:
    missing = Plugin(
        "missing",
        "MissingExecutionProvider",
        "a-package-that-is-missing",
        "a_module_that_is_missing",
    )
    with pytest.raises(ProviderUnavailable):
        place(CHAIN, replace(targets.named("qnn"), provider="missing", plugin=missing))


def test_nodes_that_a_compiler_takes_have_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse(
        "agraph (float[2] x) => (float[2] e) { a = Relu(x) b = Neg(a) c = Erf(b) d = Neg(c) "
        "e = Exp(d) }"
    )
    qnn, cpu = "QNNExecutionProvider", "CPUExecutionProvider"
    answered(monkeypatch, [(qnn, [0, 1]), (cpu, [2]), (qnn, [3, 4])], [])
    found = place(model, targets.named("qnn"))
    assert [node.partition for node in found.nodes] == [0, 0, -1, 1, 1]
    assert (found.target, len(found.taken), found.partitions) == ("qnn", 4, 2)


def test_nodes_that_a_provider_runs_one_by_one_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    answered(
        monkeypatch,
        [
            ("WebGpuExecutionProvider", [0]),
            ("CPUExecutionProvider", [1]),
            ("WebGpuExecutionProvider", [2]),
        ],
        [],
    )
    assert [node.partition for node in place(CHAIN, targets.named("webgpu")).nodes] == [0, -1, 1]


WEBGPU = (
    "[I:onnxruntime:, ep.cc:91 GetCapabilityImpl] webgpu kernel not found in registries for Op "
    "type: Erf node name: xopt_node_1"
)
QNN = (
    "QNN.backendValidateOpConfig() failed for node `xopt_node_1_2` of type `ElementWiseErf` with "
    "error code 3110"
)


@pytest.mark.parametrize(
    ("target", "log", "expected"),
    [
        ("webgpu", [WEBGPU], ("there is no kernel of operator set 13 for float", "")),
        ("webgpu", [], ("", "")),
        (
            "qnn",
            [QNN],
            (
                "its compiler refuses ElementWiseErf (error 3110)",
                'PrecisionOptions(scheme="float16") PrecisionOptions(compute="float16")',
            ),
        ),
    ],
)
def test_reasons_from_the_log(
    target: str, log: list[str], expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = targets.named(target)
    answered(monkeypatch, {chosen.full_provider: [0, 2], "CPUExecutionProvider": [1]}, log)
    assert reasons(place(CHAIN, chosen)) == {"u": expected}


@pytest.mark.parametrize(
    ("target", "text", "expected"),
    [
        (
            "qnn",
            "agraph (float[n] x) => (float[n] y) { y = Relu(x) }",
            ("its shapes are not fixed", 'prepare(model, fix={"NAME": SIZE})'),
        ),
        (
            "webgpu",
            "agraph (int64[2] x) => (int64[2] y) { y = Neg(x) }",
            ("it has operands of type int64", "int32 and float32"),
        ),
        (
            "qnn",
            "agraph (float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }",
            (
                "com.microsoft is not a standard domain",
                'patterns="default", which writes standard operators only',
            ),
        ),
    ],
)
def test_reasons_from_what_a_target_needs(
    target: str, text: str, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(monkeypatch, {"CPUExecutionProvider": [0]}, [])
    model = parse(text, domains={"com.microsoft": 1} if "microsoft" in text else None)
    assert reasons(place(model, targets.named(target))) == {"y": expected}


def test_nodes_that_onnxruntime_moves_to_the_processor_compute_shapes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = (
        "ORT optimization- Force fallback to CPU execution for node: xopt_node_1 because the CPU "
        "execution path is faster"
    )
    answered(monkeypatch, {"CUDAExecutionProvider": [0, 2], "CPUExecutionProvider": [1]}, [line])
    found = place(CHAIN, targets.named("cuda"))
    assert ([node.name for node in found.shapes], found.left) == (["u"], ())


def test_an_error_names_nodes_as_the_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, {}, [QNN], error="cannot finalize\n'xopt_node_1'")
    found = place(CHAIN, targets.named("qnn"))
    assert (found.compiles, found.error) == (False, "cannot finalize 'u'")
    assert [node.reason != "" for node in found.nodes] == [False, True, False]


def by_table(name: str, text: str, **options: Any) -> Placement:
    return place(parse(text, **options), targets.named(name))


def test_targets_by_table() -> None:
    found = by_table(
        "webnn",
        "agraph (float[2,2] x) => (float[2,2] y) { t = Relu(x) u = Mish(t) y = Neg(u) }",
        opset=18,
    )
    assert (found.source, len(found.taken), len(found.left), found.partitions) == ("table", 2, 1, 2)
    ((reason, advice),) = reasons(found).values()
    assert ([*reasons(found)], reason[:5], advice) == (["u"], "Mish ", "")
    ((reason, advice),) = reasons(
        by_table("nnapi", "agraph (float[n] x) => (float[n] y) { y = Relu(x) }")
    ).values()
    assert "not fixed" in reason
    assert advice.startswith("prepare(model, fix=")


def test_the_standard_as_a_target() -> None:
    found = by_table(
        "onnx",
        "agraph (float[n] x) => (float[n] y) { t = com.microsoft.Gelu(x) y = Relu(t) }",
        domains={"com.microsoft": 1},
    )
    assert (found.source, len(found.taken), len(found.left), found.partitions) == ("table", 1, 1, 1)
    ((reason, advice),) = reasons(found).values()
    assert ([*reasons(found)], advice) == (["t"], "")
    assert reason.startswith("com.microsoft::Gelu ")


def on(target: Target, model: onnx.ModelProto) -> Placement:
    return place(model, target, software_device=True)


@needs("webgpu")
def test_webgpu_leaves_what_it_has_no_kernel_for() -> None:
    model = parse(
        "agraph (float[a,3] x, int64[a,3] i) => (float[a,3] y, int64[a,3] j) { s = Shape(x) "
        "one = Constant<value_ints=[0]>() n = Gather(s, one) k = Concat<axis=0>(n, n) t = Relu(x) "
        "y = Neg(t) j = Abs(i) }"
    )
    found = on(targets.named("webgpu"), model)
    assert {node.name for node in found.taken} >= {"t", "y"}
    assert reasons(found) == {"j": ("it has operands of type int64", "int32 and float32")}
    assert found.partitions == 1
    assert found.compiles


@pytest.mark.slow
@needs("webgpu")
def test_webgpu_runs_most_of_a_bert() -> None:
    found = on(targets.named("webgpu"), onnx.load(BERT))
    assert len(found.taken) > 60
    assert all(node.reason for node in found.left)
    assert len(found.shapes) > 5


@needs("qnn")
def test_qnn_compiles_what_is_static() -> None:
    model = parse(
        "agraph (float[2,3] x) => (float[2,3] y) { t = Relu(x) u = Add(t, x) y = Mul(u, t) }"
    )
    found = on(targets.named("qnn"), model)
    assert (len(found.taken), found.left, found.partitions) == (3, (), 1)


@needs("qnn")
def test_qnn_says_where_it_does_not_compile() -> None:
    model = parse("agraph (float[2,3] x) => (float[2,3] y) { t = Relu(x) y = Gelu(t) }", opset=20)
    found = on(targets.named("qnn"), model)
    assert (found.compiles, found.taken) == (False, ())
    assert "QNN" in found.error
