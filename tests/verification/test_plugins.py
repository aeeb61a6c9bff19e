import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.plugged import CRASH, array, fake_package, needs, skip_without
from tests.support import parse
from xoptim.verification import (
    LoadError,
    ProviderUnavailable,
    RunError,
    Session,
    SessionSettings,
    VerificationOptions,
    is_provider,
    resolve_providers,
    verify_models,
)
from xoptim.verification.runs.plugins import (
    PLUGINS,
    Plugin,
    add_plugin,
    coarsest_type,
    devices_of,
    load,
    plugin_named,
    provider_of,
    provider_options,
)

RELU = parse("agraph (float[2,3] x) => (float[2,3] y) { t = Relu(x) y = Add(t, x) }")
FEEDS = {"x": np.array([[-1, 2, 3], [4, -5, 6]], np.float32)}
EXPECTED = np.array([[-1, 4, 6], [8, -5, 12]], np.float32)
MISSING = Plugin(
    "missing", "MissingExecutionProvider", "a-package-that-is-missing", "a_module_that_is_missing"
)


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in in the table whose package is not installed."""
    monkeypatch.setitem(PLUGINS, "missing", MISSING)


def device(name: str, kind: str) -> Any:
    return SimpleNamespace(ep_name=name, device=SimpleNamespace(type=SimpleNamespace(name=kind)))


@pytest.mark.parametrize("name", ["openvino", "QNN", "WebGpuExecutionProvider", "tensorrt"])
def test_plugins_are_providers(name: str) -> None:
    assert is_provider(name)
    assert plugin_named(name) is not None


def test_an_unknown_name_is_not_a_plugin() -> None:
    assert plugin_named("cpu") is None
    assert provider_of("cpu") is None
    assert not is_provider("openwino")


@pytest.mark.usefixtures("missing")
def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    assert not MISSING.is_installed
    assert MISSING.version == ""
    calls: list[Callable[[], object]] = [
        lambda: resolve_providers(["missing"]),
        lambda: Session(RELU, SessionSettings(("missing",))),
    ]
    for call in calls:
        with pytest.raises(
            ProviderUnavailable,
            match=r"'missing' .* 'xoptim",
        ):
            call()


def test_a_library_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_package(
        "openvino",
        "def get_library_path():\n    return '/nowhere/libnone.so'\n",
        tmp_path,
        monkeypatch,
    )
    with pytest.raises(
        ProviderUnavailable,
        match=r"'openvino' .*libnone\.so",
    ) as error:
        Session(RELU, SessionSettings(("openvino",)))
    assert "\n" not in str(error.value)


def test_a_package_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_package(
        "openvino", "raise OSError('its libraries\\nare missing')\n", tmp_path, monkeypatch
    )
    with pytest.raises(ProviderUnavailable, match=r"'openvino' .*: its libraries are missing$"):
        load(PLUGINS["openvino"])


def test_an_onnxruntime_that_loads_no_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_package("openvino", "", tmp_path, monkeypatch)
    monkeypatch.setattr(
        "xoptim.verification.runs.plugins.ort", SimpleNamespace(__version__="1.22.0")
    )
    with pytest.raises(
        ProviderUnavailable,
        match=r"^onnxruntime 1\.22\.0 .* 1\.24 ",
    ):
        load(PLUGINS["openvino"])


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "xoptim.verification.runs.plugins._LOADED", {"WebGpuExecutionProvider": "/a/libx.so"}
    )
    monkeypatch.setattr(
        "xoptim.verification.runs.plugins.ort", SimpleNamespace(get_ep_devices=list)
    )
    with pytest.raises(ProviderUnavailable) as error:
        add_plugin(None, [PLUGINS["webgpu"]])
    text = str(error.value)
    assert re.search("'webgpu' .*; software_device=True ", text)
    assert "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1" in text
    assert "VK_ICD_FILENAMES" in text


def test_the_preferred_device_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "CPUExecutionProvider",
        "QNNExecutionProvider",
        "QNNExecutionProvider",
        "QNNExecutionProvider",
    )
    found = [
        device(name, kind) for name, kind in zip(names, ("CPU", "CPU", "NPU", "GPU"), strict=True)
    ]
    monkeypatch.setattr(
        "xoptim.verification.runs.plugins.ort", SimpleNamespace(get_ep_devices=lambda: found)
    )
    assert [each.device.type.name for each in devices_of(PLUGINS["qnn"])] == ["NPU", "GPU", "CPU"]


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        ("/a/libx.so", "/a/libQnnHtp.so"),
        ("/a/x.dll", "/a/QnnHtp.dll"),
        ("/a/libx.dylib", "/a/libQnnHtp.dylib"),
    ],
)
def test_files_of_options_are_next_to_the_library(
    library: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "xoptim.verification.runs.plugins._LOADED", {"QNNExecutionProvider": library}
    )
    assert provider_options(PLUGINS["qnn"]) == {"backend_path": str(Path(expected))}


def test_a_session_takes_one_plugin() -> None:
    with pytest.raises(
        ProviderUnavailable,
        match=r"qnn, webgpu$",
    ):
        add_plugin(None, [PLUGINS["qnn"], PLUGINS["webgpu"]])


def test_tolerances_follow_from_the_arithmetic_of_the_provider() -> None:
    assert coarsest_type(["cpu", "webgpu"]) == TensorProto.FLOAT
    assert coarsest_type(["QNNExecutionProvider"]) == TensorProto.FLOAT16
    assert coarsest_type(["qnn", "openvino"]) == TensorProto.BFLOAT16
    assert VerificationOptions(providers=("qnn",)).rules.tolerance(TensorProto.FLOAT).rtol == 8e-3
    assert (
        VerificationOptions(providers=("webgpu",)).rules.tolerance(TensorProto.FLOAT).rtol == 1e-5
    )


@pytest.mark.parametrize("name", ["webgpu", "qnn", "openvino"])
@pytest.mark.parametrize("isolated", [False, True])
def test_a_session_of_a_plugin(name: str, isolated: bool) -> None:
    skip_without(name)
    session = Session(RELU, SessionSettings((name,), software_device=True, isolated=isolated))
    assert [port.name for port in (*session.inputs, *session.outputs)] == ["x", "y"]
    assert np.allclose(array(session.run(FEEDS)[0]), EXPECTED, rtol=0.02)
    session.runner(FEEDS)()
    with pytest.raises(RunError):
        session.run({"x": np.zeros((5, 5), np.float32)})
    assert np.allclose(array(session.run(FEEDS)[0]), EXPECTED, rtol=0.02), (
        "an error does not end the session"
    )


@needs("webgpu")
def test_verification_on_a_plugin() -> None:
    options = VerificationOptions(providers=("webgpu",), software_device=True, assignments=1)
    same = parse("agraph (float[2,3] x) => (float[2,3] y) { t = Relu(x) y = Add(x, t) }")
    other = parse("agraph (float[2,3] x) => (float[2,3] y) { t = Relu(x) y = Sub(x, t) }")
    assert verify_models(RELU, same, options).ok
    assert verify_models(RELU, other, options).status == "different"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_plugin_that_ends_the_process_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_package("openvino", CRASH, tmp_path, monkeypatch)
    with pytest.raises(LoadError, match=r"'openvino' .*SIGSEGV"):
        Session(RELU, SessionSettings(("openvino",), isolated=True))
    report = verify_models(RELU, RELU, VerificationOptions(providers=("openvino",)))
    assert report.status == "not verified"
    assert "SIGSEGV" in report.reason
