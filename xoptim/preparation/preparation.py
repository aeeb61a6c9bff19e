"""Changes of a model before its optimization: fixed and symbolic dimensions, declared shapes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import TypedDict

import numpy as np
from onnx import GraphProto, ModelProto, TensorShapeProto, ValueInfoProto, numpy_helper

from xoptim.facts.advice import Advice
from xoptim.facts.dim_formulas import formula_of, size_in
from xoptim.facts.dims import is_anonymous, substitute
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
    """Replace the fixed first dimension of the inputs by a symbolic one of this name, in place.

    Returns the fixed size, and the inputs that had it.

    In constant shapes of Reshape that begin with this size, it becomes -1 or 0; all other shapes
    are inferred again. `xoptim.workflow.preparing.freed` checks the model for other sizes. Raises
    `ModelError` when no input has a fixed first dimension, when they have several sizes, or when
    the name is that of a dimension already.
    """
    leading = {value.name: value for value in fed_inputs(proto) if _leading(value)}
    sizes = {_leading(value) for value in leading.values()}
    if len(sizes) != 1:
        sizes_of = [f"{label} has {_leading(value)}" for label, value in leading.items()]
        raise ModelError(
            f"{Advice('free', name)}: the inputs need the same fixed first dimension, but "
            f"{listed(sizes_of) if sizes_of else 'none has one'}"
        )
    if any(
        dim.dim_param == name
        for value in proto.graph.input
        for dim in value.type.tensor_type.shape.dim
    ):
        raise ModelError(
            f"{Advice('free', name)}: the model already has a dimension of this name; choose "
            "another"
        )
    (size,) = sizes
    for value in leading.values():
        value.type.tensor_type.shape.dim[0].dim_param = name
    for part in all_graphs(proto):
        del part.value_info[:]
        for value in (*part.output, *(() if part is proto.graph else part.input)):
            if value.type.WhichOneof("value") == "tensor_type":
                value.type.tensor_type.ClearField("shape")
    while _free_reshapes(proto, load_model(proto, base_dir).graph, name, size):
        pass  # a changed Reshape makes the shapes after it known
    graph = load_model(proto, base_dir).graph
    for output in proto.graph.output:
        output.CopyFrom(value_info(output.name, graph.info_of(output.name)))
    return size, list(leading)


def _leading(value: ValueInfoProto) -> int:
    """The fixed first dimension of an input, 0 when there is none."""
    dims = value.type.tensor_type.shape.dim
    return dims[0].dim_value if len(dims) else 0


def _free_reshapes(proto: ModelProto, graph: Graph, name: str, size: int) -> int:
    """Change the Reshapes whose operands depend on the dimension; returns how many."""
    count = 0
    for node_proto in proto.graph.node:  # the graph may have another order
        node = graph.producer(next(filter(None, node_proto.output), ""))
        shape = None if node is None else _free_shape(graph, node, name, size)
        if shape is None:
            continue
        new_name = graph.names.fresh(f"{node_proto.input[1]}_free")
        proto.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), new_name))
        node_proto.input[1] = new_name
        count += 1
    return count


def _free_shape(graph: Graph, node: Node, name: str, size: int) -> Sequence[int] | None:
    """The new shape of a Reshape that depends on the dimension, ``None`` for other nodes."""
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
    other_sizes = [int(dim) for dim in array[1:]]
    if -1 not in other_sizes:
        return [-1, *other_sizes]
    return [0, *other_sizes] if str(dims[0]) == name else None


def fix_sizes(
    proto: ModelProto, sizes: Mapping[str, int | Sequence[int]], base_dir: Path | None = None
) -> None:
    """Fix dimensions of a model, in place: every dimension of a name becomes a number.

    Outputs and other results also get the numbers that are inferred. A dimension of an output whose
    size is not inferred keeps its name: exporters copy whatever the user typed.

    ``sizes`` has one size by the name of a dimension (``input:axis`` for one without a name), or
    all sizes of an input by its name. Raises `ModelError` when a name is that of neither a
    dimension nor an input, a shape has another rank, two sizes contradict each other, or a size is
    not an integer of at least 0.
    """
    inputs = {value.name: value for value in fed_inputs(proto)}
    symbols = {
        dim.dim_param
        for value in inputs.values()
        for dim in dimensions(value.type)
        if dim.dim_param and not isinstance(formula_of(dim.dim_param), int)
    }
    values: dict[str, int] = {}
    for name, size in sizes.items():
        numbers = _sizes(name, size)
        if name in symbols and len(numbers) == 1:
            _agree(values, name, numbers[0])
        elif name in inputs:
            _fix_shape(inputs[name], numbers, values)
        elif name in symbols:
            raise ModelError(
                f"{Advice('fix')} {name}: a dimension takes one size, not {len(numbers)}"
            )
        elif not _fix_axis(inputs, name, numbers):
            names = (*sorted(symbols), *inputs)
            raise ModelError(
                f"{Advice('fix')}: the model has no dynamic dimension or input {abridged(name)} "
                f"(it has {', '.join(names) or 'none'}){meant(name, names)}"
            )
    for value in declarations(proto):
        for dim in dimensions(value.type):
            _fix(dim, values, symbols)
    with quietly():  # the optimization warns
        graph = load_model(proto, base_dir).graph
    _fix_outputs(graph, proto.graph, values, symbols)
    for value in (*proto.graph.output, *proto.graph.value_info):
        if graph.defines(value.name):
            _number(value, graph.info_of(value.name))


def _fix_outputs(
    graph: Graph, proto: GraphProto, values: Mapping[str, int], symbols: Collection[str]
) -> None:
    """Write sizes into the outputs of a graph and its subgraphs, where the sizes are inferred."""
    for value in proto.output:
        info = graph.info_of(value.name)
        for dim, size in zip(dimensions(value.type), info.shape or (), strict=False):
            if not is_anonymous(size):
                _fix(dim, values, symbols)
    for node_proto in proto.node:
        node = graph.producer(next(filter(None, node_proto.output), ""))
        bodies = {} if node is None else node.bodies
        for attribute in node_proto.attribute if bodies else ():
            if attribute.name in bodies:
                _fix_outputs(bodies[attribute.name], attribute.g, values, symbols)


def _fix(
    dim: TensorShapeProto.Dimension, values: Mapping[str, int], symbols: Collection[str]
) -> None:
    """Write the size of a dimension into it, or into a formula of it, such as ``past + seq``."""
    text = dim.dim_param
    formula = size_in(text, symbols)
    size = values.get(text) if formula is None or text in values else substitute(formula, values)
    if isinstance(size, int):
        if size < 0:
            raise ModelError(f"dimension {text!r} cannot be {size}")
        dim.dim_value = size
    elif size is not None and size is not formula:
        dim.dim_param = str(size)


def _number(value: ValueInfoProto, info: Info) -> None:
    """Write the known numbers into a declared shape, and add a missing shape."""
    if not info.is_tensor or info.shape is None or value.type.WhichOneof("value") != "tensor_type":
        return
    if not value.type.tensor_type.HasField("shape"):
        value.type.tensor_type.shape.CopyFrom(value_info(value.name, info).type.tensor_type.shape)
    dims = value.type.tensor_type.shape.dim
    for dim, size in zip(dims, info.shape, strict=False) if len(dims) == len(info.shape) else ():
        if isinstance(size, int) and not dim.HasField("dim_value"):
            dim.dim_value = size


def _sizes(name: str, value: int | Sequence[int]) -> list[int]:
    """One size or several as a list."""
    sizes: list[object] = (
        list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    )
    numbers = [int(size) for size in sizes if isinstance(size, Integral)]
    if len(numbers) < len(sizes) or min(numbers, default=0) < 0:
        raise ModelError(f"the sizes of {name!r} must be integers of at least 0, not {value!r}")
    return numbers


def _agree(values: dict[str, int], name: str, size: int) -> None:
    if values.setdefault(name, size) != size:
        raise ModelError(f"dimension {name!r} cannot be both {values[name]} and {size}")


def _fix_shape(value: ValueInfoProto, sizes: Sequence[int], values: dict[str, int]) -> None:
    """Write all sizes of an input; those of named dimensions are added to ``values``."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise ModelError(f"input {value.name!r} is not a tensor; its shape cannot be fixed")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        for size in sizes:
            tensor.shape.dim.add(dim_value=size)
        return
    if len(tensor.shape.dim) != len(sizes):
        raise ModelError(
            f"input {value.name!r} has {len(tensor.shape.dim)} dimensions, not {len(sizes)}"
        )
    for axis, (dim, size) in enumerate(zip(tensor.shape.dim, sizes, strict=True)):
        if dim.HasField("dim_value") and dim.dim_value != size:
            raise ModelError(
                f"dimension {axis} of input {value.name!r} is {dim.dim_value}, not {size}"
            )
        if dim.dim_param:
            _agree(values, dim.dim_param, size)
        else:
            dim.dim_value = size


def _fix_axis(inputs: Mapping[str, ValueInfoProto], name: str, sizes: Sequence[int]) -> bool:
    """Write the size of a dimension without a name, ``input:axis``; returns whether it exists."""
    owner, _, axis = name.rpartition(":")
    number = whole_number(axis)
    if owner not in inputs or number is None or len(sizes) != 1:
        return False
    dims = list(dimensions(inputs[owner].type))
    if number >= len(dims) or dims[number].WhichOneof("value") is not None:
        return False
    dims[number].dim_value = sizes[0]
    return True


def with_shapes(
    proto: ModelProto, base_dir: Path | None = None, *, assume_from_model: bool = False
) -> ModelProto:
    """A copy of a model with the types and shapes of all results, those of subgraphs included.

    Unknown types and shapes are omitted. Declarations that contradict the operators are dropped.
    """
    assumptions = assumed_of(proto, (), from_model=assume_from_model)
    report_unused(proto, assumptions)
    model = load_model(proto, base_dir, assumptions=assumptions)
    copy = export_model(model)
    _declare(model.graph, copy.graph)
    return copy


def _declare(graph: Graph, proto: GraphProto) -> None:
    outputs = {value.name for value in proto.output}
    for value in proto.output:
        info = graph.info_of(value.name)
        if not value.HasField("type") and info.dtype:
            value.CopyFrom(value_info(value.name, info))
        _number(value, info)
    del proto.value_info[:]
    for node, node_proto in zip(graph.nodes, proto.node, strict=True):
        for name in filter(None, node.output):
            info = graph.info_of(name)
            if info.dtype and name not in outputs:
                proto.value_info.append(value_info(name, info))
        for attribute in node_proto.attribute:
            if attribute.name in node.bodies:
                _declare(node.bodies[attribute.name], attribute.g)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Changes of a model before it is optimized.

    The optimized model is compared with the changed one.

    Attributes:
        free: name of a symbolic dimension that replaces the fixed first dimension of the inputs,
            empty for none.
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
        """Change a model in place: ``fix``, ``keep_outputs``, ``drop_outputs``, ``rename``,
        ``strip``.

        ``free`` is applied to a copy, by `xoptim.workflow.preparing.freed`. Raises `ModelError`
        when a name or a size does not fit the model.
        """
        if self.fix:
            fix_sizes(proto, self.fix, base_dir)
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
