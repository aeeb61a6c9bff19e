"""Choices inside a model that quantization may change, such as the experts of a token.

A TopK or ArgMax chooses the elements with the largest scores. If two scores are nearly equal, a
small error changes the choice, and the result with it. Few rows of the samples have such scores,
and quantization was chosen so that none of them exceeds the tolerance. So the share of changed
choices on other data is estimated from the gaps between scores and the errors of these gaps.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import onnx

from xoptim.facts.advice import Advice
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.protos import every_node, inner_graphs, proto_reads
from xoptim.precision.calibration import Probe
from xoptim.precision.float16_io import with_float16_feeds
from xoptim.precision.metrics import holds_floats
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.subgraphs import with_sources
from xoptim.system.machine import release_memory
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.runs.session import Value
from xoptim.verification.runs.session_settings import SessionSettings

_INDICES: Final = {"TopK": 1, "ArgMax": 0, "ArgMin": 0}
"""Operators that choose by scores, with the position of the indices among their results."""
_MIN_ROWS: Final = 100
"""With fewer choices, the share of small gaps cannot be estimated."""
_SMALL_GAPS: Final = 0.1
"""Share of the rows, those with the smallest gaps, from which the density of gaps is estimated."""
_WIDE: Final = 4
"""The density is used if these gaps extend over more than this many mean errors."""
_COUNTS: Final = (100, 1000, 10_000)
"""Denominators in which a share is written; the first one that gives at least 1 is used."""
_MIN_CHANGES: Final = 10
"""With fewer changed choices on the samples, errors there do not show the effect of a change."""
_EXACT: Final = Advice("exact-routing", reason="keeps in float32 what determines the choice")
_INEXACT: Final = Advice("no-exact-routing", reason="quantizes it")


class _Router(NamedTuple):
    """A node that chooses by scores.

    Attributes:
        result: the name of the indices that it chooses.
        op_type: its operator.
        scores: the name of the scores.
        axis: along which scores are compared.
        sign: -1 where the smallest scores are chosen.
    """

    result: str
    op_type: str
    scores: str
    axis: int
    sign: int


@dataclass(frozen=True, slots=True)
class Routing(JsonResult):
    """The frequency with which quantization changes the choices of a node.

    Attributes:
        result: name of the indices that the node chooses.
        op_type: operator of the node.
        rows: number of choices on the samples.
        changed: number of choices on the samples that quantization changes.
        share: share of the choices that quantization is expected to change on values like the
            samples; ``None`` where the samples have too few choices to tell.
    """

    __json__ = JsonForm("result op_type rows changed share")
    result: str
    op_type: str
    rows: int
    changed: int
    share: float | None


def routing_text(routing: Iterable[Routing]) -> str:
    """A text about the choices that quantization changes, and the option that avoids it; empty if
    choices hardly change, or if there are none.
    """
    affected = _affected(routing)
    if affected.rows:
        return (
            f"{affected.op_types} may choose other elements on other data, with results of any "
            f"error: the {affected.rows} choices on the samples are too few to tell how often; "
            f"{_EXACT}"
        )
    if affected.share:
        return (
            f"{affected.op_types} chooses other elements in about {affected.share} rows of data "
            f"like the samples, whose results may be off by more than the tolerance; {_EXACT}"
        )
    return ""


def avoided_text(routing: Iterable[Routing]) -> str:
    """A text about the choices for which operators stay in float32, and the option that quantizes
    these operators; empty if choices would hardly change.

    Args:
        routing: how often quantization would change choices.
    """
    affected = _affected(_estimated(routing))
    if not affected.share:
        return ""
    return (
        f"{affected.op_types} would choose other elements in about {affected.share} rows of data "
        f"like the samples: what determines the choice stays in float32; {_INEXACT}"
    )


class _Affected(NamedTuple):
    """The nodes whose choices quantization may change.

    Attributes:
        op_types: their operators.
        rows: number of their choices on the samples, where these are too few to tell the share; 0
            otherwise.
        share: share of the changed choices, as a text; empty where it is below 1 of 10,000.
    """

    op_types: str
    rows: int
    share: str


def _affected(routing: Iterable[Routing]) -> _Affected:
    affected = [router for router in routing if router.share is None or router.share]
    op_types = " or ".join(sorted({router.op_type for router in affected}))
    if any(router.share is None for router in affected):
        return _Affected(op_types, sum(router.rows for router in affected), "")
    kept = math.prod(1 - (router.share or 0.0) for router in affected)
    share = next((text for count in _COUNTS if (text := _part(1 - kept, count))), "")
    return _Affected(op_types, 0, share)


def is_untested(routing: Sequence[Routing]) -> bool:
    """Whether choices change on values like the samples, but so rarely on the samples themselves
    that the error of the outputs there does not show what a changed choice does.

    Nodes with too few choices on the samples to tell do not count.
    """
    estimated = _estimated(routing)
    changed = sum(router.changed for router in estimated)
    return changed < _MIN_CHANGES and bool(_affected(estimated).share)


def _estimated(routing: Iterable[Routing]) -> list[Routing]:
    """The nodes whose share of changed choices could be estimated."""
    return [router for router in routing if router.share is not None]


def _part(share: float, count: int) -> str:
    """A share as ``3 of 100`` for the count 100; empty if the first number would be less than 1."""
    return f"{round(share * count)} of {count}" if share * count >= 1 else ""


@dataclass(slots=True)
class _Margins:
    """The gaps between the lowest chosen score and the highest score that was not chosen, and the
    errors of these gaps in a quantized model.
    """

    gaps: list[np.ndarray] = field(default_factory=list)
    errors: list[np.ndarray] = field(default_factory=list)
    changed: int = 0

    def add(self, scores: np.ndarray, quantized: np.ndarray, count: int) -> None:
        """Take in the scores of both models, with a row for each choice of ``count`` elements."""
        order = np.argsort(-scores, axis=-1, kind="stable")
        ends = order[:, count - 1 : count + 1]
        pairs = (np.take_along_axis(array, ends, -1) for array in (scores, quantized))
        gap, other_gap = (pair[:, 0] - pair[:, 1] for pair in pairs)
        is_finite = np.isfinite(gap) & np.isfinite(other_gap)
        self.gaps.append(gap[is_finite])
        self.errors.append(np.abs(other_gap - gap)[is_finite])
        chosen, others = (
            np.sort(np.argsort(-array, axis=-1, kind="stable")[:, :count], axis=-1)
            for array in (scores, quantized)
        )
        self.changed += int((chosen != others).any(axis=-1)[is_finite].sum())

    def routing(self, router: _Router) -> Routing:
        """The statistics of a router, from its margins."""
        gaps, errors = np.concatenate(self.gaps), np.concatenate(self.errors)
        is_same = errors.size > 0 and not errors.any()  # quantization does not reach the scores
        enough = is_same or gaps.size >= _MIN_ROWS
        share = _share(gaps, errors, self.changed) if enough else None
        return Routing(router.result, router.op_type, gaps.size, self.changed, share)


def _share(gaps: np.ndarray, errors: np.ndarray, changed: int) -> float:
    """The share of choices that change, if errors and gaps are independent.

    A choice changes if the error makes the gap negative. Errors of both signs are equally likely.
    If errors are small, few gaps of the samples are smaller than an error. Then the share is the
    density of gaps near 0, estimated from a wider range, times half of the mean error. If errors
    are large, scores further down may also exceed the chosen one, so the result is at least the
    share of changed choices on the samples.
    """
    mean = float(errors.mean())
    width = float(np.quantile(gaps, _SMALL_GAPS))
    if width > _WIDE * mean:
        return float(np.mean(gaps <= width)) / width * mean / 2
    smaller = np.searchsorted(np.sort(errors), gaps, side="right") / errors.size
    return max(float(np.mean(1 - smaller)) / 2, changed / gaps.size)


def _routers(model: onnx.ModelProto) -> list[_Router]:
    """The nodes of the main graph that choose by scores, and whose indices another node reads."""
    constants = {tensor.name for tensor in model.graph.initializer}
    reads = {name for node in model.graph.node for name in proto_reads(node)}
    return [
        _router(node)
        for node in model.graph.node
        if _chooses(node, reads) and node.input[0] not in constants
    ]


def has_routers(model: onnx.ModelProto) -> bool:
    """Whether the main graph has nodes that choose by scores, and whose indices are read."""
    return bool(_routers(model))


def _router(node: onnx.NodeProto) -> _Router:
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    is_smallest = node.op_type == "ArgMin" or not attributes.get("largest", 1)
    axis = attributes.get("axis", -1 if node.op_type == "TopK" else 0)
    result = node.output[_INDICES[node.op_type]]
    return _Router(result, node.op_type, node.input[0], axis, -1 if is_smallest else 1)


def _chooses(node: onnx.NodeProto, reads: Collection[str]) -> bool:
    """Whether a node chooses by scores, and another node reads the indices."""
    place = _INDICES.get(node.op_type, len(node.output))
    return not node.domain and place < len(node.output) and node.output[place] in reads


def kept_values(model: onnx.ModelProto, options: PrecisionOptions) -> set[str]:
    """The values and constants that stay in float32 because of `PrecisionOptions.exact_routing`."""
    return values_before_routers(model) if options.exact_routing else set()


def values_before_routers(model: onnx.ModelProto) -> set[str]:
    """The names of all values and constants on which the scores of a TopK or ArgMax depend.

    If the node is in a body of an If, Loop or Scan, these are all values in the bodies and all
    values on which the If, Loop or Scan depends.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    reads = {name for node in every_node(model.graph.node) for name in proto_reads(node)}
    bodies = inner_graphs(model.graph.node)
    reads |= {value.name for body in bodies for value in body.output}  # the owner passes them on
    ends = list[str]()
    for node in model.graph.node:
        if any(_chooses(inner, reads) for graph in inner_graphs([node]) for inner in graph.node):
            ends += node.output
        elif _chooses(node, reads):
            ends.append(node.input[0])
    sources = with_sources(makers, ends)
    owners = {id(makers[name]): makers[name] for name in sources if name in makers}
    for graph in inner_graphs(owners.values()):
        sources |= {tensor.name for tensor in graph.initializer}
        sources |= {name for node in graph.node for name in (*node.input, *node.output)}
    return sources


def routings(
    models: Sequence[tuple[onnx.ModelProto, Path | None]],
    samples: Iterable[Mapping[str, Value]],
    settings: SessionSettings,
) -> tuple[Routing, ...]:
    """The frequency with which quantization changes each choice inside a model.

    Empty if a model does not run with inner results as outputs, or if no node that chooses is in
    both models.

    Args:
        models: the float32 model and the quantized one, each with the folder of its external data.
        samples: values of the inputs.
        settings: of the sessions.
    """
    samples, (original, quantized) = [*samples], (_routers(model) for model, _ in models)
    by_result = {router.result: router for router in quantized}
    pairs = [
        (router, by_result[router.result]) for router in original if router.result in by_result
    ]
    if not pairs or not samples:
        return ()
    try:
        before, after = (
            _scores(*model, [pair[index] for pair in pairs], samples, settings)
            for index, model in enumerate(models)
        )
    except (LoadError, RunError):
        return ()
    margins = [_Margins() for _ in pairs]
    for old, new in zip(before, after, strict=True):
        for margin, (scores, count), (others, _) in zip(margins, old, new, strict=True):
            if scores.shape == others.shape and 0 < count < scores.shape[-1]:
                margin.add(scores, others, count)
    measured = zip(pairs, margins, strict=True)
    return tuple(margin.routing(router) for (router, _), margin in measured if margin.gaps)


_Scores = tuple[np.ndarray, int]
"""Scores with a row for each choice, and the number of elements that are chosen."""


def _scores(
    model: onnx.ModelProto,
    folder: Path | None,
    routers: Sequence[_Router],
    samples: Iterable[Mapping[str, Value]],
    settings: SessionSettings,
) -> list[list[_Scores]]:
    """The scores of each router, for each sample; empty arrays for integer scores."""
    names = {name for router in routers for name in (router.scores, router.result)}
    probe = Probe(model, folder, names, settings)
    scores = list[list[_Scores]]()
    for feeds in samples:
        values = probe.run(with_float16_feeds(feeds, probe.inputs))
        scores.append([_rows(router, values) for router in routers])
    del probe
    release_memory()
    return scores


def _rows(router: _Router, values: Mapping[str, Value]) -> _Scores:
    scores, indices = values[router.scores], values[router.result]
    if not (isinstance(scores, np.ndarray) and isinstance(indices, np.ndarray)):
        return np.empty((0, 0)), 0
    if not holds_floats(scores) or not scores.ndim:
        return np.empty((0, 0)), 0
    rows = router.sign * np.moveaxis(scores.astype(np.float64), router.axis, -1)
    count = indices.shape[router.axis] if router.op_type == "TopK" else 1
    return rows.reshape(-1, rows.shape[-1]), count
