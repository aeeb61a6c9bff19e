"""The products of a model that can be rounded: where they are, what they cost, and what fewer bits save."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import onnx

from xoptim.bench.report import milliseconds
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.rewrite import Rewrite
from xoptim.match.rounding import Observed, RangedPattern, RoundingPattern, first_result
from xoptim.optimizing.builder import GraphBuilder
from xoptim.precision.switched import Part, original_part, replaced_parts
from xoptim.precision.values import KEEPING

Form: TypeAlias = tuple[str, str]
"""The name of a result, and of the pattern that rounds its operands."""
FASTER: Final = 0.95
"""A product that takes more than this part of the time stays as it is."""
_NOTHING = 0.01
"""Part of the time of all products that reading a table may cost more, for the bytes that it saves."""


@dataclass(slots=True)
class Product:
    """A product that can be rounded, in one form.

    Attributes:
        result: name of its result.
        node: name of its node.
        pattern: name of the pattern that rounds it.
        op_type: its operator; a ``Gather`` reads a table.
        shape: (terms of a sum, columns) of its weights; zeros where it has none.
        weights: name of the constant that is rounded.
        leader: the result of the first product with the same weights, which represents all of them, so that weights are not
            stored twice. Empty for the first one itself, whose work, seconds and error are the sums for all.
        reads: for what has no weights, and goes along with others: the products whose results it reads, and the names of other
            tensors.
        work: multiplications on the first sample.
        before: seconds with floats.
        after: seconds with fewer bits.
        alone: error of the model when only this product is rounded, as a fraction.
        share: part of the time of floats that products take in this form in general.
    """

    result: str
    node: str
    pattern: str
    op_type: str
    shape: tuple[int, int]
    weights: str = ""
    leader: str = ""
    reads: tuple[str, ...] = ()
    work: int = 1
    before: float = 0.0
    after: float = 0.0
    alone: float = 0.0
    share: float = 0.0

    @property
    def form(self) -> Form:
        """By what it is identified."""
        return self.result, self.pattern

    @property
    def is_choice(self) -> bool:
        """Whether it does not go along with others."""
        return not self.reads and not self.leader

    @property
    def saved(self) -> float:
        """The multiplications that this form saves; the time measured does not count, so that each run has the same order."""
        return self.work * (1 - self.share)

    def price(self, before: "Product | None" = None) -> tuple[bool, float, str]:
        """The square of the error for what is saved, by which products are ordered; tables save no time and come last.

        Args:
            before: a form of the same product that is there already, with a smaller error: the price of this one instead.
        """
        error, saved = (before.alone**2, before.saved) if before else (0.0, 0.0)
        return self.op_type == "Gather", (self.alone**2 - error) / (self.saved - saved), self.result

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

    Tables may take longer, where that does not show beside all products. A form that neither saves time nor has the smaller
    error beside another form of its product is not worth it.
    """
    most = _NOTHING * sum(each.before for each in products)

    def is_worth_it(each: Product) -> bool:
        return each.after <= limit * each.before or (each.op_type == "Gather" and each.after - each.before <= most)

    def is_beaten(each: Product) -> bool:
        others = (other for other in products if other.result == each.result and other is not each)
        return any((other.after, other.alone) < (each.after, each.alone) and other.alone <= each.alone for other in others)

    return [each for each in products if not each.is_choice or (is_worth_it(each) and not is_beaten(each))]


def round_products(
    model: onnx.ModelProto,
    folder: Path | None,
    patterns: Sequence[type[Rewrite]],
    only: Mapping[str, str] | None,
    provider: str,
    observed: Observed | None = None,
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Round products and tables of the main graph of a model.

    Args:
        model: the model.
        folder: of its external data.
        patterns: patterns that round, and others that are used with them.
        only: the results to round, and the pattern of each; all when ``None``, none in an alternative form.
        provider: execution provider for which the patterns apply.
        observed: what samples tell of tensors.

    Returns:
        The new model, and for each result that was rounded the name of the pattern.
    """
    found: dict[str, str] = {}

    def note(application: Application) -> None:
        if application.graph.owner is None and isinstance(application.pattern, RoundingPattern):
            found[first_result(application.anchor)] = application.pattern.name()

    def chosen(cls: type[Rewrite]) -> Rewrite | type[Rewrite]:
        names = None if only is None else [result for result, pattern in only.items() if pattern == cls.name()]
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
    model: onnx.ModelProto,
    folder: Path | None,
    patterns: Sequence[type[Rewrite]],
    provider: str,
    observed: Observed | None = None,
) -> tuple[list[Product], dict[Form, Part]]:
    """The products of a model in all forms, in the order of the graph, and the nodes that compute each with fewer bits.

    Args: see `round_products`.
    """
    others = [cls for cls in patterns if issubclass(cls, RoundingPattern) and cls.is_alternative]
    first = [cls for cls in patterns if cls not in others]
    computing = [cls for cls in first if not issubclass(cls, RoundingPattern)]
    products, parts = list[Product](), dict[Form, Part]()
    for some in (first, *([cls, *computing] for cls in others)):
        more = _of_one_form(model, *round_products(model, folder, some, None, provider, observed))
        shares = {cls.name(): cls.time for cls in some if issubclass(cls, RoundingPattern)}
        for each, part in more:
            each.share = shares[each.pattern]
            parts[each.form] = part
            products.append(each)
    places = {name: place for place, node in enumerate(model.graph.node) for name in node.output}
    products.sort(key=lambda each: places[each.result])
    leaders = {(each.weights, each.pattern): each.result for each in reversed(products)}
    for each in products:
        leader = leaders[each.weights, each.pattern]
        each.leader = leader if each.weights and leader != each.result else ""
    return products, parts


def _of_one_form(model: onnx.ModelProto, rounded: onnx.ModelProto, found: Mapping[str, str]) -> list[tuple[Product, Part]]:
    """The products that were rounded in a model, each with the nodes that compute it."""
    parts = replaced_parts(model, rounded, found)
    nodes = {name: node for node in model.graph.node for name in node.output}

    def source(name: str) -> str:
        while name not in parts and name in nodes and nodes[name].op_type in KEEPING:
            name = nodes[name].input[0]
        return name

    def product(result: str, part: Part) -> Product:
        node, shape = nodes[result], _weights_shape(part)
        reads = {source(name) for name in part.reads if name not in stored} if shape == (0, 0) else ()
        given = {*original_part(nodes, result, part.reads).reads} - {*part.reads}
        weights = max(sorted(given & stored.keys()), key=lambda name: math.prod(stored[name]), default="") if not reads else ""
        return Product(result, node.name, found[result], node.op_type, shape, weights, reads=tuple(sorted(reads)))

    stored = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    return [(product(*item), item[1]) for item in parts.items()]


def with_followers(chosen: Iterable[Product], products: Iterable[Product]) -> dict[str, str]:
    """The results of chosen products, and of all that goes along with them, each with its pattern.

    What reads nothing but rounded tensors goes along, and what has the same weights. Of several forms of a product, the last
    one is taken.

    Args:
        chosen: products.
        products: all products, in the order of the graph.
    """
    forms = dict(each.form for each in chosen)
    for each in products:
        goes_along = forms.get(each.leader) == each.pattern if each.leader else all(name in forms for name in each.reads)
        if goes_along and not each.is_choice:
            forms[each.result] = each.pattern
    return forms


def _weights_shape(part: Part) -> tuple[int, int]:
    """The terms and the columns of the integers, which are the largest constant."""
    if part.nodes[-1].op_type == "DynamicQuantizeLSTM":  # (directions, terms, 4 · hidden) of the tensor, and of the state
        both = [tensor.dims for tensor in part.stored if len(tensor.dims) == 3]
        return 4 * sum(dims[1] for dims in both), both[0][0] * both[0][2] // 4
    largest = max((tensor.dims for tensor in part.stored), key=lambda dims: (math.prod(dims), len(dims)))
    if len(largest) == 2:
        return largest[0], largest[1]
    return (math.prod(largest[1:]), largest[0]) if largest else (0, 0)
