"""Sizes at the ends: above the numbers that a model is written for, 1, and 0.

Some rewrites are right for small sizes only: a Slice that ends at 512 takes all of 9 positions, and a Clip of a length has no
effect.
Axes of length 1 broadcast, and Squeeze drops them.
An empty axis is the other end, such as the past of a decoder at its first step. The first two axes of inputs, batch and length,
are taken not to be empty unless the default set of assumptions is switched off; nor are images that a window moves over, where
ONNX gives the result a size below 1 and onnxruntime returns a result nevertheless.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from xoptim.facts.assumptions import USUAL, Assumptions
from xoptim.facts.dtypes import is_float
from xoptim.facts.schema import WINDOWED
from xoptim.validate.bounds import Bound, size_bounds
from xoptim.validate.dims import InputSpec, Purpose, Sizes, names_in, open_dimensions
from xoptim.validate.sized import SizedModel

_STEP: Final = 16  # sizes grow by multiples: many models divide them by powers of two
_CRASHING: Final = frozenset({"AttnLSTM", "DynamicQuantizeLSTM", "Einsum", "GRU", "LSTM", "RNN", "STFT"})
"""Operators whose kernels end the process when an axis is empty, instead of raising an error."""
_MOST_ALONE: Final = 4  # axes that have the length 1 beside longer ones
_LENGTHS: Final[tuple[Purpose, ...]] = ("sequence", "past", "space")
_EMPTY: Final[tuple[Purpose, ...]] = ("past", "sequence", "space", "batch")


def may_divide_by_zero(model: SizedModel) -> bool:
    """Whether integers are divided by a computed number, which ends the process in some versions when it is 0."""
    if model.graph is None:
        return True
    nodes = (node for graph in model.graph.model.graphs() for node in graph.nodes if node.op_type in ("Div", "Mod"))
    return any(
        node.graph is not None
        and not is_float(node.graph.info_of(node.output[0]).dtype)
        and node.graph.tensor(node.input[1]) is None
        for node in nodes
    )


class Ends:
    """Assignments of sizes at both ends, made from one, ``base``, on which the original runs.

    ``fixed`` are sizes that the user has chosen; ``work`` returns the work of a run. Sizes hold the assumptions.
    """

    def __init__(
        self,
        specs: Sequence[InputSpec],
        model: SizedModel,
        base: Sizes,
        fixed: Mapping[str, int],
        work: Callable[[Sizes], int],
        assumptions: Assumptions = USUAL,
    ) -> None:
        self._purposes = open_dimensions(specs)
        self._base = base
        self._work, self._fitted = work, assumptions.fitted
        self._free = {name: purpose for name, purpose in self._purposes.items() if name not in fixed and name in base}
        self._bounds = size_bounds(model) if self._free else []
        leading = {name for spec in specs for entry in (spec.shape or ())[:2] for name in names_in(entry)}
        self._leading = leading if assumptions.has("nonempty") else set[str]()
        graphs = list(model.graph.model.graphs()) if model.graph is not None else []
        operators = {node.op_type for graph in graphs for node in graph.nodes}
        unsafe = operators & _CRASHING or may_divide_by_zero(model)
        self._may_be_empty = () if unsafe else _EMPTY[:1] if operators & WINDOWED else _EMPTY

    def large(self) -> list[list[list[Sizes]]]:
        """For each axis that meets numbers, assignments with increasing sizes of it, the largest above all of them.

        Of the entries of one rung, the caller runs the first that can be run: the axis grows alone, or with all lengths, so
        that those that must be equal stay equal.
        """
        steps: dict[str, set[int]] = {}
        for bound in self._bounds:
            for name, step in self._raised(bound):
                steps.setdefault(name, set()).update((step - _STEP, step))
        lengths = [name for name, purpose in self._free.items() if purpose in _LENGTHS]
        axes = []
        for name, found in steps.items():
            group = lengths if name in lengths else [name]
            pairs = ((self._grown({name: step}), self._grown(dict.fromkeys(group, step))) for step in sorted(found) if step > 0)
            axes.append([[alone] if alone == together else [alone, together] for alone, together in pairs])
        return axes

    def _raised(self, bound: Bound) -> list[tuple[str, int]]:
        """Steps that bring a size above a number: of its cheapest dimension, or of all lengths when these are unknown."""
        dims = self._lengths_of(bound.dims if bound.dims is not None else self._free)
        size = sum(self._base[name] for name in dims) if bound.dims is not None else 0
        step = _STEP * ((bound.size - size) // _STEP + 1)
        pairs = [(name, step) for name in dims if name in self._free]
        if bound.dims is None:
            return [(name, step) for name, step in pairs if self._free[name] in _LENGTHS] or pairs
        return sorted(pairs, key=lambda pair: self._work(self._grown(dict((pair,)))))[:1]

    def _lengths_of(self, dims: Iterable[str]) -> list[str]:
        """Dimensions in order; a total is replaced by the past and the sequence that it covers."""
        names = list(dims)
        parts = [name for name, purpose in self._purposes.items() if purpose in ("past", "sequence")]
        if parts and any(self._purposes[name] == "total" for name in names):
            names = [name for name in names if self._purposes[name] != "total"] + parts
        return [name for name in self._purposes if name in names and name in self._base]

    def single(self, sizes: Sizes) -> Sizes:
        """The same with batches of one, but for a batch that has grown: it costs less, and lengths meet the same numbers."""
        batches = [name for name, purpose in self._free.items() if purpose == "batch" and sizes[name] == self._base[name]]
        return self._fitted(sizes | dict.fromkeys(batches, 1))

    def ones(self) -> Iterator[Sizes]:
        """Assignments in which axes have the length 1: all, then each of the first ones alone; totals cover the others."""
        steps = {name: 1 - self._base[name] for name, purpose in self._free.items() if purpose != "total"}
        yield self._grown(steps)
        yield from (self._grown({name: steps[name]}) for name in list(steps)[:_MOST_ALONE])

    def empty(self) -> Iterator[Sizes]:
        """Assignments in which all axes of one purpose are empty, the strongest test first; none when that could crash."""
        for purpose in self._may_be_empty:
            mine = [name for name in self._free if self._free[name] == purpose]
            names = [name for name in mine if purpose == "past" or name not in self._leading]
            if any(self._base[name] for name in names):
                yield self._grown({name: -self._base[name] for name in names})

    def _grown(self, steps: Mapping[str, int]) -> Sizes:
        """The base with sizes changed; totals cover past and sequence."""
        change = {self._purposes[name]: step for name, step in steps.items()}
        total = change.get("past", 0) + change.get("sequence", 0)
        totals = {name: total for name, purpose in self._free.items() if purpose == "total"}
        grown = self._base | {name: self._base[name] + step for name, step in {**totals, **steps}.items()}
        return self._fitted({name: max(size, 0) for name, size in grown.items()})
