"""The changes of a model that come before its optimization, as one object, and shapes declared for all results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from onnx import GraphProto, ModelProto

from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.sources import export_model, value_info
from xoptim.preparation.ports import drop_outputs, keep_outputs, rename_ports, strip
from xoptim.preparation.sizes import fix_sizes


def with_shapes(proto: ModelProto, base_dir: Path | None = None) -> ModelProto:
    """A copy of a model whose results are declared, in subgraphs too; unknown types and shapes are omitted.

    Declarations that contradict the operators are dropped.
    """
    model = load_model(proto, base_dir)
    found = export_model(model)
    _declare(model.graph, found.graph)
    return found


def _declare(graph: Graph, proto: GraphProto) -> None:
    ends = {value.name for value in proto.output}
    for value in proto.output:
        info = graph.info_of(value.name)
        if not value.HasField("type") and info.dtype:
            value.CopyFrom(value_info(value.name, info))
    del proto.value_info[:]
    for node, written in zip(graph.nodes, proto.node, strict=True):
        for name in filter(None, node.output):
            info = graph.info_of(name)
            if info.dtype and name not in ends:
                proto.value_info.append(value_info(name, info))
        for attribute in written.attribute:
            if attribute.name in node.bodies:
                _declare(node.bodies[attribute.name], attribute.g)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Changes of a model before it is optimized; the result is compared with the model that was changed.

    Attributes:
        free: name of a dimension that the fixed leading size of the inputs becomes, empty for none.
        fix: sizes to write into the model, by the name of a dimension, of an input (then all its sizes), or ``input:axis``.
        drop_outputs: outputs to remove.
        keep_outputs: results of nodes that become outputs.
        rename: new names of inputs and outputs, by old ones.
        strip: whether to remove doc strings, and the metadata of nodes, values and graphs.
    """

    free: str = ""
    fix: Mapping[str, int | Sequence[int]] = field(default_factory=dict)
    drop_outputs: Sequence[str] = ()
    keep_outputs: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    strip: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        return self == Preparation()

    def apply(self, proto: ModelProto, base_dir: Path | None = None) -> None:
        """Change a model in place, in the order of the attributes; ``keep_outputs`` comes before ``drop_outputs``.

        Only ``free`` is left out, which makes another model: see `xoptim.api.preparing.freed`. Raises `ModelError` when a name
        or a size does not fit the model.
        """
        if self.fix:
            fix_sizes(proto, self.fix)
        keep_outputs(proto, self.keep_outputs, base_dir)
        drop_outputs(proto, self.drop_outputs)
        rename_ports(proto, self.rename)
        if self.strip:
            strip(proto)


class PreparationChanges(TypedDict, total=False):
    """The fields of `Preparation` as keyword arguments."""

    free: str
    fix: Mapping[str, int | Sequence[int]]
    drop_outputs: Sequence[str]
    keep_outputs: Sequence[str]
    rename: Mapping[str, str]
    strip: bool
