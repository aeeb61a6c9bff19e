"""`place`: ask an execution provider which nodes of a model it runs."""

from pathlib import Path
from typing import Any

from xoptim.graph.sources import Source
from xoptim.targets import (
    Failing,
    Placement,
    Target,
    named,
    place as placed,
    smallest_failing as find_smallest_failing,
)
from xoptim.targets.bisect import DEFAULT_SEARCH_TIMEOUT
from xoptim.targets.oracle import DEFAULT_TIMEOUT


def place(
    model: Any,
    target: str | Target,
    *,
    software_device: bool = False,
    seconds: float = DEFAULT_TIMEOUT,
    custom_op_libs: tuple[str, ...] = (),
) -> Placement:
    """Ask a target which nodes of a model it takes, and in how many partitions.

    The answer gives the reasons for the other nodes, if the provider states them. The provider is
    loaded in a process of its own; the model is not run.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged.
        target: ``webgpu``, ``qnn``, ``openvino``, ``cuda``, ``tensorrt`` or ``cpu``. For ``webnn``,
            ``coreml``, ``nnapi`` and ``onnx`` (standard operators), a table of operators, which is
            not verified, replaces the provider.
        software_device: whether a provider that has no device here may compute on the CPU
            (``webgpu``).
        seconds: time limit for the answer of the provider.
        custom_op_libs: files of the custom operator libraries that the model needs.

    Raises:
        ModelError: the model cannot be read.
        UnknownTargetError: there is no such target.
        ProviderUnavailable: the provider is not installed, cannot be loaded, or finds no device.
        PlacementError: the provider does not answer in time.
    """
    source = Source(model)
    return placed(
        source.proto,
        _target(target),
        _folder(source),
        software_device=software_device,
        seconds=seconds,
        custom_op_libs=custom_op_libs,
    )


def smallest_failing(
    model: Any,
    target: str | Target,
    *,
    software_device: bool = False,
    seconds: float = DEFAULT_SEARCH_TIMEOUT,
) -> Failing | None:
    """The smallest part of a model that does not compile, ``None`` when the model compiles.

    Arguments and errors as for `place`; ``seconds`` limits the search, which then returns the
    smallest part so far.
    """
    source = Source(model)
    return find_smallest_failing(
        source.proto,
        _target(target),
        _folder(source),
        software_device=software_device,
        seconds=seconds,
    )


def _target(target: str | Target) -> Target:
    return named(target) if isinstance(target, str) else target


def _folder(source: Source) -> Path | None:
    return None if source.base_dir is None else Path(source.base_dir)
