"""Merge equal nodes, equal constants, and integer results that are proved equal through shapes."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from xoptim.facts.info import Info
from xoptim.facts.schema import is_commutative, is_deterministic
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.redirect import can_redirect, can_rename, redirect
from xoptim.graph.tensors import Tensor

_SAMPLE = 64


def merge_initializers(graph: Graph) -> int:
    """Keep one of several initializers with the same type, shape and bits; external ones are compared by their place."""
    count = 0
    groups: dict[object, list[str]] = {}
    for name, tensor in graph.initializers.items():
        if name not in graph.overridable:
            groups.setdefault((tensor.dtype, tensor.shape), []).append(name)
    for alike in [names for names in groups.values() if len(names) > 1]:
        samples: dict[object, list[str]] = {}
        for name in alike:
            samples.setdefault(_sample(graph.initializers[name]), []).append(name)
        count += sum(_merge_equal(graph, names) for names in samples.values() if len(names) > 1)
    return count


def _sample(tensor: Tensor) -> object:
    """Some of the bytes: the digest of all bytes is computed only for tensors with equal samples."""
    if tensor.is_external or tensor.dtype == TensorProto.STRING or tensor.nbytes <= 2 * _SAMPLE:
        return None
    raw = tensor.to_raw()
    middle = len(raw) // 2
    return raw[:_SAMPLE], raw[middle : middle + _SAMPLE], raw[-_SAMPLE:]


def _merge_equal(graph: Graph, names: list[str]) -> int:
    count = 0
    first: dict[object, str] = {}
    for name in names:
        kept = first.setdefault(graph.initializers[name].key(), name)
        if kept != name and not graph.is_output(name) and can_rename(graph, name, kept):
            graph.rename(name, kept)
            graph.remove_initializer(name)
            count += 1
    return count


def merge_nodes(graph: Graph) -> int:
    """Eliminate common subexpressions in one sweep: keep the first of several equal nodes.

    Operands of commutative operators may stand in either order. Integer results whose elements are known to be equal
    expressions of the model's dimensions are equal, whichever operators compute them. Where both nodes give an output of the
    graph, the second one becomes a copy of the first, and what reads it reads the first.
    """
    seen: dict[object, list[Node]] = {}
    values: dict[object, str] = {}
    functions = {f.key[:2] for f in graph.model.functions}
    former: dict[str, str] = {}
    """For outputs of the graph that an earlier node produces now: the name of the same result in ``seen``."""
    count = 0
    for node in graph.nodes:
        if node.bodies or not node.input or not is_deterministic(node.op_type, node.domain):
            continue
        if functions and (node.domain, node.op_type) in functions:
            continue  # its body may not be deterministic
        info = graph.known(node.output[0]) if len(node.output) == 1 else None
        if info is not None and info.data is not None and _merge_value(graph, node, info, values, former):
            count += 1
            continue
        inputs: tuple[str, ...] = node.input
        if former:
            inputs = tuple(former.get(name, name) for name in inputs)
        if len(inputs) == 2 and inputs[0] > inputs[1] and is_commutative(node.op_type, node.domain):
            inputs = (inputs[1], inputs[0])
        key = (node.op_type, node.domain, inputs)
        candidates = seen.get(key)
        if candidates is None:
            seen[key] = [node]
            continue
        twin = next((c for c in candidates if c.same_attributes(node) and len(c.output) >= len(node.output)), None)
        names = twin.output if twin is not None else ()
        if twin is not None and _absorb(graph, node, twin):
            pairs = zip(node.output, names, strict=False)
            former.update((old, former.get(new, new)) for old, new in pairs if graph.is_output(old))
            count += 1
        elif twin is not None and _copy(graph, node, twin):
            count += 1
        else:
            candidates.append(node)
    return count


def _merge_value(graph: Graph, node: Node, info: Info, values: dict[object, str], former: dict[str, str]) -> bool:
    """Replace the result of a node, whose elements are known, by an earlier result with the same elements."""
    if info.shape is None:
        return False
    key: Any = (info.dtype, len(info.shape), info.data)
    kept = values.setdefault(key, node.output[0])
    if kept == node.output[0] or not graph.defines(kept):
        values[key] = node.output[0]
        return False
    if not _redirect(graph, node, ((node.output[0], kept),)):
        return False
    if not graph.defines(kept):
        values[key] = node.output[0]
        former[node.output[0]] = former.get(kept, kept)
    return True


def _absorb(graph: Graph, node: Node, twin: Node) -> bool:
    pairs = [(old, new) for old, new in zip(node.output, twin.output, strict=False) if old]
    if any(not new for old, new in pairs if graph.is_needed(old)):
        return False
    return _redirect(graph, node, tuple((old, new) for old, new in pairs if new))


def _copy(graph: Graph, node: Node, twin: Node) -> bool:
    """Replace a node by one Identity, where one of its results is an output that an equal node gives under another name."""
    pairs = [(old, new) for old, new in zip(node.output, twin.output, strict=False) if old and graph.is_needed(old)]
    ends = [(old, new) for old, new in pairs if graph.is_output(old)]
    if node.op_type == "Identity" or len(ends) != 1 or not all(new and can_rename(graph, old, new) for old, new in pairs):
        return False
    ((old, new),) = ends
    info, place = graph.info_of(old), node.previous
    if not info.is_tensor:  # older versions of Identity take tensors only
        return False
    for former, name in pairs:
        graph.rename(former, name)
    graph.remove(node)
    copy = Node("Identity", [new], [old], name=node.name, doc_string=node.remark)
    copy.metadata = node.metadata_props()
    graph.insert(copy, place)
    graph.learn(old, info)
    graph.learn_constness(copy)
    return True


def _redirect(graph: Graph, node: Node, pairs: tuple[tuple[str, str], ...]) -> bool:
    """Redirect the readers of all results of a node, and remove the node."""
    if not all(can_redirect(graph, old, new) for old, new in pairs):
        return False
    for old, new in pairs:
        redirect(graph, old, new)
    if node.graph is graph:
        graph.remove(node)
    return True
