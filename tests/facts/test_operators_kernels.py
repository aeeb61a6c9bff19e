"""The answers of `has_kernel` against what onnxruntime does with one node."""

import platform
import tomllib
from collections.abc import Iterator
from types import SimpleNamespace

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.facts.kernels import HEAD, TABLE, text
from xoptim.facts import operators as kernels
from xoptim.facts.operators import has_kernel
from xoptim.facts.schema import since_version

FLOAT, DOUBLE, HALF, BRAIN = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
)


@pytest.mark.parametrize("provider", ["cpu", "CPU", "CPUExecutionProvider"])
@pytest.mark.parametrize(
    ("domain", "op_type", "dtype", "opset", "expected"),
    [
        ("", "Gelu", FLOAT, 20, True),
        ("ai.onnx", "Gelu", FLOAT, 22, True),
        ("", "Gelu", HALF, 20, False),
        ("", "LayerNormalization", FLOAT, 16, True),
        ("", "LayerNormalization", DOUBLE, 17, True),
        ("", "SimplifiedLayerNormalization", FLOAT, 18, True),
        ("", "Softmax", FLOAT, 12, True),
        ("", "Softmax", BRAIN, 13, False),
        ("", "Where", TensorProto.INT16, 16, False),
        ("", "Softmax", 0, 13, None),
        ("", "NoSuchOperator", 0, 13, False),
        ("com.microsoft", "FusedMatMul", FLOAT, 1, True),
        ("com.microsoft", "FusedMatMul", HALF, 1, False),
        ("com.microsoft", "FusedConv", DOUBLE, 1, False),
        ("com.microsoft", "QuickGelu", FLOAT, 1, True),
    ],
)
def test_cpu(
    provider: str, domain: str, op_type: str, dtype: int, opset: int, expected: bool | None
) -> None:
    if dtype == HALF and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("other processors have kernels of float16")
    assert has_kernel(provider, domain, op_type, dtype, opset) is expected


@pytest.fixture
def without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """An onnxruntime without CUDA, whichever is installed here."""
    monkeypatch.setattr(kernels, "_providers", lambda: frozenset(("cpu",)))


@pytest.mark.usefixtures("without_cuda")
@pytest.mark.parametrize(
    ("domain", "op_type", "dtype", "opset", "expected"),
    [
        ("", "Gelu", HALF, 20, True),
        ("", "Gelu", BRAIN, 21, True),
        ("", "HardSwish", BRAIN, 14, False),
        ("", "HardSwish", BRAIN, 22, True),
        ("", "LayerNormalization", HALF, 16, True),
        ("", "RMSNormalization", HALF, 23, True),
        ("", "Attention", DOUBLE, 23, False),
        ("", "Softmax", HALF, 12, True),
        ("", "Softmax", BRAIN, 12, False),
        ("", "Mish", FLOAT, 18, False),
        ("", "Unique", FLOAT, 18, None),
        ("com.microsoft", "SkipLayerNormalization", DOUBLE, 1, False),
        ("com.microsoft", "SkipLayerNormalization", HALF, 1, True),
        ("com.microsoft", "FusedMatMul", HALF, 1, True),
        ("com.microsoft", "FusedConv", HALF, 1, False),
        ("com.microsoft", "FusedGemm", FLOAT, 1, False),
        ("com.microsoft", "GroupQueryAttention", FLOAT, 1, False),
        ("com.microsoft", "GroupQueryAttention", HALF, 1, True),
        ("com.microsoft", "BiasGelu", 0, 1, None),
    ],
)
def test_cuda_as_documented(
    domain: str, op_type: str, dtype: int, opset: int, expected: bool | None
) -> None:
    assert has_kernel("cuda", domain, op_type, dtype, opset) is expected
    assert has_kernel("CUDAExecutionProvider", domain, op_type, dtype, opset) is expected


def test_nothing_is_claimed_of_other_providers() -> None:
    assert has_kernel("tensorrt", "", "MatMul", FLOAT, 18) is None


def test_documented_ranges_end_where_schemas_change() -> None:
    """A range that covers two schema versions, or starts between two, would be a slip of the
    pen.
    """
    for (domain, op_type), found in kernels._documented("cuda").items():
        for kernel in found:
            since = since_version(op_type, domain, kernel.first)
            assert since in (kernel.first, None), (op_type, kernel)


@pytest.fixture
def _with_tensorrt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A build for GPUs without the library of TensorRT, whose registry ends the process."""
    providers = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
    registry = SimpleNamespace(
        get_available_providers=lambda: providers, get_all_opkernel_def=lambda: pytest.fail("read")
    )
    monkeypatch.setattr(kernels, "_onnxruntime", registry)
    for cached in (kernels._installed, kernels._providers):
        cached.cache_clear()
    yield
    for cached in (kernels._installed, kernels._providers):
        cached.cache_clear()


@pytest.mark.usefixtures("_with_tensorrt")
def test_a_build_for_gpus_has_its_kernels_from_tables() -> None:
    assert has_kernel("cpu", "", "MatMul", FLOAT, 18) is True
    assert has_kernel("cpu", "", "MatMul", HALF, 18) is False
    assert has_kernel("cuda", "", "MatMul", HALF, 18) is True
    assert has_kernel("tensorrt", "", "MatMul", FLOAT, 18) is None


def test_the_table_has_a_line_for_each_operator() -> None:
    """`python -m tests.facts.kernels --check` compares it with the registry, which depends on the
    processor.
    """
    tables = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    assert {"ai.onnx", "ai.onnx.ml", "com.microsoft"} <= tables.keys()
    assert {"MatMul", "Conv", "Relu", "Softmax", "Attention"} <= tables["ai.onnx"].keys()
    assert text().startswith(HEAD.partition("{")[0])
    assert f"{text()}".count("[") == len(tomllib.loads(text()))


def loads(op_type: str, dtype: int, opset: int) -> bool:
    """Whether onnxruntime finds a kernel for a model of one node with one input."""
    node = helper.make_node(op_type, ["x"], ["y"])
    x = helper.make_tensor_value_info("x", dtype, [2, 2])
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return False
    return True


@pytest.mark.parametrize(
    "op_type", ["Relu", "Abs", "Sigmoid", "Erf", "Softmax", "Sqrt", "Identity", "Floor"]
)
@pytest.mark.parametrize("opset", [7, 9, 12, 13, 16, 21])
def test_registry_rule_is_that_of_onnxruntime(op_type: str, opset: int) -> None:
    """Halves are left out: onnxruntime casts them where there is no kernel."""
    schema = since_version(op_type, "", opset)
    if schema is None:
        assert op_type == "Erf"
        return
    allowed = {
        c.type_param_str: c.allowed_type_strs
        for c in onnx.defs.get_schema(op_type, opset).type_constraints
    }
    main = allowed.get("T") or allowed["V"]
    for dtype, name in (
        (FLOAT, "float"),
        (DOUBLE, "double"),
        (BRAIN, "bfloat16"),
        (TensorProto.INT8, "int8"),
    ):
        if f"tensor({name})" in main:
            assert has_kernel("cpu", "", op_type, dtype, opset) is loads(op_type, dtype, opset), (
                name
            )
