"""Runs of a torch module on given values, in its own type and in float64."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xoptim.facts.lazy import lazy_module
from xoptim.integrations.torch.values import Arguments, array_of, matched, tensors_of
from xoptim.system.machine import available_memory
from xoptim.verification.errors import RunError
from xoptim.verification.judging.expected import Expectation
from xoptim.verification.runs.session import Value

if TYPE_CHECKING:
    import torch
    from torch import nn
else:
    torch = lazy_module("torch")

_MAX_MEMORY: Final = 0.5  # of the free memory, for a copy of a module in float64
_DOUBLE_BYTES: Final = 8
_MAX_MESSAGE: Final = 300  # characters of an error


class ModuleError(RunError):
    """A module fails on the values of a run."""


class ModuleRunner:
    """Runs a module, without gradients; ``values`` are those of the leaves of its arguments."""

    def __init__(self, module: nn.Module, arguments: Arguments) -> None:
        self.module, self.arguments = module, arguments
        self._wide = _in_doubles(module)

    def returned(self, values: Mapping[int, Value]) -> Any:
        """The results of the module; raises `ModuleError`."""
        args, kwargs = self.arguments.filled(values)
        try:
            with torch.no_grad():
                return self.module(*args, **kwargs)
        except Exception as error:  # the caller's own code
            text = " ".join(str(error).split())[:_MAX_MESSAGE]
            raise ModuleError(f"{type(error).__name__}: {text}") from error

    def expected(self, values: Mapping[int, Value], names: Sequence[str]) -> Expectation:
        """The tensors that are the outputs of these names; raises `ModuleError`."""
        start = time.perf_counter()
        returned = self.returned(values)
        seconds = time.perf_counter() - start
        tensors = matched(tensors_of(returned), names)
        if tensors is None:
            raise ModuleError(f"it does not return {', '.join(names)}")
        results = [array_of(tensor) for tensor in tensors]
        accurate = self._accurate(values, names, results)
        return Expectation(tuple(results), tuple(accurate), seconds)

    def _accurate(
        self, values: Mapping[int, Value], names: Sequence[str], results: list[np.ndarray]
    ) -> list[np.ndarray | None]:
        """The results in float64, where they are known."""
        unknown: list[np.ndarray | None] = [None] * len(results)
        if self._wide is None:
            return unknown
        args, kwargs = self.arguments.filled(values, in_doubles=True)
        try:
            with torch.no_grad(), _widening()():
                returned = self._wide(*args, **kwargs)
        except Exception:  # an operator may lack float64
            return unknown
        wide = [array_of(tensor) for tensor in matched(tensors_of(returned), names) or ()]
        if [array.shape for array in wide] != [array.shape for array in results]:
            return unknown
        return [array if array.dtype == np.float64 else None for array in wide]


def mode_fault(module: nn.Module) -> str:
    """The first part of a module that is in training mode and computes other results in inference,
    as a message; ``""`` when there is none.
    """
    for name, part in module.named_modules():
        if part.training and _depends_on_mode(part):
            kind = type(part).__name__
            where = f"{kind} {name!r}" if name else kind
            return f"{where} is in training mode: call module.eval() before the export"
    return ""


def _depends_on_mode(part: nn.Module) -> bool:
    if isinstance(part, torch.nn.modules.dropout._DropoutNd):  # noqa: SLF001 - the base class
        return bool(part.p > 0)
    is_norm = isinstance(part, torch.nn.modules.batchnorm._NormBase)  # noqa: SLF001
    return is_norm and bool(getattr(part, "track_running_stats", False))


def _in_doubles(module: nn.Module) -> nn.Module | None:
    """A copy of a module in float64, ``None`` where that is not possible."""
    numbers = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
    free = available_memory()
    if free is not None and numbers * _DOUBLE_BYTES > _MAX_MEMORY * free:
        return None
    try:
        return copy.deepcopy(module).to(torch.float64)
    except Exception:  # a module may hold what cannot be copied
        return None


@cache
def _widening() -> type:
    """A mode in which operators with a narrow ``dtype`` return float64: many normalizations ask for
    float32.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    narrow = (torch.float32, torch.float16, torch.bfloat16)

    class Widening(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(
            self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            keywords = dict(kwargs or {})
            if keywords.get("dtype") in narrow:
                keywords["dtype"] = torch.float64
            return operator(*args, **keywords)

    return Widening
