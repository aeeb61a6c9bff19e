"""A target: a runtime and a device for models, with its provider and the needs of models there."""

from dataclasses import dataclass, field
from typing import Final, Literal

from onnx import TensorProto

from xoptim.facts.lazy import lazy_module
from xoptim.verification.runs.plugins import Plugin

ort = lazy_module("onnxruntime")
ROUNDING: Final = 1e-5
"""Relative tolerance of results that are computed in 32-bit floats."""

FITTING_SECONDS: Final = 600.0
"""Seconds of a search for a fitted model by default."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The properties that a model needs on a target.

    Attributes:
        static_shapes: whether all shapes have to be known before the model is loaded.
        standard_operators: whether operators of other domains than the standard ones are missing.
        min_opset: the lowest version of the standard operator set.
        max_opset: the highest version, ``None`` for the newest that onnxruntime knows.
        prefers_float16: whether 16-bit floats compile, or run, where 32-bit floats do not.
        missing_types: element types with which the target does not compute.
        compiles_parts: whether the target compiles parts of a graph, instead of running one node
            after the other.
        weights_only: whether activations stay in float32, as integer MatMuls are slower there or
            missing; weights are quantized.
        static_int8: whether activations are quantized to 8 bits statically, in ranges that are
            calibrated on samples.
        computes_int8: whether there are kernels, or a compiler, for activations of 8 bits.
        symmetric_int8: whether activations are quantized symmetrically (zero point 0), and biases
            stay in float32.
    """

    static_shapes: bool = False
    standard_operators: bool = False
    min_opset: int = 7
    max_opset: int | None = None
    prefers_float16: bool = False
    missing_types: frozenset[int] = frozenset()
    compiles_parts: bool = False
    weights_only: bool = False
    static_int8: bool = False
    computes_int8: bool = True
    symmetric_int8: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A runtime and a device for models.

    Attributes:
        name: the short name, as users write it.
        title: the full name.
        provider: short name of the execution provider for sessions; empty where onnxruntime has
            none here.
        plugin: the plug-in that has the provider, ``None`` where onnxruntime itself has it.
        needs: the properties that a model needs there.
        tolerance: relative error of results due to the arithmetic of the target.
        package: the package that has the provider, for the line that installs it.
        opset: operator set to raise an older model to, ``None`` to leave it.
        families: families of patterns that make models slower there.
        table: whether a table lists the operators that the target supports, in place of a provider
            to ask.
        is_standard: whether the target stands for all runtimes of the standard. onnxruntime on the
            CPU is one of them, so that models are verified there.
    """

    name: str
    title: str
    provider: str = ""
    plugin: Plugin | None = None
    needs: Needs = field(default_factory=Needs)
    tolerance: float = ROUNDING
    package: str = ""
    opset: int | Literal["newest"] | None = None
    families: tuple[str, ...] = ()
    table: bool = False
    is_standard: bool = False

    @property
    def full_provider(self) -> str:
        """The full name of its provider, as onnxruntime lists it; ``name`` without a provider."""
        if self.plugin is not None:
            return self.plugin.provider
        if not self.provider:
            return self.name
        names: dict[str, str] = {name.lower(): name for name in ort.get_all_providers()}
        return names.get(f"{self.provider}executionprovider", self.name)

    @property
    def install(self) -> str:
        """The command that installs its provider; empty where nothing is to be installed.

        ``package`` has the same files as the package ``onnxruntime``, which is removed first.
        """
        if self.plugin is not None:
            return self.plugin.install
        return f"pip uninstall onnxruntime && pip install {self.package}" if self.package else ""

    @property
    def is_installed(self) -> bool:
        """Whether its provider is installed; it may lack a device all the same."""
        if self.plugin is not None:
            return self.plugin.is_installed
        return not self.provider or self.full_provider in ort.get_available_providers()

    @property
    def version(self) -> str:
        """The version of its provider; empty where it is not installed, or a table answers."""
        if self.plugin is not None:
            return self.plugin.version
        return str(ort.__version__) if self.provider and self.is_installed else ""


FLOAT32_ERROR: Final = 1e-3
"""Relative tolerance of results that another device computes in 32-bit floats."""
FLOAT16_ERROR: Final = 8e-3
"""Relative tolerance of results that are computed in 16-bit floats."""
BFLOAT16_ERROR: Final = 4e-2
"""Relative tolerance of results that are computed in bfloat16."""
WIDE_TYPES: Final = frozenset((TensorProto.INT64, TensorProto.UINT64, TensorProto.DOUBLE))
"""Element types of 64 bits, with which GPUs of browsers do not compute."""
