"""Make the readers of one result read another one."""

from xoptim.facts.errors import RewriteError
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.propagate import check_results, is_refused_with, refine, refresh, spread_constness
from xoptim.graph.walk import is_visible, move_after, readers, reads


def can_rename(graph: Graph, old: str, new: str) -> bool:
    """Whether all readers of ``old`` may read ``new``: ``old`` is not pinned, the quantization
    annotations do not differ, and no subgraph that reads ``old`` defines another ``new``.
    """
    if old in graph.pinned or _is_quantized_otherwise(graph, old, new):
        return False
    scopes = (body for node in graph.captures(old) for body in (node.graph, *node.bodies.values()))
    return not any(body is not None and body.scope(new) is not graph.scope(new) for body in scopes)


def _is_quantized_otherwise(graph: Graph, old: str, new: str) -> bool:
    """Whether both values have quantization annotations, with other parameters."""
    if old not in graph.annotations or new not in graph.annotations:
        return False
    first, second = (
        [(entry.key, entry.value) for entry in graph.annotations[name].quant_parameter_tensor_names]
        for name in (old, new)
    )
    return sorted(first) != sorted(second)


def can_redirect(graph: Graph, old: str, new: str) -> bool:
    """Whether `redirect` would succeed.

    The names can change, and runtimes load the model where ``new`` is a constant. If ``old`` is an
    output, the producer of ``new`` can compute it instead.
    """
    constant = graph.tensor(new)
    if not can_rename(graph, old, new) or (
        constant is not None and is_refused_with(graph, {old: constant})
    ):
        return False
    return not graph.is_output(old) or (
        graph.producer(new) is not None and not graph.is_output(new) and can_rename(graph, new, old)
    )


def redirect(graph: Graph, old: str, new: str) -> bool:
    """Make everything that reads ``old`` read ``new``, a result of the same value that the readers
    of ``old`` can read.

    When ``old`` is an output of the graph, ``new`` takes its name, and the node that computed
    ``old`` is removed. Returns whether the readers were changed; where `can_redirect` is False, the
    graph stays as it is.
    """
    if not can_redirect(graph, old, new):
        return False
    is_new_constant = _is_computed_ahead(graph, new) and not _is_computed_ahead(graph, old)
    consumers = graph.consumers(old) if is_new_constant else ()
    outdated = outdated_consumers(graph, old, new)
    graph.rename(old, new)
    spread_constness(graph, consumers)
    refresh(graph, outdated)
    if graph.is_output(old):
        old_producer, producer = graph.producer(old), graph.producer(new)
        assert producer is not None
        if old_producer is not None:
            graph.remove(old_producer)
        graph.rename_output(producer, new, old)
    return True


def outdated_consumers(graph: Graph, old: str, new: str) -> list[Node]:
    """The consumers of ``old`` to infer again once they read ``new``, a result of the same value.

    Equal results may have different symbols, such as the counts of two NonZero of one mask. The
    facts about consumers of ``old`` then contain its symbols.
    """
    info, new_info = graph.info_of(old), graph.info_of(new)
    has_same_sizes = (info.shape, info.data) == (new_info.shape, new_info.data)
    return [] if has_same_sizes else list(readers(graph, old))


def substitute(graph: Graph, old: str, new: str) -> None:
    """Make everything that reads ``old`` read ``new``, which may have another value.

    Both names stay, and so do their producers. An output of the graph becomes a copy of ``new``,
    made by an Identity. If the producer of ``new``, which must not depend on ``old``, comes after
    the readers of ``old``, it is moved before them. Raises `RewriteError` when a name is not
    defined, the types or shapes contradict each other, nodes would form a cycle, or a name must
    stay as it is. The graph is then unchanged.
    """
    if old == new:
        return
    _check_values(graph, old, new)
    region, place = _region(graph, old, new)
    move_after(graph, place, region)
    if graph.scope(new) is graph:
        graph.learn(new, refine(graph.info_of(new), graph.info_of(old)))
    maker, consumers = graph.producer(old), graph.consumers(old)
    graph.rename(old, new)
    if graph.is_output(old) and maker is not None:
        graph.rename_output(maker, old, graph.names.fresh(f"{old}_before"))
        copy = Node("Identity", [new], [old], name=graph.node_names.fresh("Identity"))
        producer = graph.producer(new)
        graph.insert(
            copy, producer if producer is not None and producer.label > maker.label else maker
        )
        graph.suspect([maker])
        consumers.append(copy)
    refresh(graph, consumers)


def _check_values(graph: Graph, old: str, new: str) -> None:
    scope = graph.scope(new)
    if scope is None or not graph.defines(old):
        raise RewriteError(f"{new if scope is None else old!r} is not defined here")
    check_results(graph, [old], [graph.info_of(new)])
    if not can_rename(graph, old, new):
        raise RewriteError(
            f"{old!r} cannot be replaced by {new!r}: something besides nodes refers to it, or "
            f"hides {new!r}"
        )
    if graph.is_output(old) and graph.producer(old) is None:
        raise RewriteError(f"{old!r} is an output of the graph that no node computes")
    if _is_computed_ahead(graph, old) and not _is_computed_ahead(graph, new):
        raise RewriteError(
            f"the constant {old!r} cannot be replaced by {new!r}, which is computed at run time"
        )
    if not is_visible(graph, new):
        raise RewriteError(f"{new!r} is computed after the subgraph that would read it")


def _is_computed_ahead(graph: Graph, name: str) -> bool:
    """Whether a result is stored, or depends on stored results only."""
    return graph.tensor(name) is not None or graph.is_computed(name)


def _region(graph: Graph, old: str, new: str) -> tuple[list[Node], Node | None]:
    """The nodes that must move before the first reader of ``old`` so that the reader can read
    ``new``, and the node after which they go.
    """
    producer = graph.producer(new)
    consumers = set(readers(graph, old))
    if producer is None or not consumers:
        return [], None
    first = min(consumers, key=lambda node: node.label)
    if producer.label < first.label:
        return [], None
    region: dict[Node, None] = {producer: None}
    pending = [producer]
    while pending:
        node = pending.pop()
        if node in consumers:
            raise RewriteError(f"{new!r} depends on {old!r}, which it would replace")
        for source in map(graph.producer, reads(node)):
            if source is not None and source.label >= first.label and source not in region:
                region[source] = None
                pending.append(source)
    return list(region), first.previous
