"""Runs of the original, on given values or on sizes and values that a search within a budget finds it to accept."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import onnx

from xoptim.facts.dtypes import element_type, is_float
from xoptim.facts.errors import ModelError
from xoptim.facts.protos import fed_inputs, inner_graphs, is_external
from xoptim.graph.splice import EXPANSION_LIMIT, expanded_size
from xoptim.validate.dims import Sizes
from xoptim.validate.errors import FeedError, LoadError, RunError, RunStoppedError
from xoptim.validate.extremes import Ends
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike, read_proto, stored_bytes, tensor_array
from xoptim.validate.report import SkippedRun
from xoptim.validate.runs import Feeding, ReferenceRun, ResultStore, RunPlan, check_agreement, run_plan, test_feeds
from xoptim.validate.session import CUDA, Port, Session, SessionSettings, Value, resolve_providers
from xoptim.validate.sized import SizedModel
from xoptim.validate.work import MemoryNeed, RunBudget, Work, fits_into_memory, is_large, size_text, weight_bytes

_SINCE: Final = 4  # version of the file format; before it, an initializer that is an input is a constant
_FEW: Final = 64  # integers that count as a parameter, such as axes or a shape, and not as weights
_MOST_PARAMETERS: Final = 4
_MOST_BYTES: Final = 1 << 26


def overriding(model: onnx.ModelProto, seed: int) -> Iterator[list[dict[str, Value]]]:
    """Values for the overridable initializers of a model: all weights together, then a few parameters one by one.

    Each entry lists alternatives, since a model refuses most axes and shapes: the caller runs the first two that it accepts.
    Nothing is given for initializers in external files, or in the place of more than 64 MB.
    """
    nodes = [*model.graph.node, *(node for graph in inner_graphs(model.graph.node) for node in graph.node)]
    read = {name for node in nodes for name in node.input}
    needed = {value.name for value in fed_inputs(model)}
    inputs = {value.name for value in model.graph.input} - needed
    tensors = [t for t in model.graph.initializer if t.name in inputs & read and not is_external(t) and stored_bytes(t)]
    if model.ir_version < _SINCE or sum(map(stored_bytes, tensors)) > _MOST_BYTES:
        return
    rng = np.random.default_rng(seed)
    arrays = {tensor.name: tensor_array(tensor, None) for tensor in tensors}
    weights = [t.name for t in tensors if is_float(t.data_type) or arrays[t.name].size > _FEW]
    if weights:
        # Scales of images must be whole numbers where operators multiply sizes by them: a multiple is the second choice.
        yield [{name: other(arrays[name], rng) for name in weights} for other in (_other_weights, _multiples)]
    for name in [name for name in arrays if name not in weights][:_MOST_PARAMETERS]:
        yield [{name: other} for other in _other_parameters(arrays[name])]


def _other_weights(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other numbers of the same magnitudes and signs, 0 included; integers in another order."""
    mixed = rng.permutation(array.reshape(-1)).reshape(array.shape)
    if array.dtype.kind in "biuOSU":
        return mixed
    wide = mixed.astype(np.float64)
    scale = np.max(np.abs(wide), initial=0, where=np.isfinite(wide)) or 1.0
    wide = np.where(wide == 0, scale, wide) * rng.uniform(0.5, 1.5, array.shape)
    return np.asarray(wide).astype(array.dtype)


def _multiples(array: np.ndarray, _: np.random.Generator) -> np.ndarray:
    return array if array.dtype.kind in "biuOSU" else np.asarray(array.astype(np.float64) * 3).astype(array.dtype)


def _other_parameters(array: np.ndarray) -> Iterator[np.ndarray]:
    """Integers or Booleans in the reverse order, then changed by one."""
    if array.dtype.kind == "b":
        yield np.asarray(np.logical_not(array))
    elif array.dtype.kind in "iu":
        flat = array.reshape(-1)
        found = (flat[::-1], flat + 1, flat - 1, np.concatenate((flat[:1] + 1, flat[1:])))
        yield from (each.astype(array.dtype).reshape(array.shape) for each in found if not np.array_equal(each, flat))


_FURTHER_ATTEMPTS: Final = 8  # for another assignment, once one works
_MOST_PROBES: Final = 6  # runs to find the largest size of one axis that the original accepts
_PROBE_BYTES: Final = 1 << 30  # that the results of a run with large sizes may take at one time
_HOUR: Final = 3600.0
_SHORT: Final = 0.05  # seconds of a run with other values that is worth its time
_UNEVEN: Final = frozenset(
    (
        *("Clip", "Max", "Min", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Where", "Sign", "Mod", "Abs"),
        *("HardSigmoid", "HardSwish", "ThresholdedRelu", "Celu", "Elu", "Shrink", "Div", "Reciprocal", "Not", "Cast", "Round"),
    )
)
"""Operators that treat 0 or large numbers in another way than moderate ones."""
_SPREADING: Final = frozenset(("Conv", "ConvTranspose", "FusedConv", "QuantizeLinear", "DynamicQuantizeLinear"))
"""Operators on a GPU for which it is open where NaN goes: algorithms of convolutions mix all numbers of a tile."""
Planning: TypeAlias = Callable[[Sizes, int, bool], RunPlan]
"""Makes values for sizes, the number of a run, and whether they are gentle; raises `FeedError` when it cannot."""


class Search:
    """The search for sizes and values on which the original runs, and whose results the store keeps.

    ``skipped`` lists the runs that were left out because of what they cost.
    """

    def __init__(
        self, session: Session, model: onnx.ModelProto, base_dir: Path | None, options: ValidationOptions, store: ResultStore
    ) -> None:
        self._store = store
        self._session = session
        self._is_on_gpu = CUDA in resolve_providers(options.providers)
        self._processor = _on_processor(model, base_dir, options) if self._is_on_gpu else None
        self._model = model
        self._sized = SizedModel(model, base_dir)
        self._need = MemoryNeed(self._sized, options.memory_limit)
        self._work = Work(self._sized)
        self._budget = RunBudget(options.budget)
        self._deadline = time.perf_counter() + options.time_limit
        self._options = options
        self._feeding = Feeding(model, options)
        self.skipped: list[SkippedRun] = []

    @property
    def chosen(self) -> Iterable[str]:
        """The dimensions whose sizes the caller determined."""
        return self._feeding.fixed

    def runs(self) -> list[ReferenceRun]:
        """The number of runs in the options: on different sizes if they are found, else on other values."""
        feeding = self._feeding
        found: list[ReferenceRun] = []
        failures: list[Exception] = []
        preferred: Sizes | None = None
        for sizes in feeding.assignments():
            preferred = sizes if preferred is None else preferred
            late = bool(found or failures) and time.perf_counter() > self._deadline
            if len(found) >= feeding.wanted or late or len(failures) >= self._patience(bool(found)):
                break
            if self._budget.allows(self._work.of(sizes)):
                self._try(sizes, found, failures)
        if not found and self._processor is not None:
            self._processor = None  # which may lack what a GPU has
            return self.runs()
        if not found:
            check_agreement(feeding.specs, feeding.given, self._options.dims)
        if not found and not feeding.random:
            raise failures[0]
        if not found:
            raise RunError(
                f"it ran with none of {len(failures)} random feeds; give values that it accepts with --feeds FILE.npz; "
                f"the first error: {failures[0]}"
            )
        if found[0].sizes != preferred:
            found[0] = replace(found[0], refused=preferred or {})
        for _ in range(len(found), feeding.wanted):
            self._try(found[0].sizes, found, failures)
        if feeding.wanted > 1 and self._options.extremes:
            self._add_ends(found)
        if self._options.assignments > 1 and self._options.extremes:
            found += [*self._overridden(found[0].sizes, len(found)), *self._other_numbers(found[0].sizes, len(found))]
        return found

    def _other_numbers(self, sizes: Sizes, run: int) -> Iterator[ReferenceRun]:
        """Runs with zeros and large numbers, if the results are finite, and with infinities and NaN; only short ones."""
        feeding = self._feeding
        is_short = self._budget.estimate(self._work.of(sizes)) <= _SHORT and not self._objection(sizes)
        if not (is_short and self._options.is_by_type):
            return
        if feeding.may_be_wide and self._sized.has_any(_UNEVEN):
            wide = self._probe(sizes, run, feeding.wide_plan)
            yield from [wide] if wide is not None and all(map(_is_finite, wide.results)) else []
        is_open = self._is_on_gpu and self._sized.has_any(_SPREADING)
        if feeding.may_be_odd and self._options.exactness in ("exact", "rounding") and not is_open:
            odd = self._probe(sizes, run, feeding.odd_plan)
            yield from [] if odd is None else [odd]

    def _overridden(self, sizes: Sizes, run: int) -> Iterator[ReferenceRun]:
        """Runs with other values of initializers that a caller may override, as long as the budget allows."""
        for alternatives in overriding(self._model, self._options.seed):
            plans = (partial(self._overriding, given) for given in alternatives if not self._objection(sizes))
            yield from itertools.islice(filter(None, (self._probe(sizes, run, plan) for plan in plans)), 2)

    def _overriding(self, given: Mapping[str, Value], sizes: Sizes, run: int, gentle: bool) -> RunPlan:
        plan = self._feeding.plan(sizes, run, gentle)
        return replace(plan, source="overridden", feeds={**plan.feeds, **given})

    def _add_ends(self, found: list[ReferenceRun]) -> None:
        """Add runs with a long axis each, with axes of 1, and with an empty one, if the original and the budget allow them."""
        feeding = self._feeding
        ends = Ends(feeding.specs, self._sized, found[0].sizes, feeding.fixed, self._work.of, feeding.assumptions)
        tried = [run.sizes for run in found]
        for rungs in ends.large():
            run = self._largest(ends, rungs, tried)
            if run is not None:
                tried.append(run.sizes)
                found.append(run)
        for wanted in (*([sizes] for sizes in ends.ones()), ends.empty()):
            allowed = (sizes for sizes in wanted if sizes not in tried and not self._objection(sizes))
            made = next(filter(None, (self._probe(sizes, len(tried) + 1) for sizes in allowed)), None)
            if made is not None:
                tried.append(made.sizes)
                found.append(made)

    def _largest(self, ends: Ends, rungs: Sequence[Sequence[Sizes]], tried: Sequence[Sizes]) -> ReferenceRun | None:
        """A run with the largest sizes of an axis that the original accepts, by bisection of the candidates."""
        cheap = [rung for rung in rungs if any(self._affordable(ends, rung[:1]))]
        if len(cheap) < len(rungs):
            least = ends.single(rungs[-1][0])
            self.skipped.append(SkippedRun(least, self._objection(least)))
        best: ReferenceRun | None = None
        low, high = 0, len(cheap)
        middle = high - 1
        for _ in range(_MOST_PROBES):
            if low >= high:
                break
            candidates = (sizes for sizes in self._affordable(ends, cheap[middle]) if sizes not in tried)
            run = next(filter(None, (self._probe(sizes, self._options.assignments) for sizes in candidates)), None)
            best = run or best
            low, high = (middle + 1, high) if run else (low, middle)
            middle = (low + high) // 2
        return best

    def _affordable(self, ends: Ends, rung: Sequence[Sizes]) -> Iterator[Sizes]:
        """The assignments that do not cost too much when they are asked for, some of them with a smaller batch."""
        for sizes in rung:
            yield from itertools.islice((each for each in (sizes, ends.single(sizes)) if not self._objection(each)), 1)

    def _objection(self, sizes: Sizes) -> str:
        work = self._work.of(sizes)
        if self._need.total(sizes) > _PROBE_BYTES and (size := self._need.at_least(sizes)) > _PROBE_BYTES:
            return f"needs {size_text(size)} of memory, and a run with large sizes may take {size_text(_PROBE_BYTES)}"
        if not self._budget.allows(work):
            # Several unknown axes, each taken to be as long as the longest, give a bound that may be years.
            seconds, limit = self._budget.estimate(work), self._budget.limit
            expected = f"about {seconds:.3g} s" if seconds < _HOUR else "more than an hour"
            return f"would take {expected}, and the budget of all runs is {limit:.3g} s (--validation-budget)"
        return ""

    def _probe(self, sizes: Sizes, run: int, plan: Planning | None = None) -> ReferenceRun | None:
        """A run with sizes or values that the original may refuse, stopped when it takes the whole budget."""
        found: list[ReferenceRun] = []
        self._try(sizes, found, [], run, plan)
        if not found and self._budget.spent > self._budget.limit:
            reason = f"was stopped after {self._budget.limit:.2g} s, the budget of all runs (--validation-budget)"
            self.skipped.append(SkippedRun(sizes, reason))
        return replace(found[0], is_probe=True) if found else None

    def _patience(self, found: bool) -> int:
        """Allowed number of failures: fewer once there is a result, none when there is nothing to vary."""
        most = self._options.max_attempts if self._feeding.random else 1
        return min(_FURTHER_ATTEMPTS, most) if found else most

    def _try(
        self,
        sizes: Sizes,
        found: list[ReferenceRun],
        failures: list[Exception],
        run: int | None = None,
        plan: Planning | None = None,
    ) -> None:
        """One more run, or one more failure for each style; ``plan`` makes the values of a probe."""
        is_probe, run = run is not None, len(found) if run is None else run
        for gentle in self._feeding.styles:
            start = time.perf_counter()
            try:
                self._need.check(sizes)
                values = (plan or self._feeding.plan)(sizes, run, gentle)
                self._check_on_processor(values)
                made = run_plan(self._session, values, self._budget.limit if is_probe else self._budget.patience)
                self._budget.charge(self._work.of(sizes), made.seconds)
                found.append(self._store.keep(made))
                return
            except (FeedError, RunError) as error:
                failures.append(type(error)(str(error)))  # the frames of the traceback would keep the memory of the session
            except MemoryError:
                failures.append(RunError("there is not enough memory for a run"))
            self._budget.spend(time.perf_counter() - start)
            if time.perf_counter() > self._deadline:
                return

    def _check_on_processor(self, plan: RunPlan) -> None:
        """Raise RunError for values that a model must refuse: on a GPU, an index out of range reads other memory."""
        if self._processor is not None:
            with suppress(RunStoppedError):
                self._processor.run(plan.feeds, self._budget.limit)


def _on_processor(model: onnx.ModelProto, base_dir: Path | None, options: ValidationOptions) -> Session | None:
    """The model on the CPU, ``None`` if that lacks kernels."""
    settings = replace(options.settings, providers=("cpu",))
    try:
        return Session(model, settings.without_copies(), base_dir=base_dir)
    except LoadError:
        return None


def _is_finite(value: Value) -> bool:
    """Whether a result has no infinity and no NaN."""
    if isinstance(value, list):
        return all(map(_is_finite, value))
    if not isinstance(value, np.ndarray) or not is_float(element_type(value.dtype)):
        return True
    return bool(np.isfinite(value.astype(np.float64)).all())


class Reference(NamedTuple):
    """The original, external data left outside, with its inputs, outputs and at least one run.

    ``chosen`` are the dimensions whose sizes the caller determined. The optimized model gets the same settings.
    """

    proto: onnx.ModelProto
    base_dir: Path | None
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    runs: list[ReferenceRun]
    chosen: frozenset[str] = frozenset()
    settings: SessionSettings = SessionSettings()
    skipped: tuple[SkippedRun, ...] = ()


def read_original(model: ModelLike, options: ValidationOptions) -> tuple[onnx.ModelProto, Path | None]:
    """The protobuf of a model and the folder of its external data.

    Raises `LoadError` when it cannot be read, or would unfold to more nodes than can be handled.
    """
    try:
        proto, base_dir = read_proto(model, options.original_dir)
        size = expanded_size(proto) if proto.functions else 0
    except ModelError as error:
        raise LoadError(str(error)) from error
    if size > EXPANSION_LIMIT:
        raise LoadError(f"its local functions unfold to {size:,} nodes")
    return proto, base_dir


def run_reference(model: ModelLike, options: ValidationOptions, proto: onnx.ModelProto | None = None) -> Reference:
    """Run the original on the number of assignments in the options; ``proto`` is the result of `read_original`, if known.

    Raises:
        LoadError: onnxruntime refuses the model, or it would unfold to more nodes than can be handled.
        FeedError: an input cannot be fed, or a choice of the user does not fit the model.
        RunError: it fails on the values given, or on every assignment of sizes tried.
        ProviderUnavailable: an execution provider is missing.
    """
    if proto is None:
        proto, base_dir = read_original(model, options)
    else:
        base_dir = options.original_dir if isinstance(model, onnx.ModelProto) else Path(model).resolve().parent
    if not fits_into_memory(proto, options.memory_limit, copies=1):
        raise LoadError(f"its weights take {size_text(weight_bytes(proto))} of memory, which is not free")
    settings = options.settings.without_copies() if is_large(proto, options.memory_limit) else options.settings
    session = Session(model, settings, base_dir=options.original_dir)
    store = ResultStore()
    if options.test_data is not None:
        MemoryNeed(SizedModel(proto, base_dir), options.memory_limit).check({})
        data = test_feeds(options.test_data, proto, options.assume)
        runs = [store.keep(run_plan(session, RunPlan("test data", {}, options.seed, feeds))) for feeds in data]
        return Reference(proto, base_dir, session.inputs, session.outputs, runs, settings=settings)
    search = Search(session, proto, base_dir, options, store)
    runs, chosen = search.runs(), frozenset(search.chosen)
    return Reference(proto, base_dir, session.inputs, session.outputs, runs, chosen, settings, tuple(search.skipped))
