"""The tensors that a model computes: its inputs are uninterpreted functions of indices, its nodes
are read by their denotations.
"""

from __future__ import annotations

import inspect
from collections import ChainMap, Counter
from collections.abc import Hashable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, inliner

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.attributes import decode_attribute, encode_attribute
from xoptim.facts.bodies import write_defaults
from xoptim.facts.dims import LARGEST_SIZE, Dim, is_anonymous, is_nonnegative, named, substitute
from xoptim.facts.dtypes import is_float
from xoptim.facts.protos import every_node, opset_versions
from xoptim.facts.schema import attribute_defaults, schema
from xoptim.facts.shapes import Info, Shape
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.propagate import infer_node
from xoptim.operators.inference.fallback import is_refused
from xoptim.operators.inference.types import type_proto_to_info
from xoptim.operators.registry import Trait, operators_with
from xoptim.proof import denotations
from xoptim.proof.calls import DENOTATIONS, Call, applied, captured_names
from xoptim.proof.elements import Element, function
from xoptim.proof.empty import check_empty
from xoptim.proof.indices import (
    RESERVED,
    UNNAMED,
    CaseFacts,
    Impossible,
    Unproved,
    check_time,
    symbols_of,
)
from xoptim.proof.kinds import CONSTANT, AnyArray
from xoptim.proof.laws import dim_of
from xoptim.proof.tensors import Indices, Items, StoredReader, Tensor, Unranked, integer_tensor
from xoptim.verification.runs.protos import with_definitions

assert denotations  # registers the denotations

_MAX_LISTED: Final = 16
"""Maximal number of elements of an integer input that has a symbol for each element.

Such elements may be used as sizes.
"""
_INTEGERS: Final[dict[int, int]] = {TensorProto.INT64: 64, TensorProto.INT32: 32}

_CAN_EXPAND: Final = (
    "inline_schema_functions" in inspect.signature(inliner.inline_selected_functions).parameters
)
_MAX_DEPTH: Final = 3
"""Maximal number of definitions within definitions."""
DEFINED: Final = operators_with(Trait.HAS_BODY)
"""Operators that are read by their function bodies, where numbers are read as real."""

_FLAGS: Final = frozenset(
    (
        *("allowzero", "antialias", "causal", "ceil_mode", "center_point_box", "channels_last"),
        *("count_include_pad", "do_rotary", "exclude_outside", "exclusive", "fmod", "interleaved"),
        *("is_causal", "keepdims", "noop_with_empty_axes", "reverse", "rotary_interleaved"),
        *("saturate", "select_last_index", "sorted", "storage_order", "training_mode", "transA"),
        *("transB", "transBatchA", "transBatchB", "unidirectional", "upper"),
    )
)
"""Attributes that are switches."""


class Side:
    """One of the two models of a proof, loaded once and read for each case.

    Over real numbers, the inputs with the names ``constants`` are constants of any finite elements.
    Raises `Unproved` for a model that no proof covers.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        assumptions: Assumptions,
        constants: Sequence[str] = (),
        *,
        is_exact: bool = True,
    ) -> None:
        self._source = model
        self._constants = constants
        self._assumptions = assumptions
        # The model of the caller is not changed.
        copy = model
        if model.graph.value_info or not is_exact:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            copy.graph.ClearField("value_info")
        if copy.functions:
            copy = inliner.inline_local_functions(copy)
        for node in every_node(copy.graph.node):  # before function bodies replace nodes
            _require_flags(node)
        if not is_exact:
            copy = with_function_bodies(_with_pack_definitions(copy))
        self._proto = copy
        self.model = load_model(copy, infer=False, assumptions=assumptions)
        self.graph = self.model.graph
        if self.graph.overridable:
            raise Unproved("an input with a default")
        self.premises = _shared_names(self.graph.declared_inputs)
        self.inputs = {
            name: _input_info(name, info) for name, info in self.graph.declared_inputs.items()
        }
        shapes = [info.shape or () for info in self.inputs.values()]
        # sizes of inputs that are formulas of other sizes, and may be negative for some of these
        self.formulas = [
            size
            for size in dict.fromkeys(size for shape in shapes for size in shape)
            if not isinstance(size, int) and not is_nonnegative(size)
        ]
        # whether a formula may be 0 although each of its symbols is at least 1
        compound = (s for shape in shapes for s in shape if not isinstance(s, int))
        self.may_vanish = any(not s.is_symbol and not is_nonnegative(s - 1) for s in compound)
        # whether a size of an input is 0
        self.has_zeros = any(0 in shape for shape in shapes)
        # the names of sizes that are 0 in some inputs that the model accepts
        self.sizes = _sizes_from_zero(self.graph.declared_inputs, shapes)
        self.memory = Memory()

    def over_real_numbers(self) -> Side:
        """The model with function bodies in place of the operators that have them; this `Side` if
        there are none.
        """
        has_bodies = any(not n.domain and n.op_type in DEFINED for n in self._proto.graph.node)
        if not has_bodies and with_definitions(self._proto) is self._proto:
            return self
        return Side(self._source, self._assumptions, self._constants, is_exact=False)

    def outputs(self, case: CaseFacts, sizes: Mapping[str, Dim]) -> list[Tensor]:
        """The outputs, with ``sizes`` in place of names of sizes."""
        values: dict[str, Tensor] = {}
        for name, info in self.inputs.items():
            sized = _replaced(info, sizes, least=0 if case.has_zeros else 1)
            self.graph.learn(name, sized)
            is_constant = not case.is_exact and name in self._constants
            place = self._constants.index(name) if is_constant else None
            values[name] = _input_tensor(name, sized, place)
        return _Reading(case, self.graph, values, self.memory).outputs()


class Memory:
    """A cache for all cases of a model.

    Attributes:
        valid: nodes of the model, outside of subgraphs, that a runtime loads.
        constants: readers of constants, by graph and name.
    """

    def __init__(self) -> None:
        self.valid: set[Node] = set()
        self.constants: dict[tuple[Graph, str], StoredReader] = {}


class _Reading:
    """A graph in one case, whose nodes are read in order.

    Args:
        case: the case.
        graph: the graph, which knows the facts about its inputs.
        values: the tensors of its inputs, and of the graphs around it.
        memory: the cache for all cases of the model.
        depth: the number of loops around it.
    """

    def __init__(
        self,
        case: CaseFacts,
        graph: Graph,
        values: MutableMapping[str, Tensor],
        memory: Memory,
        depth: int = 0,
    ) -> None:
        self.case = case
        self.graph = graph
        self.values = values
        self.memory = memory
        self.depth = depth

    def outputs(self) -> list[Tensor]:
        """The tensors of the outputs of the graph."""
        for name, stored in self.graph.initializers.items():
            self.graph.learn(name, stored.info())
        for node in self.graph.nodes:
            self._read(node)
        return [self._value(name) for name in self.graph.outputs]

    def _read(self, node: Node) -> None:
        check_time()
        if node.op_type == "Constant" and not node.domain:
            stored = self.graph.tensor(node.output[0])
            if stored is None:
                raise Unproved("a constant of another kind than a tensor")
            self.graph.learn(node.output[0], stored.info())
            return
        results = infer_node(self.graph, node)[: len(node.output)]
        for name, info in zip(node.output, results, strict=True):
            if name:
                self.graph.learn(name, info)
        if all(self._has_known_integers(name) or not name for name in node.output):
            self._require_valid(node)
            return  # known integers
        operands = [self._value(name) if name else None for name in node.input]
        _require_types(node, operands)
        captured = [self._value(name) for name in captured_names(node)]
        # copied, because the next case replaces the facts of the graph
        data = [self.graph.info_of(name).data if name else None for name in node.input]
        call = Call(
            self.case, self.graph, node, operands, results, captured, data, self._body, self.depth
        )
        denotation = DENOTATIONS.get((node.domain, node.op_type))
        tensors = None if denotation is None else denotation(call)
        if tensors is None:
            tensors = applied(call)
        outputs = [tensors] if isinstance(tensors, Tensor) else tensors
        if self.case.has_zeros:
            check_empty(call, outputs, [name for name in node.input if not self._is_stored(name)])
        for name, tensor in zip(node.output, outputs, strict=False):
            if name:
                self.values[name] = tensor
                if isinstance(tensor, Items | Unranked):
                    continue
                # Sizes that depend on values have other names than inference gave them.
                info = self.graph.info_of(name)
                self.graph.learn(name, Info(tensor.dtype, tensor.shape, info.data))

    def _body(self, body: Graph, formals: Sequence[Tensor], depth: int) -> list[Tensor]:
        """The outputs of a subgraph, whose inputs are these tensors."""
        names = [*body.declared_inputs]
        if body.overridable or len(names) != len(formals):
            raise Unproved("a subgraph whose inputs do not match its operands")
        results = (name for node in body.nodes for name in node.output)
        definitions = {*names, *body.initializers, *results} - {""}
        if any(name in self.values or _is_defined(self.graph, name) for name in definitions):
            raise Unproved("a name that a subgraph defines again")
        inner = ChainMap[str, Tensor]({}, self.values)
        for name, tensor in zip(names, formals, strict=True):
            dim = _index_of(tensor)
            _require_declared(body.declared_inputs[name], tensor)
            body.learn(name, Info(tensor.dtype, tensor.shape, None if dim is None else (dim,)))
            inner[name] = tensor
        outputs = _Reading(self.case, body, inner, self.memory, depth).outputs()
        source = None if body.source is None else body.source.output
        if source is None or len(source) != len(outputs):
            raise Unproved("a subgraph that was changed")
        for value, tensor in zip(source, outputs, strict=True):
            _require_declared(type_proto_to_info(value.type), tensor)
        return outputs

    def _require_valid(self, node: Node) -> None:
        """Raise `Unproved` for a node that no runtime loads, although its results are inferred.

        A runtime loads a model before it knows the sizes of inputs, so one case decides.
        """
        if node in self.memory.valid:
            return
        inputs = [self.graph.info_of(name) if name else None for name in node.input]

        def constant(index: int) -> np.ndarray[Any, Any] | None:
            stored = self.graph.tensor(node.input[index])
            return None if stored is None else stored.numpy()

        refused, _ = is_refused(node.to_proto(), node.opset, inputs, constant)
        if refused:
            raise Unproved(f"an invalid {node.op_type}")
        if self.graph.parent is None:
            self.memory.valid.add(node)

    def _is_stored(self, name: str) -> bool:
        """Whether an input is omitted, a constant, or known integers."""
        return not name or self.graph.tensor(name) is not None or self._has_known_integers(name)

    def _has_known_integers(self, name: str) -> bool:
        """Whether all elements are integers that are known as numbers or size expressions."""
        return self.graph.info_of(name).data is not None

    def _value(self, name: str) -> Tensor:
        if name not in self.values:
            self.values[name] = self._constant(name)
        return self.values[name]

    def _constant(self, name: str) -> Tensor:
        info = self.graph.info_of(name)
        stored = self.graph.tensor(name)
        is_float_array = stored is not None and is_float(stored.dtype)
        if info.data is not None and info.static_shape is not None and not is_float_array:
            return integer_tensor(info.data, info.static_shape, info.dtype)
        if stored is None:
            raise Unproved(f"the value {name!r} is not computed")
        if stored.dtype == TensorProto.STRING:
            raise Unproved("strings")
        key = self.graph, name
        if key not in self.memory.constants:
            self.memory.constants[key] = StoredReader(stored.numpy())
        return self.memory.constants[key].tensor(stored.dtype, keeps_zeros=self.case.is_exact)


def _require_declared(declared: Info, tensor: Tensor) -> None:
    """Raise `Unproved` where a subgraph declares another type or shape of an input or an output."""
    if declared.dtype not in (0, None, tensor.dtype) or not declared.is_tensor:
        raise Unproved("a subgraph that declares another type")
    if declared.shape is None:
        return
    pairs = zip(declared.shape, tensor.shape, strict=False)
    numbers = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
    if len(declared.shape) != tensor.rank or any(a != b for a, b in numbers):
        raise Unproved("a subgraph that declares another shape")


def _is_defined(graph: Graph | None, name: str) -> bool:
    """Whether a graph, or one around it, defines a name."""
    return graph is not None and (graph.defines(name) or _is_defined(graph.parent, name))


def _index_of(tensor: Tensor) -> Dim | None:
    """The integer that a scalar is, ``None`` where it is not known as one."""
    is_index = not tensor.rank and tensor.dtype in _INTEGERS
    return dim_of(tensor.at(())) if is_index else None


def _require_flags(node: onnx.NodeProto) -> None:
    """Raise `Unproved` where a flag is neither 0 nor 1: the standard leaves its meaning open."""
    for attribute in node.attribute:
        if attribute.name in _FLAGS and decode_attribute(attribute) not in (0, 1):
            raise Unproved(f"{attribute.name} = {attribute.i} of {node.op_type}")


def _require_types(node: Node, operands: Sequence[Tensor | None]) -> None:
    """Raise `Unproved` for operands of different types where ONNX requires the same type."""
    definition = schema(node.op_type, node.domain, node.opset)
    if node.domain or definition is None or not definition.inputs:
        return
    variables = {constraint.type_param_str for constraint in definition.type_constraints}
    types: dict[str, int] = {}
    for place, operand in enumerate(operands):
        formal = definition.inputs[min(place, len(definition.inputs) - 1)]
        is_free = formal.type_str not in variables or not formal.is_homogeneous
        if operand is None or is_free:
            continue
        if types.setdefault(formal.type_str, operand.dtype) != operand.dtype:
            raise Unproved(f"operands of {node.op_type} of several types")


def _with_pack_definitions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the definitions of packs in place of custom operators."""
    defined = with_definitions(model)
    if defined is model:
        return model
    defaults = {(body.domain, body.name): body.attribute_proto for body in defined.functions}
    for node in defined.graph.node:
        write_defaults(node, defaults.get((node.domain, node.op_type), ()))
    return inliner.inline_local_functions(defined, convert_version=True)


def with_function_bodies(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the function bodies of ONNX in place of operators that they define."""
    for _ in range(_MAX_DEPTH):
        names = sorted({node.op_type for node in model.graph.node if not node.domain} & DEFINED)
        if not names or not _CAN_EXPAND:
            break
        keys = [("", name) for name in names]
        _write_defaults(model, names)
        try:
            model = inliner.inline_selected_functions(model, keys, inline_schema_functions=True)
        except (RuntimeError, ValueError):  # no body for this call
            break
    return model


def _write_defaults(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Write the defaults of attributes, to which the bodies of some operators refer."""
    opset = opset_versions(model.opset_import).get("", 1)
    for node in model.graph.node:
        if node.op_type in names and not node.domain:
            values = attribute_defaults(node.op_type, "", opset)
            write_defaults(node, (encode_attribute(name, value) for name, value in values.items()))


def _input_info(name: str, info: Info) -> Info:
    """The facts about an input: a symbol for each size, and for each of a few integer elements.

    Sizes are at least 1.
    """
    if not info.is_tensor or not info.dtype:
        raise Unproved(f"input {name!r} is no tensor of known type")
    if info.dtype == TensorProto.STRING:
        raise Unproved("strings")
    if info.shape is None:
        return Info(info.dtype)
    shape = tuple(
        _positive(size) if not is_anonymous(size) else _size_of(f"{UNNAMED}{name}:{axis}")
        for axis, size in enumerate(info.shape)
    )
    bits = _INTEGERS.get(info.dtype)
    count = _count(shape)
    if bits is None or count is None:
        return Info(info.dtype, shape)
    limits = -(1 << bits - 1), (1 << bits - 1) - 1
    data = tuple(named(f"{UNNAMED}{name}[{place}]", limits) for place in range(count))
    return Info(info.dtype, shape, data)


def _size_of(name: str) -> Dim:
    """A size without a name in the model, which no other size of the model is equal to."""
    return named(name, (1, LARGEST_SIZE))


def _shared_names(inputs: Mapping[str, Info]) -> list[str]:
    """The premises that sizes of one name are equal, for names that occur several times."""
    sizes = [size for info in inputs.values() for size in info.shape or ()]
    counts = Counter(name for size in sizes for name in symbols_of(size) if not _is_hidden(size))
    return [f"sizes named {name} are equal" for name, count in counts.items() if count > 1]


def _is_hidden(size: Dim) -> bool:
    return isinstance(size, int) or is_anonymous(size)


def _sizes_from_zero(inputs: Mapping[str, Info], shapes: Iterable[Shape]) -> list[str]:
    """The names of the sizes of inputs that no assumption makes positive."""
    declared = (size for info in inputs.values() for size in info.shape or ())
    positive = {
        name
        for size in declared
        if not isinstance(size, int)
        for name in size.symbols
        if not is_anonymous(size) and (size.symbol(name) or size).low not in (None, 0)
    }
    names = {name for shape in shapes for size in shape for name in symbols_of(size)}
    return sorted(names - positive)


def _count(shape: Shape) -> int | None:
    """The number of elements of a short vector or a scalar."""
    if not shape:
        return 1
    size = shape[0]
    return size if len(shape) == 1 and isinstance(size, int) and size <= _MAX_LISTED else None


def _positive(size: Dim) -> Dim:
    """A size whose symbols are at least 1.

    Symbols of assumed multiples (``(n//8)``) keep their limits.
    """
    if isinstance(size, int):
        if size < 0:
            raise Unproved("a negative size")
        return size
    if any(name.startswith(RESERVED) for name in size.symbols):
        raise Unproved("a size whose name begins with a reserved character")
    values: dict[str, Dim] = {}
    for name in size.symbols:
        symbol = size.symbol(name)
        if symbol is None or symbol.high is None:
            raise Unproved("a size that is a formula")
        if not name.startswith("("):
            values[name] = named(name, (max(symbol.low or 1, 1), symbol.high))
    return substitute(size, values)


def _replaced(info: Info, sizes: Mapping[str, Dim], least: int) -> Info:
    if not sizes or info.shape is None:
        return info
    shape = tuple(substitute(size, sizes) for size in info.shape)
    if any(isinstance(size, int) and size < least for size in shape):
        raise Impossible
    data = None if info.data is None else tuple(substitute(dim, sizes) for dim in info.data)
    return Info(info.dtype, shape, data)


def _input_tensor(name: str, info: Info, place: int | None) -> Tensor:
    """The tensor of an input; ``place``: its number among the inputs that are constants."""
    key: tuple[Hashable, ...] = ("input", name, info.dtype)
    if info.shape is None:
        return Unranked(name, info.dtype, function(*key))
    if info.data is not None:
        return integer_tensor(info.data, info.static_shape or (), info.dtype)
    if place is not None:
        key = CONSTANT, AnyArray(place, info.dtype)

    def read(indices: Indices) -> Element:
        return function(*key, args=indices)

    return Tensor(info.shape, info.dtype, read)
