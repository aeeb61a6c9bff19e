"""The settings of a session in a file next to its model, and the session that they make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.json_values import read_json_object
from xoptim.verification.errors import LoadError
from xoptim.verification.runs.session import inference_session, one_line, resolve_providers
from xoptim.verification.runs.session_settings import Level, SessionSettings, session_options

_VERSION: Final = 1
_OTHER_WAY: Final = ", or xopt MODEL --for startup"
_MAX_THREADS: Final = 1 << 16
_WARNINGS: Final = 2  # log severity: the default of onnxruntime
_FIELDS: Final[Mapping[str, type]] = {
    "version": int,
    "providers": list,
    "graph_optimization_level": str,
    "intra_op_num_threads": int,
    "disabled_optimizers": list,
    "enable_mem_pattern": bool,
    "session_config_entries": dict,
}


class SettingsError(XoptimError):
    """The settings of a session cannot be read."""


def settings_path(model: Path) -> Path:
    """The file with the settings of a model."""
    return model.with_name(f"{model.name}.session.json")


@dataclass(frozen=True, slots=True)
class StoredSettings(JsonResult):
    """The settings of a session of ONNX Runtime.

    Attributes:
        version: version of the format of these settings.
        providers: execution providers.
        graph_optimization_level: level of ORT graph optimizations.
        intra_op_num_threads: number of threads; 0 for the default of ONNX Runtime.
        disabled_optimizers: ORT graph optimizations that are disabled.
        enable_mem_pattern: whether memory patterns are enabled.
        session_config_entries: further entries of the session's configuration.
    """

    __json__ = JsonForm(name="Settings")
    version: int
    providers: list[str]
    graph_optimization_level: Level
    intra_op_num_threads: int
    disabled_optimizers: tuple[str, ...]
    enable_mem_pattern: bool
    session_config_entries: dict[str, str]


def stored_settings(settings: SessionSettings) -> StoredSettings:
    """The settings that are tuned."""
    return StoredSettings(
        version=_VERSION,
        providers=resolve_providers(settings.providers),
        graph_optimization_level=settings.level,
        intra_op_num_threads=settings.threads,
        disabled_optimizers=settings.disabled_optimizers,
        enable_mem_pattern=settings.memory_pattern,
        session_config_entries=dict(settings.entries),
    )


def settings_text(settings: SessionSettings) -> str:
    """The text of the file of some settings."""
    return json.dumps(stored_settings(settings).to_json(), indent=2) + "\n"


def read_settings(path: Path) -> SessionSettings:
    """The settings of a file.

    Raises `SettingsError` when it cannot be read, or is not a file that `settings_text` made.
    """
    try:
        values = read_json_object(path)
    except OSError as error:
        raise SettingsError(
            f"cannot read the settings {str(path)!r}: {error.strerror or error}; "
            f"run xopt tune{_OTHER_WAY}"
        ) from error
    except ValueError as error:
        raise SettingsError(
            f"the settings {str(path)!r} are damaged: {error}; run xopt tune again{_OTHER_WAY}"
        ) from error
    fault = _fault(values)
    if fault:
        raise SettingsError(
            f"the settings {str(path)!r} are damaged: {fault}; run xopt tune again{_OTHER_WAY}"
        )
    return SessionSettings(
        providers=tuple(values["providers"]),
        level=values["graph_optimization_level"],
        threads=values["intra_op_num_threads"],
        tf32=True,
        reuse=True,
        disabled_optimizers=tuple(values["disabled_optimizers"]),
        memory_pattern=values["enable_mem_pattern"],
        entries=tuple(values["session_config_entries"].items()),
    )


def _fault(values: Mapping[str, Any]) -> str:
    """The first fault of the content of a file, empty when there is none."""
    for name, kind in _FIELDS.items():
        if type(values.get(name)) is not kind:
            return f"{name!r} is missing, or is not of the type {kind.__name__}"
    if values["version"] != _VERSION:
        return f"version {values['version']} is not known"
    unknown = values.keys() - _FIELDS.keys()
    if unknown:
        return f"{min(unknown)!r} is not known"
    if values["graph_optimization_level"] not in get_args(Level):
        return f"there is no level {values['graph_optimization_level']!r}"
    texts = (
        *values["providers"],
        *values["disabled_optimizers"],
        *values["session_config_entries"].values(),
    )
    if not values["providers"] or not all(isinstance(text, str) for text in texts):
        return "providers, optimizers and entries must be strings"
    if not 0 <= values["intra_op_num_threads"] <= _MAX_THREADS:
        return f"the number of threads is not from 0 to {_MAX_THREADS}"
    return ""


def session(model: str | Path) -> Any:
    """An ``onnxruntime.InferenceSession`` of a model with the settings that `xoptim.tune`, or
    ``xopt MODEL --for startup``, wrote next to it.

    ``model``: the file of the model; the settings are in ``MODEL.session.json``.

    Raises:
        SettingsError: the settings are missing or damaged.
        LoadError: onnxruntime refuses the model.
        ProviderUnavailable: onnxruntime lacks the execution provider of the settings.
    """
    path = Path(model)
    settings = read_settings(settings_path(path))
    resolve_providers(settings.providers)
    options = session_options(settings)
    options.log_severity_level = _WARNINGS
    if not path.is_file():
        raise LoadError(f"there is no model {str(path)!r}")
    try:
        return inference_session(str(path), options, settings)
    except Exception as error:  # onnxruntime has no common base class
        raise LoadError(f"onnxruntime cannot load {str(path)!r}: {one_line(error)}") from error
