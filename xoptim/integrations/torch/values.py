"""Arguments and results of torch modules, taken apart into tensors, and tensors as arrays."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from xoptim.facts.lazy import lazy_module
from xoptim.facts.words import counted
from xoptim.verification.errors import ChoiceError
from xoptim.verification.inputs.dims import input_specs
from xoptim.verification.runs.session import Value

if TYPE_CHECKING:
    import torch
    from onnx_ir import tensor_adapters
    from torch.utils import _pytree as pytree
else:
    tensor_adapters = lazy_module("onnx_ir.tensor_adapters")
    torch = lazy_module("torch")
    pytree = lazy_module("torch.utils._pytree")


class Arguments:
    """The arguments of a module: nested tuples, lists, dicts and the classes that torch can take
    apart (``torch.utils._pytree``), such as the KV caches of transformers.

    Tensors and numbers in them are leaves, named as ``torch.export`` names them:
    ``past_key_values_0_1``.
    """

    def __init__(self, module: Any, args: Any, kwargs: Mapping[str, Any] | None = None) -> None:
        positional = args if isinstance(args, tuple) else (args,)
        leaves, self._structure = pytree.tree_flatten_with_path((positional, dict(kwargs or {})))
        self._leaves = [leaf for _, leaf in leaves]
        parameters = _parameters(module)
        self._names = [_name(path, parameters) for path, _ in leaves]

    def bind(self, model: onnx.ModelProto) -> Bound:
        """The leaves as the inputs of a model, by name where all names agree, else in order.

        Raises `ChoiceError` when the model has other inputs.
        """
        inputs = [spec.name for spec in input_specs(model)]
        by_name = dict(zip(self._names, range(len(self._names)), strict=True))
        if all(name in by_name for name in inputs):
            return Bound(self, {name: by_name[name] for name in inputs})
        for kinds in ((torch.Tensor,), (torch.Tensor, int, float)):
            places = [place for place, leaf in enumerate(self._leaves) if _is_one_of(leaf, kinds)]
            if len(places) == len(inputs):
                return Bound(self, dict(zip(inputs, places, strict=True)))
        tensors = [
            name
            for name, leaf in zip(self._names, self._leaves, strict=True)
            if isinstance(leaf, torch.Tensor)
        ]
        raise ChoiceError(
            f"the arguments have {counted(len(tensors), 'tensor')} ({', '.join(tensors)}), and the "
            f"model has {counted(len(inputs), 'input')} ({', '.join(inputs)})"
        )

    def array(self, place: int) -> np.ndarray:
        """A leaf as an array."""
        return array_of(self._leaves[place])

    def filled(
        self, values: Mapping[int, Value], *, in_doubles: bool = False
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other values for some leaves, on the devices of these.

        All tensors are new, so that a module may change them. ``in_doubles``: floats have 64 bits.
        """
        leaves = [_copied(leaf) for leaf in self._leaves]
        for place, value in values.items():
            leaves[place] = _like(self._leaves[place], value)
        if in_doubles:
            leaves = [_widened(leaf) for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._structure)
        return args, kwargs


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """Arguments whose leaves are the inputs of a model; ``places`` has the index of each leaf."""

    arguments: Arguments
    places: Mapping[str, int]

    def example(self) -> dict[str, np.ndarray]:
        """The values of the inputs."""
        return {name: self.arguments.array(place) for name, place in self.places.items()}

    def values(self, feeds: Mapping[str, Value]) -> dict[int, Value]:
        """The values of inputs by the places of the leaves."""
        return {place: feeds[name] for name, place in self.places.items()}

    def feeds(self, values: Mapping[int, Value]) -> dict[str, Value]:
        """The values of leaves by the names of the inputs."""
        return {name: values[place] for name, place in self.places.items()}


def tensors_of(value: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensors in the results of a module, in order, each with its place as Python writes it:
    ``.logits``, ``[0][1]``.
    """
    leaves, _ = pytree.tree_flatten_with_path(value)
    return [item for path, leaf in leaves for item in _tensors(pytree.keystr(path), leaf)]


def matched(
    tensors: Sequence[tuple[str, torch.Tensor]], names: Sequence[str]
) -> list[torch.Tensor] | None:
    """The tensors that are the outputs of these names: in order, or by name if there are more;
    ``None`` when they do not match.
    """
    if len(tensors) == len(names):
        return [tensor for _, tensor in tensors]
    by_name = {plain_name(place): tensor for place, tensor in tensors}
    plain_names = [plain_name(name) for name in names]
    return [by_name[name] for name in plain_names] if by_name.keys() >= {*plain_names} else None


def plain_name(place: str) -> str:
    """The words in a place or the name of an output: ``cache_0_keys``."""
    return "_".join(re.findall(r"\w+", place))


def _tensors(place: str, leaf: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in a leaf, an object that torch does not take apart, such as a dataclass."""
    if isinstance(leaf, torch.Tensor):
        yield place, leaf
        return
    if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
        fields = {f".{field.name}": getattr(leaf, field.name) for field in dataclasses.fields(leaf)}
    elif isinstance(leaf, Mapping):
        fields = {f"[{key!r}]": item for key, item in leaf.items()}
    else:
        return
    for step, item in fields.items():
        for inner, tensor in tensors_of(item):
            yield f"{place}{step}{inner}", tensor


def array_of(leaf: Any) -> np.ndarray:
    """A tensor or a number as an array, of ``ml_dtypes`` where numpy lacks the type."""
    if not isinstance(leaf, torch.Tensor):
        return np.asarray(leaf, np.int64 if isinstance(leaf, int) else np.float32)
    plain = leaf.detach().cpu().contiguous()
    return np.asarray(tensor_adapters.TorchTensor(plain).numpy())


def torch_tensor(array: np.ndarray) -> torch.Tensor:
    """A copy of an array as a tensor; bfloat16 and float8, which numpy lacks, are copied bit by
    bit.
    """
    copy, name = np.array(array, order="C"), array.dtype.name
    if name.startswith(("bfloat16", "float8")):
        bits = copy.view(f"i{copy.itemsize}")
        return torch.from_numpy(bits).view(getattr(torch, name))
    return torch.from_numpy(copy)


def _parameters(module: Any) -> list[str]:
    """The names of the parameters of a module, in order; none where they are not known."""
    try:
        return list(inspect.signature(getattr(module, "forward", module)).parameters)
    except (TypeError, ValueError):
        return []


def _name(path: Sequence[Any], parameters: Sequence[str]) -> str:
    """The name of a leaf: the parameter, and the steps within it."""
    steps = [str(_step(key)) for key in path[1:]]
    is_positional = _step(path[0]) == 0
    place = int(steps[0]) if is_positional and steps else -1
    if 0 <= place < len(parameters):
        steps[0] = parameters[place]
    return "_".join(steps)


def _step(key: Any) -> Any:
    """The index, key or attribute of a step of a path."""
    values = (getattr(key, name, None) for name in ("idx", "key", "name"))
    return next((value for value in values if value is not None), key)


def _is_one_of(leaf: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(leaf, kinds) and not isinstance(leaf, bool)


def _copied(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def _like(leaf: Any, value: Value) -> Any:
    """A value as a leaf of the same kind, type and device."""
    array = np.asarray(value)
    if not isinstance(leaf, torch.Tensor):
        return type(leaf)(array.item())
    return torch_tensor(array).to(leaf.device, leaf.dtype)


def _widened(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point:
        return leaf.to(torch.float64)
    return leaf
