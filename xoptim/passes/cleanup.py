"""Remove Identity nodes and whatever nothing reads; record the stored operands of MatMuls."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from xoptim.facts.dtypes import is_float
from xoptim.facts.errors import RewriteError
from xoptim.facts.schema import optional_results
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.propagate import refresh
from xoptim.graph.redirect import redirect
from xoptim.match.rewrite import Step
from xoptim.operators.registry import Trait, operators_with


def inner_first(model: Model) -> list[Graph]:
    """All graphs of a model: the main graph, then the bodies of functions, each after its
    subgraphs.
    """
    roots = (model.graph, *(function.body for function in model.functions))
    return [graph for root in roots for graph in reversed(list(root.all_graphs()))]


def learn_results(body: Graph) -> None:
    """Infer the results of the owner of a subgraph again, after the subgraph changed."""
    owner = body.owner
    if owner is not None and owner.graph is not None:
        refresh(owner.graph, [owner])


class GraphPass(Step):
    """A step that changes each graph of a model, subgraphs before the graph that contains them."""

    def run(self, model: Model) -> int:
        """Change all graphs of a model; returns the number of changes."""
        total = 0
        for graph in inner_first(model):
            count = self.run_on(graph)
            if count:
                learn_results(graph)
            total += count
        return total

    def run_in(self, model: Model, state: Any) -> int:
        """Change all graphs and send an event of the changes; returns their number."""
        count = self.run(model)
        if count:
            state.events.send("cleaned", self.title, text=f"{count} removed", level=10)
        return count

    def run_on(self, graph: Graph) -> int:
        """Change one graph, without its subgraphs; returns the number of changes."""
        raise NotImplementedError(f"{type(self).__name__} has no run_on")


Operands: TypeAlias = tuple[bool, ...]
"""Whether each operand of a node is stored in the model."""

MATMULS: Final = operators_with(Trait.SUMS_PRODUCTS, domain=None)
"""Operators that sum products of floating-point numbers.

Runtimes pack stored operands when they load a model, and have different kernels for packed and for
computed operands, which sum in different orders. So MatMul(x, w) and MatMul(x, Identity(w)) may
differ in their last bits.
"""


def stored_operands(model: Model) -> dict[Node, Operands]:
    """The stored operands of each node of `MATMULS`, and of calls of functions, which may contain
    such nodes.
    """
    calls = {function.key for function in model.functions}
    return {
        node: tuple(bool(name) and graph.tensor(name) is not None for name in node.input)
        for graph in model.graphs()
        for node in _matmuls(graph, calls)
    }


def _matmuls(graph: Graph, calls: set[tuple[str, str, str]]) -> Iterator[Node]:
    for (domain, op_type), nodes in graph.types.items():
        for node in nodes:
            may_be_float = op_type in MATMULS and all(
                is_float(graph.info_of(name).dtype or 1) for name in node.output[:1]
            )
            if may_be_float or (domain, op_type, node.overload) in calls:
                yield node


def rounds_elsewhere(before: Mapping[Node, Operands], after: Mapping[Node, Operands]) -> bool:
    """Whether MatMuls may sum in another order, as operands changed between computed and stored.

    The arguments are results of `stored_operands`. New nodes are compared with removed ones.
    """
    if any(before.get(node, operands) != operands for node, operands in after.items()):
        return True
    new = Counter(_key(node, operands) for node, operands in after.items() if node not in before)
    return bool(
        new
        - Counter(_key(node, operands) for node, operands in before.items() if node not in after)
    )


def _key(node: Node, operands: Operands) -> tuple[str, str, Operands]:
    return node.domain, node.op_type, operands


class NoteMatMuls(Step):
    """Records `stored_operands` before blocks become functions, which runtimes inline again."""

    title = "note_matmuls"

    def __init__(self) -> None:
        self.operands: Mapping[Node, Operands] | None = None  # ``None`` when it has not run

    def run(self, model: Model) -> int:
        """Record the operands; returns 0."""
        self.operands = stored_operands(model)
        return 0


class RemoveIdentities(GraphPass):
    """Removes the Identity nodes whose input can replace their output."""

    title = "remove_identity"

    def run_on(self, graph: Graph) -> int:
        """Remove Identity nodes from a graph; returns how many."""
        return remove_identities(graph.of_type("Identity"))


def remove_identities(nodes: Iterable[Node]) -> int:
    """Remove those Identity nodes whose input can replace their output; returns how many."""
    return sum(node.op_type == "Identity" and not node.domain and _bypass(node) for node in nodes)


def _bypass(node: Node) -> bool:
    graph = node.graph
    if graph is None or len(node.input) != 1 or len(node.output) != 1:
        return False
    source, target = node.input[0], node.output[0]
    if graph.scope(source) is not graph and graph.is_output(target):
        return False
    if not redirect(graph, target, source):
        return False
    if node.graph is graph:
        graph.remove(node)
    return True


class RemoveUnused(GraphPass):
    """Removes unused nodes and initializers."""

    title = "remove_unused"
    ensures = ("defined", "used")

    def run_on(self, graph: Graph) -> int:
        """Clean a graph; returns the number of nodes and initializers removed."""
        count = 0
        for node in reversed(graph.nodes):
            if node.output and not graph.is_node_needed(node):
                graph.remove(node)
                count += 1
        return count + RemoveInitializers().run_on(graph)


class RemoveInitializers(GraphPass):
    """Removes unused initializers, except those that a caller may override."""

    title = "remove_initializers"
    ensures = ("defined", "stored")

    def run_on(self, graph: Graph) -> int:
        """Remove the unused initializers of a graph; returns how many."""
        unused = [
            n for n in graph.initializers if not graph.is_needed(n) and n not in graph.overridable
        ]
        for name in unused:
            graph.remove_initializer(name)
        return len(unused)


class DropUnreadResults(GraphPass):
    """Omits optional results that nothing reads, such as the last state of an LSTM."""

    title = "drop_unread_results"

    def run_on(self, graph: Graph) -> int:
        """Drop the unread results of a graph; returns how many."""
        count = 0
        functions = graph.model.function_operators()
        for node in graph.nodes:
            is_call = bool(node.bodies) or (node.domain, node.op_type) in functions
            if len(node.output) < 2 or is_call or not graph.is_node_needed(node):
                continue
            optional = optional_results(node.op_type, node.domain, node.opset)
            outputs = [
                (
                    name
                    if index not in optional or graph.is_needed(name) or name in graph.pinned
                    else ""
                )
                for index, name in enumerate(node.output)
            ]
            unread = sum(map(bool, node.output)) - sum(map(bool, outputs))
            if unread and _keep_results(graph, node, outputs):
                count += unread
        return count


def _keep_results(graph: Graph, node: Node, outputs: list[str]) -> bool:
    """Replace a node by one with these results only; returns whether the new node is valid."""
    while not outputs[-1]:
        outputs.pop()
    replacement = Node(
        node.op_type, node.input, outputs, dict(node.attribute), domain=node.domain, name=node.name
    )
    replacement.doc_string, replacement.metadata = node.doc_string, node.metadata
    try:
        with Edit(graph) as edit:
            edit.commit([node], [replacement])
    except RewriteError:
        return False
    return True


def unused_inputs(graph: Graph) -> list[str]:
    """The inputs of the main graph that nothing reads, except those with a default value."""
    source = graph.source
    stored = {
        *graph.initializers,
        *(() if source is None else (tensor.name for tensor in source.initializer)),
    }
    return [name for name in graph.inputs if name not in stored and not graph.is_needed(name)]


class DropUnusedInputs(Step):
    """Removes the inputs of the model that nothing reads."""

    title = "drop_unused_inputs"

    def __init__(self) -> None:
        self.dropped: list[str] = []  # their names

    def run(self, model: Model) -> int:
        """Remove the inputs; returns how many."""
        graph = model.graph
        names = unused_inputs(graph)
        for name in names:
            graph.inputs.remove(name)
            del graph.declared_inputs[name]
        graph.drop_facts(names)
        self.dropped += names
        return len(names)
