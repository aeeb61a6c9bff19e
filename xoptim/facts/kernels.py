"""Kernels of the execution providers of onnxruntime.

The registry of the installed onnxruntime lists the kernels of its providers. CUDA is usually not among them, so the
operators that fusions create are listed in ``cuda_kernels.toml``, as onnxruntime's page "Supported Operators and Data Types"
(`docs/OperatorKernels.md`) documents them.
"""

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Final, NamedTuple, TypeAlias

from onnx import TensorProto

from xoptim.facts.dtypes import ELEMENT_TYPES
from xoptim.facts.lazy import lazy_module
from xoptim.facts.protos import standard_domain
from xoptim.facts.schema import since_version

_registry_of_onnxruntime = lazy_module("onnxruntime.capi.onnxruntime_pybind11_state")

_NO_END: Final = 2**31 - 1
_Key: TypeAlias = tuple[str, str, str]
_SLOWER: Final = frozenset({("cpu", "AveragePool", 19)})
"""Versions of operators that a provider runs by a slower kernel than the version before.

Measured with onnxruntime 1.31, one thread: AveragePool of 64 channels of 28 by 28 takes 0.17 ms in operator set 18, 1.5 ms in
sets 19 to 21, and 0.8 ms from set 22 on.
"""


def slows_down(provider: str, op_type: str, opset: int) -> bool:
    """Whether a provider is known to run a standard operator more slowly than in the operator set before."""
    return (short_name(provider), op_type, opset) in _SLOWER


def short_name(provider: str) -> str:
    """The short name of a provider, such as ``cuda`` for ``CUDAExecutionProvider``."""
    return provider.lower().removesuffix("executionprovider")


class _Kernel(NamedTuple):
    """A range of operator set versions, and the element types it serves (``None``: all that the schema allows)."""

    first: int
    last: int
    types: frozenset[int] | None


def has_kernel(provider: str, domain: str, op_type: str, dtype: int, opset: int) -> bool | None:
    """Whether an execution provider has a kernel of its own for an operator.

    An operator without one may still run: functions are expanded, and 16-bit floats are cast to 32 bits on the CPU. Returns
    ``None`` when the provider, the operator, or the type is unknown.

    A provider has a short name (``cpu``, ``cuda``, in any case) and a full one (``CUDAExecutionProvider``). ``dtype`` is the
    main element type of the operator: of the parameter ``T``, ``T1`` or ``V``, the first that exists; 0 when unknown.
    """
    name = short_name(provider)
    domain = standard_domain(domain)
    known = _installed()
    kernels: tuple[_Kernel, ...] | None = None
    if name in _providers():
        kernels = known.get((name, domain, op_type), ())
    elif name == "cuda":
        kernels = _documented().get((domain, op_type))
    if kernels is None:
        return None
    since = since_version(op_type, domain, opset) or 1
    serving = [kernel for kernel in kernels if _serves(kernel, since)]
    if not serving:
        return False
    if any(kernel.types is None or dtype in kernel.types for kernel in serving):
        return True
    return False if dtype else None  # a kernel exists, but an unknown type may be unsupported


def lacks_copies(dtype: int, opset: int) -> bool:
    """Whether onnxruntime cannot load an Identity of an element type: it has no kernel for types of 4 bits."""
    return has_kernel("cpu", "", "Identity", dtype, opset) is False


def _serves(kernel: _Kernel, since: int) -> bool:
    """Whether a kernel is chosen for a schema version: an open range serves the version that it starts with only.

    (Later versions may differ; onnxruntime closes a range when it adds kernels for the next version.)
    """
    return kernel.first == since or (kernel.first < since <= kernel.last and kernel.last != _NO_END)


@cache
def _installed() -> dict[_Key, tuple[_Kernel, ...]]:
    """Kernels of the installed onnxruntime by provider, domain and operator; empty without its registry."""
    try:
        definitions = _registry_of_onnxruntime.get_all_opkernel_def()
    except (ImportError, AttributeError):  # not installed, or a build without the registry
        return {}
    # The registry names types as "tensor(float)".
    numbers = {f"tensor({entry.name})": number for number, entry in ELEMENT_TYPES.items()}
    found: dict[_Key, list[_Kernel]] = {}
    for definition in definitions:
        constraints: dict[str, list[str]] = definition.type_constraints
        main = next((name for name in ("T", "T1", "V") if name in constraints), None)
        types = None if main is None else frozenset(numbers[t] for t in constraints[main] if t in numbers)
        key = short_name(definition.provider), definition.domain, definition.op_name
        first, last = definition.version_range
        found.setdefault(key, []).append(_Kernel(first, last, types))
    return {key: tuple(kernels) for key, kernels in found.items()}


def operators_served(provider: str) -> int:
    """The number of operators for which the installed onnxruntime has a kernel of a provider; 0 when that is not known."""
    return len({(domain, op_type) for name, domain, op_type in _installed() if short_name(name) == short_name(provider)})


@cache
def _providers() -> frozenset[str]:
    return frozenset(provider for provider, _, _ in _installed())


_LETTERS: Final = {
    "f": TensorProto.FLOAT,
    "d": TensorProto.DOUBLE,
    "h": TensorProto.FLOAT16,
    "b": TensorProto.BFLOAT16,
    "i": TensorProto.INT32,
}


@cache
def _documented() -> dict[tuple[str, str], tuple[_Kernel, ...]]:
    """Kernels of the CUDA provider by domain and operator."""
    tables = tomllib.loads((resources.files("xoptim.facts") / "cuda_kernels.toml").read_text(encoding="utf-8"))
    return {
        (standard_domain(domain), op_type): tuple(_ranges(text))
        for domain, operators in tables.items()
        for op_type, text in operators.items()
    }


def _ranges(text: str) -> Iterator[_Kernel]:
    """Kernels written as ``first-last:types``, separated by blanks."""
    for item in text.split():
        versions, letters = item.split(":")
        first, last = versions.split("-")
        yield _Kernel(int(first), int(last or _NO_END), frozenset(_LETTERS[letter] for letter in letters))
