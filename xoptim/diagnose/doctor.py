"""The state of an installation: versions, execution providers, pattern packs, and patterns that
would not run here.
"""

from __future__ import annotations

import platform
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, PackageNotFoundError, version
from typing import Final

import numpy as np
from onnx import TensorProto, helper

from xoptim.bench.int8 import INSTRUCTIONS, int8_time_ratio
from xoptim.catalogue.discovery import installed_patterns, packs, patterns_of
from xoptim.engine.index import defect_of
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.operators import operators_served
from xoptim.match.pattern import PatternOptimization
from xoptim.system.machine import available_memory, instructions
from xoptim.targets import TargetState, every as every_target, state_of
from xoptim.verification.errors import LoadError, ProviderUnavailable, RunError
from xoptim.verification.runs.session import Session, ort
from xoptim.verification.runs.session_settings import SessionSettings

_PACKAGES: Final = (
    "xoptim",
    "onnx",
    "onnx-ir",
    "onnxruntime",
    "onnxruntime-gpu",
    "numpy",
    "ml-dtypes",
    "click",
    "rich",
)
_OPTIONAL: Final = ("torch", "onnxscript", "onnxruntime-extensions")


@dataclass(frozen=True, slots=True)
class Diagnosis(JsonResult):
    """The state of an installation.

    Attributes:
        versions: versions of Python, the system and packages; empty for a missing optional one.
        providers: by execution provider, the reason why it does not run a model; empty when it
            does.
        kernels: by execution provider, number of operators with a kernel; 0 when not known.
        targets: the state of each target.
        packs: by entry point, number of patterns; -1 when it cannot be loaded.
        skipped: by pattern, the reason why it is not run for the execution provider.
        memory: free memory in bytes; ``None`` when not known.
        integer_instructions: instructions of the processor for 8-bit integers; ``None`` when not
            known.
        int8_time_ratio: time of an int8 MatMul on this machine, divided by the time of a float32
            MatMul.
    """

    __json__ = JsonForm(
        "versions providers kernels targets packs skipped free_memory=memory",
        "integer_instructions int8_share=int8_time_ratio faults",
    )
    versions: dict[str, str]
    providers: dict[str, str]
    kernels: dict[str, int]
    targets: tuple[TargetState, ...]
    packs: dict[str, int]
    skipped: dict[str, str]
    memory: int | None
    integer_instructions: tuple[str, ...] | None
    int8_time_ratio: float

    @property
    def faults(self) -> list[str]:
        """A line for each fault: the CPU's execution provider does not run a model, or the patterns
        of a pack cannot be loaded.
        """
        faults = [
            f"{name} does not run a model: {reason}"
            for name, reason in self.providers.items()
            if reason and name.startswith("CPU")
        ]
        return faults + [
            f"the patterns of {name} cannot be loaded"
            for name, count in self.packs.items()
            if count < 0
        ]


def diagnose_installation(provider: str = "cpu", *, software_device: bool = False) -> Diagnosis:
    """Check the installation.

    A tiny model runs on each execution provider that onnxruntime includes. Plug-ins are loaded in
    processes of their own; with ``software_device``, those without a device may use the CPU.
    ``skipped`` lists the patterns that are not run for ``provider``.
    """
    names: list[str] = ort.get_available_providers()
    flags = instructions()
    return Diagnosis(
        versions={
            "python": platform.python_version(),
            "system": platform.platform(),
            **_versions(),
        },
        providers={name: _fault_of(name) for name in names},
        kernels={name: operators_served(name) for name in names},
        targets=_targets(software_device),
        packs={pack.name: _pattern_count(pack) for pack in packs()},
        skipped=_skipped(provider),
        memory=available_memory(),
        integer_instructions=None if flags is None else tuple(sorted(INSTRUCTIONS & flags)),
        int8_time_ratio=int8_time_ratio(),
    )


def _versions() -> dict[str, str]:
    versions: dict[str, str] = {}
    for name in (*_PACKAGES, *_OPTIONAL):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            if name in _OPTIONAL:
                versions[name] = ""
    return versions


def _fault_of(provider: str) -> str:
    """The reason why a provider does not run a tiny model, empty when it does."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "tiny", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    try:
        Session(model, SessionSettings((provider,))).run({"x": np.zeros(1, np.float32)})
    except (LoadError, ProviderUnavailable, RunError) as error:
        return str(error)
    return ""


def _targets(software_device: bool) -> tuple[TargetState, ...]:
    """The state of each target except ``cpu``, which is among the providers."""
    targets = [target for target in every_target() if target.name != "cpu"]
    with ThreadPoolExecutor() as pool:  # a thread waits for a process
        return tuple(pool.map(partial(state_of, software_device=software_device), targets))


def _pattern_count(pack: EntryPoint) -> int:
    """The number of patterns of a pack; -1 when it cannot be loaded."""
    try:
        return len(patterns_of(pack.load()))
    except Exception:  # the pack's own code
        return -1


def _skipped(provider: str) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for name, cls in installed_patterns().items():
        pattern = cls()
        unfit = pattern.unfit_for(None, provider)
        defect = defect_of(pattern) if isinstance(pattern, PatternOptimization) else None
        if unfit is not None or defect is not None:
            reasons[name] = unfit[0] if unfit is not None else str(defect)
    return reasons
