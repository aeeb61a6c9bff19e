"""The changes of a model that come before its optimization, as one object: sizes written in or made
symbolic, shapes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import TypedDict

import numpy as np
from onnx import GraphProto, ModelProto, TensorShapeProto, ValueInfoProto, numpy_helper

from xoptim.facts.dim_formulas import formula_of, size_in
from xoptim.facts.dims import substitute
from xoptim.facts.errors import ModelError
from xoptim.facts.protos import fed_inputs
from xoptim.facts.shapes import Info
from xoptim.facts.words import abridged, listed, meant, whole_number
from xoptim.graph.assumed import assumed_of, report_unused
from xoptim.graph.constants import constant_array
from xoptim.graph.export import export_model, value_info
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.propagate import quietly
from xoptim.preparation.ports import (
    all_graphs,
    declarations,
    dimensions,
    drop_outputs,
    keep_outputs,
    rename_ports,
    strip,
)


def free_batch(proto: ModelProto, name: str, base_dir: Path | None = None) -> tuple[int, list[str]]:
    """Make the leading size of the inputs a dimension of this name, in place.

    Returns the size, and the inputs that had it.

    Constant shapes of Reshape that begin with this size compute it then; all other declarations are
    inferred anew. Whether the model is right for other sizes is not checked here:
    `xoptim.workflow.preparing.freed` does. Raises `ModelError` when no input has a fixed leading
    size, or they have several, or the name is one of a dimension already.
    """
    leading = {value.name: value for value in fed_inputs(proto) if _leading(value)}
    sizes = {_leading(value) for value in leading.values()}
    if len(sizes) != 1:
        sizes_of = [f"{each} has {_leading(value)}" for each, value in leading.items()]
        raise ModelError(
            f"--free {name}: the inputs need the same fixed first dimension, but "
            f"{listed(sizes_of) if sizes_of else 'none has one'}"
        )
    if any(
        dim.dim_param == name
        for value in proto.graph.input
        for dim in value.type.tensor_type.shape.dim
    ):
        raise ModelError(
            f"--free {name}: the model already has a dimension of this name; choose another"
        )
    (size,) = sizes
    for value in leading.values():
        value.type.tensor_type.shape.dim[0].dim_param = name
    for part in all_graphs(proto):
        del part.value_info[:]
        for declared in (*part.output, *(() if part is proto.graph else part.input)):
            if declared.type.WhichOneof("value") == "tensor_type":
                declared.type.tensor_type.ClearField("shape")
    while _free_reshapes(proto, load_model(proto, base_dir).graph, name, size):
        pass  # the shapes after a Reshape are known when it is freed
    graph = load_model(proto, base_dir).graph
    for output in proto.graph.output:
        output.CopyFrom(value_info(output.name, graph.info_of(output.name)))
    return size, list(leading)


def _leading(value: ValueInfoProto) -> int:
    """The leading size of an input, 0 when it has none that is fixed."""
    dims = value.type.tensor_type.shape.dim
    return dims[0].dim_value if len(dims) else 0


def _free_reshapes(proto: ModelProto, graph: Graph, name: str, size: int) -> int:
    """Free the Reshapes of operands that are known to depend on the dimension; returns how many."""
    count = 0
    for node, written in zip(graph.nodes, proto.graph.node, strict=True):
        shape = _fixed_shape(graph, node, name, size)
        if shape is None:
            continue
        fresh = graph.names.fresh(f"{written.input[1]}_free")
        proto.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), fresh))
        written.input[1] = fresh
        count += 1
    return count


def _fixed_shape(graph: Graph, node: Node, name: str, size: int) -> Sequence[int] | None:
    """The shape of a Reshape that has to be freed, as it has to be then.

    ``None`` for all other nodes.
    """
    if (
        node.op_type != "Reshape"
        or node.domain
        or len(node.input) < 2
        or node.attribute.get("allowzero")
    ):
        return None
    dims = graph.info_of(node.input[0]).shape
    array = constant_array(graph, node.input[1])
    if dims is None or array is None or not array.size or int(array[0]) != size:
        return None
    if not any(not isinstance(dim, int) and name in dim.symbols for dim in dims):
        return None
    rest = [int(each) for each in array[1:]]
    if -1 not in rest:
        return [-1, *rest]
    return [0, *rest] if str(dims[0]) == name else None


def fix_sizes(proto: ModelProto, sizes: Mapping[str, int | Sequence[int]]) -> None:
    """Write sizes into a model, in place: every dimension of that name becomes a number.

    ``sizes`` has one size by the name of a dimension (``input:axis`` for one without a name), or
    all sizes of an input by its name; a number is one size. Raises `ModelError` when a name names
    neither a dimension nor an input, a shape has another rank, two sizes contradict each other, or
    a size is not a number of at least 0.
    """
    inputs = {value.name: value for value in fed_inputs(proto)}
    named = {
        dim.dim_param
        for value in inputs.values()
        for dim in dimensions(value.type)
        if dim.dim_param and not isinstance(formula_of(dim.dim_param), int)
    }
    fixed: dict[str, int] = {}
    for name, size in sizes.items():
        given = _sizes(name, size)
        if name in named and len(given) == 1:
            _agree(fixed, name, given[0])
        elif name in inputs:
            _fix_shape(inputs[name], given, fixed)
        elif name in named:
            raise ModelError(f"--fix {name}: a dimension takes one size, not {len(given)}")
        elif not _fix_axis(inputs, name, given):
            known = (*sorted(named), *inputs)
            raise ModelError(
                f"--fix: the model has no dynamic dimension or input {abridged(name)} (it has "
                f"{', '.join(known) or 'none'}){meant(name, known)}"
            )
    for value in declarations(proto):
        for dim in dimensions(value.type):
            _fix(dim, fixed, named)


def _fix(dim: TensorShapeProto.Dimension, fixed: Mapping[str, int], named: Collection[str]) -> None:
    """Write the size of a dimension, if it is known; in a formula of other dimensions, such as
    ``past + seq``, those known.
    """
    text = dim.dim_param
    formula = size_in(text, named)
    size = fixed.get(text) if formula is None or text in fixed else substitute(formula, fixed)
    if isinstance(size, int):
        if size < 0:
            raise ModelError(f"dimension {text!r} cannot be {size}")
        dim.dim_value = size
    elif size is not None and size is not formula:
        dim.dim_param = str(size)


def number_outputs(proto: ModelProto, base_dir: Path | None = None) -> None:
    """Write the numbers that are inferred for dimensions of outputs and declared results, in
    place.
    """
    with quietly():  # the optimization warns
        graph = load_model(proto, base_dir).graph
    for value in (*proto.graph.output, *proto.graph.value_info):
        if graph.defines(value.name):
            _number(value, graph.info_of(value.name))


def _number(value: ValueInfoProto, info: Info) -> None:
    """Write the numbers that are known into a declared shape in place of names.

    A shape that is missing is added.
    """
    if not info.is_tensor or info.shape is None or value.type.WhichOneof("value") != "tensor_type":
        return
    if not value.type.tensor_type.HasField("shape"):
        value.type.tensor_type.shape.CopyFrom(value_info(value.name, info).type.tensor_type.shape)
    dims = value.type.tensor_type.shape.dim
    for dim, known in zip(dims, info.shape, strict=False) if len(dims) == len(info.shape) else ():
        if isinstance(known, int) and not dim.HasField("dim_value"):
            dim.dim_value = known


def _sizes(name: str, given: int | Sequence[int]) -> list[int]:
    """One size or several as a list."""
    sizes: list[object] = (
        list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    )
    found = [int(size) for size in sizes if isinstance(size, Integral)]
    if len(found) < len(sizes) or min(found, default=0) < 0:
        raise ModelError(f"the sizes of {name!r} must be integers of at least 0, not {given!r}")
    return found


def _agree(fixed: dict[str, int], name: str, size: int) -> None:
    if fixed.setdefault(name, size) != size:
        raise ModelError(f"dimension {name!r} cannot be both {fixed[name]} and {size}")


def _fix_shape(value: ValueInfoProto, given: Sequence[int], fixed: dict[str, int]) -> None:
    """Write all sizes of an input; sizes of its named dimensions are added to ``fixed``."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise ModelError(f"input {value.name!r} is not a tensor; its shape cannot be fixed")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        for size in given:
            tensor.shape.dim.add(dim_value=size)
        return
    if len(tensor.shape.dim) != len(given):
        raise ModelError(
            f"input {value.name!r} has {len(tensor.shape.dim)} dimensions, not {len(given)}"
        )
    for axis, (dim, size) in enumerate(zip(tensor.shape.dim, given, strict=True)):
        if dim.HasField("dim_value") and dim.dim_value != size:
            raise ModelError(
                f"dimension {axis} of input {value.name!r} is {dim.dim_value}, not {size}"
            )
        if dim.dim_param:
            _agree(fixed, dim.dim_param, size)
        else:
            dim.dim_value = size


def _fix_axis(inputs: Mapping[str, ValueInfoProto], name: str, given: Sequence[int]) -> bool:
    """Write the size of a dimension without a name, ``input:axis``.

    Returns whether there is one.
    """
    owner, _, axis = name.rpartition(":")
    number = whole_number(axis)
    if owner not in inputs or number is None or len(given) != 1:
        return False
    dims = list(dimensions(inputs[owner].type))
    if number >= len(dims) or dims[number].WhichOneof("value") is not None:
        return False
    dims[number].dim_value = given[0]
    return True


def with_shapes(
    proto: ModelProto, base_dir: Path | None = None, *, assume_from_model: bool = False
) -> ModelProto:
    """A copy of a model whose results are declared, in subgraphs too.

    Unknown types and shapes are omitted.

    Declarations that contradict the operators are dropped.
    """
    known = assumed_of(proto, (), from_model=assume_from_model)
    report_unused(proto, known)
    model = load_model(proto, base_dir, assumptions=known)
    found = export_model(model)
    _declare(model.graph, found.graph)
    return found


def _declare(graph: Graph, proto: GraphProto) -> None:
    ends = {value.name for value in proto.output}
    for value in proto.output:
        info = graph.info_of(value.name)
        if not value.HasField("type") and info.dtype:
            value.CopyFrom(value_info(value.name, info))
        _number(value, info)
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
    """Changes of a model before it is optimized.

    The result is compared with the model that was changed.

    Attributes:
        free: name of a dimension that the fixed leading size of the inputs becomes, empty for none.
        fix: sizes to write into the model, by the name of a dimension, of an input (then all its
            sizes), or ``input:axis``.
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
        """Change a model in place, in the order of the attributes.

        ``keep_outputs`` comes before ``drop_outputs``.

        Only ``free`` is not applied, which makes another model: see
        `xoptim.workflow.preparing.freed`. Raises `ModelError` when a name or a size does not fit
        the model.
        """
        if self.fix:
            fix_sizes(proto, self.fix)
            number_outputs(proto, base_dir)
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
