"""The products of a model that can be rounded: where they are, what they cost, and what fewer bits save."""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from xoptim.bench.rounds import Times, clock_for, measure_pass
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.rewrite import Rewrite
from xoptim.match.rounding import RoundingPattern
from xoptim.optimizing.builder import GraphBuilder
from xoptim.precision.switched import Part, replaced_parts
from xoptim.validate.protos import tensor_array
from xoptim.validate.session import Session, SessionSettings, Value

_SECONDS = 0.05
"""Measured for each kind of product."""
_FASTER = 0.95
"""A product that takes more than this part of the time stays as it is."""
_NOTHING = 0.01
"""Part of the time of all products that reading a table may cost more, for the bytes that it saves."""


@dataclass(slots=True)
class Product:
    """A product that can be rounded.

    Attributes:
        result: name of its result.
        node: name of its node.
        pattern: name of the pattern that rounds it.
        op_type: its operator; a ``Gather`` reads a table.
        shape: (terms of a sum, columns) of its weights.
        before: seconds with floats.
        after: seconds with fewer bits.
        alone: error of the model when only this product is rounded, as a fraction.
    """

    result: str
    node: str
    pattern: str
    op_type: str
    shape: tuple[int, int]
    before: float = 0.0
    after: float = 0.0
    alone: float = 0.0

    @property
    def work(self) -> int:
        """Multiplications for each row."""
        return math.prod(self.shape)

    def price(self) -> tuple[bool, float, str]:
        """The square of the error for each multiplication, by which products are ordered; tables save no time and come last."""
        return self.op_type == "Gather", self.alone**2 / self.work, self.result

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {**asdict(self), "shape": list(self.shape)}

    @property
    def is_faster(self) -> bool:
        """Whether fewer bits were measured to be faster."""
        return self.after <= _FASTER * self.before


def worthwhile(products: Sequence[Product]) -> list[Product]:
    """The products that are faster with fewer bits, and the tables that cost nothing that shows beside all products."""
    most = _NOTHING * sum(each.before for each in products)
    return [each for each in products if each.is_faster or (each.op_type == "Gather" and each.after - each.before <= most)]


def round_products(
    model: onnx.ModelProto,
    folder: Path | None,
    patterns: Sequence[type[Rewrite]],
    only: Iterable[str] | None,
    provider: str,
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Round products and tables of the main graph of a model.

    Args:
        model: the model.
        folder: of its external data.
        patterns: patterns that round, and others that are used with them.
        only: the results to round; all when ``None``.
        provider: execution provider for which the patterns apply.

    Returns:
        The new model, and for each result that was rounded the name of the pattern.
    """
    found: dict[str, str] = {}
    names = None if only is None else frozenset(only)

    def note(application: Application) -> None:
        if application.graph.owner is None and isinstance(application.pattern, RoundingPattern):
            found[application.anchor.output[0]] = application.pattern.name()

    options = OptimizationOptions(
        patterns=[cls(names) if issubclass(cls, RoundingPattern) else cls for cls in patterns],
        provider=provider,
        constant_folding=False,
        merge=False,
        remove_identity=False,
        on_application=note,
    )
    builder = GraphBuilder(Source(model, folder), optimization_options=options)
    return builder.to_onnx(), found


def find_products(
    model: onnx.ModelProto, rounded: onnx.ModelProto, patterns: Mapping[str, str]
) -> tuple[list[Product], dict[str, Part]]:
    """The products of a model, and the nodes that compute each with fewer bits."""
    parts = replaced_parts(model, rounded, patterns)
    nodes = {node.output[0]: node for node in model.graph.node}
    return [
        Product(result, nodes[result].name, patterns[result], nodes[result].op_type, _weights_shape(part))
        for result, part in parts.items()
    ], parts


def _weights_shape(part: Part) -> tuple[int, int]:
    """The shape of the integers, which are the largest constant."""
    rows, columns = max((tensor.dims for tensor in part.stored), key=math.prod)
    return rows, columns


def measure_products(
    model: onnx.ModelProto,
    folder: Path | None,
    products: Sequence[Product],
    parts: Mapping[str, Part],
    feeds: Mapping[str, Value],
    settings: SessionSettings,
) -> None:
    """Measure each kind of product with floats and with fewer bits, on the sizes of one sample, and note the seconds.

    Products are of one kind when their weights and their operands have the same shapes.
    """
    nodes = {node.output[0]: node for node in model.graph.node}
    made = {name for node in model.graph.node for name in node.output}
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    free = {each.result: [name for name in nodes[each.result].input if name] for each in products}
    wanted = {name for names in free.values() for name in names if name in made}
    values = {**feeds, **_values(model, folder, wanted, feeds, settings)}
    known: dict[tuple[object, ...], tuple[float, float]] = {}
    for each in products:
        given = {
            name: tensor_array(stored[name], folder) if name in stored else np.asarray(values[name])
            for name in free[each.result]
        }
        kind = (each.shape, *(value.shape for value in given.values()))
        if kind not in known:
            both = [Part([nodes[each.result]], []), parts[each.result]]
            models = [_alone(model, part, each.result, given, stored.keys()) for part in both]
            known[kind] = _seconds(models, given, settings)
        each.before, each.after = known[kind]


def _values(
    model: onnx.ModelProto, folder: Path | None, names: Iterable[str], feeds: Mapping[str, Value], settings: SessionSettings
) -> dict[str, Value]:
    """Results within a model on one sample."""
    wanted = sorted(set(names) - {value.name for value in model.graph.output})
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    session = Session(probe, replace(settings, level="off"), base_dir=folder)
    return dict(zip((port.name for port in session.outputs), session.run(feeds), strict=True))


def _alone(
    model: onnx.ModelProto, part: Part, result: str, given: Mapping[str, np.ndarray], constants: Iterable[str]
) -> onnx.ModelProto:
    """A model of one product; operands that are constants of the model are constants here too."""
    read = {name for node in part.nodes for name in node.input}
    inside = {*constants} & read & given.keys()
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in given.items()
        if name in read - inside
    ]
    output = helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, None)
    tensors = [*part.stored, *(numpy_helper.from_array(given[name], name) for name in sorted(inside))]
    graph = helper.make_graph(part.nodes, "product", inputs, [output], tensors)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _seconds(
    models: Sequence[onnx.ModelProto], values: Mapping[str, np.ndarray], settings: SessionSettings
) -> tuple[float, float]:
    sessions = [Session(each, settings) for each in models]
    times = [Times() for _ in models]
    runs = [session.runner(values) for session in sessions]
    measure_pass(runs, times, _SECONDS, random.Random(0), clock_for([settings, settings]))
    return times[0].best, times[1].best
