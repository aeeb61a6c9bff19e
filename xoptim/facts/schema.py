"""Facts about operator sets: defaults, domains, versions."""

from functools import cache
from typing import Any

import onnx

from xoptim.facts.attributes import decode_attribute

_INDEPENDENT_RESULTS = frozenset(("Dropout", "GRU", "LSTM", "LayerNormalization", "RNN"))
"""Standard operators whose other results do not change when an optional one is omitted.

With other operators, the number of results matters: in training mode, with a KV cache, or because
onnxruntime has separate kernels.
"""

KNOWN_DOMAINS = frozenset(("", "ai.onnx.ml", "com.microsoft"))
"""Domains whose operators are known: an operator of another domain may be random or keep a
state.
"""

DOMAIN_VERSIONS = {"com.microsoft": 1, "ai.onnx.ml": 3}
"""The version that a rewrite imports by domain, 1 for other domains; see `version_to_import`."""

GRAPH_OPERATORS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
"""Standard operators that have subgraphs."""


def may_own_graphs(domain: str, op_type: str) -> bool:
    """Whether nodes of an operator may have subgraphs; any operator of another domain may."""
    return bool(domain) or op_type in GRAPH_OPERATORS


@cache
def version_to_import(domain: str, ir_version: int) -> int:
    """The version of an operator set that a rewrite imports into a model of this IR version.

    For the standard domain: the newest operator set of ONNX releases up to this IR version, which
    runtimes for such models know.
    """
    if domain:
        return DOMAIN_VERSIONS.get(domain, 1)
    return max((row[2] for row in onnx.helper.VERSION_TABLE if row[1] <= ir_version), default=1)


@cache
def schema(op_type: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    """The schema in force for an operator, ``None`` when the ``onnx`` package does not define
    it.
    """
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


@cache
def since_version(op_type: str, domain: str, opset: int) -> int | None:
    """Operator set in which the version in force was introduced; ``None`` without a schema."""
    definition = schema(op_type, domain, opset)
    return None if definition is None else definition.since_version


@cache
def attribute_defaults(op_type: str, domain: str, opset: int) -> dict[str, Any]:
    """Defaults written in the schema, by attribute name. Do not modify the result."""
    definition = schema(op_type, domain, opset)
    if definition is None:
        return {}
    defaults = (
        (name, attribute.default_value) for name, attribute in definition.attributes.items()
    )
    return {name: decode_attribute(default) for name, default in defaults if default.name}


@cache
def attribute_names(op_type: str, domain: str, opset: int) -> frozenset[str] | None:
    """Attributes of the schema, ``None`` for an unknown operator."""
    definition = schema(op_type, domain, opset)
    return None if definition is None else frozenset(definition.attributes)


@cache
def float_attributes(op_type: str, domain: str, opset: int) -> frozenset[str]:
    """Attributes that hold one floating-point number, or a list of them."""
    definition = schema(op_type, domain, opset)
    kinds = onnx.defs.OpSchema.AttrType.FLOAT, onnx.defs.OpSchema.AttrType.FLOATS
    return (
        frozenset()
        if definition is None
        else frozenset(n for n, a in definition.attributes.items() if a.type in kinds)
    )


@cache
def has_variadic_results(op_type: str, domain: str) -> bool:
    """Whether nodes of an operator, such as Split, may have any number of results.

    That number then decides what each result is.
    """
    definition = schema(op_type, domain, onnx.defs.onnx_opset_version()) if not domain else None
    last = definition.outputs[-1] if definition is not None and definition.outputs else None
    return last is not None and last.option == onnx.defs.OpSchema.FormalParameterOption.Variadic


@cache
def optional_results(op_type: str, domain: str, opset: int) -> tuple[int, ...]:
    """Indices of the results that a node may omit without changing its other results."""
    definition = schema(op_type, domain, opset)
    if definition is None or domain or op_type not in _INDEPENDENT_RESULTS:
        return ()
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    return tuple(
        place for place, formal in enumerate(definition.outputs) if formal.option == optional
    )


SCHEMA_CACHES = (schema, since_version, attribute_defaults, attribute_names, float_attributes)
"""Functions whose answers change when a schema is added."""

_ONES_BY_DEFAULT = frozenset(("strides", "dilations"))
WINDOWED = frozenset(
    (
        "Conv",
        "ConvTranspose",
        "ConvInteger",
        "QLinearConv",
        "FusedConv",
        "NhwcConv",
        "DeformConv",
        "MaxPool",
        "AveragePool",
        "LpPool",
        "MaxUnpool",
    )
)
"""Operators that move a window over an image."""


def attribute_default(
    op_type: str,
    domain: str,
    opset: int,
    name: str,
    rank: int | None = None,
    kernel: list[int] | None = None,
) -> Any:
    """Value that an absent attribute has, defaults that depend on the rank included.

    ``None`` when there is none, or when it is unknown.

    ``rank`` is the rank of the first input, when known; otherwise ``kernel``, the value of
    ``kernel_shape``, determines the number of spatial axes.
    """
    value = attribute_defaults(op_type, domain, opset).get(name)
    if value is not None or domain:
        return value
    if op_type == "Transpose" and name == "perm":
        return None if rank is None else list(range(rank))[::-1]
    if op_type in WINDOWED:
        spatial = rank - 2 if rank is not None else len(kernel) if kernel else None
        if spatial is not None and name in _ONES_BY_DEFAULT:
            return [1] * spatial
        if spatial is not None and name == "pads":
            return [0] * (2 * spatial)
    return None
