"""Why a pattern does not match: every anchor candidate, and the first condition that failed there."""

from __future__ import annotations

from xoptim.catalogue.selection import Item, select
from xoptim.diagnose.explainer import Explainer
from xoptim.diagnose.explanation import Explanation, NoMatchError, Status
from xoptim.diagnose.words import Places, locate
from xoptim.engine.applier import Applier
from xoptim.engine.run import Optimizer
from xoptim.facts.errors import UnknownPatternError
from xoptim.graph.model import Model
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import ModelPass

_ORDER: tuple[Status, ...] = ("failed", "refused", "matches")
_, _REFUSED, _MATCHES = _ORDER
_BEST = 20
"""Number of refusals that are returned for a pattern without anchors, which is offered every node."""


def explain_model(
    model: Model, pattern: Item, at: str | None = None, *, provider: str = "cpu", limit: int | None = None
) -> list[Explanation]:
    """The result of matching a pattern at each node that can be its anchor, in all graphs of a model.

    Args:
        model: the model, which is not changed.
        pattern: name, class or instance.
        at: only this node: its name, the name of one of its results, or ``#17`` for its position. For a node that cannot be an
            anchor, the searches that reached it are returned.
        provider: execution provider that the model would be optimized for.
        limit: most refusals to return; all when ``None``, but 20 of a pattern without anchors, which is offered every node.

    Returns:
        Errors of the pattern first, then refusals, the nearest miss first, then matches; equals in the order of the graph.

    Raises:
        ModelError: no node has the name ``at``; the message gives the nearest names.
        UnknownPatternError: the pattern is not known, or the word selects several.
    """
    findings = _findings(model, pattern)
    if findings is not None:
        results = None if at is None else {name for node in locate(model, at) for name in node.output}
        return [each for each in findings if results is None or any(results & {*place.outputs} for place in each.matched)]
    explainer = Explainer(model, one_pattern(pattern), provider)
    wanted = None if at is None else locate(model, at)
    found = [] if wanted is None else [explainer.explain(node) for node in wanted if explainer.is_anchor(node)]
    if not found:
        found = [explainer.explain(node) for node in explainer.candidates()]
    if wanted is not None and not any(map(explainer.is_anchor, wanted)):
        places = [explainer.place(node) for node in wanted]
        found = [e for e in found if any(p in e.matched or p == e.culprit for p in places)]
        found = found or [explainer.out_of_reach(place) for place in places]
    found.sort(key=lambda e: (_ORDER.index(e.status), -e.progress))
    most = _BEST if limit is None and not explainer.keys and at is None else limit
    refused = [e for e in found if not e.matches]
    return [*refused[:most], *found[len(refused) :]]


def _findings(model: Model, pattern: Item) -> list[Explanation] | None:
    """The findings of passes, refusals of most nodes first; ``None`` if there is a pattern, or a pass that has none."""
    places, explained = Places(model), []
    for chosen in select(pattern):
        found = chosen.findings(model) if isinstance(chosen, ModelPass) else None
        if found is None:
            return None
        for each in found:
            nodes, status = tuple(map(places.of, each.nodes)), _REFUSED if each.reason else _MATCHES
            explained.append(
                Explanation(chosen.name(), status, nodes[0], each.reason, matched=nodes, total=len(nodes), gain=each.gain)
            )
    return sorted(explained, key=lambda each: (1, 0) if each.matches else (0, -each.total))


def find_in_model(model: Model, pattern: Item, *, provider: str = "cpu") -> list[Explanation]:
    """The matches of a pattern, in the order of the graphs. They may overlap. Arguments as for `explain_model`."""
    explainer = Explainer(model, one_pattern(pattern), provider)
    graphs = {graph: explainer.exclusion(graph) for graph in model.graphs()}
    nodes = (node for node in explainer.candidates() if node.graph is not None and not graphs[node.graph][0])
    return [found for node in nodes if (found := explainer.match(node)) is not None]


def apply_in_model(optimizer: Optimizer, pattern: Item, at: str) -> None:
    """Apply a pattern once, at one node.

    Args:
        optimizer: optimizer of the model, which is changed; it counts the rewrite, and its options give the execution provider.
        pattern: name, class or instance.
        at: as for `explain_model`; when no match is anchored there, the first match that contains the node.

    Raises:
        NoMatchError: the pattern does not match there.
        ModelError: no node has the name ``at``.
        XoptimError: the pattern failed, and the options are strict.
    """
    model, chosen = optimizer.model, one_pattern(pattern)
    explainer = Explainer(model, chosen, optimizer.options.provider)
    wanted = locate(model, at)
    model.listeners.append(optimizer.state.worklist)
    try:
        for node in explainer.anchors_for(wanted):
            graph = node.graph
            assert graph is not None
            applier = Applier(graph, optimizer.state)
            if not explainer.exclusion(graph)[0] and applier.apply_at(chosen, node):
                return
    finally:
        model.listeners.remove(optimizer.state.worklist)
    raise NoMatchError(explain_model(model, chosen, at, provider=optimizer.options.provider))


def one_pattern(pattern: Item) -> PatternOptimization:
    """The pattern that a name, a class or an instance selects.

    Raises:
        UnknownPatternError: it selects none or several, or a pass over the model.
    """
    found = select(pattern)
    if len(found) != 1:
        raise UnknownPatternError(f"{pattern!r} stands for {len(found)} patterns; give the name of one")
    if not isinstance(found[0], PatternOptimization):
        raise UnknownPatternError(
            f"{found[0].name()} rewrites a whole model; it has no anchor; `xopt MODEL` lists it where it is applied"
        )
    return found[0]
