"""Inferred facts of a model against the results of onnxruntime: shapes and small integers of every result."""

from collections.abc import Iterable
from copy import deepcopy

import numpy as np
from onnx import ModelProto, ValueInfoProto

from xoptim.facts.info import Info
from xoptim.facts.schema import WINDOWED
from xoptim.optimizing.builder import GraphBuilder
from xoptim.testing.feeds import Feeds
from xoptim.testing.models import all_nodes
from xoptim.testing.runtime import RUNTIME
from xoptim.validate.sized import evaluated

_MOST = 2
"""Feeds on which the facts are checked."""


def wrong_facts(model: ModelProto, all_feeds: Iterable[Feeds]) -> str:
    """The first fact about a result of the main graph that does not hold, empty when all of them do.

    Nothing is reported for feeds on which onnxruntime does not run the model, or on which inputs declared to have equal
    sizes have other ones.
    """
    if any(node.op_type in WINDOWED for node in all_nodes(model)):
        return ""  # the kernels make one window of none, see `is_specified`
    exposed = deepcopy(model)
    outputs = {v.name for v in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in outputs]
    exposed.graph.output.extend(ValueInfoProto(name=name) for name in names)
    session = RUNTIME.load(exposed)
    if isinstance(session, str):
        return ""
    graph = GraphBuilder(model).model.graph
    agreeing = (feeds for feeds in all_feeds if _sizes(model, feeds) is not None)
    for feeds, (results,) in RUNTIME.run_all([session], agreeing, _MOST):
        sizes = _sizes(model, feeds) or {}
        for output, value in zip(exposed.graph.output, results, strict=True) if isinstance(results, list) else ():
            fault = _fault(graph.info_of(output.name), value, sizes) if isinstance(value, np.ndarray) else ""
            if fault:
                return f"inference about {output.name!r} is wrong: {fault}"
    return ""


def _sizes(model: ModelProto, feeds: Feeds) -> dict[str, int] | None:
    """Sizes by name of dimension, ``None`` when one name has two sizes."""
    sizes: dict[str, int] = {}
    for value in model.graph.input:
        fed = feeds.get(value.name)
        dims = value.type.tensor_type.shape.dim
        for dim, size in zip(dims, fed.shape, strict=False) if isinstance(fed, np.ndarray) else ():
            if dim.dim_param and sizes.setdefault(dim.dim_param, size) != size:
                return None
    return sizes


def _fault(info: Info, value: np.ndarray, sizes: dict[str, int]) -> str:
    if info.shape is not None:
        if len(info.shape) != value.ndim:
            return f"rank {len(info.shape)} instead of {value.ndim}"
        expected = [evaluated(dim, sizes) for dim in info.shape]
        if any(e is not None and e != size for e, size in zip(expected, value.shape, strict=True)):
            return f"shape {[str(dim) for dim in info.shape]} instead of {list(value.shape)}"
    if info.data is not None and value.size == len(info.data):
        elements = [evaluated(dim, sizes) for dim in info.data]
        if any(e is not None and e != v for e, v in zip(elements, value.reshape(-1).tolist(), strict=True)):
            return f"elements {[str(dim) for dim in info.data]} instead of {value.tolist()}"
    return ""
