"""The products of a model that can be rounded: where they are, what they cost, and what fewer bits
save.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import onnx
from onnx import numpy_helper
from onnx.helper import get_node_attr_value

from xoptim.bench.rounds import milliseconds
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.dtypes import bits as element_bits
from xoptim.facts.protos import every_node, inner_graphs
from xoptim.graph.sources import Source
from xoptim.match.rewrite import Rewrite
from xoptim.match.rounding import Observed, RangedPattern, RoundingPattern, first_result
from xoptim.optimizing.builder import GraphBuilder
from xoptim.precision.options import Goal
from xoptim.precision.switched import Part, original_part, replaced_parts, store_once
from xoptim.precision.values import KEEPING
from xoptim.preparation.ports import defined_names
from xoptim.verification.protos import tensor_bytes

Form: TypeAlias = tuple[str, str]
"""The name of a result, and of the pattern that rounds its operands."""
FASTER: Final = 0.95
"""A product that takes more than this part of the time stays as it is."""
_TIE: Final = 1e-9
"""Bits that a multiplication counts for where bits are saved: few enough to decide nothing but
ties.
"""
_NOTHING = 0.01
"""Part of the time of all products that reading a table may cost more, for the bytes that it
saves.
"""


@dataclass(slots=True)
class QuantizableOp:
    """A product that can be rounded, in one form.

    Attributes:
        result: name of its result.
        node: name of its node.
        pattern: name of the pattern that rounds it.
        op_type: its operator; a ``Gather`` reads a table.
        shape: (terms of a sum, columns) of its weights; zeros where it has none.
        weights: name of the constant that is rounded.
        leader: the result of the first product with the same weights, which represents all of them
            and their table, so that weights are not stored twice. Empty for the first one itself,
            whose work, seconds and error are the sums for all.
        reads: for what has no weights, and goes along with others: the products whose results it
            reads, and the names of other tensors.
        work: multiplications on the first sample; in a subgraph, whose runs are not seen, of one
            row.
        before: seconds with floats; 0 in a subgraph.
        after: seconds with fewer bits.
        alone: error of the model when only this product is rounded, as a fraction.
        share: part of the time of floats that products take in this form in general.
        bits: that a weight takes in the file in this form, with its share of scales and nodes.
        wide: bits that a weight takes in the file as it is.
        width: bits of a number that is stored.
        is_stored: whether a constant is only stored in fewer bits; ``result`` is its name, or the
            result of a product of it.
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
    bits: float = 0
    wide: int = 32
    width: int = 0
    is_stored: bool = False

    @property
    def form(self) -> Form:
        """By what it is identified."""
        return self.result, self.pattern

    @property
    def is_choice(self) -> bool:
        """Whether it does not go along with others."""
        return not self.reads and not self.leader

    def saved(self, goal: Goal) -> float:
        """Savings of this form: multiplications, or for the goal ``size`` bits, and among equal
        ones multiplications.

        The time measured does not count, so that each run has the same order. What is only stored
        saves nothing but bits.
        """
        multiplications = self.work * (1 - self.share)
        if goal == "speed" and not self.is_stored:
            return multiplications
        return math.prod(self.shape) * (self.wide - self.bits) + _TIE * multiplications

    def price(self, goal: Goal, before: "QuantizableOp | None" = None) -> tuple[bool, float, str]:
        """The square of the error for what is saved, by which products are ordered.

        What saves no time comes last.

        Args:
            goal: what is to be saved.
            before: a form of the same product that is there already, with a smaller error: the
                price of this one instead.
        """
        error, saved = (before.alone**2, before.saved(goal)) if before else (0.0, 0.0)
        gain = self.saved(goal) - saved
        is_last = goal == "speed" and (self.is_stored or self.op_type == "Gather")
        return is_last, (self.alone**2 - error) / gain if gain > 0 else math.inf, self.result

    def texts(self) -> dict[str, str]:
        """The product as a row of a table."""
        times = {"before": self.before, "after": self.after, "saved": self.before - self.after}
        return {
            "node": self.node or self.result,
            "pattern": self.pattern,
            **dict(zip(("rows", "columns"), map(str, self.shape), strict=True)),
            "error": f"{self.alone:.3%}",
            **{
                name: "" if self.is_stored else milliseconds(seconds)
                for name, seconds in times.items()
            },
        }

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {**asdict(self), "shape": list(self.shape)}


def worthwhile(products: Sequence[QuantizableOp], limit: float = FASTER) -> list[QuantizableOp]:
    """The products that take at most this part of the time with fewer bits, with all that goes
    along with products.

    Tables may take longer, where that does not show beside all products. A form that neither saves
    time nor has the smaller error beside another form of its product is not worth it.
    """
    most = _NOTHING * sum(each.before for each in products)

    def is_worth_it(each: QuantizableOp) -> bool:
        return each.after <= limit * each.before or (
            each.op_type == "Gather" and each.after - each.before <= most
        )

    def is_beaten(each: QuantizableOp) -> bool:
        others = (other for other in products if other.result == each.result and other is not each)
        return any(
            (other.after, other.alone) < (each.after, each.alone) and other.alone <= each.alone
            for other in others
        )

    return [
        each
        for each in products
        if not each.is_choice or (is_worth_it(each) and not is_beaten(each))
    ]


def round_products(
    model: onnx.ModelProto,
    folder: Path | None,
    patterns: Sequence[type[Rewrite]],
    only: Mapping[str, str] | Collection[str] | None,
    provider: str,
    observed: Observed | None = None,
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Round products and tables of a model and its subgraphs.

    Rounded numbers are stored in the main graph.

    Args:
        model: the model, in which each value has its own name.
        folder: of its external data.
        patterns: patterns that round, and others that are used with them.
        only: the results to round, with the pattern of each or by any; all when ``None``.
        provider: execution provider for which the patterns apply.
        observed: what samples tell of tensors.

    Returns:
        The new model, and for each result that was rounded the name of the pattern.
    """
    found: dict[str, str] = {}

    def note(application: Application) -> None:
        if isinstance(application.pattern, RoundingPattern):
            found[first_result(application.anchor)] = application.pattern.name()

    def chosen(cls: type[Rewrite]) -> Rewrite | type[Rewrite]:
        names: Collection[str] | None = only
        if isinstance(only, Mapping):
            names = [result for result, pattern in only.items() if pattern == cls.name()]
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
    made = rewritten(Source(model, folder), options)
    store_once(made, defined_names(model))
    results = {first_result(node) for node in every_node(model.graph.node)}
    return made, {result: pattern for result, pattern in found.items() if result in results}


def rewritten(source: Source, options: OptimizationOptions) -> onnx.ModelProto:
    """An optimized model; nothing else of the optimization stays in memory."""
    builder = GraphBuilder(source, optimization_options=options)
    made = builder.to_onnx()
    builder.dispose()
    return made


def find_products(
    model: onnx.ModelProto,
    folder: Path | None,
    patterns: Sequence[type[Rewrite]],
    provider: str,
    observed: Observed | None = None,
    only: Collection[str] | None = None,
) -> tuple[list[QuantizableOp], dict[Form, Part]]:
    """The products of a model in all forms, in the order of the graph, and the nodes that compute
    each with fewer bits.

    Args: see `round_products`.
    """
    others = [cls for cls in patterns if issubclass(cls, RoundingPattern) and cls.is_alternative]
    first = [cls for cls in patterns if cls not in others]
    computing = [cls for cls in first if not issubclass(cls, RoundingPattern)]
    products, parts = list[QuantizableOp](), dict[Form, Part]()
    for some in (first, *([cls, *computing] for cls in others)):
        more = _of_one_form(model, *round_products(model, folder, some, only, provider, observed))
        rounding = {cls.name(): cls for cls in some if issubclass(cls, RoundingPattern)}
        for each, part in more:
            each.share = rounding[each.pattern].time
            parts[each.form] = part
            products.append(each)
    places = {
        name: place
        for place, node in enumerate(every_node(model.graph.node))
        for name in node.output
    }
    products = _without_floats(model, products, parts)
    products.sort(key=lambda each: places[each.result])
    leaders = dict[str, str]()
    # a table goes along with a product
    for each in sorted(products, key=lambda each: each.op_type == "Gather"):
        leader = leaders.setdefault(each.weights, each.result)
        each.leader = leader if each.weights and leader != each.result else ""
    return products, {each.form: parts[each.form] for each in products}


def _without_floats(
    model: onnx.ModelProto, products: Sequence[QuantizableOp], parts: Mapping[Form, Part]
) -> list[QuantizableOp]:
    """The products without those whose weights something reads that stays in floats: they would be
    stored in both forms.
    """
    makers = {name: node for node in every_node(model.graph.node) for name in node.output}
    originals = (original_part(makers, each.result, parts[each.form].reads) for each in products)
    results = {first_result(node) for part in originals for node in part.nodes}
    floats = {
        value.name
        for graph in (model.graph, *inner_graphs(model.graph.node))
        for value in graph.output
    }
    for node in reversed([*every_node(model.graph.node)]):
        if node.op_type == "Transpose" and not floats.intersection(node.output):
            continue
        if first_result(node) not in results:
            floats.update(node.input)
    return [each for each in products if each.weights not in floats - {""}]


def _of_one_form(
    model: onnx.ModelProto, rounded: onnx.ModelProto, found: Mapping[str, str]
) -> list[tuple[QuantizableOp, Part]]:
    """The products that were rounded in a model, each with the nodes that compute it."""
    parts = replaced_parts(model, rounded, found)
    nodes = {name: node for node in every_node(model.graph.node) for name in node.output}

    def source(name: str) -> str:
        while name not in parts and name in nodes and nodes[name].op_type in KEEPING:
            name = nodes[name].input[0]
        return name

    def product(result: str, part: Part) -> QuantizableOp:
        node, shape = nodes[result], _weights_shape(part)
        reads = (
            {source(name) for name in part.reads if name not in stored} if shape == (0, 0) else ()
        )
        original = original_part(nodes, result, part.reads)
        given = {*original.reads} - {*part.reads}
        weights = max(
            sorted(given & stored.keys()), key=lambda name: math.prod(stored[name].dims), default=""
        )
        if reads or not weights:
            return QuantizableOp(
                result, node.name, found[result], node.op_type, shape, reads=tuple(sorted(reads))
            )
        dims, wide = stored[weights].dims, element_bits(stored[weights].data_type)
        if node.op_type == "Gather":
            shape = dims[0], math.prod(dims[1:])
        more = (
            _bytes(part)
            - _bytes(original)
            - sum(tensor_bytes(stored[name]) for name in given & stored.keys())
        )
        bits = wide + 8 * more / math.prod(shape)
        return QuantizableOp(
            result, node.name, found[result], node.op_type, shape, weights, bits=bits, wide=wide
        )

    graphs = (model.graph, *inner_graphs(model.graph.node))
    stored = {tensor.name: tensor for graph in graphs for tensor in graph.initializer}
    return [(product(*item), item[1]) for item in parts.items()]


def _bytes(part: Part) -> int:
    """Bytes of the nodes and of the initializers."""
    return sum(each.ByteSize() for each in (*part.nodes, *part.stored))


def with_followers(
    chosen: Iterable[QuantizableOp], products: Sequence[QuantizableOp]
) -> dict[str, str]:
    """The results of chosen products, and of all that goes along with them, each with its pattern.

    What reads nothing but rounded tensors goes along, and what has the same weights. Of several
    forms of a product, the last one is taken.

    Args:
        chosen: products.
        products: all products, in the order of the graph.
    """
    chosen = [*chosen]
    forms, along = dict(each.form for each in chosen), followers(products)
    stored = {each.form for each in (*chosen, *products) if each.is_stored}
    for each in products:
        goes_along = all(name in forms and (name, forms[name]) not in stored for name in each.reads)
        if each.leader:
            goes_along = each.form in along.get((each.leader, forms.get(each.leader, "")), ())
        if goes_along and not each.is_choice:
            forms[each.result] = each.pattern
    return forms


def followers(products: Sequence[QuantizableOp]) -> dict[Form, list[Form]]:
    """The forms that go along with each form of a product that shares its weights.

    Others have the same one where they can. A table that has no such form has its first one, which
    has fewest bits.
    """
    forms = dict[str, list[str]]()
    for each in products:
        if not each.is_stored:  # a constant is stored once, whatever reads it
            forms.setdefault(each.result, []).append(each.pattern)
    found = dict[Form, list[Form]]()
    for result, leader in {each.result: each.leader for each in products if each.leader}.items():
        # one that is not worthwhile is left out, with all that goes along
        for pattern in forms.get(leader, ()):
            own = pattern if pattern in forms[result] else forms[result][0]
            found.setdefault((leader, pattern), []).append((result, own))
    return found


def _weights_shape(part: Part) -> tuple[int, int]:
    """The terms and the columns of the integers, which are the largest constant."""
    # (directions, terms, 4 · hidden) of the tensor, and of the state
    if part.nodes[-1].op_type == "DynamicQuantizeLSTM":
        both = [tensor.dims for tensor in part.stored if len(tensor.dims) == 3]
        return 4 * sum(dims[1] for dims in both), both[0][0] * both[0][2] // 4
    for node in part.nodes:
        if node.op_type == "MatMulNBits":
            return get_node_attr_value(node, "K"), get_node_attr_value(node, "N")
    tensor = max(part.stored, key=lambda tensor: (math.prod(tensor.dims), len(tensor.dims)))
    shapes = {each.name: each for each in part.stored}
    restored = (
        shapes[node.input[1]]
        for node in part.nodes
        if node.op_type == "Reshape" and node.input[1] in shapes
    )
    largest = next((numpy_helper.to_array(each).tolist() for each in restored), tensor.dims)
    if len(largest) == 2:
        turns = [
            node for node in part.nodes if node.op_type == "Transpose" or _is_transposing(node)
        ]
        return largest[len(turns) % 2], largest[1 - len(turns) % 2]
    return (math.prod(largest[1:]), largest[0]) if largest else (0, 0)


def _is_transposing(node: onnx.NodeProto) -> bool:
    """Whether a product reads its weights as rows."""
    return any(each.name == "transB" and each.i for each in node.attribute)
