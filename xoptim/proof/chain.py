"""The values of a model, of rewrites, and of a result, compared without running them.

Equal values are found by four arguments: the same operator on equal operands, equal constants,
constants that are recomputed with equal bits, and integers that are equal polynomials of the
dimensions.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import onnx

from xoptim.facts.dims import Dim, fresh, is_anonymous, substitute
from xoptim.facts.dtypes import is_integer
from xoptim.facts.schema import schema
from xoptim.facts.shapes import Info
from xoptim.graph.graph import Graph
from xoptim.graph.model import Function, Model
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.operators.evaluate.regions import evaluate_with_onnxruntime
from xoptim.operators.registry import is_commutative, is_deterministic
from xoptim.proof.calls import operator_key
from xoptim.proof.indices import Unproved
from xoptim.proof.memory import Content, Memory, NodeRecord
from xoptim.proof.sizes import bound_sizes
from xoptim.proof.values import Term, Value, Values

Scope: TypeAlias = MutableMapping[str, Value]
_SIGNED_ZEROS: Final = ("Max", "Min")
"""Commutative operators whose result for 0 and -0 depends on the order of the operands."""
_MAX_RECOMPUTED_BYTES: Final = 1 << 26
"""Bytes of the largest constant that is computed again."""
_MAX_CONE: Final = 200
"""Maximal number of nodes on a path to a constant from the constants that it is computed from."""
_VARIADIC: Final = onnx.defs.OpSchema.FormalParameterOption.Variadic


class Reader:
    """Reads graphs into values.

    Args:
        values: where the values are kept.
        hints: earlier values by name, compared with constants of the same name by recomputing them.
        sizes: replacements of names of dimensions.
        reads_weights: whether external weights are compared by their content, not by their place.
        memory: what was read of the same model before, ``None`` to read all of it.
    """

    def __init__(
        self,
        values: Values,
        hints: Mapping[str, Value],
        sizes: Mapping[str, Dim],
        *,
        reads_weights: bool,
        memory: Memory | None = None,
    ) -> None:
        self._memory = memory
        self.values = values
        self.recomputable: list[tuple[Value, Value]] = []
        """Constants, each with what it may have been computed from."""
        self.inner: dict[str, Value | None] = {}
        """Values of subgraphs, by name; ``None`` for a name of several values."""
        self._hints = hints
        self._sizes = sizes
        self._reads_weights = reads_weights

    def read(
        self,
        graph: Graph,
        scope: Scope,
        depth: int = 0,
        operands: Mapping[str, Value] | None = None,
    ) -> None:
        """Add the values of a graph to ``scope``.

        ``depth`` is the number of graphs and calls around it, ``operands`` the values of its inputs
        where they are known. Raises `Unproved` for a value that is not defined.
        """
        for place, name in enumerate(graph.declared_inputs):
            value = (operands or {}).get(name)
            scope[name] = self._input(graph, name, place, depth) if value is None else value
        for name, tensor in graph.initializers.items():
            if name not in graph.overridable:
                scope[name] = self._constant(name, tensor)
        for node in graph.nodes:
            self._read_node(graph, node, scope, depth)

    def _input(self, graph: Graph, name: str, place: int, depth: int) -> Value:
        info = replace(self._info(graph, name, depth), data=None)
        default = graph.initializers.get(name)
        content = None if default is None else self._key(default)
        if not depth:
            return self.values.leaf(("input", name, info.dtype, info.container, content), info)
        shape = () if info.shape is None else info.shape
        dims = info.rank, *("" if is_anonymous(size) else size for size in shape)
        kind = (info.dtype, dims, info.container, str(info.element), info.type_proto)
        return self.values.leaf(("formal", depth, place, kind, content), info)

    def _key(self, tensor: Tensor) -> Hashable:
        if self._reads_weights and tensor.is_external:
            return tensor.dtype, tensor.shape, tensor.digest()
        is_cheap = tensor.is_external or not tensor.is_sampled
        return tensor.key() if is_cheap else Content(tensor)

    def _constant(self, name: str, tensor: Tensor) -> Value:
        entry = None if self._memory is None else self._memory.constants.get(tensor)
        value = self._new_constant(tensor) if entry is None else entry
        hint = self._hints.get(name)
        if hint is not None and not hint.is_same(value) and hint.root.tensor is None:
            self.recomputable.append((value, hint))
        return value.root

    def _new_constant(self, tensor: Tensor) -> Value:
        value = self.values.leaf(("constant", self._key(tensor)), tensor.info())
        self.values.set_constant(value, tensor)
        self._unite_integers(value, tensor.info())
        if self._memory is not None:
            self._memory.constants[tensor] = value
        return value

    def _info(self, graph: Graph, name: str, depth: int) -> Info:
        """Facts about a value; within a body, without symbols that may differ from run to run."""
        info = graph.info_of(name)
        if not depth and not self._sizes:
            return info
        shape = info.shape and tuple(substitute(size, self._sizes) for size in info.shape)
        data = info.data and tuple(substitute(dim, self._sizes) for dim in info.data)
        if depth and data and any(map(is_anonymous, data)):
            data = None
        if depth and shape:
            shape = tuple(fresh() if is_anonymous(size) else size for size in shape)
        return replace(info, shape=shape, data=data)

    def _unite_integers(self, value: Value, info: Info) -> None:
        """Make integers with equal elements one value."""
        is_listed = info.is_tensor and info.data is not None and info.shape is not None
        if is_listed and is_integer(info.dtype):
            label = ("integers", info.dtype, info.rank, info.data)
            self.values.unite(value, self.values.leaf(label, info))

    def _read_node(self, graph: Graph, node: Node, scope: Scope, depth: int) -> None:
        is_standard = not node.domain
        tensor = (
            graph.tensor(node.output[0]) if is_standard and node.op_type == "Constant" else None
        )
        if tensor is not None:
            scope[node.output[0]] = self._constant(node.output[0], tensor)
            return
        operands = [self._operand(scope, name) for name in node.input]
        if is_standard and node.op_type == "Identity" and operands[0] is not None:
            scope[node.output[0]] = operands[0]
            return
        results = self._results(graph, node, operands, scope, depth)
        scope.update((name, x) for name, x in zip(node.output, results, strict=False) if name)
        if all(x is None or x.root.tensor is not None for x in operands):
            self._pair_with_constants(node, scope)

    def _results(
        self,
        graph: Graph,
        node: Node,
        operands: list[Value | None],
        scope: Scope,
        depth: int,
    ) -> Sequence[Value]:
        """The results of a node, which may have been read before."""
        function = _function_of(graph.model, node)
        if function is not None:
            return self._call(function, node, operands, depth)
        if self._memory is None or depth or node.bodies:
            return self._apply(graph, node, operands, scope, depth)
        infos = tuple(map(graph.info_of, node.output))
        record = self._memory.nodes.get(node)
        if record is not None and record.holds(node, operands, infos):
            return [value.root for value in record.results]
        operand_values = tuple(operands)
        results = self._apply(graph, node, operands, scope, depth)
        self._memory.nodes[node] = NodeRecord(
            node.op_type, node.domain, operand_values, node.attribute, node.opset, infos, results
        )
        return results

    def _pair_with_constants(self, node: Node, scope: Scope) -> None:
        """Pair results with the earlier constants of their names, to be recomputed and compared.

        A pass may write a constant as a node with constant operands.
        """
        for name in node.output:
            hint = self._hints.get(name)
            if hint is not None and hint.root.tensor is not None:
                self.recomputable.append((hint, scope[name]))

    def _operand(self, scope: Scope, name: str) -> Value | None:
        if name and name not in scope:
            raise Unproved(f"{name!r} is not defined")
        return scope[name].root if name else None

    def _call(
        self, function: Function, node: Node, operands: Sequence[Value | None], depth: int
    ) -> list[Value]:
        """The results of a local function: those of its body."""
        pairs = zip(function.body.inputs, operands, strict=False)
        values = {name: operand for name, operand in pairs if operand is not None}
        if len(values) < len(function.body.inputs):
            raise Unproved(f"a call of {node.op_type} without an operand")
        inner: dict[str, Value] = {}
        self.read(function.body, inner, depth + 1, values)
        return [inner[name].root for name in function.body.outputs]

    def _apply(
        self,
        graph: Graph,
        node: Node,
        operands: list[Value | None],
        scope: Scope,
        depth: int,
    ) -> list[Value]:
        infos = [self._info(graph, name, depth) for name in node.output]
        label: tuple[Hashable, ...] = (*operator_key(node), _variadic_results(node))
        if not is_deterministic(node.op_type, node.domain):
            label = ("random", *label, node.output[0])
        for name, body in sorted(node.bodies.items()):
            label = (*label, name, len(operands), len(body.inputs), len(body.outputs))
            inner = inner_scope(scope)
            self.read(body, inner, depth + 1)
            for inner_name, value in inner.maps[0].items():
                first_value = self.inner.setdefault(inner_name, value)
                if first_value is None or not first_value.is_same(value):
                    self.inner[inner_name] = None
            operands = [*operands, *(self._operand(inner, name) for name in body.outputs)]
        is_pair = len(operands) == 2 and None not in operands
        can_swap = is_pair and is_commutative(node.op_type, node.domain)
        can_swap = can_swap and node.op_type not in _SIGNED_ZEROS
        results = self.values.apply(label, operands, infos, node, is_commutative=can_swap)
        for value, info in zip(results, infos, strict=True):
            self._unite_integers(value, info)
        return results


def inner_scope(scope: Scope) -> ChainMap[str, Value]:
    """A scope for a subgraph, which reads what the scope around it holds."""
    maps = scope.maps if isinstance(scope, ChainMap) else [scope]
    return ChainMap({}, *maps)


def _function_of(model: Model, node: Node) -> Function | None:
    """The local function that a node calls; raises `Unproved` where it takes attributes."""
    if (node.domain, node.op_type, node.overload) not in model.function_keys():
        return None
    key = node.domain, node.op_type, node.overload
    function = next(entry for entry in model.functions if entry.key == key)
    if function.proto.attribute or function.proto.attribute_proto:
        raise Unproved(f"function {node.op_type} takes attributes")
    return function


def _variadic_results(node: Node) -> int:
    """The number of results of an operator with variadic results, 0 for others."""
    definition = schema(node.op_type, node.domain, node.opset)
    outputs = () if definition is None else definition.outputs
    return len(node.output) if outputs and outputs[-1].option == _VARIADIC else 0


class Chain:
    """The values of a model, and what is known to be equal to them.

    Args:
        model: the model, which may change afterwards.
        reads_weights: see `Reader`.

    Raises:
        Unproved: for a model that cannot be read into values.
    """

    def __init__(self, model: Model, *, reads_weights: bool = False) -> None:
        self.values = Values()
        self.recomputed = 0
        """Number of constants that were computed again, with equal bits."""
        self._reads_weights = reads_weights
        self._memory = Memory()
        self.names: dict[str, Value] = {}
        self._inner: dict[str, Value] = {}  # values of subgraphs
        self.renew(model)

    @property
    def bytes_held(self) -> int:
        """Bytes of all constants in memory that were read, also of those that were replaced."""
        return self._memory.size

    def renew(self, model: Model) -> None:
        """Replace the model by another one, or by itself after changes that need no proof.

        Values that are known to be equal stay so.
        """
        self.names, self._inner = {}, {}
        self._read(model.graph, self.names, {}, memory=self._memory)
        self.inputs = dict(model.graph.declared_inputs)
        self.outputs = {name: self.names[name] for name in model.graph.outputs}

    def differing(self, model: Model, outputs: Mapping[str, Value] | None = None) -> list[str]:
        """The names of the outputs that are not known to be equal in another model.

        ``outputs``: expected values, by default the outputs of this model.
        """
        expected = self.outputs if outputs is None else outputs
        scope = self._read(model.graph, {}, {}, memory=self._memory)
        self.names.update(scope)
        names = [*expected]
        if [*model.graph.outputs] != names:
            return names
        return [name for name, value in expected.items() if not scope[name].is_same(value)]

    def rewrite(self, before: Model, after: Model, *, unites: bool = True) -> bool:
        """Add both sides of a rewrite, which is proved: they are equal from now on.

        The inputs of both sides are values of the same names. Returns whether the model has the
        values of ``before``. Raises `Unproved` where the rewrite does not fit the model.

        Args:
            before: the matched nodes, as a model.
            after: their replacement, with the same inputs and outputs.
            unites: whether both sides are equal; otherwise they are only added.
        """
        declared = dict(before.graph.declared_inputs)
        outputs = before.graph.outputs
        if declared != dict(after.graph.declared_inputs) or outputs != after.graph.outputs:
            raise Unproved("its sides have different inputs or outputs")
        missing = next((name for name in declared if self._value(name) is None), None)
        if missing is not None:
            raise Unproved(f"the model has no {missing!r}")
        if before.graph.overridable or after.graph.overridable:
            raise Unproved("an input with a default")
        if any(name not in self.names for name in declared) and _has_loops(before, after):
            raise Unproved("a loop in a subgraph")
        operands = {name: x.root for name in declared if (x := self._value(name)) is not None}
        sizes = bound_sizes(declared, {name: value.info for name, value in operands.items()})
        before_values = self._read(before.graph, {}, sizes, operands)
        values = ((self._value(name), before_values[name]) for name in outputs)
        has_values = all(value is not None and value.is_same(match) for value, match in values)
        after_values = self._read(after.graph, {}, sizes, operands)
        for name in outputs if unites else ():
            self.values.unite(before_values[name], after_values[name])
        is_inner = any(name in self._inner and name not in self.names for name in outputs)
        (self._inner if is_inner else self.names).update(after_values)
        return has_values

    def _value(self, name: str) -> Value | None:
        """The value of a name of the model, or of one of its subgraphs."""
        return self.names.get(name) or self._inner.get(name)

    def _read(
        self,
        graph: Graph,
        scope: dict[str, Value],
        sizes: Mapping[str, Dim],
        operands: Mapping[str, Value] | None = None,
        memory: Memory | None = None,
    ) -> dict[str, Value]:
        hints = {**self._inner, **self.names}  # the scope may be the same dictionary
        reader = Reader(self.values, hints, sizes, reads_weights=self._reads_weights, memory=memory)
        reader.read(graph, scope, operands=operands)
        self._inner.update((name, x) for name, x in reader.inner.items() if x is not None)
        pairs = [(value, hint) for value, hint in reader.recomputable if not value.is_same(hint)]
        for value, hint in recomputed(pairs):
            self.values.unite(value, hint)
            self.recomputed += 1
        return scope


def _has_loops(*models: Model) -> bool:
    """Whether models have subgraphs with inputs, such as the bodies of loops."""
    bodies = (graph for model in models for graph in model.graph.all_graphs())
    return any(body.parent is not None and body.declared_inputs for body in bodies)


def recomputed(pairs: Iterable[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
    """The constants that are equal to what they may have been computed from, bit by bit."""
    equal: list[tuple[Value, Value]] = []
    for value, hint in pairs:
        tensor = value.root.tensor
        if tensor is None or not hint.root.is_fixed or tensor.nbytes > _MAX_RECOMPUTED_BYTES:
            continue
        array = _Cone().computed(hint.root)
        if array is not None and _bits(array) == _bits(tensor.numpy()):
            equal.append((value, hint))
    return equal


def _bits(array: np.ndarray) -> tuple[object, ...]:
    content = array.ravel().tolist() if array.dtype.kind == "O" else array.tobytes()
    return array.dtype.str, array.shape, content if isinstance(content, bytes) else tuple(content)


class _Cone:
    """Nodes that compute a value from constants alone."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._feeds: dict[str, np.ndarray] = {}
        self._names: dict[int, str | None] = {}  # by serial number; ``None`` for no constant
        self._opsets: dict[str, int] = {}

    def computed(self, value: Value) -> np.ndarray | None:
        """The value, ``None`` where it is no constant or cannot be computed."""
        name = self._name(value, 0)
        if name is None or not self._nodes:
            return None
        result = evaluate_with_onnxruntime(
            self._nodes, self._feeds, [name], self._opsets, onnx.IR_VERSION
        )
        return None if result.values is None else result.values[name]

    def _name(self, value: Value, depth: int) -> str | None:
        if value.serial not in self._names:
            self._names[value.serial] = None  # ends the recursion if a cycle leads back to it
            if value.tensor is not None and value.tensor.nbytes <= _MAX_RECOMPUTED_BYTES:
                name = f"c{value.serial}"
                self._feeds[name] = value.tensor.numpy()
                self._names[value.serial] = name
            elif depth < _MAX_CONE:
                self._write_first(value, depth)
        return self._names[value.serial]

    def _write_first(self, value: Value, depth: int) -> None:
        for term, place in value.terms:
            if term.is_fixed and self._write(term, depth):
                self._names[value.serial] = self._nodes[-1].output[place]
                return

    def _write(self, term: Term, depth: int) -> bool:
        assert term.node is not None
        names = [
            "" if operand is None else self._name(operand.root, depth + 1)
            for operand in term.operands
        ]
        opset = term.opset
        if not names or None in names or self._opsets.setdefault(term.node.domain, opset) != opset:
            return False
        proto = onnx.NodeProto()
        proto.CopyFrom(term.node.to_proto())
        del proto.input[:], proto.output[:]
        proto.input.extend(name or "" for name in names)
        number = len(self._nodes)
        proto.output.extend(f"n{number}.{place}" for place in range(len(term.results)))
        self._nodes.append(proto)
        return True
