"""The first part of a torch module that an exported model does not compute."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import onnx

from xoptim.diagnose.each import with_outputs
from xoptim.facts.lazy import lazy_module
from xoptim.facts.protos import inner_graphs
from xoptim.integrations.torch_values import array_of, tensors_of
from xoptim.verification.compare import ComparisonRules, compare_values
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.protos import Located
from xoptim.verification.session import Session, Value

if TYPE_CHECKING:
    import torch
    from torch import nn
else:
    torch = lazy_module("torch")

_SCOPES: Final = "pkg.torch.onnx.name_scopes"
"""The key of the metadata of a node that lists the modules around it, outermost first."""
_CLOSE: Final[Mapping[str, float]] = {"float64": 1e-9, "float32": 1e-4}
"""By type, the part of the largest number by which results within a model may differ by
rounding.
"""
_CLOSE_NARROW: Final = 0.05


class _Called(NamedTuple):
    """A part of a module, and the tensors that it returned when it was first called."""

    name: str
    kind: str
    results: list[np.ndarray]


def export_of(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Located:
    """What torch exports of a module for the sizes of some arguments."""
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
    """The first part of a module whose result no result of the exported nodes of this part equals,
    as the end of a sentence; ``""`` when none is found.

    Parts are in the order in which they return, so that the innermost one comes first.
    """
    crossing = _crossing(exported.proto)
    names = list(dict.fromkeys(name for each in crossing.values() for name in each))
    try:
        session = Session(with_outputs(exported.proto, names), base_dir=exported.base_dir)
        computed = dict(zip(names, session.run(feeds), strict=True))
    except (LoadError, RunError):
        return ""
    for part in _called(module, *arguments):
        found = [computed[name] for name in crossing.get(part.name, ())]
        if any(_differs(result, found) for result in part.results):
            return f", first in the module {part.name!r} ({part.kind})"
    return ""


def _crossing(model: onnx.ModelProto) -> dict[str, list[str]]:
    """The results of the nodes of each part that something outside of the part reads."""
    scopes = {name: _scopes_of(node) for node in model.graph.node for name in node.output if name}
    readers: dict[str, list[frozenset[str]]] = {
        value.name: [frozenset()] for value in model.graph.output
    }
    for node in model.graph.node:
        own = _scopes_of(node)
        inner = [
            name for graph in inner_graphs([node]) for each in graph.node for name in each.input
        ]
        for name in (*node.input, *inner):
            readers.setdefault(name, []).append(own)
    found: dict[str, list[str]] = {}
    for name, own in scopes.items():
        for part in own:
            if any(part not in each for each in readers.get(name, ())):
                found.setdefault(part, []).append(name)
    return found


def _scopes_of(node: onnx.NodeProto) -> frozenset[str]:
    """The names of the parts of the module that a node belongs to."""
    text = next((each.value for each in node.metadata_props if each.key == _SCOPES), "[]")
    try:
        return frozenset(filter(None, ast.literal_eval(text)[:-1]))
    except (ValueError, SyntaxError):
        return frozenset()


def _called(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[_Called]:
    """The parts of a module in the order in which they return."""
    found: dict[str, _Called] = {}
    handles = []
    for name, part in module.named_modules():

        def keep(part: Any, _: Any, returned: Any, name: str = name) -> None:
            results = [array_of(tensor) for _, tensor in tensors_of(returned)]
            found.setdefault(name, _Called(name, type(part).__name__, results))

        handles.append(part.register_forward_hook(keep))
    try:
        with torch.no_grad():
            module(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return [part for part in found.values() if part.name]


def _differs(result: np.ndarray, candidates: list[Value]) -> bool:
    """Whether none of the results of the same type and shape equals this one.

    Where there is no such result, the exporter may have written it in another form.
    """
    alike = [
        each
        for each in candidates
        if isinstance(each, np.ndarray)
        and each.shape == result.shape
        and each.dtype == result.dtype
    ]
    close = _CLOSE.get(result.dtype.name, _CLOSE_NARROW)
    rules = ComparisonRules(rtol=close, atol=0.0, of_largest=True)
    return bool(alike) and not any(compare_values("", result, each, rules)[0].ok for each in alike)
