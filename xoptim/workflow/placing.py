"""The placement of a job's models, for its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx

from xoptim.facts.protos import every_node
from xoptim.reporting.placing import PlacingFacts, Site
from xoptim.targets import PlacedNode, Placement
from xoptim.targets.fitting import Fitted
from xoptim.workflow.fitting import FittingOutcome


def placing_of(fitting: FittingOutcome, drawn: onnx.ModelProto) -> PlacingFacts | None:
    """The placement of the original and of the result; ``None`` when the provider gave no answer.

    Args:
        fitting: the outcome of fitting the result to its target.
        drawn: the optimized model that the page draws, before nodes were lowered or quantized.
    """
    fitted = fitting.fitted
    if fitted is None:
        return None
    original = fitting.original
    counts = [("original", original.counts())] if original is not None else []
    counts += [("optimized", fitted.before.counts()), ("result", fitted.after.counts())]
    return PlacingFacts(
        target=fitting.target.name,
        before={} if original is None else _sites(original),
        after=_by_result(_with_lowered(fitted), drawn),
        counts=counts,
        lowerings=[(step.operator, step.pattern, step.count, step.reason) for step in fitted.steps],
        left=_left(fitted.after),
    )


def placing_alone(placement: Placement, drawn: onnx.ModelProto) -> PlacingFacts:
    """The placement of one model, which the page draws alone."""
    return PlacingFacts(
        target=placement.target,
        after=_by_result(_sites(placement), drawn),
        counts=[("model", placement.counts())],
        left=_left(placement),
    )


def _left(placement: Placement) -> list[tuple[str, int, str]]:
    """The operators that a target does not take, each with its number and the reason."""
    counts = Counter((node.label, node.reason) for node in placement.left)
    return [(label, count, reason) for (label, reason), count in counts.most_common()]


def _sites(placement: Placement) -> dict[str, Site]:
    """The place of each node of a placement, by name; none for a model that does not compile."""
    if not placement.compiles:
        return {}
    return {node.name: _site(node) for node in placement.nodes}


def _site(node: PlacedNode) -> Site:
    provider = node.provider.removesuffix("ExecutionProvider")
    if node.is_taken:
        return Site("there", provider, node.partition)
    if not provider:  # folded or merged
        return Site("ahead")
    reason = "it computes a shape" if node.is_shape_arithmetic and not node.reason else node.reason
    return Site("elsewhere", provider, reason=reason)


def _with_lowered(fitted: Fitted) -> dict[str, Site]:
    """The places of the nodes of the result, and of the nodes that lowerings removed."""
    sites = _sites(fitted.after)
    patterns = {step.operator: step for step in fitted.steps}
    for node in fitted.before.nodes:
        step = patterns.get(node.label)
        if step is not None and node.name not in sites:
            sites[node.name] = Site("lowered", step.pattern, reason=step.reason)
    return sites


def _by_result(sites: Mapping[str, Site], model: onnx.ModelProto) -> dict[str, Site]:
    """The sites, by first result as well: the placement gave names to nodes without one."""
    results = {
        node.name: next(filter(None, node.output), "") for node in every_node(model.graph.node)
    }
    return {**sites, **{results[name]: site for name, site in sites.items() if results.get(name)}}
