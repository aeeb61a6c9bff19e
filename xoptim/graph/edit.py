"""A transaction, the only way in which a rewrite changes a graph: checked, placed in order,
committed completely or dropped.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from xoptim.facts.errors import Declined, RewriteError
from xoptim.facts.operators import objection, objection_to_types, operator_label
from xoptim.facts.schema import DOMAIN_VERSIONS
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.graph.expanded import expanded, reads_expanded
from xoptim.graph.graph import Graph
from xoptim.graph.load_nodes import load_bodies
from xoptim.graph.model import Function, Model
from xoptim.graph.names import Names
from xoptim.graph.node import Node
from xoptim.graph.propagate import check_results, infer_node, refine, refresh, spread_constness
from xoptim.graph.walk import defined_inside, is_read_beyond, is_visible, move_after, readers, reads


def find_places(
    graph: Graph, gone: Collection[Node], new: Sequence[Node], insert_at: Node | None = None
) -> tuple[list[Node | None], list[Node]]:
    """For each new node the node after which it goes (``None``: at the beginning), and the nodes
    that must move after the new ones.

    New nodes stay together if they can, at ``insert_at`` or else where the last removed node is.
    Otherwise each goes directly after its operands: a rewrite may change nodes on both sides of
    nodes that stay.

    Args:
        graph: the graph, which still contains the removed nodes.
        gone: the removed nodes.
        new: the new nodes, in order.
        insert_at: the preferred place.

    Raises:
        Declined: the nodes would form a cycle.
    """
    try:
        place, region = find_place(graph, gone, new, insert_at)
    except Declined:
        return _after_operands(graph, gone, new), []
    return [place, *new][: len(new)], region


def _after_operands(graph: Graph, gone: Collection[Node], new: Sequence[Node]) -> list[Node | None]:
    places: list[Node | None] = []
    # for each new result, the node of the graph after which its producer goes
    anchors: dict[str, Node | None] = {}
    last_added: dict[Node | None, Node] = {}  # the last new node after each anchor
    for node in new:
        operands = [
            anchors[name] if name in anchors else graph.producer(name) for name in reads(node)
        ]
        anchor = max(filter(None, operands), key=lambda n: n.label, default=None)
        consumers = (
            reader
            for name in node.output
            if name
            for reader in readers(graph, name)
            if reader not in gone
        )
        if anchor is not None and any(reader.label <= anchor.label for reader in consumers):
            raise Declined("the new nodes would form a cycle with the ones that stay")
        places.append(last_added.get(anchor, anchor))
        last_added[anchor] = node
        anchors.update(dict.fromkeys(node.output, anchor))
    return places


def find_place(
    graph: Graph, gone: Collection[Node], new: Sequence[Node], insert_at: Node | None = None
) -> tuple[Node | None, list[Node]]:
    """As `find_places`, for new nodes that stay together: their place, and the nodes to move."""
    produced = dict.fromkeys(name for node in new for name in node.output if name)
    producers = (
        graph.producer(name) for node in new for name in reads(node) if name not in produced
    )
    last_producer = max(filter(None, producers), key=lambda node: node.label, default=None)
    consumers = dict.fromkeys(
        node for name in produced for node in readers(graph, name) if node not in gone
    )
    limit = min((reader.label for reader in consumers), default=None)
    preferred = insert_at if insert_at is not None and insert_at.graph is graph else None
    for candidate in (preferred, max(gone, key=lambda n: n.label, default=None)):
        if (
            candidate is not None
            and (last_producer is None or last_producer.label <= candidate.label)
            and (
                limit is None
                or candidate.label < limit
                or (candidate.label == limit and last_producer is not candidate)
            )
        ):
            place = candidate if last_producer is candidate else candidate.previous
            while place is not None and place in gone:
                place = place.previous
            return place, []
    if last_producer is None or limit is None or limit > last_producer.label:
        return last_producer, []
    return last_producer, _region(
        graph,
        last_producer,
        [reader for reader in consumers if reader.label <= last_producer.label],
        new,
    )


def _region(graph: Graph, place: Node, first: Sequence[Node], new: Sequence[Node]) -> list[Node]:
    """The nodes in ``first``, and all nodes up to ``place`` that depend on them.

    This is the affected region of Pearce and Kelly, *A Dynamic Topological Sort Algorithm for
    Directed Acyclic Graphs* (2006).
    """
    needed = {graph.producer(name) for node in new for name in reads(node)}
    region: dict[Node, None] = dict.fromkeys(first)
    pending = list(first)
    while pending:
        node = pending.pop()
        if node in needed:
            raise Declined("the new nodes would form a cycle with the ones that stay")
        for follower in (reader for name in node.output for reader in readers(graph, name)):
            if follower.label <= place.label and follower not in region:
                region[follower] = None
                pending.append(follower)
    return list(region)


class Edit(Graph):
    """The nodes, initializers, functions, facts and names that a rewrite makes, before any of them
    is in the graph.

    An edit is a scope inside the graph that it is going to change: lookups search the edit first,
    then the graph. `commit` checks everything and moves it into the graph. Used as a context
    manager, an edit that is not committed leaves the graph unchanged, even if an exception is
    raised.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.model, graph.name, parent=graph)
        # captures of new subgraphs are recorded here: the graph must not change before the commit
        self.references.outer = None
        self.target = graph  # the graph to change
        self.functions: list[Function] = []  # local functions to add to the model
        self.created: list[Node] = []  # nodes made so far, in order
        # nodes whose results have not been inferred yet, by result
        self._uninferred: dict[str, Node] = {}
        self._names = Names(graph.names)
        self._node_names: Names | None = None
        self._watched = _Watched(())

    @property
    def names(self) -> Names:
        """Result names; names that the edit reserves are free again unless it is committed."""
        return self._names

    @property
    def node_names(self) -> Names:
        """Names of nodes, reserved in the same way."""
        if self._node_names is None:
            self._node_names = Names(self.target.node_names)
        return self._node_names

    def collect(self, node: Node) -> None:
        """Keep a new node.

        Its results are inferred at the first lookup, or at the latest when the edit is committed.
        """
        self.created.append(node)
        self._uninferred.update(dict.fromkeys(node.output, node))

    def info_of(self, name: str) -> Info:
        """The facts about a result of a new node, or of the graph."""
        node = self._uninferred.get(name)
        if node is not None:
            del self._uninferred[name]  # first: a wrong node may read its own result
            self._learn_results(node, infer_node(self, node))
        return super().info_of(name)

    def _learn_results(self, node: Node, results: Sequence[Info]) -> None:
        for name in node.output:
            self._uninferred.pop(name, None)
        for name, info in zip(node.output, results, strict=False):
            if name:
                self.learn(name, info)

    def watch(self, nodes: Iterable[Node]) -> None:
        """Remember the operands and results of these nodes of the graph, which the rewrite must not
        change.
        """
        self._watched = _Watched(nodes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watched.restore()

    # ---------------------------------------------------------------- committing

    def commit(
        self, removed: Sequence[Node], added: Sequence[Node], insert_at: Node | None = None
    ) -> None:
        """Take ``removed`` out of the graph and put ``added`` in; a node in both stays as it is.

        New initializers are stored if the new nodes read them. An error leaves the graph unchanged.

        Args:
            removed: nodes of the graph.
            added: new nodes in an order in which they can run, producing every result of the
                removed nodes that is still read.
            insert_at: place for the new nodes, if possible; by default that of the last removed
                node.

        Raises:
            Declined: when an operator does not take the types of its operands.
            RewriteError: when an operator or an attribute does not exist, a result would be
                missing, defined twice, or of another type or shape, nodes would form a cycle, or
                matched nodes were modified.
            ModelError: when a subgraph of a new node is invalid.
        """
        changed = self._watched.restore()
        if changed is not None:
            raise RewriteError(
                f"the rewrite modified {changed!r}, which is in the graph; make a new node in its "
                "place"
            )
        gone, new = self._split(removed, added)
        inner_names = {name for node in gone for name in defined_inside(node)}
        hiding = {name for name in inner_names if self.target.scope(name) is not None}
        freed = {name for node in gone for name in node.output if name} | (inner_names - hiding)
        for node in new:
            self._admit(node, freed, hiding)
        self._check_nothing_disappears(gone, freed)
        places, region = find_places(self.target, gone, new, insert_at)
        self._carry_out(gone, new, places, region)

    def append(self, node: Node) -> None:
        """Put one new node at the end of the graph; raises the errors of `commit`."""
        self._admit(node, set(), set())
        self._carry_out({}, [node], [self.target.nodes.last], [])

    def _split(
        self, removed: Sequence[Node], added: Sequence[Node]
    ) -> tuple[dict[Node, None], list[Node]]:
        if any(node.graph is not self.target for node in removed):
            raise RewriteError("a node that is to be replaced is not a node of this graph")
        new = [node for node in added if node.graph is None]
        if any(node.graph is not None and node not in removed for node in added):
            raise RewriteError("a replacement contains a node of the graph that was not matched")
        kept = set(added)
        return dict.fromkeys(node for node in removed if node not in kept), new

    def _admit(self, node: Node, freed: set[str], hiding: set[str]) -> None:
        """Check one new node and infer its results; from then on the nodes after it may read them.

        Args:
            node: the new node.
            freed: names that no other node defines any more.
            hiding: names in removed subgraphs that hide outer values; new subgraphs may as well.
        """
        _check_call(node, self.model, self.functions, self.target.opsets)
        load_bodies(self, node)
        self._check_names(node, freed, hiding)
        _check_types(self, node)
        results = infer_node(self, node)
        check_results(self.target, node.output, results)
        self.link((node,))
        infos = [self.target.known(name) or UNKNOWN for name in node.output]
        self._learn_results(node, list(map(refine, infos, results)))

    def _check_names(self, node: Node, freed: set[str], hiding: set[str]) -> None:
        """Raise if a node, subgraphs included, reads a name not defined before it, or defines one
        that is defined elsewhere.
        """
        for name in defined_inside(node):
            if self.scope(name) is not None and name not in freed and name not in hiding:
                raise RewriteError(
                    f"a subgraph of a new {node.op_type} defines {name!r}, which is already "
                    "defined outside"
                )
        for name in reads(node):
            if not self.defines(name) and (name in freed or not is_visible(self.target, name)):
                raise RewriteError(
                    f"a new {node.op_type} reads {name!r}, which is not defined before it"
                )
        for name in filter(None, node.output):
            if self.defines(name) or not (name in freed or self._is_new(name)):
                raise RewriteError(
                    f"a new {node.op_type} produces {name!r}, which is already defined"
                )

    def _is_new(self, name: str) -> bool:
        """Whether only this edit uses or reserves a name.

        Names are unique in the model with its subgraphs, so that no inner name hides an outer one.
        """
        return name in self._names.used or name not in self._names

    def _check_nothing_disappears(self, gone: dict[Node, None], freed: set[str]) -> None:
        graph = self.target
        for name in sorted(name for name in freed if self.producer(name) is None):
            if is_read_beyond(graph, name, gone):
                raise RewriteError(f"result {name!r} is removed but still read")

    # ---------------------------------------------------------------- the commit

    def _carry_out(
        self,
        gone: dict[Node, None],
        new: Sequence[Node],
        places: Sequence[Node | None],
        region: Sequence[Node],
    ) -> None:
        """Change the graph, after all checks.

        Only an interrupt or a listener can stop the change, which is then undone.
        """
        graph, model = self.target, self.target.model
        before = _Before(graph, gone, region)
        try:
            read_expanded = any(reads_expanded(graph, node) for node in gone)
            move_after(graph, places[0] if places else None, region)
            for node in gone:
                graph.remove(node)
            for name in dict.fromkeys(name for node in new for name in reads(node)):
                if name in self.initializers:
                    tensor = self.initializers[name]
                    graph.add_initializer(
                        name, (expanded(graph, tensor) if read_expanded else None) or tensor
                    )
            for node, place in zip(new, places, strict=True):
                graph.insert(node, place)
                for body in node.bodies.values():
                    body.enter(graph)
            model.functions += self.functions
            for function in self.functions:
                model.opsets.setdefault(function.proto.domain, 1)
            self._store_facts(new, before.facts)
        except BaseException:
            before.restore(new)
            raise
        graph.suspect(new)
        self._names.commit()
        if self._node_names is not None:
            self._node_names.commit()

    def _store_facts(self, new: Sequence[Node], old_facts: Mapping[str, Info | None]) -> None:
        """Move the facts about new results into the graph; where they differ from the old ones,
        infer the readers again.
        """
        graph = self.target
        consumers: dict[Node, None] = {}
        for node in new:
            for name in filter(None, node.output):
                graph.learn(name, self.info_of(name))
                if old_facts.get(name) is not None and self.info_of(name) is not old_facts[name]:
                    consumers.update(dict.fromkeys(readers(graph, name)))
            if graph.learn_constness(node):
                spread_constness(
                    graph, [reader for name in node.output for reader in graph.consumers(name)]
                )
            if graph.sees_overridable():
                graph.learn_dependence(node, reads(node))
        if consumers:
            refresh(graph, list(consumers))


def _check_call(
    node: Node, model: Model, functions: Sequence[Function], opsets: Mapping[str, int]
) -> None:
    """Raise `RewriteError` unless a new node is valid in the model with these local functions."""
    results = [name for name in node.output if name]
    if node.graph is not None:
        raise RewriteError(f"a new {node.op_type} is already in the replacement")
    if not all(isinstance(name, str) for name in (*node.input, *node.output)) or not results:
        raise RewriteError(
            f"operands and results must be names, at least one result not empty: {node!r}"
        )
    if len(set(results)) < len(results):
        raise RewriteError(
            f"a new {node.op_type} has two results of the same name: {', '.join(results)}"
        )
    if node.untouched_proto is not None:
        return  # a copy of a node of the model, which may be of a deprecated operator
    if (node.domain, node.op_type) in model.hidden_operators:
        raise RewriteError(
            "a local function of the model hides operator "
            f"{operator_label(node.op_type, node.domain)}"
        )
    key = (node.domain, node.op_type, node.overload)
    if key in model.function_keys() or any(key == function.key for function in functions):
        return
    reason = objection(
        node.op_type, node.domain, node.attribute, len(node.input), len(node.output), opsets
    )
    if reason is not None:
        raise RewriteError(reason)


def _check_types(edit: Edit, node: Node) -> None:
    """Raise `Declined` if a new node cannot take the types of its operands: few operators take
    8-bit floats or strings.
    """
    if (
        node.untouched_proto is None
        and (node.domain, node.op_type) not in edit.model.function_operators()
    ):
        infos = [edit.info_of(name) if name else UNKNOWN for name in node.input]
        dtypes = [info.dtype if info.is_tensor else 0 for info in infos]
        opset = edit.target.opsets.get(node.domain) or DOMAIN_VERSIONS.get(node.domain, 1)
        reason = objection_to_types(node.op_type, node.domain, opset, dtypes)
        if reason is not None:
            raise Declined(reason)


class _Watched:
    """Nodes of the graph with their operands and results, which a rewrite must not change."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._operands = [(node, node.input, node.output) for node in nodes]

    def restore(self) -> Node | None:
        """Restore the operands and results, and stop watching.

        Return a node that had been changed, else ``None``.
        """
        changed = None
        for node, inputs, outputs in self._operands:
            if node.input is not inputs or node.output is not outputs:
                node.input, node.output = inputs, outputs
                changed = node
        self._operands.clear()
        return changed


class _Before:
    """The state of a graph before a commit, by which a commit that is interrupted is undone.

    It includes the facts about removed results.
    """

    def __init__(self, graph: Graph, gone: Iterable[Node], region: Iterable[Node]) -> None:
        self.graph = graph
        self.facts = {name: graph.known(name) for node in gone for name in node.output if name}
        self._order = [
            (node, node.previous) for node in sorted({*gone, *region}, key=lambda node: node.label)
        ]
        self._stored = len(graph.initializers)
        self._imports = [(opsets, len(opsets)) for opsets in (graph.opsets, graph.model.opsets)]
        self._defined = len(graph.model.functions)

    def restore(self, new: Iterable[Node]) -> None:
        """Remove the new nodes and put the removed ones back, each after the node that it
        followed.
        """
        graph = self.graph
        for node in new:
            if node.graph is graph:
                graph.remove(node)
        for name in list(graph.initializers)[self._stored :]:
            graph.remove_initializer(name)
        del graph.model.functions[self._defined :]
        for opsets, count in self._imports:
            for domain in list(opsets)[count:]:
                del opsets[domain]
        removed = [node for node, _ in self._order if node.graph is None]
        for node, previous in self._order:
            if node.graph is graph:
                graph.nodes.unlink(node)
            graph.nodes.insert_after(previous, node)
            graph.link((node,))
        self._reconnect(removed)

    def _reconnect(self, nodes: Iterable[Node]) -> None:
        """Record again what restored nodes read, now that everything is defined, and the facts
        about their results.
        """
        graph = self.graph
        for node in nodes:
            graph.connect(node)
            for body in node.bodies.values():
                body.enter(graph)
            for listener in graph.model.listeners:
                listener.inserted(node)
        for name, info in self.facts.items():
            graph.learn(name, info or UNKNOWN)
        for node in nodes:
            graph.learn_constness(node)
