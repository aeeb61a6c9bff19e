"""Plug-ins: execution providers in packages of their own, which onnxruntime loads."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from onnx import TensorProto

from xoptim.facts.advice import Advice
from xoptim.facts.lazy import lazy_module
from xoptim.system.drivers import DRIVER_VARIABLE, use_software_driver
from xoptim.system.machine import set_default_variable
from xoptim.verification.errors import ProviderUnavailable

ort = lazy_module("onnxruntime")
_MIN_VERSION: Final = "1.24"
"""The first version of onnxruntime that loads plug-ins."""
_FATAL: Final = 4  # log severity: errors arrive as exceptions
_ALLOWED: Final = "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER"


@dataclass(frozen=True, slots=True)
class Plugin:
    """An execution provider in a package of its own.

    Attributes:
        name: short name of the execution provider.
        provider: full name of the execution provider, by which onnxruntime lists its devices.
        package: the package on PyPI, which the extra ``name`` of xoptim installs.
        module: the module of the package; its ``get_library_path()`` names the library.
        files: for each provider option that is a library of the package, its name without the
            prefix and suffix of the platform.
        devices: kinds of devices, the preferred one first.
        rounds_to: element type to which the provider may round float32 numbers: results are
            compared with the tolerance of this type.
        float32_options: options with which the provider computes in float32 instead; empty if it
            has none.
        advice: the end of a message about a missing device: the devices on which the provider
            runs, or an option with which it needs none.
        has_software_device: whether the provider can run on the CPU, if the caller asks for it.
    """

    name: str
    provider: str
    package: str
    module: str
    files: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ("NPU", "GPU", "CPU")
    rounds_to: int = TensorProto.FLOAT
    float32_options: Mapping[str, str] = field(default_factory=dict)
    advice: Advice | str = ""
    has_software_device: bool = False

    @property
    def install(self) -> str:
        """The command that installs the package."""
        return f"pip install 'xoptim[{self.name}]'"

    @property
    def is_installed(self) -> bool:
        """Whether the package is installed; the package is not loaded."""
        return find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """The version of the package, empty if it is not installed."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return ""


PLUGINS: Final[dict[str, Plugin]] = {
    plugin.name: plugin
    for plugin in (
        Plugin(
            name="openvino",
            provider="OpenVINOExecutionProvider",
            package="onnxruntime-ep-openvino",
            module="onnxruntime_ep_openvino",
            devices=("CPU", "GPU", "NPU"),
            # Its plug-in for CPUs computes in bfloat16 where the CPU can.
            rounds_to=TensorProto.BFLOAT16,
            float32_options={"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}'},
            advice="it runs on Intel CPUs, GPUs and NPUs",
        ),
        Plugin(
            name="qnn",
            provider="QNNExecutionProvider",
            package="onnxruntime-qnn",
            module="onnxruntime_qnn",
            files={"backend_path": "QnnHtp"},
            # The Hexagon processor computes 32-bit floats in 16 bits.
            rounds_to=TensorProto.FLOAT16,
            advice="it runs on Snapdragon, and in a simulator on x86-64",
        ),
        Plugin(
            name="webgpu",
            provider="WebGpuExecutionProvider",
            package="onnxruntime-ep-webgpu",
            module="onnxruntime_ep_webgpu",
            devices=("GPU", "CPU", "NPU"),
            advice=Advice(
                "software-device",
                reason=f"(or the environment variables {_ALLOWED}=1 and "
                f"{DRIVER_VARIABLE}=FILE.json) runs it on the CPU, with the SwiftShader driver "
                "(in Debian's package chromium)",
            ),
            has_software_device=True,
        ),
        Plugin(
            name="tensorrt",
            provider="NvTensorRTRTXExecutionProvider",
            package="onnxruntime-ep-nv-tensorrt-rtx",
            module="onnxruntime_ep_nv_tensorrt_rtx",
            devices=("GPU", "CPU", "NPU"),
            rounds_to=TensorProto.FLOAT16,
            advice="it runs on NVIDIA RTX GPUs",
        ),
    )
}
"""All plug-ins, by short name."""


_LOADED: Final[dict[str, str]] = {}
"""Loaded libraries, by the name of the provider: onnxruntime refuses to load one twice."""


def plugin_named(name: str) -> Plugin | None:
    """The plug-in of a short or full name, in any case; ``None`` when there is none."""
    key = name.lower()
    return next((p for p in PLUGINS.values() if key in (p.name, p.provider.lower())), None)


@cache
def _built_in() -> frozenset[str]:
    """The providers of onnxruntime itself.

    First called before a plug-in is loaded: afterwards onnxruntime lists plug-ins as well.
    """
    return frozenset(ort.get_available_providers())


def plugged_in(providers: Iterable[str]) -> list[Plugin]:
    """The plug-ins among some providers, which are given by their full names."""
    plugins = (plugin_named(name) for name in providers if name not in _built_in())
    return [plugin for plugin in plugins if plugin is not None]


def coarsest_type(providers: Iterable[str]) -> int:
    """The coarsest element type to which one of some providers may round 32-bit floats."""
    types = [plugin.rounds_to for plugin in map(plugin_named, providers) if plugin is not None]
    order = (TensorProto.BFLOAT16, TensorProto.FLOAT16)
    return next((element for element in order if element in types), TensorProto.FLOAT)


def provider_of(name: str) -> str | None:
    """The full name of a plug-in's provider, ``None`` when no plug-in has this name.

    Raises `ProviderUnavailable` when its package is missing, with the command that installs it.
    """
    plugin = plugin_named(name)
    if plugin is None:
        return None
    if not plugin.is_installed:
        message = f"the execution provider {plugin.name!r} is not installed: {plugin.install}"
        raise ProviderUnavailable(message)
    return plugin.provider


def load(plugin: Plugin, *, software_device: bool = False) -> None:
    """Load the library of a plug-in, once per process.

    Raises `ProviderUnavailable` when it is not installed, or cannot be loaded. With
    ``software_device``, a plug-in that can run on the CPU does so where there is no other device;
    the call that loads the library decides this.
    """
    if plugin.provider in _LOADED:
        return
    provider_of(plugin.provider)
    if not hasattr(ort, "register_execution_provider_library"):
        reason = f"onnxruntime {ort.__version__} does not load plug-in execution providers"
        raise ProviderUnavailable(f"{reason}; install {_MIN_VERSION} or later")
    if software_device and plugin.has_software_device:
        set_default_variable(_ALLOWED, "1")
        use_software_driver()
    _built_in()
    ort.set_default_logger_severity(_FATAL)  # onnxruntime would warn of each session on the CPU
    try:
        library = str(importlib.import_module(plugin.module).get_library_path())
        ort.register_execution_provider_library(plugin.provider, library)
    except Exception as error:  # neither the packages nor onnxruntime have a common base class
        reason = " ".join(str(error).split())
        subject = f"the execution provider {plugin.name!r}"
        raise ProviderUnavailable(f"{subject} cannot be loaded: {reason}") from error
    _LOADED[plugin.provider] = library


def devices_of(plugin: Plugin) -> list[Any]:
    """The devices (``onnxruntime.OrtEpDevice``) of a loaded plug-in, the preferred one first."""
    devices = [device for device in ort.get_ep_devices() if device.ep_name == plugin.provider]
    return sorted(devices, key=lambda device: plugin.devices.index(kind_of(device)))


def kind_of(device: Any) -> str:
    """The kind of a device: ``CPU``, ``GPU`` or ``NPU``."""
    return str(device.device.type.name)


def provider_options(plugin: Plugin, *, float32: bool = False) -> dict[str, str]:
    """The options of a loaded plug-in, files of its package with their paths.

    With ``float32``, also the options with which it does not round 32-bit floats.
    """
    library = Path(_LOADED[plugin.provider])
    prefix = "lib" if library.name.startswith("lib") else ""
    options = dict(plugin.float32_options) if float32 else {}
    for name, stem in plugin.files.items():
        options[name] = str(library.with_name(f"{prefix}{stem}{library.suffix}"))
    return options


def add_plugin(
    options: Any,
    plugins: Sequence[Plugin],
    *,
    software_device: bool = False,
    float32: bool = False,
) -> None:
    """Load a plug-in, and add it to the ``onnxruntime.SessionOptions`` of a session.

    Raises `ProviderUnavailable` when it cannot be loaded, has no device here, or is not the only
    one.
    """
    if len(plugins) > 1:
        names = ", ".join(plugin.name for plugin in plugins)
        raise ProviderUnavailable(f"a session takes one plug-in execution provider, not {names}")
    (plugin,) = plugins
    load(plugin, software_device=software_device)
    devices = devices_of(plugin)
    if not devices:
        subject = f"the execution provider {plugin.name!r}"
        raise ProviderUnavailable(f"{subject} finds no device here; {plugin.advice}")
    options.add_provider_for_devices(devices[:1], provider_options(plugin, float32=float32))
