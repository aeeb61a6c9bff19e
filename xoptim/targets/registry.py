"""All targets, by name."""

from typing import Final

from xoptim.facts.errors import XoptimError
from xoptim.facts.words import abridged, suggestion
from xoptim.targets import coreml, cpu, cuda, nnapi, onnx, openvino, qnn, tensorrt, webgpu, webnn
from xoptim.targets.target import Target

_MODULES: Final = (cpu, cuda, openvino, webgpu, qnn, tensorrt, onnx, webnn, coreml, nnapi)
_TARGETS: Final[dict[str, Target]] = {module.TARGET.name: module.TARGET for module in _MODULES}
_DEVICES: Final = {
    "gpu": "for a GPU, use cuda, webgpu or tensorrt",
    "npu": "for an NPU, use qnn, openvino, coreml, nnapi or webnn",
}
"""Advice for words that name a kind of device, which several targets run on."""
_ONE_OF: Final = 4
"""One letter in four may differ in a suggestion: names are short, and `tpu` is not `cpu`."""


class UnknownTargetError(XoptimError):
    """A name is not the name of a target."""


def every() -> tuple[Target, ...]:
    """All targets: first those with a provider to ask, then those with a table."""
    return tuple(_TARGETS.values())


def named(name: str) -> Target:
    """The target of a name, in any case.

    Raises `UnknownTargetError`, with the nearest name or all names, when there is none.
    """
    target = _TARGETS.get(name.lower())
    if target is None:
        hint = _DEVICES.get(name.lower()) or suggestion(
            name, _TARGETS, f"there are {', '.join(_TARGETS)}", one_of=_ONE_OF
        )
        raise UnknownTargetError(f"there is no target {abridged(name)}; {hint}")
    return target
