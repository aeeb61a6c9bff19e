"""One text for all models that differ only in names, order of independent nodes, form of constants
and metadata.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper

from xoptim.doc import pretty_onnx
from xoptim.facts.attributes import (
    AttributeReference,
    constant_value,
    decode_attribute,
    same_attribute,
)
from xoptim.facts.dtypes import element_type, type_name
from xoptim.facts.protos import (
    UNLISTED_SINCE,
    is_external,
    opset_versions,
    proto_reads,
    standard_domain,
)
from xoptim.facts.schema import attribute_default

_MAX_ELEMENTS = 16
"""Number of elements up to which a constant is written out; of larger ones, a digest is written."""


def canonical(model: onnx.ModelProto) -> str:
    """Text that is equal for two models exactly when they compute the same by the same operators.

    Results are numbered in the order in which the outputs need them, constants are written where
    they are read, and attributes at their schema default are omitted. The text depends on
    operators, operands in order, attributes, constants, versions of the operator sets used, names
    and types of inputs and outputs. It does not depend on names of results, initializers and nodes,
    the order of independent nodes, whether a constant is an initializer or a node, ``value_info``,
    metadata. Nodes that no output needs come last, in their order.
    """
    opsets = opset_versions(model.opset_import)
    scope = _Scope(
        model.graph,
        opsets,
        None if model.ir_version >= UNLISTED_SINCE else {t.name for t in model.graph.initializer},
    )
    lines = scope.render(model.graph.output, named=True)
    domains = {standard_domain(n.domain) for g in scope.nodes_seen for n in g}
    for function in sorted(model.functions, key=lambda f: (f.domain, f.name, f.overload)):
        lines += _function(function)
    imports = ", ".join(
        f"{domain or 'ai.onnx'} {opsets.get(domain, 0)}" for domain in sorted(domains | {""})
    )
    return "\n".join((f"opset: {imports}", *lines))


def _function(function: onnx.FunctionProto) -> list[str]:
    opsets = opset_versions(function.opset_import)
    inputs = [onnx.ValueInfoProto(name=name) for name in function.input]
    outputs = [onnx.ValueInfoProto(name=name) for name in function.output]
    scope = _Scope(onnx.GraphProto(node=function.node, input=inputs), opsets)
    defaults = [
        f"{a.name}={_attribute_text(decode_attribute(a))}" for a in function.attribute_proto
    ]
    attributes = ", ".join((*function.attribute, *defaults))
    head = (
        f"function {function.domain}.{function.name}{function.overload}({attributes}) opset "
        f"{sorted(opsets.items())}"
    )
    return [head, *(f"  {line}" for line in scope.render(outputs, named=True))]


class _Scope:
    """A graph while it is written: the text for each result so far, and the nodes of this and inner
    graphs.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        opsets: Mapping[str, int],
        constant_inputs: set[str] | None = None,
        parent: _Scope | None = None,
    ) -> None:
        self.graph = graph
        self.opsets = opsets
        self.parent = parent
        self.lines: list[str] = []
        self.nodes_seen: list[Sequence[NodeProto]] = parent.nodes_seen if parent is not None else []
        self.nodes_seen.append(graph.node)
        self.count: int = 0
        self.level: str = "" if parent is None else f"{parent.level}{parent.count}."
        self.inputs = [v for v in graph.input if v.name not in (constant_inputs or ())]
        stored = {t.name: _tensor_text(t) for t in graph.initializer}
        self.known: dict[str, str] = {"": "_", **stored}
        self.producers: dict[str, NodeProto] = {}
        self.emitted: set[int] = set()
        for position, value in enumerate(self.inputs):
            name = value.name if parent is None else f"in{self.level}{position}"
            default = stored.get(value.name)
            self.lines.append(f"{_declaration(value, name)}{f' = {default}' if default else ''}")
            self.known[value.name] = name
        # Kept alive, because a node is identified by its wrapper.
        self._nodes = list(graph.node)
        for node in self._nodes:
            constant = _constant_text(node)
            if constant is not None:
                self.known[node.output[0]] = constant
                self.emitted.add(id(node))
            else:
                self.producers.update((name, node) for name in node.output if name)

    def render(self, outputs: Iterable[onnx.ValueInfoProto], *, named: bool) -> list[str]:
        """All lines: inputs, nodes, outputs, and nodes that no output needs."""
        results = []
        for value in outputs:
            self.require(value.name)
            text = (
                _declaration(value, value.name).replace("input:", "output:", 1)
                if named
                else "output:"
            )
            results.append(f"{text} = {self.text(value.name)}")
        for node in self._nodes:
            for name in node.output if id(node) not in self.emitted else ():
                self.require(name)
        return self.lines + results

    def text(self, name: str) -> str:
        """The text of a result that `require` has written."""
        if name in self.known:
            return self.known[name]
        return self.parent.text(name) if self.parent is not None else f"?{name}"

    def require(self, name: str) -> None:
        """Write the nodes that a result needs, the first operand's first: here, or in the enclosing
        graph that computes it.
        """
        if name in self.known:
            return
        if name not in self.producers:
            if self.parent is not None:
                self.parent.require(name)
            return
        pending = [self.producers[name]]
        while pending:
            node = pending[-1]
            operand = next(
                (r for r in proto_reads(node) if r not in self.known and r in self.producers), None
            )
            if operand is not None:
                pending.append(self.producers[operand])
                continue
            pending.pop()
            if id(node) not in self.emitted:
                self._emit(node)

    def _emit(self, node: NodeProto) -> None:
        self.emitted.add(id(node))
        for name in proto_reads(node):
            self.require(name)  # of an enclosing graph
        outputs = []
        for name in node.output:
            if name:
                self.known[name] = f"%{self.level}{self.count}"
                self.count += 1
            outputs.append(self.known.get(name, "_"))
        operands = [self.text(name) for name in node.input]
        while operands and operands[-1] == "_":
            operands.pop()
        domain = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
        attributes = "".join(f" {text}" for text in self._attributes(node))
        self.lines.append(
            f"{', '.join(outputs)} = {domain}{node.op_type}({', '.join(operands)}){attributes}"
        )
        for attribute in sorted(node.attribute, key=lambda a: a.name):
            for body in (
                [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            ):
                lines = _Scope(body, self.opsets, None, self).render(body.output, named=False)
                self.lines += [f"  {attribute.name}:", *(f"    {line}" for line in lines)]
                self.count += 1  # the next subgraph numbers its results differently

    def _attributes(self, node: NodeProto) -> Iterator[str]:
        for attribute in sorted(node.attribute, key=lambda a: a.name):
            if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                continue
            value = decode_attribute(attribute)
            if not is_default(node, attribute.name, value, self.opsets):
                yield f"{attribute.name}={_attribute_text(value)}"


def is_default(node: NodeProto, name: str, value: Any, opsets: Mapping[str, int]) -> bool:
    """Whether an attribute has its default.

    Where the default depends on the rank or the kernel, the length of the value determines them.
    """
    domain = standard_domain(node.domain)
    rank = kernel = None
    if isinstance(value, list):
        kernel = [1] * (len(value) // 2 if name == "pads" else len(value))
        rank = len(value) if node.op_type == "Transpose" else len(kernel) + 2
    default = attribute_default(node.op_type, domain, opsets.get(domain, 0), name, rank, kernel)
    return default is not None and same_attribute(value, default)


def _constant_text(node: NodeProto) -> str | None:
    """The value of a Constant node as text, ``None`` for any other node (and for a sparse or
    referenced value).
    """
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    value = constant_value({node.attribute[0].name: decode_attribute(node.attribute[0])})
    if value is None or isinstance(value, TensorProto):
        return None if value is None else _tensor_text(value)
    return _array_text(value, element_type(value.dtype))


def _tensor_text(tensor: TensorProto) -> str:
    if is_external(tensor):
        place = {e.key: e.value for e in tensor.external_data}
        return f"{type_name(tensor.data_type)}{list(tensor.dims)}{place}"
    return _array_text(numpy_helper.to_array(tensor), tensor.data_type)


def _array_text(array: np.ndarray, element: int) -> str:
    head = f"{type_name(element)}{list(array.shape)}"
    if array.dtype.kind in "OSU":
        values = [
            v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in array.ravel()
        ]
        return f"{head}{values}"
    if array.size > _MAX_ELEMENTS:
        data = np.ascontiguousarray(array).tobytes()
        return f"{head}#{hashlib.blake2b(data, digest_size=8).hexdigest()}"
    return f"{head}{{{', '.join(map(str, array.ravel().tolist()))}}}"


def _attribute_text(value: Any) -> str:
    if isinstance(value, AttributeReference):
        return f"@{value.name}"
    if isinstance(value, TensorProto):
        return _tensor_text(value)
    if isinstance(value, float):
        return repr(float(np.float32(value)))
    if isinstance(value, list):
        return f"[{', '.join(map(_attribute_text, value))}]"
    if hasattr(value, "SerializeToString"):
        return f"{type(value).__name__}({' '.join(str(value).split())})"
    return repr(value)


def _declaration(value: onnx.ValueInfoProto, name: str) -> str:
    return pretty_onnx(onnx.GraphProto(input=[onnx.ValueInfoProto(name=name, type=value.type)]))
