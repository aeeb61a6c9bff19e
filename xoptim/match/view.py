"""The interface of patterns to a graph: queries in `match`, and the means to make nodes in
`apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.operators import has_kernel, short_name
from xoptim.facts.shapes import Info, Shape
from xoptim.graph.constants import constant_array, evaluate, store
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.propagate import infer_node
from xoptim.graph.queries import GraphQueries
from xoptim.graph.splice import lift, rebuilt, splice
from xoptim.graph.walk import is_read_beyond, owner_in
from xoptim.match.create import OpBuilder, define_function, make_node, read_moved
from xoptim.match.literals import constant_number, equals_literal
from xoptim.match.values import is_assumed, is_finite, is_one_assumed
from xoptim.operators.inference.values import known_value

Cpu: TypeAlias = Literal["any", "vnni"]
CPUS: Final[tuple[Cpu, ...]] = get_args(Cpu)


class InputTensors:
    """The tensor inputs of a graph and of its enclosing graphs, listed once for many look-ups."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _tensors(self) -> list[tuple[str, Shape]]:
        scopes = [self._graph]
        while (parent := scopes[-1].parent) is not None:
            scopes.append(parent)
        infos = ((name, scope.info_of(name)) for scope in scopes for name in scope.inputs)
        return [
            (name, info.shape) for name, info in infos if info.is_tensor and info.shape is not None
        ]

    @cached_property
    def leading(self) -> frozenset[str]:
        """Symbols in the first two axes of inputs, if these axes are assumed not to be empty."""
        if not self._graph.model.assumptions.has("nonempty"):
            return frozenset()
        # from past + n != 0 nothing follows about n, from 2*n != 0 follows n != 0
        axes = [
            axis for _, shape in self._tensors for axis in shape[:2] if not isinstance(axis, int)
        ]
        return frozenset[str]().union(
            *(axis.symbols for axis in axes if len(axis.terms) == 1 and not axis.constant)
        )

    @cached_property
    def _by_axis(self) -> dict[Dim, list[int]]:
        positions: dict[Dim, list[int]] = {}
        for index, (_, shape) in enumerate(self._tensors):
            for axis in shape:
                positions.setdefault(axis, []).append(index)
        return positions

    def with_axes(self, axes: Iterable[Dim]) -> list[tuple[str, Shape]]:
        """The tensors with one of these dimensions, with their shapes, in order."""
        return [
            self._tensors[index]
            for index in sorted({index for axis in axes for index in self._by_axis.get(axis, ())})
        ]


class GraphView(GraphQueries):
    """The queries of patterns about one graph. No method changes the graph.

    Args:
        graph: the main graph, a subgraph, or the body of a function.
        provider: execution provider that the model is optimized for (``"cpu"``, ``"cuda"``), empty
            for any.
        cpu: CPUs on which int8 matrix multiplications must be exact; ``"vnni"`` for CPUs with VNNI
            only.
    """

    __slots__ = ("_edit", "_input_tensors", "cpu", "graph", "notes", "provider", "scope")

    def __init__(self, graph: Graph, provider: str = "", cpu: Cpu = "any") -> None:
        # `scope` is where results are looked up: a `PatternRewriter` sets it to its edit
        self.graph = self.scope = graph
        self.provider, self.cpu = provider, cpu
        self._edit: Edit | None = None
        self._input_tensors = InputTensors(graph)
        self.notes: dict[Hashable, Any] | None = None
        """Search results that patterns cache until the next rewrite; ``None`` outside rounds, where
        nothing may be cached.
        """

    # ---------------------------------------------------------------- shapes and types

    def info(self, name: str) -> Info:
        """All facts about a result."""
        return self.scope.info_of(name)

    def try_infer_type(self, name: str) -> int:
        """Element type of a result, 0 when unknown."""
        return self.scope.info_of(name).dtype

    def try_infer_shape(self, name: str) -> Shape | None:
        """Shape of a result, ``None`` when unknown."""
        return self.scope.info_of(name).shape

    def static_shape(self, name: str) -> tuple[int, ...] | None:
        """Shape of a result when every axis is a number, else ``None``."""
        return self.scope.info_of(name).static_shape

    def same_shape(self, a: str, b: str) -> bool:
        """Whether two results are known to have equal shapes (symbols included)."""
        x, y = self.scope.info_of(a).shape, self.scope.info_of(b).shape
        return x is not None and x == y

    def infer(self, node: Node) -> list[Info]:
        """Facts about each result of a node inferred from its operands alone.

        Declarations of the model are ignored.
        """
        return infer_node(self.scope, node)

    def given_tensors(self, axes: Iterable[Dim]) -> list[tuple[str, Shape]]:
        """Tensor inputs of this and the enclosing graphs that have one of these axes, with their
        shapes, in order.
        """
        return self._input_tensors.with_axes(axes)

    def leading_symbols(self) -> frozenset[str]:
        """Symbols in the first two axes of inputs that are assumed not to be empty: sizes that the
        caller chooses, such as batch size and sequence length.
        """
        return self._input_tensors.leading

    def assumes(self, word: str, name: str = "") -> bool:
        """Whether an assumption holds.

        Args:
            word: a word of the default set, such as ``nonempty``, or a property of values, such as
                ``finite``.
            name: the input that has the property; empty for a property of all tensors.
        """
        return is_assumed(self.scope, word, name)

    def assumes_one_of(self, *cases: tuple[Dim, int]) -> bool:
        """Whether it is known that ``size == number`` holds in at least one of the cases.

        Either the size is that number, or an assumption such as ``batch == 1 or seq == 1``
        implies it.
        """
        return any(size == number for size, number in cases) or is_one_assumed(self.scope, cases)

    def is_finite(self, name: str) -> bool:
        """Whether a tensor has no NaN, infinity or -0, by assumptions or by its operator."""
        return is_finite(self.scope, name)

    def has_device(self, name: str) -> bool:
        """False: ONNX does not record devices."""
        return False

    def get_device(self, name: str) -> int:
        """Raises ``LookupError``: ONNX does not record devices."""
        raise LookupError(f"the device of {name!r} is unknown")

    # ---------------------------------------------------------------- constants

    def is_constant_scalar(self, name: str, value: float | None = None) -> bool:
        """Whether a result is a constant with one element, equal to ``value`` up to the rounding of
        its type if given.
        """
        number = self.get_constant_scalar(name)
        return number is not None and (value is None or self.close(name, value))

    def close(self, name: str, value: float) -> bool:
        """Whether a constant of one element is ``value``, rounded to its element type."""
        array = self.get_computed_constant(name)
        return array is not None and array.size == 1 and equals_literal(array, value)

    def get_constant_scalar(self, name: str) -> float | int | bool | None:
        """The number in a constant with one element, ``None`` for any other result."""
        return constant_number(self.scope, name)

    def get_computed_constant(self, name: str) -> np.ndarray | None:
        """The value of a constant, stored or computed, ``None`` for a result that is not constant.

        Do not modify the value.
        """
        return constant_array(self.scope, name) if name else None

    def get_ints(self, name: str) -> list[int] | None:
        """Elements of a constant integer tensor, flattened, ``None`` for any other result."""
        array = self.get_computed_constant(name)
        return (
            None
            if array is None or array.dtype.kind not in "iu"
            else [int(v) for v in array.ravel()]
        )

    def get_attribute(self, node: Node, name: str, default: Any = None) -> Any:
        """Value of an attribute: as written, else the schema's default, else ``default``."""
        return node.get_attribute(name, default)

    def get_argument(self, node: Node, name: str) -> Any:
        """An attribute that may have become an operand: a list, a number, ``None`` when absent, or
        `AT_RUN_TIME`.
        """
        return read_moved(self.scope, node, name)

    def is_stored(self, name: str) -> bool:
        """Whether a result is a stored constant that a new constant of its size may replace.

        False for a computed constant, and for external data of a model whose weights are too large
        for memory.
        """
        tensor = self.scope.tensor(name)
        if tensor is None or not tensor.is_external:
            return tensor is not None
        return not self.graph.model.has_large_data and tensor.is_readable()

    def evaluate(
        self, node: Node, operands: Sequence[np.ndarray | None]
    ) -> list[np.ndarray] | None:
        """The results of a node for these operands, ``None`` when it cannot be run."""
        return evaluate(node, list(operands))

    def known_value(self, name: str) -> np.ndarray | None:
        """Value of an integer result that follows from shapes alone."""
        return known_value(self.scope.info_of(name))

    # ---------------------------------------------------------------- graph

    def iter_nodes(self) -> Iterator[Node]:
        """All nodes in order, one at a time."""
        return iter(self.graph.nodes)

    def next_node(self, name: str) -> Node | None:
        """The node that reads a result when there is exactly one, else ``None``."""
        nodes = self.graph.consumers(name)
        return nodes[0] if len(nodes) == 1 else None

    def is_output(self, name: str) -> bool:
        """Whether a result is an output of the graph."""
        return self.graph.is_output(name)

    def is_used(self, name: str) -> bool:
        """Whether anything reads a result."""
        return self.graph.is_needed(name)

    def is_used_by_subgraph(self, name: str) -> bool:
        """Whether a subgraph reads a result."""
        return self.graph.is_captured(name)

    def is_used_more_than_once(self, name: str) -> bool:
        """Whether a result is read twice or more, is an output, or is captured by a subgraph."""
        return not self.is_exclusive(name)

    def is_exclusive(self, name: str) -> bool:
        """Whether a result is read at most once, is not an output, and is not captured by a
        subgraph.
        """
        return (
            self.graph.use_count(name) <= 1
            and not self.graph.is_output(name)
            and not self.graph.is_captured(name)
        )

    def is_used_only_by(self, name: str, *nodes: Node) -> bool:
        """Whether only these nodes read a result: it is not an output, and no subgraph reads it."""
        return not is_read_beyond(self.graph, name, nodes)

    def inside(self, body: Graph) -> GraphView:
        """The queries about a subgraph of a node of this graph."""
        return GraphView(body, self.provider, self.cpu)

    def is_before(self, first: Node, second: Node) -> bool:
        """Whether a node precedes another one in the order of the graph."""
        return owner_in(self.graph, first).label < owner_in(self.graph, second).label

    # ---------------------------------------------------------------- nodes

    def make_node(
        self,
        op_type: str,
        inputs: Sequence[str] | str,
        outputs: Sequence[str] | str | int = 1,
        domain: str = "",
        name: str = "",
        doc_string: str = "",
        **attributes: Any,
    ) -> Node:
        """Make a node without adding it to the graph; its name is generated when it is empty.

        ``outputs`` are the names of its results, or how many new names to make. Attributes that are
        ``None`` are omitted.
        """
        node = make_node(
            self._own_edit(),
            op_type,
            inputs,
            outputs,
            domain=domain,
            name=name,
            attributes=attributes,
        )
        node.doc_string = doc_string
        return node

    def make_node_check_opset(
        self,
        op_type: str,
        inputs: Sequence[str] | str,
        outputs: Sequence[str] | str | int = 1,
        domain: str = "",
        name: str = "",
        **attributes: Any,
    ) -> Node:
        """Like `make_node`.

        Attributes that became inputs (``axes`` of Squeeze, ...) may be given as attributes.
        """
        edit, adapt = self._own_edit(), not domain
        return make_node(
            edit,
            op_type,
            inputs,
            outputs,
            domain=domain,
            name=name,
            attributes=attributes,
            adapt=adapt,
        )

    def _own_edit(self) -> Edit:
        """The edit for what this view makes, created on first use."""
        if self._edit is None:
            self._edit = Edit(self.graph)
        return self._edit

    def unique_name(self, prefix: str) -> str:
        """A result name that is not used in the model."""
        return self._own_edit().names.fresh(prefix)


class PatternRewriter(GraphView):
    """The view in `apply`: all queries, and methods that make nodes, initializers and functions.

    Attributes:
        op: makes nodes as ``g.op.Add(x, y)`` and returns result names; they are collected in
            `created`.
    """

    __slots__ = ("op",)

    def __init__(
        self, graph: Graph, provider: str = "", edit: Edit | None = None, cpu: Cpu = "any"
    ) -> None:
        super().__init__(graph, provider, cpu)
        self._edit = edit
        own = self.scope = self._own_edit()
        # Not a bound method: thousands of views that refer to themselves would wait for the garbage
        # collector.
        self.op = OpBuilder(lambda: own, Edit.collect)

    @property
    def edit(self) -> Edit:
        """The edit of the graph to which new nodes and constants belong.

        Committing it changes the graph.
        """
        return self._own_edit()

    @property
    def created(self) -> list[Node]:
        """Nodes made through `op`, in order."""
        return self.edit.created

    def function(self, definition: onnx.FunctionProto | str) -> Callable[..., Any]:
        """Define a local function and return its caller: ``g.function(GELU)(x)`` makes a node like
        ``g.op.Gelu(x)``.

        For the definition see `xoptim.match.create.define_function`.
        """
        function = define_function(self.edit, definition)
        return partial(
            getattr(self.op, function.name), domain=function.domain, outputs=len(function.output)
        )

    def splice(self, body: Graph, inputs: Mapping[str, str], outputs: Sequence[str]) -> list[Node]:
        """Copies of the nodes of a subgraph for this graph, in order.

        The initializers of the subgraph are stored in this graph.

        Args:
            body: the subgraph, of a node of this graph.
            inputs: the result that replaces each input of the subgraph.
            outputs: a name for each output of the subgraph.
        """
        return splice(body, self.edit, inputs, outputs)

    def rebuilt(
        self,
        body: Graph,
        names: Mapping[str, str],
        inputs: Collection[int] = (),
        outputs: Collection[int] = (),
    ) -> onnx.GraphProto:
        """A changed copy of a subgraph, for the attributes of a new node
        (`xoptim.graph.splice.rebuilt`).
        """
        return rebuilt(body, names, inputs, outputs)

    def lift(self, body: Graph, nodes: Sequence[Node], names: dict[str, str]) -> list[Node]:
        """Copies of some nodes of a subgraph for this graph (`xoptim.graph.splice.lift`)."""
        return lift(body, nodes, self.edit, names)

    def make_initializer(self, name: str, value: Any, source: str = "") -> str:
        """Store an array, number or list, and return its name: a new one if ``name`` is in use.

        Without a name, ``source`` is used.
        """
        return store(self.edit, name or source or "constant", np.asarray(value))


def runs(g: GraphView, op_type: str, like: str, domain: str = "") -> bool:
    """Whether the provider is known to have a kernel of an operator for the element type of the
    result ``like``.

    On the CPU, the float32 kernel serves float16 as well: onnxruntime casts around it, once for the
    fused operator and once for each of the operators that it replaces.
    """
    dtype, opset = g.try_infer_type(like), g.opsets.get(domain, 1)
    if has_kernel(g.provider, domain, op_type, dtype, opset):
        return True
    # `is True`, because has_kernel returns None for unknown providers, operators and types.
    on_cpu = short_name(g.provider) == "cpu"
    return (
        on_cpu
        and dtype == TensorProto.FLOAT16
        and has_kernel(g.provider, domain, op_type, TensorProto.FLOAT, opset) is True
    )
