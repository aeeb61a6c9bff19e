"""Torch modules that functions of scripts return."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xoptim.facts.lazy import lazy_module
from xoptim.graph.sources import Source
from xoptim.integrations.torch.values import torch_tensor
from xoptim.integrations.torch.verification import verify
from xoptim.optimizing.verified import located
from xoptim.verification.errors import ChoiceError
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.judging.addresses import function_at
from xoptim.verification.judging.report import VerificationReport
from xoptim.verification.options import VerificationOptions

torch = lazy_module("torch")


class ModuleCall(NamedTuple):
    """A module and its arguments, ``None`` where the function returns none."""

    module: Any
    args: tuple[Any, ...] | None
    kwargs: dict[str, Any]


def call_of(address: str) -> ModuleCall:
    """The call that a function returns, which is given as ``package.module:function``.

    The function returns a torch module, or ``(module, args)``, or ``(module, args, kwargs)``.
    Python modules in the current folder are found as well. Raises `ChoiceError` when there is no
    such function, it fails, or torch is not installed.
    """
    if find_spec("torch") is None:
        raise ChoiceError("torch is not installed here: pip install 'xoptim[torch]'")
    function = function_at(address)
    try:
        result = function()
    except Exception as error:  # the caller's own code
        raise ChoiceError(f"{address} fails: {type(error).__name__}: {error}") from error
    parts = result if isinstance(result, tuple) else (result,)
    is_call = 1 <= len(parts) <= 3 and isinstance(parts[0], torch.nn.Module)
    kwargs = parts[2] if len(parts) == 3 else {}
    if not is_call or not isinstance(kwargs, Mapping):
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise ChoiceError(
            f"{address} returns {kinds}; a torch module is expected, alone or as "
            "(module, args, kwargs)"
        )
    args = parts[1] if len(parts) > 1 else None
    positional = args if args is None or isinstance(args, tuple) else (args,)
    return ModuleCall(parts[0], positional, dict(kwargs))


def verify_made(
    address: str, model: str | Path, options: VerificationOptions
) -> VerificationReport:
    """Compare a model with the module that a function returns; see `call_of` and `verify`.

    Without arguments, the module gets random values for the inputs of the model: by name where the
    names are those of its parameters, else in order.
    """
    call = call_of(address)
    if call.args is not None or call.kwargs:
        return verify(call.module, model, call.args or (), call.kwargs, options)
    args, kwargs = _drawn(call.module, model, options)
    return verify(call.module, model, args, kwargs, options)


def _drawn(
    module: Any, model: str | Path, options: VerificationOptions
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Random values for the inputs of a model, as arguments of a module."""
    path, checks = located(Source(model), options)
    run = run_reference(path, checks).runs[0]
    values = {name: torch_tensor(np.asarray(value)) for name, value in run.feeds.items()}
    if values.keys() <= inspect.signature(module.forward).parameters.keys():
        return (), values
    return tuple(values.values()), {}
