import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from xoptim.facts.dtypes import byte_size, element_type
from xoptim.graph.stored import raw_data
from xoptim.verification import (
    ComparisonRules,
    LoadError,
    ProviderUnavailable,
    RunError,
    Session,
    SessionSettings,
    Value,
    VerificationOptions,
    resolve_providers,
)
from xoptim.verification.runs import session as session_module
from xoptim.verification.runs.session_settings import session_options

HEAD = '<ir_version: 10, opset_import: ["" : 21]> '


def model_of(text: str) -> onnx.ModelProto:
    return parser.parse_model(HEAD + text)


def add_external(
    model: onnx.ModelProto, folder: Path, name: str, values: np.ndarray, file: str, offset: int
) -> None:
    tensor = numpy_helper.from_array(values, name)
    data = b"\0" * offset + tensor.raw_data
    length = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_bytes(data)
    model.graph.initializer.append(tensor)


@pytest.fixture
def external(tmp_path: Path) -> tuple[onnx.ModelProto, Path]:
    model = model_of("g (float[300] x) => (float[300] y) { a = Add(x, w1) y = Add(a, w2) }")
    add_external(model, tmp_path, "w1", np.full(300, 2, np.float32), "a.bin", 0)
    add_external(model, tmp_path, "w2", np.full(300, 3, np.float32), "sub/b.bin", 64)
    return model, tmp_path


def test_external_data_of_a_protobuf(
    external: tuple[onnx.ModelProto, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder = external
    monkeypatch.chdir("/")
    before = model.SerializeToString(deterministic=True)
    (y,) = Session(model, base_dir=folder).run({"x": np.ones(300, np.float32)})
    assert np.array_equal(y, np.full(300, 6, np.float32))  # type: ignore[arg-type]
    assert model.SerializeToString(deterministic=True) == before
    assert {p.name for p in folder.iterdir()} == {"a.bin", "sub"}
    with pytest.raises(LoadError, match=r"w1|a\.bin"):
        Session(model)


def test_a_file_with_external_data(external: tuple[onnx.ModelProto, Path]) -> None:
    model, folder = external
    onnx.save(model, folder / "model.onnx")
    (y,) = Session(folder / "model.onnx").run({"x": np.ones(300, np.float32)})
    assert np.array_equal(y, np.full(300, 6, np.float32))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64])
def test_weights_too_large_for_a_protobuf(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_SERIALIZABLE", 1000)
    monkeypatch.setattr(session_module, "_LARGE", 100)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values: np.ndarray = np.arange(600).astype(dtype)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"]), helper.make_node("Identity", ["s"], ["z"])],
        "g",
        [],
        [
            helper.make_tensor_value_info("y", number, [600]),
            helper.make_tensor_value_info("z", number, []),
        ],
        [numpy_helper.from_array(values, "w"), numpy_helper.from_array(values[5], "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    y, z = Session(model).run({})
    assert isinstance(y, np.ndarray)
    assert isinstance(z, np.ndarray)
    assert y.dtype == dtype
    assert np.array_equal(y, values)
    assert z.shape == ()
    assert float(z) == 5


def test_weights_that_replace_others(external: tuple[onnx.ModelProto, Path]) -> None:
    model, folder = external
    weights = {"w1": np.zeros(300, np.float32)}
    (y,) = Session(model, base_dir=folder, weights=weights).run({"x": np.ones(300, np.float32)})
    assert np.array_equal(y, np.full(300, 4, np.float32))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "dtype",
    [
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        np.float16,
        np.int16,
        np.bool_,
    ],
)
def test_types_that_numpy_lacks_go_through(dtype: type) -> None:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    name = TensorProto.DataType.Name(number).lower()
    session = Session(model_of(f"g ({name}[2,N] x) => ({name}[2,N] y) {{ y = Identity(x) }}"))
    x: np.ndarray = np.array([[1, 0, 3], [4, 5, 6]]).astype(dtype)
    for values in (x, x[:, ::2], x[:, :0]):
        (y,) = session.run({"x": values})
        assert isinstance(y, np.ndarray)
        assert y.dtype == dtype
        assert np.array_equal(y, values)


def test_int4_goes_in_and_comes_out() -> None:
    widen = Session(
        model_of("g (int4[5] x, float s) => (float[5] y) { y = DequantizeLinear(x, s) }")
    )
    x = np.array([-8, -1, 0, 3, 7], ml_dtypes.int4)
    one = np.ones((), np.float32)
    (y,) = widen.run({"x": x, "s": one})
    assert np.array_equal(y, x.astype(np.float32))  # type: ignore[arg-type]
    narrow = Session(
        model_of(
            "g (float[5] x, float s) => (int4[5] y) { "
            "y = QuantizeLinear <output_dtype = 22> (x, s) }"
        )
    )
    (z,) = narrow.run({"x": x.astype(np.float32), "s": one})
    assert isinstance(z, np.ndarray)
    assert z.dtype == ml_dtypes.int4
    assert np.array_equal(z, x)


@pytest.mark.parametrize(
    "dtype",
    [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn, ml_dtypes.int2, ml_dtypes.uint2],
)
@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_packing_round_trip(dtype: Any, count: int) -> None:
    values = (
        np.arange(count) % 4 - 1 if "uint" not in str(np.dtype(dtype)) else np.arange(count) % 4
    ).astype(dtype)
    element = element_type(values.dtype)
    packed = TensorProto(data_type=element, dims=[count], raw_data=raw_data(element, values))
    assert len(packed.raw_data) == byte_size(element, count)
    assert np.array_equal(numpy_helper.to_array(packed), values)


def test_strings_cannot_go_with_bfloat16() -> None:
    session = Session(
        model_of(
            "g (string[1] s, bfloat16[1] x) => (string[1] t, bfloat16[1] y) { t = Identity(s) "
            "y = Identity(x) }"
        )
    )
    with pytest.raises(RunError, match="strings"):
        session.run({"s": np.array(["a"], object), "x": np.ones(1, ml_dtypes.bfloat16)})


def test_sequences_and_optionals() -> None:
    both = Session(
        model_of("g (seq(float[N]) s, optional(float[N]) o) => (seq(float[N]) t, bool b) "
                 "{ t = Identity(s) b = OptionalHasElement(o) }")
    )  # fmt: skip
    items = [np.ones(2, np.float32), np.zeros(1, np.float32)]
    for content in (None, items[0]):
        t, b = both.run({"s": items, "o": content})
        assert isinstance(t, list)
        assert [len(i) for i in t] == [2, 1]
        assert bool(b) is (content is not None)


def test_inputs_leave_initializers_out() -> None:
    model = parser.parse_model(
        '<ir_version: 3, opset_import: ["" : 9]> g (float[2] x, float[2] w) => (float[2] y)'
        " <float[2] w = {1, 2}> { y = Add(x, w) }"
    )
    assert [port.name for port in Session(model).inputs] == ["x"]


def test_providers_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "onnxruntime.get_available_providers",
        lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"],
    )
    assert resolve_providers(["cpu"]) == ["CPUExecutionProvider"]
    assert resolve_providers(["cpu", "CUDA"]) == ["CUDAExecutionProvider", "CPUExecutionProvider"]
    assert resolve_providers(["CUDAExecutionProvider"])[0] == "CUDAExecutionProvider"
    with pytest.raises(ProviderUnavailable, match=r"'migraphx'.*CUDAExecutionProvider"):
        resolve_providers(["migraphx"])


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("cuda", "; pip install onnxruntime-gpu in an environment without onnxruntime"),
        ("CUDAExecutionProvider", "; pip install onnxruntime-gpu in an environment without "),
        ("cudda", "; did you mean 'cuda'?"),
    ],
)
def test_how_to_get_a_missing_provider(
    name: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ProviderUnavailable) as error:
        resolve_providers([name])
    told = f"has no execution provider {name!r}, only CPUExecutionProvider{advice}"
    assert told in str(error.value)


def test_a_missing_provider_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ProviderUnavailable, match="cuda"):
        Session(
            model_of("g (float[1] x) => (float[1] y) { y = Neg(x) }"), SessionSettings(("cuda",))
        )


def test_errors_are_one_line_and_nothing_leaks(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(LoadError) as caught:
        Session(model_of("g (float[1] x) => (float[1] y) { y = NoSuchOperator(x) }"))
    assert "NoSuchOperator" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(LoadError, match=r"absent\.onnx"):
        Session(tmp_path / "absent.onnx")
    (tmp_path / "junk.onnx").write_bytes(b"this is no model")
    with pytest.raises(LoadError):
        Session(tmp_path / "junk.onnx")
    # A declared shape that is wrong makes onnxruntime warn, a failing node makes it log an error.
    session = Session(model_of("g (float[N] x, float[M] z) => (float[7] y) { y = Add(x, z) }"))
    session.run({"x": np.ones(3, np.float32), "z": np.ones(3, np.float32)})
    with pytest.raises(RunError, match="Add"):
        session.run({"x": np.ones(3, np.float32), "z": np.ones(2, np.float32)})
    out, err = capfd.readouterr()
    assert out == err == ""


def test_onnxruntime_is_imported_lazily() -> None:
    code = "import sys, xoptim.verification; print('onnxruntime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -------------------------------------------------------------------- devices


@pytest.mark.parametrize("limit", [None, 60.0])
def test_values_bound_to_a_device(limit: float | None) -> None:
    """The way results take on CUDA, here with the memory of the CPU."""
    model = model_of(
        "g (float[n,2] x, int64[n] k) => (float[n,2] y, int64[n] m, bool[n] b) { y = Neg(x) "
        "m = Abs(k) b = Equal(m, k) }"
    )
    feeds: dict[str, Value] = {
        "x": np.array([[1, 2], [3, 4]], np.float32)[:, ::-1],
        "k": np.array([-1, 5]),
    }
    plain, bound = (
        Session(model, SessionSettings(io_binding=each, run_limit=limit)) for each in (False, True)
    )
    assert bound._bound
    for a, b in zip(plain.run(feeds), bound.run(feeds), strict=True):
        assert isinstance(a, np.ndarray)
        assert isinstance(b, np.ndarray)
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)


@pytest.mark.parametrize("kind", ["string", "bfloat16"])
def test_what_cannot_be_bound_is_run_without(kind: str) -> None:
    model = model_of(f"g ({kind}[1] x) => ({kind}[1] y) {{ y = Identity(x) }}")
    assert not Session(model, SessionSettings(io_binding=True))._bound


@pytest.mark.parametrize(("count", "is_bound"), [(2, False), (300, True)])
def test_many_inputs_are_bound(count: int, is_bound: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise onnxruntime takes quadratic time in their number."""
    names = [f"x{number}" for number in range(count)]
    inputs = ", ".join(f"float[n] {name}" for name in names)
    model = model_of(f"g ({inputs}) => (float[n] y) {{ y = Sum({', '.join(names)}) }}")
    bound: list[int] = []
    run = Session._run_bound

    def noted(self: Session, none: None, feeds: dict[str, Any], options: Any = None) -> Any:
        bound.append(len(feeds))
        return run(self, none, feeds, options)

    monkeypatch.setattr(Session, "_run_bound", noted)
    session = Session(model)
    feeds = {name: np.full(3, number, np.float32) for number, name in enumerate(names)}
    (result,) = session.run(feeds)
    np.testing.assert_array_equal(result, np.full(3, count * (count - 1) / 2, np.float32))
    assert bound == [count] * is_bound
    wrong: list[dict[str, np.ndarray]] = [
        {**feeds, "x1": np.ones(3)},
        {**feeds, "x1": np.ones((3, 3, 3), np.float32)},
        {name: value for name, value in feeds.items() if name != "x1"},
    ]
    for values in wrong:
        with pytest.raises(RunError):
            session.run(values)


@pytest.mark.parametrize(
    ("off", "expected"),
    [((), {"FusedMatMul"}), (("MatmulTransposeFusion",), {"Transpose", "MatMul"})],
)
def test_optimizers_that_are_omitted(
    tmp_path: Path, off: tuple[str, ...], expected: set[str]
) -> None:
    """onnxruntime fuses a transposed operand with its product, unless that optimizer is left
    out.
    """
    model = model_of(
        "g (float[2,2] x, float[2,2] w) => (float[2,2] y) { t = Transpose<perm=[1,0]>(w) "
        "y = MatMul(x, t) }"
    )
    session = Session(
        model,
        SessionSettings(level="extended", disabled_optimizers=off, profile=tmp_path / "profile"),
    )
    session.run({"x": np.ones((2, 2), np.float32), "w": np.ones((2, 2), np.float32)})
    events = json.loads(session.end_profiling().read_text(encoding="utf-8"))
    assert {
        event["args"]["op_name"] for event in events if event["name"].endswith("_kernel_time")
    } == expected


@pytest.mark.parametrize("pattern", [True, False])
def test_entries_and_the_memory_pattern(pattern: bool) -> None:
    options = session_options(
        SessionSettings(memory_pattern=pattern, entries=(("session.intra_op.allow_spinning", "0"),))
    )
    assert options.enable_mem_pattern is pattern
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_tf32_is_as_coarse_as_16_bits() -> None:
    fine, coarse = ComparisonRules(), ComparisonRules(rounds_to=TensorProto.FLOAT16)
    assert coarse.tolerance(TensorProto.FLOAT) == fine.tolerance(TensorProto.FLOAT16)
    assert coarse.tolerance(TensorProto.DOUBLE) == fine.tolerance(TensorProto.DOUBLE)
    assert ComparisonRules("exact", rounds_to=TensorProto.FLOAT16).tolerance(
        TensorProto.FLOAT
    ) == ComparisonRules("exact").tolerance(TensorProto.FLOAT)
    assert VerificationOptions(tf32=True).settings.tf32
    assert (
        VerificationOptions(tf32=True, providers=("CUDAExecutionProvider",)).rules.rounds_to
        == TensorProto.FLOAT16
    )
    assert VerificationOptions(tf32=True).rules.rounds_to == TensorProto.FLOAT, (
        "a CPU does not round to TF32"
    )
    assert not VerificationOptions().settings.tf32


def test_libraries_of_cuda_are_loaded_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session on CUDA loads those that pip installed, once.

    Onnxruntime prints what it does not find.
    """
    calls: list[object] = []

    def load() -> None:
        sys.stdout.write("not found")
        calls.append("loaded")

    monkeypatch.setattr(onnxruntime, "preload_dlls", load)
    monkeypatch.setattr(onnxruntime, "set_default_logger_severity", calls.append)
    monkeypatch.setattr(session_module, "resolve_providers", lambda _: [session_module.CUDA])
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **given: given["providers"])
    session_module._load_cuda.cache_clear()
    settings = SessionSettings(("cuda",))
    found = [session_module.inference_session(b"", None, settings) for _ in range(2)]
    session_module._load_cuda.cache_clear()
    assert found == [[("CUDAExecutionProvider", {"use_tf32": "0"})]] * 2
    assert calls == ["loaded", 4]
    assert not capsys.readouterr().out
