"""Extreme sizes: above the numbers in a model, 1, and 0.

Some rewrites are right for small sizes only: a Slice that ends at 512 takes all of 9 positions, and
a Clip of a length has no effect. Axes of length 1 broadcast, and Squeeze drops them. An axis may be
empty, such as the past of a decoder at its first step. The first two axes of inputs, batch and
length, are not made empty unless the default set of assumptions is switched off. Where a model has
windowed operators, such as pooling, only a past is made empty. For an empty image, ONNX gives the
result a size below 1, and onnxruntime returns a result nevertheless.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from xoptim.facts.assumptions import USUAL, Assumptions
from xoptim.facts.dtypes import is_float
from xoptim.facts.schema import WINDOWED
from xoptim.operators.registry import Trait, operators_with
from xoptim.verification.inputs.dims import InputSpec, Purpose, Sizes, names_in, open_dimensions
from xoptim.verification.inputs.size_bounds import Bound, by_size, size_bounds
from xoptim.verification.inputs.sized import SizedModel

_STEP: Final = 16  # sizes grow by multiples: many models divide them by powers of two
_CRASHING: Final = operators_with(Trait.RECURRENT) | {
    "AttnLSTM",
    "DynamicQuantizeLSTM",
    "Einsum",
    "STFT",
}
"""Operators whose kernels end the process when an axis is empty, instead of raising an error."""
_ODD_STEP: Final = 3
_EQUAL: Final = 3  # rows and columns of a small square
_MAX_DOUBLED: Final = 3
_MAX_EXACT: Final = 1024
_MAX_BOUNDS: Final = 4
_MAX_ALONE: Final = 4  # axes of length 1 while the others are longer
_LENGTHS: Final[tuple[Purpose, ...]] = ("sequence", "past", "space")
_EMPTY: Final[tuple[Purpose, ...]] = ("past", "sequence", "space", "batch")


def may_divide_by_zero(model: SizedModel) -> bool:
    """Whether integers are divided by a computed number: 0 ends the process in some versions."""
    if model.graph is None:
        return True
    nodes = (
        node
        for graph in model.graph.model.graphs()
        for node in graph.nodes
        if node.op_type in ("Div", "Mod")
    )
    return any(
        node.graph is not None
        and not is_float(node.graph.info_of(node.output[0]).dtype)
        and node.graph.tensor(node.input[1]) is None
        for node in nodes
    )


class ExtremeSizes:
    """Assignments of extreme sizes, made from ``base``, on which the original runs.

    ``models`` are the original and the model that is compared with it: the numbers in both count.
    ``fixed`` are sizes that the user has chosen; ``work`` returns the work of a run. All
    assignments meet the assumptions.
    """

    def __init__(
        self,
        specs: Sequence[InputSpec],
        models: Sequence[SizedModel],
        base: Sizes,
        fixed: Mapping[str, int],
        work: Callable[[Sizes], int],
        assumptions: Assumptions = USUAL,
    ) -> None:
        self._purposes = open_dimensions(specs)
        self._base = base
        self._work, self._fitted = work, assumptions.fitted
        self._free = {
            name: purpose
            for name, purpose in self._purposes.items()
            if name not in fixed and name in base
        }
        bounds = (
            {bound for model in models for bound in size_bounds(model)}
            if self._free
            else set[Bound]()
        )
        self._bounds = sorted(bounds, key=by_size)
        leading = {
            name for spec in specs for entry in (spec.shape or ())[:2] for name in names_in(entry)
        }
        self._leading = leading if assumptions.has("nonempty") else set[str]()
        graphs = [
            graph
            for model in models
            if model.graph is not None
            for graph in model.graph.model.graphs()
        ]
        operators = {node.op_type for graph in graphs for node in graph.nodes}
        self._has_windows = bool(operators & WINDOWED)
        unsafe = operators & _CRASHING or any(map(may_divide_by_zero, models))
        self._may_be_empty = () if unsafe else _EMPTY[:1] if operators & WINDOWED else _EMPTY

    def large(self) -> list[list[list[Sizes]]]:
        """Increasing sizes of each dimension that the model compares with numbers, the largest size
        above all these numbers.

        Each size has alternatives, of which the caller runs the first that can be run: the
        dimension grows alone, or with all lengths, because some lengths must be equal.
        """
        lengths = [name for name, purpose in self._free.items() if purpose in _LENGTHS]
        axes = []
        for name, steps in self._steps().items():
            group = lengths if name in lengths else [name]
            pairs = (
                (self._grown({name: step}), self._grown(dict.fromkeys(group, step)))
                for step in sorted(steps)
                if step > 0
            )
            axes.append(
                [[alone] if alone == together else [alone, together] for alone, together in pairs]
            )
        return axes

    def _steps(self) -> dict[str, set[int]]:
        """The steps by which each dimension grows close to a number, or above it."""
        steps: dict[str, set[int]] = {}
        for bound in self._bounds:
            for name, step in self._raised(bound):
                steps.setdefault(name, set()).update((step - _STEP, step))
        return steps

    def _raised(self, bound: Bound) -> list[tuple[str, int]]:
        """Steps that bring a size above a bound: of the cheapest dimension of the bound, or of all
        lengths when these dimensions are unknown.
        """
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
        parts = [
            name for name, purpose in self._purposes.items() if purpose in ("past", "sequence")
        ]
        if parts and any(self._purposes[name] == "total" for name in names):
            names = [name for name in names if self._purposes[name] != "total"] + parts
        return [name for name in self._purposes if name in names and name in self._base]

    def single(self, sizes: Sizes) -> Sizes:
        """The same sizes, and 1 for batches that have not grown: a cheaper run whose lengths are
        the same.
        """
        batches = [
            name
            for name, purpose in self._free.items()
            if purpose == "batch" and sizes[name] == self._base[name]
        ]
        return self._fitted(sizes | dict.fromkeys(batches, 1))

    def ones(self) -> Iterator[Sizes]:
        """Assignments in which axes have length 1: all, then each of the first few alone.

        Totals follow from the other sizes. For a model with windows, such as those of a pool, one
        more assignment has axes that are longer by 1.
        """
        steps = {
            name: 1 - self._base[name] for name, purpose in self._free.items() if purpose != "total"
        }
        yield self._grown(steps)
        yield from (self._grown({name: steps[name]}) for name in list(steps)[:_MAX_ALONE])
        if self._has_windows:  # a window may ignore the last row of one size, not of the next
            yield self._grown(dict.fromkeys(steps, 1))

    def related(self) -> Iterator[Sizes]:
        """Assignments in which sizes are odd, equal, twice each other, or numbers of the model.

        Some rewrites are right unless a size is the multiple of a number, or of another axis. Where
        a model has windows, no size becomes smaller.
        """
        free = [name for name, purpose in self._free.items() if purpose != "total"]
        largest = max((self._base[name] for name in free), default=0)
        yield self._grown(dict.fromkeys(free, _ODD_STEP))
        yield self._with(dict.fromkeys(free, max(_EQUAL, largest)))
        yield from () if self._has_windows else self._exact(free)
        highest = {name: max(steps) for name, steps in self._steps().items() if max(steps) > 0}
        if len(highest) > 1:
            yield self._grown(highest)

    def _exact(self, free: Sequence[str]) -> Iterator[Sizes]:
        """An assignment in which sizes are twice each other, and assignments in which one size is a
        number of the model.
        """
        doubled = free[:_MAX_DOUBLED]
        yield self._with({name: _EQUAL << place for place, name in enumerate(doubled)})
        exact = [bound for bound in self._bounds if bound.dims and 0 < bound.size <= _MAX_EXACT]
        for bound in exact[:_MAX_BOUNDS]:
            for name in self._lengths_of(bound.dims or ()):
                if name in self._free:
                    yield self._with({name: bound.size})

    def _with(self, sizes: Mapping[str, int]) -> Sizes:
        """The base with other sizes of some dimensions."""
        return self._grown({name: size - self._base[name] for name, size in sizes.items()})

    def empty(self) -> Iterator[Sizes]:
        """Assignments in which all axes of one purpose are empty, the strongest test first.

        There is none when a kernel could crash.
        """
        for purpose in self._may_be_empty:
            dims = [name for name in self._free if self._free[name] == purpose]
            names = [name for name in dims if purpose == "past" or name not in self._leading]
            if any(self._base[name] for name in names):
                yield self._grown({name: -self._base[name] for name in names})

    def _grown(self, steps: Mapping[str, int]) -> Sizes:
        """The base with sizes changed; totals cover past and sequence."""
        change = {self._purposes[name]: step for name, step in steps.items()}
        total = change.get("past", 0) + change.get("sequence", 0)
        totals = {name: total for name, purpose in self._free.items() if purpose == "total"}
        grown = self._base | {
            name: self._base[name] + step for name, step in {**totals, **steps}.items()
        }
        return self._fitted({name: max(size, 0) for name, size in grown.items()})
