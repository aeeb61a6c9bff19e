"""Join two models into one that runs them one after the other."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from onnx import ModelProto

from xoptim.facts.errors import ModelError
from xoptim.facts.protos import standard_domain
from xoptim.graph.data_file import external_bytes
from xoptim.graph.save import hold_weights
from xoptim.graph.splice import inline_functions
from xoptim.preparation.ports import defined_names, rename_values

_LARGEST: Final = 2**31 - 2**20
"""Bytes of weights that fit into a model without external data."""


def joined(
    first: ModelProto, second: ModelProto, links: Mapping[str, str], *, prefix: str
) -> ModelProto:
    """A model that runs ``first``, then ``second`` on values of ``first``; both are left unchanged.

    The new model has the inputs and outputs of both, but for the linked inputs. Values of
    ``second`` get a prefix, except inputs and outputs whose names ``first`` does not use. Both
    models must import the same operator sets, and keep external data in the same folder.

    Args:
        first: its values keep their names, and its metadata is kept.
        second: its local functions are replaced by their nodes.
        links: inputs of ``second``, each with a value of the main graph of ``first``.
        prefix: of names of ``second``.
    """
    result, second_copy = ModelProto(), ModelProto()
    result.CopyFrom(first)
    second_copy.CopyFrom(inline_functions(second) if second.functions else second)
    rename_values(second_copy, _names(first, second_copy, links, prefix))
    used = {node.name for node in first.graph.node}
    for node in second_copy.graph.node:
        node.name = node.name and _unused(f"{prefix}{node.name}", used)
    graph, added = result.graph, second_copy.graph
    linked = set(links.values())
    graph.input.extend(value for value in added.input if value.name not in linked)
    graph.initializer.extend(tensor for tensor in added.initializer if tensor.name not in linked)
    graph.sparse_initializer.extend(added.sparse_initializer)
    graph.quantization_annotation.extend(added.quantization_annotation)
    graph.value_info.extend(added.value_info)
    graph.node.extend(added.node)
    graph.output.extend(added.output)
    domains = {standard_domain(entry.domain) for entry in result.opset_import}
    result.opset_import.extend(
        entry for entry in second_copy.opset_import if standard_domain(entry.domain) not in domains
    )
    result.ir_version = max(first.ir_version, second.ir_version)
    return result


def _names(
    first: ModelProto, second: ModelProto, links: Mapping[str, str], prefix: str
) -> dict[str, str]:
    """The new names of the values of ``second``."""
    used = defined_names(first)
    ports = {value.name for value in (*second.graph.input, *second.graph.output)}
    names = {}
    for name in sorted(defined_names(second)):
        is_kept = name in ports and name not in used
        names[name] = _unused(name if is_kept else f"{prefix}{name}", used)
    return names | dict(links)


def _unused(name: str, used: set[str]) -> str:
    """A name that is not used, with underscores at its end if necessary; ``used`` grows by it."""
    while name in used:
        name += "_"
    used.add(name)
    return name


def loaded(model: ModelProto, folder: Path | None) -> ModelProto:
    """A copy of a model with its external data inside.

    Raises `ModelError` where the data is too large for that, cannot be read, or its folder is not
    known.
    """
    if not (size := external_bytes(model.graph)):
        return model
    if size > _LARGEST or folder is None:
        raise ModelError(
            f"the decoder's weights ({size / 1e9:.1f} GB) are in another folder than the "
            "encoder's; put both models into one folder"
        )
    copy = ModelProto()
    copy.CopyFrom(model)
    hold_weights(copy, folder)
    return copy
