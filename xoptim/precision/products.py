"""The products of a model that can be rounded: where they are, what they cost, and what fewer bits save."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import onnx

from xoptim.bench.report import milliseconds
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.rewrite import Rewrite
from xoptim.match.rounding import Observed, RangedPattern, RoundingPattern
from xoptim.optimizing.builder import GraphBuilder
from xoptim.precision.switched import Part, replaced_parts
from xoptim.precision.values import KEEPING

FASTER: Final = 0.95
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
        shape: (terms of a sum, columns) of its weights; zeros where it has none.
        reads: for what has no weights, and goes along with others: the products whose results it reads, and the names of other
            tensors.
        work: multiplications on the first sample.
        before: seconds with floats.
        after: seconds with fewer bits.
        alone: error of the model when only this product is rounded, as a fraction.
    """

    result: str
    node: str
    pattern: str
    op_type: str
    shape: tuple[int, int]
    reads: tuple[str, ...] = ()
    work: int = 1
    before: float = 0.0
    after: float = 0.0
    alone: float = 0.0

    def price(self) -> tuple[bool, float, str]:
        """The square of the error for each multiplication, by which products are ordered; tables save no time and come last."""
        return self.op_type == "Gather", self.alone**2 / self.work, self.result

    def texts(self) -> dict[str, str]:
        """The product as a row of a table."""
        times = {"before": self.before, "after": self.after, "saved": self.before - self.after}
        return {
            "product": self.node or self.result,
            "pattern": self.pattern,
            **dict(zip(("rows", "columns"), map(str, self.shape), strict=True)),
            "error": f"{self.alone:.3%}",
            **{name: milliseconds(seconds) for name, seconds in times.items()},
        }

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {**asdict(self), "shape": list(self.shape)}


def worthwhile(products: Sequence[Product], limit: float = FASTER) -> list[Product]:
    """The products that take at most this part of the time with fewer bits, with all that goes along with products.

    Tables may take longer, where that does not show beside all products.
    """
    most = _NOTHING * sum(each.before for each in products)

    def is_worth_it(each: Product) -> bool:
        return each.after <= limit * each.before or (each.op_type == "Gather" and each.after - each.before <= most)

    return [each for each in products if each.reads or is_worth_it(each)]


def round_products(
    model: onnx.ModelProto,
    folder: Path | None,
    patterns: Sequence[type[Rewrite]],
    only: Iterable[str] | None,
    provider: str,
    observed: Observed | None = None,
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Round products and tables of the main graph of a model.

    Args:
        model: the model.
        folder: of its external data.
        patterns: patterns that round, and others that are used with them.
        only: the results to round; all when ``None``.
        provider: execution provider for which the patterns apply.
        observed: what samples tell of tensors.

    Returns:
        The new model, and for each result that was rounded the name of the pattern.
    """
    found: dict[str, str] = {}
    names = None if only is None else frozenset(only)

    def note(application: Application) -> None:
        if application.graph.owner is None and isinstance(application.pattern, RoundingPattern):
            found[application.anchor.output[0]] = application.pattern.name()

    def chosen(cls: type[Rewrite]) -> Rewrite | type[Rewrite]:
        if issubclass(cls, RangedPattern):
            return cls(names, observed)
        return cls(names) if issubclass(cls, RoundingPattern) else cls

    options = OptimizationOptions(
        patterns=[chosen(cls) for cls in patterns],
        provider=provider,
        constant_folding=False,
        merge=False,
        remove_identity=False,
        on_application=note,
    )
    builder = GraphBuilder(Source(model, folder), optimization_options=options)
    return builder.to_onnx(), found


def find_products(
    model: onnx.ModelProto, rounded: onnx.ModelProto, found: Mapping[str, str]
) -> tuple[list[Product], dict[str, Part]]:
    """The products of a model, and the nodes that compute each with fewer bits.

    Args:
        model: the model.
        rounded: the model with all products rounded.
        found: for each result that was rounded the name of the pattern.
    """
    parts = replaced_parts(model, rounded, found)
    nodes = {name: node for node in model.graph.node for name in node.output}

    def source(name: str) -> str:
        while name not in parts and name in nodes and nodes[name].op_type in KEEPING:
            name = nodes[name].input[0]
        return name

    def product(result: str, part: Part) -> Product:
        node, shape = nodes[result], _weights_shape(part)
        reads = {source(name) for name in part.reads if name not in stored} if shape == (0, 0) else ()
        return Product(result, node.name, found[result], node.op_type, shape, tuple(sorted(reads)))

    stored = {tensor.name for tensor in model.graph.initializer}
    places = {name: place for place, name in enumerate(nodes)}
    return [product(*item) for item in sorted(parts.items(), key=lambda item: places[item[0]])], parts


def with_followers(chosen: Iterable[str], products: Iterable[Product]) -> list[str]:
    """The results of chosen products, and of all that goes along with them: what reads nothing but rounded tensors.

    Args:
        chosen: results.
        products: all products, in the order of the graph.
    """
    names = dict.fromkeys(chosen)
    for each in products:
        if each.reads and all(name in names for name in each.reads):
            names[each.result] = None
    return list(names)


def _weights_shape(part: Part) -> tuple[int, int]:
    """The terms and the columns of the integers, which are the largest constant."""
    largest = max((tensor.dims for tensor in part.stored), key=lambda dims: (math.prod(dims), len(dims)))
    if len(largest) == 2:
        return largest[0], largest[1]
    return (math.prod(largest[1:]), largest[0]) if largest else (0, 0)
