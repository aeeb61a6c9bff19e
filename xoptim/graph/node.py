"""One node of a graph: a small object that reads like a ``NodeProto``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import onnx

from xoptim.facts.attributes import decode_attributes, encode_attribute, same_attribute
from xoptim.facts.protos import standard_domain
from xoptim.facts.schema import attribute_default

if TYPE_CHECKING:
    from xoptim.graph.graph import Graph

LOCAL = " (local)"
"""Suffix of the domain of a node that calls a local function with the name of an operator.

The suffix is not exported.
"""
_NO_BODIES: Mapping[str, Graph] = MappingProxyType({})
_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


class Node:
    """A node of a graph: one call of an operator.

    ``input`` and ``output`` are tuples of result names (``""`` for an optional one that is
    omitted). They change only through the methods of `Graph`. Attributes are decoded on first use.
    ``attribute`` may be the protobuf that the node comes from; an unchanged node is exported as
    this protobuf. ``overload`` is part of the key of the local function that the node calls.
    """

    __slots__ = (
        "_attribute",
        "_proto",
        "bodies",
        "doc_string",
        "domain",
        "graph",
        "input",
        "label",
        "metadata",
        "name",
        "next",
        "op_type",
        "output",
        "overload",
        "previous",
    )

    def __init__(
        self,
        op_type: str,
        input: Iterable[str],
        output: Iterable[str],
        attribute: Mapping[str, Any] | onnx.NodeProto | None = None,
        *,
        domain: str = "",
        name: str = "",
        overload: str = "",
        doc_string: str = "",
    ) -> None:
        self.op_type = op_type
        self.domain = standard_domain(domain)
        self.overload = overload
        self.name = name
        self.input = tuple(input)
        self.output = tuple(output)
        self.bodies = _NO_BODIES
        self.graph: Graph | None = None
        self.metadata: dict[str, str] | None = None
        self.doc_string = doc_string
        self.label = 0  # grows in the order of the graph: see `OrderedNodes`
        self.previous: Node | None = None
        self.next: Node | None = None
        self._proto = attribute if isinstance(attribute, onnx.NodeProto) else None
        self._attribute: Mapping[str, Any] | None = None
        if not isinstance(attribute, onnx.NodeProto):
            self._attribute = MappingProxyType(dict(attribute)) if attribute else _NO_ATTRIBUTES

    @classmethod
    def from_proto(cls, proto: onnx.NodeProto) -> Node:
        """Wrap a node of a protobuf, which is kept by reference and never modified."""
        # Each name is one object: table lookups then compare addresses, and half of the memory is
        # saved.
        return cls(
            intern(proto.op_type),
            map(intern, proto.input),
            map(intern, proto.output),
            proto,
            domain=intern(proto.domain),
            name=proto.name,
            overload=intern(proto.overload),
        )

    @property
    def attribute(self) -> Mapping[str, Any]:
        """Attributes written on the node, by name; do not modify them.

        Subgraphs are in `bodies`.
        """
        attributes = self._attribute
        if attributes is None:
            assert self._proto is not None
            attributes = self._attribute = MappingProxyType(decode_attributes(self._proto))
        return attributes

    @property
    def opset(self) -> int:
        """Version of the operator set of this node's domain, 0 when the model does not import
        it.
        """
        return 0 if self.graph is None else self.graph.opsets.get(self.domain, 0)

    def get_attribute(self, name: str, default: Any = None) -> Any:
        """Value of an attribute: as written, else the schema's default (rank-dependent defaults
        included), else ``default``.
        """
        value = self.attribute.get(name)
        if value is None:
            graph = self.graph
            rank = (
                graph.info_of(self.input[0]).rank
                if graph is not None and self.input and self.input[0]
                else None
            )
            value = attribute_default(
                self.op_type,
                self.domain,
                self.opset,
                name,
                rank,
                self.attribute.get("kernel_shape"),
            )
        return default if value is None else value

    def same_attributes(self, other: Node) -> bool:
        """Whether both nodes have the same written attributes (not their defaults)."""
        a, b = self.attribute, other.attribute
        return a.keys() == b.keys() and all(
            same_attribute(value, b[key]) for key, value in a.items()
        )

    @property
    def untouched_proto(self) -> onnx.NodeProto | None:
        """The protobuf that this node came from, as loaded; ``None`` for a new node.

        The node may have other inputs, outputs and subgraphs by now.
        """
        return self._proto

    @property
    def is_unchanged(self) -> bool:
        """Whether the node, its subgraphs excepted, is what the protobuf it came from says."""
        proto = self._proto
        if proto is None or self.metadata or self.name != proto.name:
            return False
        return self.input == tuple(proto.input) and self.output == tuple(proto.output)

    def metadata_props(self) -> dict[str, str]:
        """Metadata of the node and of the protobuf it came from."""
        props = (
            {p.key: p.value for p in self._proto.metadata_props} if self._proto is not None else {}
        )
        return {**props, **(self.metadata or {})}

    @property
    def remark(self) -> str:
        """The ``doc_string`` of the node, else of the protobuf it came from."""
        return self.doc_string or ("" if self._proto is None else self._proto.doc_string)

    def to_proto(self) -> onnx.NodeProto:
        """A protobuf of this node without its subgraphs."""
        if self._proto is not None:
            proto = deepcopy(self._proto)
            if self.name != proto.name:
                proto.name = self.name
            if self.input != tuple(proto.input):
                proto.input[:] = self.input
            if self.output != tuple(proto.output):
                proto.output[:] = self.output
        else:
            proto = onnx.NodeProto(
                op_type=self.op_type,
                domain=self.domain.removesuffix(LOCAL),
                name=self.name,
                input=self.input,
                output=self.output,
            )
            for name, value in self.attribute.items():
                proto.attribute.append(encode_attribute(name, value))
            if self.overload:
                proto.overload = self.overload
            if self.doc_string:
                proto.doc_string = self.doc_string
        if self.metadata:
            onnx.helper.set_metadata_props(proto, self.metadata_props())
        return proto

    def __repr__(self) -> str:
        domain = f"{self.domain}::" if self.domain else ""
        return (
            f"{', '.join(map(str, self.output))} = "
            f"{domain}{self.op_type}({', '.join(map(str, self.input))})"
        )
