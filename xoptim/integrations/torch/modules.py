"""The first submodule of a torch module whose results an exported model does not compute."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import onnx

from xoptim.diagnose.each import with_outputs
from xoptim.facts.lazy import lazy_module
from xoptim.facts.protos import inner_graphs
from xoptim.integrations.torch.values import array_of, tensors_of
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.judging.compare import compare_values
from xoptim.verification.options import ComparisonRules
from xoptim.verification.runs.protos import Located
from xoptim.verification.runs.session import Session, Value

if TYPE_CHECKING:
    import torch
    from torch import nn
else:
    torch = lazy_module("torch")

_SCOPES: Final = "pkg.torch.onnx.name_scopes"
"""The metadata key of a node that lists the modules around it, outermost first."""
_CLOSE: Final[Mapping[str, float]] = {"float64": 1e-9, "float32": 1e-4}
"""Tolerance of interior results by type, relative to the largest number."""
_CLOSE_NARROW: Final = 0.05


class _Call(NamedTuple):
    """A submodule, and the tensors that it returned when it was first called."""

    name: str
    kind: str
    results: list[np.ndarray]


def export_of(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Located:
    """The export of a module for the sizes of some arguments."""
    program: Any = torch.onnx.export(
        module, args, kwargs=dict(kwargs), dynamo=True, verbose=False, optimize=False
    )
    return Located(program.model_proto, None)


def first_difference(
    module: nn.Module,
    exported: Located,
    arguments: tuple[tuple[Any, ...], Mapping[str, Any]],
    feeds: Mapping[str, Value],
) -> str:
    """The first submodule with a result that none of its exported nodes computes, as the end of a
    sentence; ``""`` when there is none.

    Submodules are in the order in which they return, so the innermost one comes first.
    """
    crossing = _crossing(exported.proto)
    names = list(dict.fromkeys(name for results in crossing.values() for name in results))
    try:
        session = Session(with_outputs(exported.proto, names), base_dir=exported.base_dir)
        computed = dict(zip(names, session.run(feeds), strict=True))
    except (LoadError, RunError):
        return ""
    for part in _calls_in(module, *arguments):
        candidates = [computed[name] for name in crossing.get(part.name, ())]
        if any(_differs(result, candidates) for result in part.results):
            return f", first in the module {part.name!r} ({part.kind})"
    return ""


def _crossing(model: onnx.ModelProto) -> dict[str, list[str]]:
    """The results of the nodes of each submodule that are read outside of it."""
    scopes = {name: _scopes_of(node) for node in model.graph.node for name in node.output if name}
    readers: dict[str, list[frozenset[str]]] = {
        value.name: [frozenset()] for value in model.graph.output
    }
    for node in model.graph.node:
        parts = _scopes_of(node)
        inner = [
            name for graph in inner_graphs([node]) for reader in graph.node for name in reader.input
        ]
        for name in (*node.input, *inner):
            readers.setdefault(name, []).append(parts)
    results: dict[str, list[str]] = {}
    for name, parts in scopes.items():
        for part in parts:
            if any(part not in scope for scope in readers.get(name, ())):
                results.setdefault(part, []).append(name)
    return results


def _scopes_of(node: onnx.NodeProto) -> frozenset[str]:
    """The names of the submodules that a node belongs to."""
    text = next((p.value for p in node.metadata_props if p.key == _SCOPES), "[]")
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return frozenset()
    if not isinstance(names, list):
        return frozenset()
    return frozenset(name for name in names[:-1] if name and isinstance(name, str))


def _calls_in(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[_Call]:
    """The calls of the submodules of a module, in the order in which they return."""
    calls: dict[str, _Call] = {}
    handles = []
    for name, part in module.named_modules():

        def keep(part: Any, _: Any, returned: Any, name: str = name) -> None:
            results = [array_of(tensor) for _, tensor in tensors_of(returned)]
            calls.setdefault(name, _Call(name, type(part).__name__, results))

        handles.append(part.register_forward_hook(keep))
    try:
        with torch.no_grad():
            module(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return [part for part in calls.values() if part.name]


def _differs(result: np.ndarray, candidates: list[Value]) -> bool:
    """Whether there are candidates of the same type and shape, and none equals the result.

    Without such candidates, the exporter may have written the result in another form.
    """
    arrays = [
        value
        for value in candidates
        if isinstance(value, np.ndarray)
        and value.shape == result.shape
        and value.dtype == result.dtype
    ]
    rtol = _CLOSE.get(result.dtype.name, _CLOSE_NARROW)
    rules = ComparisonRules(rtol=rtol, atol=0.0, of_largest=True)
    return bool(arrays) and not any(compare_values("", result, a, rules)[0].ok for a in arrays)
