"""A node as denotations read it, and the table of denotations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.dims import Dim, is_anonymous
from xoptim.facts.dtypes import bits, is_float, is_integer
from xoptim.facts.schema import attribute_names, since_version
from xoptim.facts.shapes import Info, Shape, normalized
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import all_nodes, reads
from xoptim.operators.registry import OperatorKey, Trait, has_trait, is_deterministic, operator_of
from xoptim.proof.elements import LAWS, Argument, Element, function
from xoptim.proof.indices import CaseFacts, Unproved
from xoptim.proof.kinds import WHOLE, WRAPPED, limits_of
from xoptim.proof.laws import is_integral
from xoptim.proof.ranges import range_of
from xoptim.proof.tensors import Indices, Tensor, elementwise

_SIGNED: Final = {TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8}
_UNSIGNED: Final = {TensorProto.UINT64, TensorProto.UINT32, TensorProto.UINT16, TensorProto.UINT8}
_SIGNED_ZEROS: Final = ("Max", "Min")
"""Commutative operators whose result for 0 and -0 depends on the order of the operands."""
RING_TYPES: Final = frozenset(_SIGNED | _UNSIGNED)
"""Integers whose sums, differences and products wrap around."""


ReadBody: TypeAlias = Callable[[Graph, Sequence[Tensor], int], list[Tensor]]


def _without_bodies(_body: Graph, _formals: Sequence[Tensor], _depth: int) -> list[Tensor]:
    raise Unproved("a subgraph that is not read")


@dataclass(slots=True)
class Call:
    """A node with the tensors of its operands.

    Attributes:
        case: the case of the proof.
        graph: the graph of the node, which knows sizes and small integers.
        node: the node.
        operands: one per input, ``None`` for one that is omitted.
        results: facts about each output.
        captured: what the subgraphs of the node read, by name.
        known: the integers of each input, ``None`` where they are not known in this case. The facts
            of ``graph`` may belong to a later case.
        read_body: the outputs of a subgraph, given the tensors of its inputs and the number of
            loops around it.
        depth: the number of loops around the node.
    """

    case: CaseFacts
    graph: Graph
    node: Node
    operands: Sequence[Tensor | None]
    results: Sequence[Info]
    captured: Sequence[Tensor] = ()
    known: Sequence[Sequence[Dim] | None] = ()
    read_body: ReadBody = _without_bodies
    depth: int = 0

    @property
    def opset(self) -> int:
        """Version of the operator set of the node's domain."""
        return self.node.opset

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, as written or as the standard's default."""
        return self.node.get_attribute(name, default)

    def has(self, index: int) -> bool:
        """Whether an operand is present."""
        return index < len(self.operands) and self.operands[index] is not None

    def operand(self, index: int) -> Tensor:
        """An operand that has to be present."""
        tensor = self.operands[index] if index < len(self.operands) else None
        if tensor is None:
            raise Unproved(f"{self.node.op_type} without an operand")
        return tensor

    def shape(self, index: int = 0) -> Shape:
        """The shape of a result; raises `Unproved` for an unknown rank."""
        shape = self.results[index].shape
        if shape is None:
            raise Unproved(f"unknown rank of a result of {self.node.op_type}")
        return shape

    def dtype(self, index: int = 0) -> int:
        """The element type of a result; raises `Unproved` for an unknown one."""
        info = self.results[index]
        if not info.is_tensor or not info.dtype:
            raise Unproved(f"unknown type of a result of {self.node.op_type}")
        return info.dtype

    def dims(self, index: int) -> list[Dim] | None:
        """The elements of an integer operand, numbers or expressions of sizes, where known."""
        name = self.node.input[index] if index < len(self.node.input) else ""
        if not name:
            return None
        data = self.known[index]
        if data is not None:
            return list(data)
        array = self.array(index)
        return None if array is None or array.dtype.kind not in "iu" else array.ravel().tolist()

    def ints(self, index: int) -> list[int] | None:
        """The elements of an integer operand, where all are numbers."""
        dims = self.dims(index)
        numbers = [dim for dim in dims or () if isinstance(dim, int)]
        return numbers if dims is not None and len(numbers) == len(dims) else None

    def array(self, index: int) -> np.ndarray[Any, Any] | None:
        """The value of an operand that is stored."""
        tensor = self.graph.tensor(self.node.input[index])
        return None if tensor is None else tensor.numpy()

    def requires(self, *condition: Hashable) -> bool:
        """Whether a condition without which the node fails holds wherever the original runs.

        A node of a subgraph may never run, so what it requires does not count.
        """
        return self.graph.parent is None and self.case.require(*condition)

    def axes(self, name: str = "axes", index: int = 1) -> list[int] | None:
        """The axes in an attribute or an operand, also negative; ``None`` where there are none."""
        value = self.node.attribute.get(name)
        if value is not None:
            return list(value)
        if not self.has(index):
            return None
        axes = self.ints(index)
        if axes is None:
            raise Unproved(f"axes of {self.node.op_type} that are data")
        return axes

    def key(self, without: Sequence[str] = ()) -> tuple[Hashable, ...]:
        """All that decides what the node computes, but for its operands and their types.

        ``without``: names of attributes to ignore.
        """
        bodies = tuple((name, _body_key(body)) for name, body in sorted(self.node.bodies.items()))
        return *operator_key(self.node, without), bodies


def operator_key(node: Node, without: Sequence[str] = ()) -> tuple[Hashable, ...]:
    """All that decides what a node computes, but for its operands, their types, and subgraphs.

    ``without``: names of attributes to ignore.
    """
    names = attribute_names(node.op_type, node.domain, node.opset) or node.attribute.keys()
    attributes = {*names, *node.attribute} - node.bodies.keys() - {*without}
    values = ((name, node.get_attribute(name)) for name in sorted(attributes))
    settings = tuple((name, _hashable(value)) for name, value in values)
    version = since_version(node.op_type, node.domain, node.opset) or node.opset
    return node.op_type, node.domain, version, settings


def axis_within(axis: int, rank: int) -> int:
    """A non-negative axis; raises `Unproved` for one out of range."""
    nonnegative_axis = normalized(axis, rank)
    if nonnegative_axis is None:
        raise Unproved(f"axis {axis} of a tensor of rank {rank}")
    return nonnegative_axis


def _body_key(body: Graph) -> bytes:
    if body.source is None:
        raise Unproved("a subgraph that was changed")
    return body.source.SerializeToString(deterministic=True)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, float):
        return np.float32(value).tobytes(), "float"
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    if hasattr(value, "SerializeToString"):
        if isinstance(value, onnx.TensorProto):
            array = onnx.numpy_helper.to_array(value)
            content = tuple(array.ravel()) if array.dtype.kind == "O" else array.tobytes()
            return value.data_type, array.shape, content
        return bytes(value.SerializeToString(deterministic=True))
    return value if value is None or isinstance(value, (int, str, bytes)) else repr(value)


Denotation: TypeAlias = Callable[[Call], "Tensor | list[Tensor] | None"]
"""Takes a call, returns its results; ``None`` where it does not understand the call."""
_Denotation = TypeVar("_Denotation", bound=Denotation)
DENOTATIONS: Final[dict[OperatorKey, Denotation]] = {}


def denotes(*op_types: str, domain: str = "") -> Callable[[_Denotation], _Denotation]:
    """Register the denotation of one or several operators of a domain."""

    def register(denotation: _Denotation) -> _Denotation:
        for op_type in op_types:
            assert (domain, op_type) not in DENOTATIONS, op_type
            DENOTATIONS[domain, op_type] = denotation
        return denotation

    return register


def settled(element: Element, dtype: int) -> Element:
    """The element as an operator reads it: a sum or product of integers, wrapped to its type.

    A single factor is already in the range of its type.
    """
    if not is_integer(dtype) or element.single is not None:
        return element
    return wrapped(element, dtype)


def wrapped(element: Element, dtype: int) -> Element:
    """An integer of any size, modulo a power of 2, in the range of a type."""
    low, high = range_of(element)
    least, greatest = limits_of(dtype)
    if low is not None and high is not None and least <= low and high <= greatest:
        return element
    single = element.single
    if single is not None and single.key[0] == WRAPPED:
        (content,) = single.args
        if isinstance(content, Element) and bits(int(str(single.key[1]))) >= bits(dtype):
            return wrapped(content, dtype)
    return function(WRAPPED, dtype, args=[element])


LAWS[WRAPPED] = lambda key, args: wrapped(args[0], int(str(key[1])))


def is_truth(element: Element) -> bool:
    """Whether an element is known to be 0 or 1."""
    if element.single is not None:
        return element.single.is_boolean
    low, high = range_of(element)
    is_inside = low is not None and high is not None and low >= 0 and high <= 1
    return is_inside and is_integral(element)


def settled_tensor(tensor: Tensor) -> Tensor:
    """A tensor whose integers are in the range of their type."""
    if not is_integer(tensor.dtype):
        return tensor
    return tensor.mapped(lambda element: settled(element, tensor.dtype))


def is_arithmetic(call: Call) -> bool:
    """Whether the elements of the first result are added and multiplied as in a ring: integers, or
    real numbers.
    """
    dtype = call.dtype()
    return is_ring(call, dtype)


def is_ring(call: Call, dtype: int) -> bool:
    """Whether a type is added and multiplied as in a ring: `RING_TYPES`; floats unless exact."""
    return dtype in RING_TYPES or (is_float(dtype) and not call.case.is_exact)


def applied(call: Call) -> list[Tensor]:
    """The results as an uninterpreted function of elements, or of complete tensors."""
    node = call.node
    for inner in all_nodes([node]):
        if not is_deterministic(inner.op_type, inner.domain):
            raise Unproved(f"operator {inner.op_type} may be random")
    traits = operator_of(node.domain, node.op_type).traits
    broadcasts = bool(traits & {Trait.BROADCASTS, Trait.BROADCASTS_SECOND}) and call.opset >= 8
    is_pointwise = Trait.ELEMENTWISE in traits or broadcasts
    rounds_by_place = Trait.ROUNDS_BY_POSITION in traits
    is_single = len(node.output) == 1 and call.results[0].shape is not None
    if is_pointwise and is_single and not (rounds_by_place and call.case.is_exact):
        return [_pointwise(call)]
    return as_whole(call)


def _pointwise(call: Call) -> Tensor:
    operands = [settled_tensor(x) for x in call.operands if x is not None]
    return elementwise(pointwise_function(call), operands, call.shape(), call.dtype())


def pointwise_function(call: Call, without: Sequence[str] = ()) -> Callable[..., Element]:
    """The operator as an uninterpreted function of an element of each operand.

    ``without``: names of attributes to ignore.
    """
    tensors = [x for x in call.operands if x is not None]
    is_commutative = has_trait(call.node.domain, call.node.op_type, Trait.COMMUTATIVE)
    if call.case.is_exact and call.node.op_type in _SIGNED_ZEROS:
        is_commutative = False
    omitted = [x is None for x in call.operands]
    while omitted and omitted[-1]:
        omitted.pop()
    types = tuple(x.dtype for x in tensors)
    key = ("pointwise", *call.key(without), tuple(omitted), types, call.dtype())

    def compute(*elements: Element) -> Element:
        arguments = [settled(e, t) for e, t in zip(elements, types, strict=True)]
        if is_commutative and len(elements) == 2:
            arguments.sort(key=lambda element: element.serial)
        return function(*key, args=arguments)

    return compute


def as_whole(call: Call, without: Sequence[str] = ()) -> list[Tensor]:
    """The results as functions of whole tensors.

    ``without``: names of attributes to ignore.
    """
    args: list[Argument] = []
    type_codes: list[int] = []  # rank * 1000 + element type, -1 for an omitted operand
    for operand in (*call.operands, *call.captured):
        if operand is None:
            type_codes.append(-1)
            continue
        tensor = settled_tensor(operand)
        places = [call.case.place(axis, size) for axis, size in enumerate(tensor.shape)]
        args += [tensor.at(places), *tensor.shape]
        type_codes.append(tensor.rank * 1000 + tensor.dtype)
    while type_codes and type_codes[-1] == -1:
        type_codes.pop()
    captures = tuple(captured_names(call.node))
    named = tuple(bool(name) for name in call.node.output)
    key = (WHOLE, *call.key(without), tuple(type_codes), captures, named)
    return [
        _whole_result(call, place, (*key, place, info.dtype), args)
        for place, info in enumerate(call.results)
    ]


def captured_names(node: Node) -> list[str]:
    """The names that the subgraphs of a node read from outside."""
    names: set[str] = set()
    for body in node.bodies.values():
        inner_names = (name for inner in body.nodes for name in reads(inner))
        names.update(name for name in (*body.outputs, *inner_names) if not body.defines(name))
    return sorted(names)  # operands included: the key of the node lacks the names of operands


def _whole_result(
    call: Call, place: int, key: tuple[Hashable, ...], args: Sequence[Argument]
) -> Tensor:
    if not call.node.output[place]:
        return Tensor((), 0, _unread)
    shape = [
        call.case.unknown_size(key, tuple(args), axis, size=size) if is_anonymous(size) else size
        for axis, size in enumerate(call.shape(place))
    ]

    def read(indices: Indices) -> Element:
        return function(*key, args=[*args, *indices])

    return Tensor(shape, call.dtype(place), read)


def _unread(_indices: Indices) -> Element:
    raise Unproved("a result that is omitted")
