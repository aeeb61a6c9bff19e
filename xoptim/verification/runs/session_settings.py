"""Settings of a session of onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import onnx

from xoptim.facts.lazy import lazy_module
from xoptim.verification.runs.fatal import fatal_optimizers
from xoptim.verification.runs.operator_libraries import library_file

ort = lazy_module("onnxruntime")


Level: TypeAlias = Literal["all", "extended", "basic", "off"]
"""Levels of onnxruntime's own graph optimizations."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings with which onnxruntime runs a model."""

    # Execution providers in order of preference, by full or short name (``cuda``); CPU is always
    # last
    providers: tuple[str, ...] = ("cpu",)
    # graph optimizations that onnxruntime may apply itself; ``off`` runs the model as it is written
    level: Level = "off"
    threads: int = 0  # threads within an operator; 0 leaves the choice to onnxruntime
    # Seconds after which a run is stopped, ``None`` for no limit. With one, Ctrl-C also stops a run
    run_limit: float | None = None
    tf32: bool = False  # whether CUDA may round the operands of MatMuls to 10 bits of mantissa
    # whether inputs and outputs are bound to the memory of the device; by default on CUDA
    io_binding: bool | None = None
    # whether memory on the CPU is kept for later runs. Off, each tensor is allocated and freed
    # separately
    arena: bool = True
    # Whether the memory of a result is planned ahead and used again for a later result. The planner
    # takes quadratic time where shapes are dynamic
    reuse: bool = False
    # beginning of the path of the file into which onnxruntime writes the times of all operators
    profile: Path | None = None
    # file into which onnxruntime writes the model after its graph optimizations
    optimized: Path | None = None
    # Single graph optimizations of onnxruntime that are skipped at any level, by name
    disabled_optimizers: tuple[str, ...] = ()
    # whether the memory of a run is planned from the run before, where shapes are equal
    memory_pattern: bool = True
    # whether a node runs just before its result is needed, and not as early as possible
    late: bool = False
    # Further settings of a session by name (``session.intra_op.allow_spinning``), as onnxruntime
    # documents them
    entries: tuple[tuple[str, str], ...] = ()
    # Libraries of operators to load, by file, or ``onnxruntime-extensions`` for the package of that
    # name
    custom_op_libs: tuple[str, ...] = ()
    # whether a plug-in runs on the CPU where there is no other device (``webgpu``)
    software_device: bool = False
    float32: bool = False  # whether a plug-in must not round 32-bit floats (``openvino``)
    # Whether the session of a plug-in is in a process of its own: a plug-in that crashes is an
    # error then
    isolated: bool = False
    # Whether integer operators that saturate on this CPU compute as ONNX defines them, at the level
    # ``off``; see `xoptim.verification.runs.exact_integers`
    exact_integers: bool = False
    # least severity of messages that onnxruntime writes to standard error; errors arrive as
    # exceptions
    log_severity: int = 4

    def on_cpu(self) -> SessionSettings:
        """The same settings on the CPU."""
        return replace(
            self, providers=("cpu",), software_device=False, float32=False, isolated=False
        )

    def without_copies(self) -> SessionSettings:
        """The settings for a model with large weights: weights are not prepacked when the model is
        loaded, and a weight is transposed only just before the result is needed.

        Weights in external files stay memory-mapped, and results are freed at once. MatMuls without
        prepacked weights add up in another order.
        """
        return replace(
            self,
            arena=False,
            late=True,
            entries=(*self.entries, ("session.disable_prepacking", "1")),
        )

    def safe_for(self, model: onnx.ModelProto) -> SessionSettings:
        """The settings without what may crash on a model; see `xoptim.verification.runs.fatal`."""
        if self.level != "all":
            return self
        return self.without(fatal_optimizers(model))

    def without(self, fatal: Sequence[str]) -> SessionSettings:
        """The settings without some optimizations of the level ``all``."""
        names = [name for name in fatal if name not in self.disabled_optimizers]
        if self.level != "all" or not names:
            return self
        return replace(self, disabled_optimizers=(*self.disabled_optimizers, *names))


def session_options(settings: SessionSettings) -> Any:
    """The ``onnxruntime.SessionOptions`` of some settings."""
    options = ort.SessionOptions()
    level = "DISABLE_ALL" if settings.level == "off" else f"ENABLE_{settings.level.upper()}"
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.log_severity_level = settings.log_severity
    options.intra_op_num_threads = settings.threads
    options.enable_mem_reuse = settings.reuse
    options.enable_cpu_mem_arena = settings.arena
    options.enable_mem_pattern = settings.memory_pattern
    if settings.late:
        options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    for name, value in settings.entries:
        options.add_session_config_entry(name, value)
    for library in settings.custom_op_libs:
        options.register_custom_ops_library(library_file(library))
    if settings.optimized is not None:
        options.optimized_model_filepath = str(settings.optimized)
    if settings.profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(settings.profile)
    return options
