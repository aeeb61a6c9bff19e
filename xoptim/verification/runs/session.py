"""Sessions of onnxruntime for every element type and every size of model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from xoptim.facts.advice import Advice
from xoptim.facts.errors import ModelError, UnstoppableError
from xoptim.facts.lazy import lazy_module
from xoptim.facts.words import meant
from xoptim.system.machine import without_output
from xoptim.system.threads import NotEndingError, ThreadCall
from xoptim.verification.errors import LoadError, ProviderUnavailable, RunError, RunStoppedError
from xoptim.verification.runs.exact_integers import has_inexact, saturates, with_exact_integers
from xoptim.verification.runs.operator_libraries import EXTENSIONS
from xoptim.verification.runs.ort_values import (
    from_ort_value,
    from_python,
    is_numeric,
    is_plain,
    is_special,
    to_ort_value,
    view_as_ort_value,
)
from xoptim.verification.runs.plugins import (
    PLUGINS,
    add_plugin,
    plugged_in,
    plugin_named,
    provider_of,
)
from xoptim.verification.runs.ports import Port as Port, Value as Value
from xoptim.verification.runs.protos import (
    ModelLike,
    initializer_bytes,
    is_text,
    large_tensors,
    light_copy,
    loadable_copy,
    read_proto,
    tensor_array,
)
from xoptim.verification.runs.remote import RemoteSession
from xoptim.verification.runs.session_settings import SessionSettings, session_options
from xoptim.verification.runs.watched import digest_of, mark_of, watched

ort = lazy_module("onnxruntime")

# bytes of weights; protobuf stops at 2 GiB for everything together
_SERIALIZABLE: Final = 1_500_000_000
# weights above this are passed outside the protobuf, if the protobuf would be too large
_LARGE: Final = 1 << 16
CUDA: Final = "CUDAExecutionProvider"
PROCESSOR: Final = "CPUExecutionProvider"
_PACKAGES: Final = {"cuda": "onnxruntime-gpu", "dml": "onnxruntime-directml"}
"""Builds of onnxruntime with further execution providers. They have the files of `onnxruntime`, so
that only one of them can be installed.
"""
_MAX_MESSAGE: Final = 2000  # characters of an error message that are read
# seconds, at most, for the current node to end when a run is stopped
_PATIENCE: Final = 10.0
# a larger number of inputs is bound: the time of a run is otherwise quadratic in their number
_MANY_INPUTS: Final = 256
_FATAL: Final = 4  # log severity


def is_provider(name: str) -> bool:
    """Whether onnxruntime or a plug-in has an execution provider of this name, short or full,
    installed here or not.
    """
    if plugin_named(name) is not None:
        return True
    names = {provider.lower() for provider in ort.get_all_providers()}
    return not names.isdisjoint((name.lower(), f"{name.lower()}executionprovider"))


def resolve_providers(names: Sequence[str]) -> list[str]:
    """Full names of execution providers, CPU last, from full or short names: ``cpu``, ``cuda``,
    ``openvino``, ``dml``, ...

    Raises `ProviderUnavailable` when the installed onnxruntime lacks one of them, or the package of
    a plug-in is missing.
    """
    available = {name.lower(): name for name in ort.get_available_providers()}
    providers: list[str] = []
    for name in names:
        key = name.lower()
        full = available.get(key) or available.get(f"{key}executionprovider") or provider_of(name)
        if full is None:
            raise ProviderUnavailable(_missing(name, available.values()))
        providers.append(full)
    return list(dict.fromkeys([p for p in providers if p != PROCESSOR] + [PROCESSOR]))


def _missing(name: str, available: Iterable[str]) -> str:
    """The message about a provider that the installed onnxruntime lacks, with the way to get it."""
    key = name.lower().removesuffix("executionprovider")
    package = _PACKAGES.get(key)
    if package is not None:
        advice = f"; pip install {package} in an environment without onnxruntime"
    else:
        advice = meant(key, {*_PACKAGES, *PLUGINS, "cpu"})
    has = ", ".join(available)
    return (
        f"the installed onnxruntime {ort.__version__} has no execution provider {name!r}, only "
        f"{has}{advice}"
    )


class Session:
    """A model that onnxruntime has loaded, a file or a protobuf of any size with external data in
    ``base_dir``.

    ``inputs`` are the inputs to feed, in order, without initializers that are listed as inputs.
    ``fed`` are the names that values can be given for. ``weights`` are arrays that replace
    initializers of the main graph (of a protobuf only). The settings are made safe for a protobuf;
    for a file the caller does that (`SessionSettings.safe_for`), since reading it takes time.

    Raises `LoadError` when onnxruntime refuses the model, and `ProviderUnavailable` when an
    execution provider is missing, has no device, or does not start.
    """

    def __init__(
        self,
        model: ModelLike,
        settings: SessionSettings | None = None,
        *,
        base_dir: Path | None = None,
        weights: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        settings = settings or SessionSettings()
        if isinstance(model, onnx.ModelProto):
            settings = settings.safe_for(model)
        providers = resolve_providers(settings.providers)
        self._mark = mark_of(model, settings)
        if settings.exact_integers and settings.level == "off" and providers == [PROCESSOR]:
            model, base_dir = _exact(model, base_dir)
        self._run_limit = settings.run_limit
        self._kept: list[Any] = []  # onnxruntime reads arrays in place
        self._remote: RemoteSession | None = None
        if settings.isolated and plugged_in(providers):
            self._remote = RemoteSession(*_portable(model, base_dir, weights or {}), settings)
            self.inputs, self.outputs, self.fed = self._remote.ports
            return
        try:
            with watched(self._mark and f"load {self._mark}", LoadError):
                self._session = self._open(model, settings, base_dir, weights or {})
        except (ProviderUnavailable, LoadError):
            raise
        except Exception as error:  # onnxruntime has no common base class
            raise LoadError(one_line(error)) from error
        missing = set(providers) - set(self._session.get_providers())
        if missing:
            raise ProviderUnavailable(
                f"onnxruntime could not start {', '.join(sorted(missing))}; check that its "
                "libraries and drivers are installed"
            )
        self.inputs = tuple(Port(i.name, i.type) for i in self._session.get_inputs())
        overridable = self._session.get_overridable_initializers()
        self.fed = {*(port.name for port in self.inputs), *(tensor.name for tensor in overridable)}
        self.outputs = tuple(Port(o.name, o.type) for o in self._session.get_outputs())
        self._plain = all(is_plain(port.type) for port in self.outputs)
        self._device = "cuda" if CUDA in providers else "cpu"
        is_better = self._device != "cpu" or len(self.inputs) > _MANY_INPUTS
        may_bind = is_better if settings.io_binding is None else settings.io_binding
        self._bound = may_bind and all(
            is_numeric(port.type) for port in (*self.inputs, *self.outputs)
        )

    def _open(
        self,
        model: ModelLike,
        settings: SessionSettings,
        base_dir: Path | None,
        weights: Mapping[str, np.ndarray],
    ) -> Any:
        """A session of onnxruntime, for a `loadable_copy` where the model does not load.

        Raises the errors of onnxruntime.
        """
        options = session_options(settings)
        try:
            return inference_session(
                self._source(model, options, base_dir, weights), options, settings
            )
        except ProviderUnavailable:
            raise
        except Exception:  # onnxruntime has no common base class
            copy = loadable_copy(model, base_dir)
            if copy is None:
                raise
        options = session_options(settings)
        return inference_session(
            self._source(copy[0], options, copy[1], weights), options, settings
        )

    def _source(
        self,
        model: ModelLike,
        options: Any,
        base_dir: Path | None,
        weights: Mapping[str, np.ndarray],
    ) -> str | bytes:
        """The path or bytes for onnxruntime; large weights are passed outside the protobuf."""
        if not isinstance(model, onnx.ModelProto):
            path = Path(model)
            if not path.is_file():
                raise FileNotFoundError(f"no model at {path}")
            if is_text(path) or not _is_utf8(path):
                proto, folder = read_proto(path)
                return self._source(proto, options, folder, weights)
            return str(path)
        if base_dir is not None:
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", str(base_dir.resolve())
            )
        model, arrays = _light(model, base_dir, weights)
        if arrays:
            arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
            values = [view_as_ort_value(array) for array in arrays.values()]
            self._kept += [values, arrays]  # the session does not own them
            options.add_external_initializers(list(arrays), values)
        serialized: bytes = model.SerializeToString()
        return serialized

    def run(self, feeds: Mapping[str, Value], limit: float | None = None) -> list[Value]:
        """All outputs, in order; element types that numpy lacks come from ``ml_dtypes``.

        Raises `RunError` when the model cannot run on these feeds, or not within the time limit,
        and `UnstoppableError` when a kernel goes on beyond the limit of the settings: onnxruntime
        stops between nodes only.

        Args:
            feeds: values of the inputs; names that the model lacks are not used.
            limit: seconds after which the run is stopped, if that is before the limit of the
                settings.
        """
        feeds = self._accepted(feeds)
        if self._remote is not None:
            return self._remote.run(feeds, limit)
        try:
            key = f"run {self._mark} {digest_of(feeds)}" if self._mark else ""
            with watched(key, RunError):
                return self._results(feeds, limit)
        except (RunError, UnstoppableError):
            raise
        except Exception as error:  # onnxruntime has no common base class
            raise RunError(one_line(error)) from error

    def _results(self, feeds: Mapping[str, Value], limit: float | None) -> list[Value]:
        """All outputs; raises the errors of onnxruntime."""
        if self._bound:
            return list(map(from_python, self._call(self._run_bound, dict(feeds), limit)))
        if self._plain and not any(is_special(value) for value in feeds.values()):
            return list(map(from_python, self._call(self._session.run, dict(feeds), limit)))
        values = {name: to_ort_value(value) for name, value in feeds.items()}
        results = self._call(self._session.run_with_ort_values, values, limit)
        return list(map(from_ort_value, results))

    def _call(
        self, run: Callable[..., Sequence[Any]], feeds: dict[str, Any], limit: float | None
    ) -> Sequence[Any]:
        """Run in a thread of its own, unless there is no limit: onnxruntime does not react to
        signals.
        """
        limits = [seconds for seconds in (limit, self._run_limit) if seconds is not None]
        if not limits:
            return run(None, feeds)
        options, run_limit = ort.RunOptions(), self._run_limit
        session = self  # a run that is abandoned reads the weights that this object holds
        call = ThreadCall(
            lambda: (session, run(None, feeds, options))[1],
            lambda: setattr(options, "terminate", True),
        )
        try:
            return call.within(
                min(limits), None if run_limit is None else run_limit + min(run_limit, _PATIENCE)
            )
        except TimeoutError:
            raise RunStoppedError(f"a run was stopped after {min(limits):g} seconds") from None
        except NotEndingError:
            more_time = Advice("run-limit", "SECONDS", "allows more time")
            skipped = Advice("no-verify", reason="skips the run")
            raise UnstoppableError(
                f"a run did not end within {run_limit:g} seconds, and onnxruntime does not stop "
                f"within a node; {more_time}, {skipped}"
            ) from None

    def runner(self, feeds: Mapping[str, Value]) -> Callable[[], object]:
        """A function without parameters that only runs the model on these values, for timing.

        Values that are bound to a device are copied there once; results stay where they are, and
        have been computed when the function returns.
        """
        feeds = self._accepted(feeds)
        if self._remote is not None:
            return partial(self._remote.run, feeds)
        if self._bound:
            binding = self._binding(feeds)

            def run_bound() -> None:
                self._session.run_with_iobinding(binding)
                binding.synchronize_outputs()

            return run_bound
        if self._plain and not any(is_special(value) for value in feeds.values()):
            return partial(self._session.run, None, dict(feeds))
        return partial(
            self._session.run_with_ort_values,
            None,
            {name: to_ort_value(value) for name, value in feeds.items()},
        )

    def _accepted(self, feeds: Mapping[str, Value]) -> Mapping[str, Value]:
        return {name: value for name, value in feeds.items() if name in self.fed}

    def assigned(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """For each part of the graph, the full name of its provider and the names of its nodes.

        Needs the entry ``session.record_ep_graph_assignment_info`` of the settings. Raises
        `ProviderUnavailable` where this onnxruntime does not tell.
        """
        if not hasattr(self._session, "get_provider_graph_assignment_info"):
            raise ProviderUnavailable(
                f"onnxruntime {ort.__version__} does not report which provider runs a node; "
                "install 1.24.2 or later"
            )
        parts = self._session.get_provider_graph_assignment_info()
        return tuple(
            (part.ep_name, tuple(node.name for node in part.get_nodes())) for part in parts
        )

    def end_profiling(self) -> Path:
        """Stop the profiler of the settings; return the file that it wrote."""
        return Path(self._session.end_profiling())

    def _binding(self, feeds: Mapping[str, Value]) -> Any:
        binding = self._session.io_binding()
        for name, value in feeds.items():
            binding.bind_ortvalue_input(
                name,
                ort.OrtValue.ortvalue_from_numpy(np.asarray(value, order="C"), self._device, 0),
            )
        for port in self.outputs:
            binding.bind_output(port.name, self._device)
        return binding

    def _run_bound(self, _: None, feeds: dict[str, Any], options: Any = None) -> Sequence[Any]:
        """Run on values in the memory of the device; only the results come back."""
        binding = self._binding(feeds)
        self._session.run_with_iobinding(binding, options)
        results: Sequence[Any] = binding.copy_outputs_to_cpu()
        return results


def _exact(model: ModelLike, base_dir: Path | None) -> tuple[ModelLike, Path | None]:
    """A model that computes exact integers on this CPU, and the folder of its external data."""
    if not saturates():
        return model, base_dir
    try:
        proto, folder = read_proto(model, base_dir)
    except ModelError:  # onnxruntime will raise the reason
        return model, base_dir
    if not has_inexact(proto):
        return model, base_dir
    return with_exact_integers(proto), folder


def _light(
    model: onnx.ModelProto, base_dir: Path | None, weights: Mapping[str, np.ndarray]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model that can be serialized, and the arrays of the initializers whose data it lacks,
    ``weights`` among them.
    """
    arrays = dict(weights)
    if initializer_bytes(model) > _SERIALIZABLE:
        outside = large_tensors(model, _LARGE) - arrays.keys()
        arrays |= {
            t.name: tensor_array(t, base_dir) for t in model.graph.initializer if t.name in outside
        }
    return (light_copy(model, arrays.keys()) if arrays else model), arrays


def _portable(
    model: ModelLike, base_dir: Path | None, weights: Mapping[str, np.ndarray]
) -> tuple[str | bytes, Path | None, dict[str, np.ndarray]]:
    """A model, the folder of its external data, and weights, in a form that another process can
    read.
    """
    if not isinstance(model, onnx.ModelProto):
        return str(Path(model).absolute()), base_dir, dict(weights)
    light, arrays = _light(model, base_dir, weights)
    return light.SerializeToString(), None if base_dir is None else base_dir.absolute(), arrays


def _is_utf8(path: Path) -> bool:
    """Whether a path is valid UTF-8: onnxruntime takes no other path."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def inference_session(source: str | bytes, options: Any, settings: SessionSettings) -> Any:
    """A session of onnxruntime for a file or the bytes of a model.

    Raises the errors of onnxruntime, and `ProviderUnavailable`.
    """
    providers = resolve_providers(settings.providers)
    disabled = (
        {"disabled_optimizers": list(settings.disabled_optimizers)}
        if settings.disabled_optimizers
        else {}
    )
    plugins = plugged_in(providers)
    if plugins:
        add_plugin(
            options, plugins, software_device=settings.software_device, float32=settings.float32
        )
        with without_output():  # QNN writes to standard output
            return ort.InferenceSession(source, options, enable_fallback=0, **disabled)
    tf32 = {CUDA: {"use_tf32": str(int(settings.tf32))}}
    with_options = [(name, tf32.get(name, {})) for name in providers]
    if CUDA in providers:
        _load_cuda()
    # Without the fallback to other providers, which onnxruntime would take silently.
    return ort.InferenceSession(
        source, options, providers=with_options, enable_fallback=0, **disabled
    )


@cache
def _load_cuda() -> None:
    """Load the libraries of CUDA from installed packages, where onnxruntime does not look."""
    with redirect_stdout(StringIO()):  # onnxruntime prints what it does not find
        ort.preload_dlls()
    # each convolution would log the algorithms that it cannot use
    ort.set_default_logger_severity(_FATAL)


def one_line(error: Exception) -> str:
    """The message of an error without line breaks and places in the C++ sources, cut where it
    repeats a whole model.
    """
    # a message may have long names of the model, on which a regular expression takes long
    full = str(error)[:_MAX_MESSAGE]
    text = (
        " ".join(re.sub(r"^.*\[ONNXRuntimeError\] : \d+ : ", "", full).split())
        or type(error).__name__
    )
    text = re.sub(r"/\S+\.(?:cc|h):\d+ \S.*?\)(?: const)? (?=[A-Z])", " ", text)
    if "is not a registered function/op" in text:
        library = Advice("custom-op-lib", EXTENSIONS if "ai.onnx.contrib:" in text else "FILE")
        text += (
            f"; `{library}` loads a custom operator library, `{Advice('pack', 'PACK')}` uses the "
            "definitions of a pack"
        )
    return text if len(text) <= 600 else f"{text[:600]}..."
