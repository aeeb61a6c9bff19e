"""Whether a call of an operator is valid in an operator set, and which execution providers of
onnxruntime have a kernel for it.
"""

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple, TypeAlias

import onnx
from onnx import AttributeProto, TensorProto

from xoptim.facts.attributes import MOVED, is_of_kind
from xoptim.facts.dtypes import ELEMENT_TYPES, type_name
from xoptim.facts.lazy import lazy_module
from xoptim.facts.protos import standard_domain
from xoptim.facts.schema import DOMAIN_VERSIONS, KNOWN_DOMAINS, SCHEMA_CACHES, schema, since_version
from xoptim.facts.words import abridged, meant, shortened

_onnxruntime = lazy_module("onnxruntime.capi.onnxruntime_pybind11_state")

_NO_END: Final = 2**31 - 1
_BUILT_IN: Final = frozenset(
    f"{name}ExecutionProvider" for name in ("CPU", "Azure", "CoreML", "Xnnpack")
)
"""Providers that belong to onnxruntime's own library."""
_Key: TypeAlias = tuple[str, str, str]
_SLOWER: Final = frozenset({("cpu", "AveragePool", 19)})
"""Versions of operators that a provider runs by a slower kernel than the version before.

Measured with onnxruntime 1.31, one thread: AveragePool of 64 channels of 28 by 28 takes 0.17 ms in
operator set 18, 1.5 ms in sets 19 to 21, and 0.8 ms from set 22 on.
"""


def slows_down(provider: str, op_type: str, opset: int) -> bool:
    """Whether a provider is known to run a standard operator more slowly than in the operator set
    before.
    """
    return (short_name(provider), op_type, opset) in _SLOWER


def short_name(provider: str) -> str:
    """The short name of a provider, such as ``cuda`` for ``CUDAExecutionProvider``."""
    return provider.lower().removesuffix("executionprovider")


class _Kernel(NamedTuple):
    """A range of operator set versions, and the element types it serves (``None``: all that the
    schema allows).
    """

    first: int
    last: int
    types: frozenset[int] | None


def has_kernel(provider: str, domain: str, op_type: str, dtype: int, opset: int) -> bool | None:
    """Whether an execution provider has a kernel of its own for an operator.

    An operator without one may still run: functions are expanded, and 16-bit floats are cast to 32
    bits on the CPU. Returns ``None`` when the provider, the operator, or the type is unknown.

    ``provider`` is a short name (``cpu``, ``cuda``, in any case) or a full one
    (``CUDAExecutionProvider``). ``dtype`` is the main element type of the operator: of the
    parameter ``T``, ``T1`` or ``V``, the first that exists; 0 when unknown.
    """
    name = short_name(provider)
    domain = standard_domain(domain)
    installed = _installed()
    kernels: tuple[_Kernel, ...] | None = None
    if name in _providers():
        kernels = installed.get((name, domain, op_type), ())
    elif name == "cuda":
        kernels = _documented("cuda").get((domain, op_type))
    if kernels is None:
        return None
    since = since_version(op_type, domain, opset) or 1
    candidates = [kernel for kernel in kernels if _serves(kernel, since)]
    if not candidates:
        return False
    if any(kernel.types is None or dtype in kernel.types for kernel in candidates):
        return True
    return False if dtype else None  # a kernel exists, but an unknown type may be unsupported


def lacks_identity_kernel(dtype: int, opset: int) -> bool:
    """Whether onnxruntime cannot load an Identity of an element type, such as int4."""
    return has_kernel("cpu", "", "Identity", dtype, opset) is False


def _serves(kernel: _Kernel, since: int) -> bool:
    """Whether a kernel is chosen for a schema version: a range without an end serves only the
    version that it starts with.

    (Later versions may differ; onnxruntime ends a range when it adds kernels for the next version.)
    """
    return kernel.first == since or (kernel.first < since <= kernel.last and kernel.last != _NO_END)


@cache
def _installed() -> dict[_Key, tuple[_Kernel, ...]]:
    """Kernels of the installed onnxruntime by provider, domain and operator; without its registry,
    the documented kernels of the CPU provider.

    The registry instantiates all providers: a provider whose library is missing, often TensorRT,
    crashes the process.
    """
    try:
        is_safe = _BUILT_IN.issuperset(_onnxruntime.get_available_providers())
        definitions = _onnxruntime.get_all_opkernel_def() if is_safe else ()
    except (ImportError, AttributeError):  # not installed, or a build without the registry
        definitions = ()
    if not definitions:
        return {
            ("cpu", domain, op_type): kernels
            for (domain, op_type), kernels in _documented("cpu").items()
        }
    # The registry names types as "tensor(float)".
    numbers = {f"tensor({entry.name})": number for number, entry in ELEMENT_TYPES.items()}
    kernels: dict[_Key, list[_Kernel]] = {}
    for definition in definitions:
        constraints: dict[str, list[str]] = definition.type_constraints
        main = next((name for name in ("T", "T1", "V") if name in constraints), None)
        types = (
            None
            if main is None
            else frozenset(numbers[t] for t in constraints[main] if t in numbers)
        )
        key = short_name(definition.provider), definition.domain, definition.op_name
        first, last = definition.version_range
        kernels.setdefault(key, []).append(_Kernel(first, last, types))
    return {key: tuple(kernels) for key, kernels in kernels.items()}


def operators_served(provider: str) -> int:
    """The number of operators for which the installed onnxruntime has a kernel of a provider.

    0 when that is not known.
    """
    return len(
        {
            (domain, op_type)
            for name, domain, op_type in _installed()
            if short_name(name) == short_name(provider)
        }
    )


@cache
def _providers() -> frozenset[str]:
    return frozenset(provider for provider, _, _ in _installed())


LETTERS: Final = {
    "float": "f", "double": "d", "float16": "h", "bfloat16": "b", "bool": "o", "string": "t",
    "int2": "y", "int4": "x", "int8": "c", "int16": "s", "int32": "i", "int64": "l", "uint2": "Y",
    "uint4": "X", "uint8": "C", "uint16": "S", "uint32": "I", "uint64": "L", "float8e4m3fn": "n",
    "float8e4m3fnuz": "N", "float8e5m2": "g", "float8e5m2fnuz": "G", "float8e8m0": "e",
    "float4e2m1": "m",
}  # fmt: skip
"""Letters of element types in the tables of kernels."""


@cache
def _documented(provider: str) -> dict[tuple[str, str], tuple[_Kernel, ...]]:
    """Kernels of a provider by domain and operator, from its table."""
    numbers = {
        LETTERS[entry.name]: number
        for number, entry in ELEMENT_TYPES.items()
        if entry.name in LETTERS
    }
    tables = tomllib.loads(
        (resources.files("xoptim.facts") / f"{provider}_kernels.toml").read_text(encoding="utf-8")
    )
    return {
        (standard_domain(domain), op_type): tuple(_ranges(text, numbers))
        for domain, operators in tables.items()
        for op_type, text in operators.items()
    }


def _ranges(text: str, numbers: Mapping[str, int]) -> Iterator[_Kernel]:
    """Kernels written as ``first-last:types``, separated by blanks.

    ``*`` for all types that the schema allows.
    """
    for item in text.split():
        versions, letters = item.split(":")
        first, last = versions.split("-")
        yield _Kernel(
            int(first),
            int(last or _NO_END),
            None if letters == "*" else frozenset(map(numbers.__getitem__, letters)),
        )


_NEWEST: Final = 1 << 30
"""A version above all operator sets. A maximal number of operands of this or more is no limit."""


@cache
def _schemas_of_onnxruntime() -> dict[tuple[str, str], list[Any]]:
    """Schemas by domain and operator, older versions first."""
    try:
        entries = _onnxruntime.get_all_operator_schema()
    except (ImportError, AttributeError):  # not installed, or a build without the registry
        return {}
    schemas: dict[tuple[str, str], list[Any]] = {}
    for entry in sorted(entries, key=lambda entry: int(entry.since_version)):
        schemas.setdefault((entry.domain, entry.name), []).append(entry)
    return schemas


class _Signature(NamedTuple):
    """The part of a schema that constrains a call."""

    deprecated: bool
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    attributes: dict[str, int]
    required: tuple[str, ...]


def _any_schema(op_type: str, domain: str, opset: int) -> Any:
    """The schema in force in onnx or else in onnxruntime, ``None`` for an unknown operator.

    A few of onnxruntime's own operators are in the standard domain.
    """
    of_onnx = schema(op_type, domain, opset)
    if of_onnx is not None:
        return of_onnx
    for entry in reversed(_schemas_of_onnxruntime().get((domain, op_type), ())):
        if entry.since_version <= opset:
            return entry
    return None


@cache
def _signature(op_type: str, domain: str, opset: int) -> _Signature | None:
    """The signature in force, ``None`` for an unknown operator."""
    definition = _any_schema(op_type, domain, opset)
    if definition is None:
        return None
    attributes = definition.attributes
    return _Signature(
        definition.deprecated,
        (definition.min_input, definition.max_input),
        (definition.min_output, definition.max_output),
        {name: int(formal.type.value) for name, formal in attributes.items()},
        tuple(name for name, formal in attributes.items() if formal.required),
    )


_CUSTOM_DOMAINS: Final[set[str]] = set()
"""Other domains whose schemas were added."""


def _has_schemas(domain: str) -> bool:
    """Whether all operators of a domain have schemas: an operator without one does not exist."""
    return domain in KNOWN_DOMAINS or domain in _CUSTOM_DOMAINS


def add_schemas(definitions: Iterable[onnx.defs.OpSchema]) -> None:
    """Add schemas of custom operators, also to the ``onnx`` package."""
    for definition in definitions:
        onnx.defs.register_schema(definition)
        _CUSTOM_DOMAINS.add(definition.domain)
    for function in (*SCHEMA_CACHES, _signature, _operands, _versions, convertible_places):
        function.cache_clear()


def operator_label(op_type: str, domain: str) -> str:
    """An operator in texts: ``com.microsoft::Gelu``, or ``Relu`` in the standard domain."""
    return f"{domain}::{op_type}" if domain else op_type


def objection(
    op_type: str,
    domain: str,
    attributes: Mapping[str, Any],
    inputs: int,
    outputs: int,
    opsets: Mapping[str, int],
) -> str | None:
    """The reason why a call of an operator is invalid, ``None`` when it is valid, or when its
    domain is unknown.

    ``inputs`` and ``outputs`` are numbers of operands and results; omitted ones in the middle
    count.
    """
    label = operator_label(op_type, domain)
    attribute = next(
        (name for name, value in attributes.items() if not is_of_kind(value, None)), None
    )
    if attribute is not None:
        return (
            f"attribute {attribute!r} of {label} has a value for which ONNX has no type: "
            f"{attributes[attribute]!r:.60}"
        )
    if not _has_schemas(domain):
        return None
    opset = opsets.get(domain) or DOMAIN_VERSIONS.get(domain, 1)
    signature = _signature(op_type, domain, opset)
    if signature is None:
        if domain == "com.microsoft" and not _schemas_of_onnxruntime():
            return None
        names = _names(domain)
        hint = "" if op_type in names else meant(op_type, names)
        return (
            f"operator {shortened(label)} does not exist in version {opset} of the operator "
            f"set{hint}"
        )
    if signature.deprecated:
        return f"operator {label} is deprecated in version {opset} of the operator set"
    if not signature.inputs[0] <= inputs <= signature.inputs[1]:
        return f"{label} does not take {inputs} operands ({_range(*signature.inputs)})"
    if not signature.outputs[0] <= outputs <= signature.outputs[1]:
        return f"{label} does not give {outputs} results ({_range(*signature.outputs)})"
    return _objection_to_attributes(label, signature, attributes)


def _objection_to_attributes(
    label: str, signature: _Signature, attributes: Mapping[str, Any]
) -> str | None:
    for name, value in attributes.items():
        kind = signature.attributes.get(name)
        if kind is None:
            if name.startswith("__"):  # internal: onnx.checker ignores them
                continue
            return (
                f"{label} has no attribute {name!r} (it has: "
                f"{', '.join(sorted(signature.attributes)) or 'none'})"
            )
        if not is_of_kind(value, kind):
            wanted = AttributeProto.AttributeType.Name(kind).lower()
            return f"attribute {name!r} of {label} is of type {wanted}, not {value!r:.60}"
    missing = next((name for name in signature.required if name not in attributes), None)
    return None if missing is None else f"attribute {missing!r} of {label} is missing"


def objection_to_types(op_type: str, domain: str, opset: int, dtypes: Sequence[int]) -> str | None:
    """The reason why an operator with a schema in onnx does not take operands of these element
    types, ``None`` when it may.

    A type is 0 for an operand that is unknown, omitted or not a tensor.
    """
    bindings: dict[str, int] = {}
    for dtype, formal in zip(dtypes, _operands(op_type, domain, opset, len(dtypes)), strict=False):
        if not dtype:
            continue
        if formal.types and dtype not in formal.types:
            return f"{op_type} takes no operand of type {TensorProto.DataType.Name(dtype).lower()}"
        if formal.parameter and bindings.setdefault(formal.parameter, dtype) != dtype:
            return f"{op_type} takes no operands of different types"
    return None


@cache
def constant_types(opset: int) -> frozenset[int]:
    """The element types that a Constant may have: before operator set 9, floating-point numbers
    only.
    """
    definition: Any = schema("Constant", "", opset)
    return frozenset() if definition is None else _operand(definition.outputs[0]).types


class _Operand(NamedTuple):
    """The types of an operand, and its type parameter; each is empty where nothing limits it."""

    types: frozenset[int]
    parameter: str


_TYPES: Final = {f"tensor({name.lower()})": number for name, number in TensorProto.DataType.items()}


@cache
def _operands(op_type: str, domain: str, opset: int, count: int) -> tuple[_Operand, ...]:
    definition: Any = schema(op_type, domain, opset)
    formals = (
        ()
        if definition is None
        else (*definition.inputs, *definition.inputs[-1:] * (count - len(definition.inputs)))
    )
    return tuple(map(_operand, formals[:count]))


def _operand(formal: Any) -> _Operand:
    types = frozenset(_TYPES[name] for name in formal.types if name in _TYPES)
    is_plain = len(types) == len(formal.types)  # otherwise sequences or maps may take its place
    parameter = (
        formal.type_str if is_plain and formal.is_homogeneous and "(" not in formal.type_str else ""
    )
    return _Operand(types if is_plain else frozenset(), parameter)


@cache
def convertible_places(
    op_type: str, domain: str, opset: int, counts: tuple[int, int], types: tuple[int, int]
) -> tuple[frozenset[int], frozenset[int]]:
    """The indices of operands that may have either of two element types, and of results whose type
    follows them.

    Args:
        op_type: the operator; an unknown one has no such operands.
        domain: its domain.
        opset: the version of its operator set.
        counts: the numbers of operands and of results.
        types: the two element types.
    """
    definition = _any_schema(op_type, domain, opset)
    if definition is None:
        return frozenset(), frozenset()
    type_names = {f"tensor({type_name(dtype)})" for dtype in types}
    operands, results = (
        (*formals, *formals[-1:] * (count - len(formals)))[:count]
        for formals, count in zip((definition.inputs, definition.outputs), counts, strict=True)
    )
    places = frozenset(
        place for place, formal in enumerate(operands) if type_names <= set(formal.types)
    )
    parameters = {_parameter(operands[place]) for place in places}
    return places, frozenset(
        place for place, formal in enumerate(results) if _parameter(formal) in parameters
    )


def _parameter(formal: Any) -> str:
    """The type parameter of an operand or a result in a schema of onnx or of onnxruntime."""
    name: str = formal.type_str if hasattr(formal, "type_str") else formal.typeStr
    return name


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} or more" if high >= _NEWEST else f"{low} to {high}"


@cache
def _versions(op_type: str, domain: str) -> tuple[_Signature, ...]:
    """The signatures of all versions of an operator, the newest first; none for an unknown one."""
    signatures: list[_Signature] = []
    opset = _NEWEST
    while (definition := schema(op_type, domain, opset)) is not None:
        signature = _signature(op_type, domain, definition.since_version)
        assert signature is not None
        signatures.append(signature)
        opset = definition.since_version - 1
    if not signatures and (contrib := _signature(op_type, domain, _NEWEST)) is not None:
        signatures.append(contrib)
    return tuple(signatures)


def mistake_in(
    op_type: str, domain: str, attributes: Collection[str], operands: range, results: int
) -> str | None:
    """The reason why no version of an operator has such a call, ``None`` when a version has it, or
    when the domain is unknown.

    Attributes that became operands may be among the names of ``attributes``. ``operands`` are the
    possible numbers of operands; operands that are omitted in the middle count.
    """
    if not _has_schemas(domain):
        return None
    label = operator_label(op_type, domain)
    versions = _versions(op_type, domain)
    if not versions:
        if domain == "com.microsoft" and not _schemas_of_onnxruntime():
            return None
        return f"there is no operator {shortened(label)}{meant(op_type, _names(domain))}"
    moved = {name for op, name in MOVED if op == op_type and not domain}
    names = {name for version in versions for name in version.attributes} | moved
    attribute = next((name for name in attributes if name not in names), None)
    if attribute is not None:
        return f"{label} has no attribute {abridged(attribute)}{meant(attribute, names)}"
    low = min(version.inputs[0] for version in versions) - len(moved.intersection(attributes))
    high = max(version.inputs[1] for version in versions)
    if operands and (operands[-1] < low or operands[0] > high):
        return f"{label} does not take {operands[0]} operands ({_range(max(low, 0), high)})"
    max_results = max(version.outputs[1] for version in versions)
    return (
        None
        if results <= max_results
        else f"{label} does not give {results} results (at most {max_results})"
    )


def _names(domain: str) -> list[str]:
    contrib = [name for key, name in _schemas_of_onnxruntime() if key == domain] if domain else []
    return sorted(
        {
            *contrib,
            *(
                definition.name
                for definition in onnx.defs.get_all_schemas()
                if definition.domain == domain
            ),
        }
    )
