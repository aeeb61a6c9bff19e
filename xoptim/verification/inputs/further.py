"""Runs on further values: other kinds of numbers, other operands, values that reach each branch,
overridden initializers.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import onnx

from xoptim.facts.dtypes import is_float
from xoptim.facts.protos import fed_inputs, inner_graphs, is_external
from xoptim.verification.errors import FeedError, RunError
from xoptim.verification.inputs.branches import Coverage
from xoptim.verification.inputs.condition_runs import ConditionRuns, planned_at
from xoptim.verification.inputs.container_plans import container_plans
from xoptim.verification.inputs.dims import Sizes
from xoptim.verification.inputs.feed_style import Style
from xoptim.verification.inputs.feeding import Feeding, Planning, ReferenceRun, RunPlan
from xoptim.verification.inputs.goal_plans import Evaluator, GoalPlans, mask_plans
from xoptim.verification.inputs.goal_sizes import SizeGoals
from xoptim.verification.inputs.goals import Goals
from xoptim.verification.inputs.input_kinds import OPERANDS
from xoptim.verification.inputs.late_plans import LatePlans, has_loops
from xoptim.verification.inputs.number_plans import NumberPlans, beyond
from xoptim.verification.inputs.operand_values import alternatives
from xoptim.verification.inputs.reach import Reach
from xoptim.verification.inputs.sized import SizedModel
from xoptim.verification.inputs.string_plans import StringPlans
from xoptim.verification.inputs.work import RunBudget
from xoptim.verification.runs.protos import stored_bytes, tensor_array
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

# IR version; before it, an initializer that is an input is a constant
_OVERRIDABLE_SINCE: Final = 4
_MAX_PARAMETER_SIZE: Final = 64  # integers of axes or a shape; more are weights
_MAX_PARAMETERS: Final = 4
_MAX_BYTES: Final = 1 << 26


def overriding(model: onnx.ModelProto, seed: int) -> Iterator[list[dict[str, Value]]]:
    """Values for the overridable initializers of a model: all weights together, then a few
    parameters one by one.

    Each entry lists alternatives, since a model refuses most axes and shapes: the caller runs the
    first two that the model accepts. Initializers in external files are skipped, and all others if
    they take more than 64 MB.
    """
    nodes = [
        *model.graph.node,
        *(node for graph in inner_graphs(model.graph.node) for node in graph.node),
    ]
    operands = {name for node in nodes for name in node.input}
    required = {value.name for value in fed_inputs(model)}
    inputs = {value.name for value in model.graph.input} - required
    tensors = [
        t
        for t in model.graph.initializer
        if t.name in inputs & operands and not is_external(t) and stored_bytes(t)
    ]
    if model.ir_version < _OVERRIDABLE_SINCE or sum(map(stored_bytes, tensors)) > _MAX_BYTES:
        return
    rng = np.random.default_rng(seed)
    arrays = {tensor.name: tensor_array(tensor, None) for tensor in tensors}
    weights = [
        t.name
        for t in tensors
        if is_float(t.data_type) or arrays[t.name].size > _MAX_PARAMETER_SIZE
    ]
    if weights:
        # Scales of images must be whole numbers where operators multiply sizes by them: a multiple
        # is the second choice.
        yield [
            {name: change(arrays[name], rng) for name in weights}
            for change in (_other_weights, _multiples)
        ]
    for name in [name for name in arrays if name not in weights][:_MAX_PARAMETERS]:
        yield [{name: variant} for variant in _other_parameters(arrays[name])]


def _other_weights(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers of the same magnitudes and signs, with zeros replaced; integers in another order."""
    mixed = rng.permutation(array.reshape(-1)).reshape(array.shape)
    if array.dtype.kind in "biuOSU":
        return mixed
    wide = mixed.astype(np.float64)
    scale = np.max(np.abs(wide), initial=0, where=np.isfinite(wide)) or 1.0
    wide = np.where(wide == 0, scale, wide) * rng.uniform(0.5, 1.5, array.shape)
    return np.asarray(wide).astype(array.dtype)


def _multiples(array: np.ndarray, _: np.random.Generator) -> np.ndarray:
    return (
        array
        if array.dtype.kind in "biuOSU"
        else np.asarray(array.astype(np.float64) * 3).astype(array.dtype)
    )


def _other_parameters(array: np.ndarray) -> Iterator[np.ndarray]:
    """Integers in reverse order, then changed by one; Booleans negated."""
    if array.dtype.kind == "b":
        yield np.asarray(np.logical_not(array))
    elif array.dtype.kind in "iu":
        flat = array.reshape(-1)
        variants = (flat[::-1], flat + 1, flat - 1, np.concatenate((flat[:1] + 1, flat[1:])))
        yield from (
            variant.astype(array.dtype).reshape(array.shape)
            for variant in variants
            if not np.array_equal(variant, flat)
        )


SHORT: Final = 1 << 31
"""Operations of a run that is short enough to be repeated on many values: a tenth of a second or
less.
"""
TINY: Final = 1 << 20
"""Operations of a run that takes less time than the overhead of its call."""
_SMALL: Final = 1 << 22
"""Maximal number of operations of a run at whose sizes further values are run as well."""
_MAX_INPUTS: Final = 6  # whose values are varied one by one
_MAX_KEPT: Final = 10  # runs with other values of one operand
_MAX_MIXED: Final = 4  # attempts with other values of all operands
_LARGEST_OPERAND: Final = 1 << 12
_ROOM: Final = 1 << 27  # operations of a run with room for many strings
_MAX_STRINGS: Final = 12  # runs on strings at the usual sizes
_MAX_ATTEMPTS: Final = 96  # to reach branches
_LEVELS: Final = (0.0, 1.0, -1.0, 100.0, -100.0, 1e6)
_NEED_POSITIVE: Final = ("STFT", "DFT")
"""Operators whose kernels end the process for parameters that are 0 or negative."""
Probe: TypeAlias = Callable[[int, Planning], ReferenceRun | None]
"""Runs the original on the values of a plan; ``None`` when it does not run on them."""


class Further:
    """Adds further runs to the runs on usual values.

    ``probe`` runs the original at the sizes of the first run; in ``ones``, all dynamic axes, or one
    of them, have length 1. ``work`` returns the operations of a run.
    """

    def __init__(
        self,
        feeding: Feeding,
        probe: Probe,
        ones: Sequence[Sizes],
        settings: SessionSettings,
        work: Callable[[Sizes], int],
        budget: RunBudget,
    ) -> None:
        self._work, self._budget = work, budget
        self._ones = ones
        self._feeding = feeding
        self._probe = probe
        self._settings = settings

    def overridden(self, runs: list[ReferenceRun]) -> None:
        """Other values of initializers that a caller may override."""
        options = self._feeding.options
        for choices in overriding(self._feeding.model, options.seed):
            self._add(runs, [self._overriding(values) for values in choices], 2)

    def _overriding(self, values: Mapping[str, Value]) -> Planning:
        def plan(sizes: Sizes, run: int, gentle: bool) -> RunPlan:
            usual = self._feeding.plan(sizes, run, gentle)
            return replace(usual, source="overridden", feeds={**usual.feeds, **values})

        return plan

    def values(
        self,
        runs: list[ReferenceRun],
        models: Callable[[], Collection[SizedModel]] | None,
        *,
        is_tiny: bool,
        is_on_gpu: bool,
    ) -> None:
        """Add runs on values of other kinds.

        The operators of ``models`` decide some of these values; ``None`` if a run takes long.
        """
        # the error of an approximation is larger where numbers are not moderate
        is_approximate = self._feeding.options.exactness == "approximate"
        if not is_approximate:
            self.free(runs)
        if models is None:
            return
        self._add(runs, container_plans(self._feeding))
        # errors of an approximation add up over many iterations
        if not is_approximate and has_loops(self._feeding.models):
            self._add(runs, LatePlans(self._feeding, models(), self._work).plans(runs[0]))
        self.strings(runs, is_tiny=is_tiny)
        if not is_approximate:
            self.other_numbers(runs, models(), is_tiny=is_tiny, is_on_gpu=is_on_gpu)
        self.operands(runs)

    def strings(self, runs: list[ReferenceRun], *, is_tiny: bool) -> None:
        """Add runs on strings that the models distinguish."""
        strings, sizes = StringPlans(self._feeding), runs[0].sizes
        grown = strings.grown(sizes)
        has_room = is_tiny and self._work(grown) <= _ROOM
        many = [planned_at(grown, plan) for plan in strings.all(grown)] if has_room else []
        if not self._add(runs, many):
            self._add(runs, strings.all(sizes)[: _MAX_STRINGS if is_tiny else 1])
        self._add(runs, strings.stop_words())

    def free(self, runs: list[ReferenceRun]) -> None:
        """Add a run on any numbers in the inputs for which nodes prefer certain values.

        If the original does not run on them, a few of these inputs get any numbers one by one.
        """
        feeding = self._feeding
        if not feeding.preferring or self._add(runs, [feeding.styled("free", Style())]):
            return
        names = sorted(feeding.preferring)[:_MAX_INPUTS]
        self._add(runs, [feeding.styled("free", Style(free=frozenset((name,)))) for name in names])

    def other_numbers(
        self,
        runs: list[ReferenceRun],
        models: Collection[SizedModel],
        *,
        is_tiny: bool,
        is_on_gpu: bool,
    ) -> None:
        """Add runs on zeros and large numbers, numbers of many magnitudes, equal numbers,
        infinities and NaN: more runs if they are tiny.
        """
        numbers = NumberPlans(self._feeding, models, is_tiny=is_tiny, is_on_gpu=is_on_gpu)
        self._add(runs, numbers.plans(runs[0].feeds))
        small = [run for run in runs if run.work <= _SMALL]
        largest = max(small, key=_total, default=runs[0])
        if is_tiny and _total(largest) > _total(runs[0]):
            self._add(runs, [planned_at(largest.sizes, plan) for plan in numbers.levels()])

    def few_numbers(
        self, runs: list[ReferenceRun], models: Collection[SizedModel], *, is_on_gpu: bool
    ) -> None:
        """Add a few runs on numbers of other kinds to a model whose runs take longer.

        Without them, a dropped bound that large numbers or NaN reach would be found in small models
        only. Not for an approximation, whose error is larger where numbers are not moderate.
        """
        if self._feeding.options.exactness == "approximate":
            return
        numbers = NumberPlans(self._feeding, models, is_tiny=False, is_on_gpu=is_on_gpu)
        self._add(runs, numbers.few(runs[0].feeds))

    def _add(
        self, runs: list[ReferenceRun], plans: Iterable[Planning], limit: int | None = None
    ) -> int:
        """Add runs on the values of plans, as many as the original accepts.

        Returns their number.
        """
        new_runs = list(
            itertools.islice(
                filter(None, (self._probe(len(runs) + i, plan) for i, plan in enumerate(plans))),
                limit,
            )
        )
        runs += new_runs
        return len(new_runs)

    def operands(self, runs: list[ReferenceRun]) -> None:
        """Add runs on other values of the inputs that decide what operators do: each input alone,
        then all of them.

        Inputs that name axes also get other values in runs at axes of length 1.
        """
        varied = dict(itertools.islice(self._varied(runs[0].feeds), _MAX_INPUTS))
        plans = [[self._with({name: value}) for value in values] for name, values in varied.items()]
        if len(varied) > 1:
            rng = np.random.default_rng(self._feeding.options.seed)
            plans.append([self._with(_picked(varied, rng)) for _ in range(_MAX_MIXED)])
        for group in plans:
            self._add(runs, group, _MAX_KEPT)
        pairs = itertools.product(self._axes(varied), self._ones)
        for name, sizes in itertools.islice(pairs, _MAX_INPUTS):
            self._add(
                runs,
                [planned_at(sizes, self._with({name: value})) for value in varied[name]],
                _MAX_KEPT,
            )

    def _axes(self, varied: Iterable[str]) -> list[str]:
        """The operands that name axes, which some operators accept for axes of length 1 only."""
        return [name for name in varied if self._feeding.uses[name].kind == "axes"]

    def _varied(self, usual: Mapping[str, Value]) -> Iterator[tuple[str, list[np.ndarray]]]:
        """The inputs that decide what operators do, and other values of them."""
        for spec in self._feeding.random:
            kind, value = self._feeding.uses[spec.name].kind, usual.get(spec.name)
            if isinstance(value, np.ndarray) and kind in OPERANDS:
                bounds = [
                    int(n) + 1
                    for n in self._feeding.landmarks.integers
                    if 2 < n <= _LARGEST_OPERAND
                ]
                safe = [
                    variant
                    for variant in alternatives(kind, spec.element_type, value, bounds)
                    if self._is_safe(variant)
                ]
                yield from [(spec.name, safe)] if safe else []

    def _is_safe(self, value: np.ndarray) -> bool:
        """Whether a parameter does not end the process."""
        nodes = self._feeding.model.graph.node
        return bool((value > 0).all()) or all(node.op_type not in _NEED_POSITIVE for node in nodes)

    def _with(self, values: Mapping[str, Value]) -> Planning:
        def plan(sizes: Sizes, run: int, gentle: bool) -> RunPlan:
            usual = self._feeding.plan(sizes, run, gentle)
            return replace(usual, source="operands", feeds={**usual.feeds, **values})

        return plan

    def masks(self, runs: list[ReferenceRun]) -> None:
        """Add runs on masks that keep nothing, one position of a row, or all but one.

        The values of the other inputs vary from run to run.
        """
        uses = self._feeding.uses
        names = [spec.name for spec in self._feeding.random if uses[spec.name].kind == "mask"]
        self._add(runs, mask_plans(self._feeding, names[:_MAX_INPUTS]))

    def conditions(
        self,
        runs: list[ReferenceRun],
        model: SizedModel,
        base_dir: Path | None,
        *,
        is_tiny: bool,
    ) -> None:
        """Add runs on inputs that decide a condition, while the other inputs vary."""
        feeding, base = self._feeding, runs[0].sizes
        goals = Goals(feeding.model, SizeGoals(model, base, feeding.fixed))
        evaluate = Evaluator(
            feeding.model, lambda proto: Session(proto, self._settings, base_dir=base_dir)
        )
        small = [run for run in runs if run.work <= _SMALL]
        largest = max(small, key=_total, default=runs[0]).sizes
        condition_runs = ConditionRuns(
            goals, GoalPlans(feeding, evaluate), evaluate, is_tiny=is_tiny
        )
        condition_runs.add(runs, self._probe, largest)

    def branches(
        self,
        runs: list[ReferenceRun],
        base_dir: Path | None,
        *,
        is_short: bool,
        objection: str,
    ) -> Coverage:
        """The branches that the runs reach.

        If ``is_short``, adds runs that reach more branches. ``objection`` is the reason why nothing
        is counted, or empty.
        """
        # Planning the memory of a run takes quadratic time in the number of branches.
        settings = replace(self._settings, memory_pattern=False)
        reach = Reach.of(
            self._feeding.model, runs, base_dir, settings, self._budget, objection=objection
        )
        for plan in itertools.islice(self._attempts(), _MAX_ATTEMPTS if is_short else 0):
            if reach.is_complete() or self._budget.is_spent:
                break
            try:
                is_new = reach.is_new(plan(runs[0].sizes, len(runs), False).feeds)
            except (FeedError, RunError):
                continue
            run = self._probe(len(runs), plan) if is_new else None
            if run is not None:
                reach.add(run.feeds)
                runs.append(replace(run, source="branches"))
        return reach.coverage()

    def _attempts(self) -> Iterator[Planning]:
        """Plans of values that differ a lot: one number in all inputs or in one input, then usual
        values and many magnitudes.
        """
        feeding = self._feeding
        if not feeding.random:
            return
        bounds = feeding.landmarks.all
        levels = dict.fromkeys(
            (*_LEVELS, *(number for bound in bounds for number in beyond(bound)))
        )
        yield from (feeding.styled("branches", Style(level=level)) for level in levels)
        for spec in feeding.random[:_MAX_INPUTS]:
            yield from (self._one_level(spec.name, level) for level in levels)
        for seed in range(_MAX_ATTEMPTS):
            for style in (Style(), Style(numbers="wide"), Style(numbers="far")):
                yield self._shifted(feeding.styled("branches", style), seed)

    def _one_level(self, name: str, level: float) -> Planning:
        """One number in one input, and usual values in the other inputs."""
        leveled = self._feeding.styled("branches", Style(level=level))

        def plan(sizes: Sizes, run: int, gentle: bool) -> RunPlan:
            usual = self._feeding.plan(sizes, run, gentle)
            return replace(
                usual, feeds={**usual.feeds, name: leveled(sizes, run, gentle).feeds[name]}
            )

        return plan

    def _shifted(self, planning: Planning, by: int) -> Planning:
        """The same plan with another seed."""

        def plan(sizes: Sizes, run: int, gentle: bool) -> RunPlan:
            return planning(sizes, run + by, gentle)

        return plan


def _total(run: ReferenceRun) -> int:
    return sum(run.sizes.values())


def _picked(varied: Mapping[str, list[np.ndarray]], rng: np.random.Generator) -> dict[str, Value]:
    """One of the values of each input."""
    return {name: values[rng.integers(len(values))] for name, values in varied.items()}
