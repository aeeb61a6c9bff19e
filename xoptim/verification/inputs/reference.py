"""Runs of the original, on given values or on sizes and values that a search finds."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import onnx

from xoptim.facts.advice import Advice
from xoptim.facts.errors import ModelError
from xoptim.graph.splice import EXPANSION_LIMIT, expanded_size
from xoptim.system.crashes import WATCH
from xoptim.verification.errors import FeedError, LoadError, RunError, RunStoppedError, shortened
from xoptim.verification.inputs.branches import Coverage
from xoptim.verification.inputs.dims import Sizes, sizes_text
from xoptim.verification.inputs.explosions import Explosions
from xoptim.verification.inputs.extremes import ExtremeSizes
from xoptim.verification.inputs.feeding import (
    Feeding,
    Planning,
    ReferenceRun,
    ResultStore,
    RunPlan,
    check_agreement,
    run_plan,
    test_feeds,
)
from xoptim.verification.inputs.further import SHORT, TINY, Further
from xoptim.verification.inputs.reach import Reach
from xoptim.verification.inputs.sample_runs import run_samples
from xoptim.verification.inputs.sized import SizedModel
from xoptim.verification.inputs.work import (
    MemoryNeed,
    RunBudget,
    SkippedRun,
    Work,
    fits_into_memory,
    is_large,
    size_text,
    weight_bytes,
)
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import ModelLike, read_defined
from xoptim.verification.runs.session import CUDA, Port, Session, resolve_providers
from xoptim.verification.runs.session_settings import SessionSettings

_FURTHER_ATTEMPTS: Final = 8  # attempts for another assignment of sizes, once one works
_MAX_PROBES: Final = 6  # runs to find the largest size of one axis that the original accepts
_RELATED_WORK: Final = 1 << 25  # operations of a run with sizes such as multiples of each other
_PROBE_BYTES: Final = 1 << 30  # largest memory of the results of a run with large sizes
_HOUR: Final = 3600.0
_SHORT_SEARCH: Final = 10.0  # seconds to search for sizes that a message suggests


class Search:
    """The search for sizes and values on which the original runs; ``store`` keeps the results.

    ``skipped`` lists the runs that were skipped because of their cost; ``coverage`` tells which
    branches the other runs reached. ``other`` is a model to compare with: sizes and values are also
    chosen close to numbers that only ``other`` contains.
    """

    def __init__(
        self,
        session: Session,
        model: onnx.ModelProto,
        base_dir: Path | None,
        options: VerificationOptions,
        store: ResultStore,
        other: onnx.ModelProto | None = None,
    ) -> None:
        self._store = store
        self._base_dir = base_dir
        self._session = session
        self._is_on_gpu = CUDA in resolve_providers(options.providers)
        self._on_cpu = _cpu_session(model, base_dir, options) if self._is_on_gpu else None
        self._model = model
        self._sized = SizedModel(model, base_dir)
        self._need = MemoryNeed(self._sized, options.memory_limit)
        self._work = Work(self._sized)
        self._budget = RunBudget(options.budget)
        self._deadline = time.perf_counter() + options.time_limit
        self._options = options
        self._feeding = Feeding(model, options, other)
        self._other = other
        self._other_sized: SizedModel | None = None
        self.skipped: list[SkippedRun] = []
        self.coverage = Coverage()
        self.is_short = False
        self._ones: list[Sizes] = []
        self._explosions = Explosions(self._feeding)

    @property
    def chosen(self) -> Iterable[str]:
        """The dimensions whose sizes the caller determined."""
        return self._feeding.fixed

    def runs(self) -> list[ReferenceRun]:
        """As many runs as the options require, on different sizes if possible, and further runs."""
        feeding = self._feeding
        runs: list[ReferenceRun] = []
        failures: list[Exception] = []
        preferred: Sizes | None = None
        for sizes in feeding.assignments():
            preferred = sizes if preferred is None else preferred
            late = bool(runs or failures) and time.perf_counter() > self._deadline
            if len(runs) >= feeding.wanted or late or len(failures) >= self._patience(bool(runs)):
                break
            if self._budget.allows(self._work.of(sizes)):
                self._try(sizes, runs, failures)
        if not runs and self._on_cpu is not None:
            self._on_cpu = None  # the CPU may lack what a GPU has
            return self.runs()
        if not runs:
            check_agreement(feeding.specs, feeding.given, self._options.dims)
        if not runs and not feeding.random:
            raise failures[0]
        if not runs:
            raise RunError(self._failed(failures))
        if runs[0].sizes != preferred:
            runs[0] = replace(runs[0], refused=preferred or {})
        for _ in range(len(runs), feeding.wanted):
            self._try(runs[0].sizes, runs, failures)
        self._add_calm(runs)
        if feeding.wanted > 1 and self._options.extremes:
            self._add_extremes(runs)
        if self._options.assignments > 1 and self._options.extremes:
            self._add_further(runs)
        return self._explosions.leveled(runs) if feeding.random else runs

    def _add_calm(self, runs: list[ReferenceRun]) -> None:
        """Add runs on smaller values for the runs whose results explode."""
        if self._feeding.random and self._options.assignments > 1:
            runs += self._explosions.calm(runs, self._probe)

    def _failed(self, failures: Sequence[Exception]) -> str:
        """The message that the model does not run on random values.

        If the caller chose sizes, the message names sizes with which the model runs.
        """
        first = shortened(str(failures[0]))
        dims = self._options.dims
        if not dims:
            return (
                f"the model runs with none of {len(failures)} random feeds; give inputs that it "
                f"accepts with {Advice('feeds', 'FILE.npz')}; the first error: {first}"
            )
        usable = sizes_text(self._sizes_that_run())
        return (
            f"the model does not run with {sizes_text(dims)}: {first}"
            f"{f'; it runs with {usable}' if usable else ''}"
        )

    def _sizes_that_run(self) -> Sizes:
        """Sizes with which the model runs where the caller chooses none; empty if none are found
        soon.
        """
        free = replace(
            self._options, dims={}, assignments=1, extremes=False, time_limit=_SHORT_SEARCH
        )
        try:
            search = Search(self._session, self._model, self._base_dir, free, ResultStore())
            return search.runs()[0].sizes
        except (FeedError, RunError):
            return {}

    def _add_further(self, runs: list[ReferenceRun]) -> None:
        """Add runs on values of other kinds, if the original runs with them and the budget allows
        it.
        """
        sizes = runs[0].sizes
        is_cheap = not self._is_spent(sizes) and not self._objection(sizes)
        work = self._work.of(sizes)
        self.is_short = is_cheap and work <= SHORT
        settings = replace(self._options.settings, providers=("cpu",))
        probe = partial(self._probe, sizes)
        further = Further(self._feeding, probe, self._ones, settings, self._work.of, self._budget)
        is_varied = self.is_short and self._options.is_by_type
        if is_cheap:
            further.overridden(runs)
        if is_cheap and self._feeding.random:
            models, is_tiny = self._models if is_varied else None, work <= TINY
            further.values(runs, models, is_tiny=is_tiny, is_on_gpu=self._is_on_gpu)
            if models is not None:
                further.masks(runs)
                further.conditions(runs, self._sized, self._base_dir, is_tiny=is_tiny)
            elif self._options.is_by_type:
                further.few_numbers(runs, self._models(), is_on_gpu=self._is_on_gpu)
        objection = "" if self.is_short else self._objection_to_counting(runs)
        self.coverage = further.branches(
            runs, self._base_dir, is_short=is_varied, objection=objection
        )

    def _objection_to_counting(self, runs: Sequence[ReferenceRun]) -> str:
        """The reason why runs are not repeated to count branches; empty if they are."""
        if not fits_into_memory(self._model, self._options.memory_limit):
            return "there is not enough memory for the model that counts them"
        if sum(run.seconds for run in runs) > self._budget.limit:
            return (
                "the runs would have to be repeated, which takes too long "
                f"({Advice('verify-budget')})"
            )
        return ""

    def _models(self) -> list[SizedModel]:
        """The original, and the other model if it has bounds of its own: inferring its shapes takes
        time.
        """
        if self._other is None or not self._feeding.landmarks.is_new:
            return [self._sized]
        if self._other_sized is None:
            self._other_sized = SizedModel(self._other, self._options.optimized_dir)
        return [self._sized, self._other_sized]

    def _add_extremes(self, runs: list[ReferenceRun]) -> None:
        """Add runs with a long axis, with axes of length 1, with empty axes, and with related
        sizes, if the original and the budget allow them.
        """
        feeding = self._feeding
        extremes = ExtremeSizes(
            feeding.specs,
            self._models(),
            runs[0].sizes,
            feeding.fixed,
            self._work.of,
            feeding.assumptions,
        )
        tried = [run.sizes for run in runs]
        for rungs in extremes.large():
            run = self._largest(extremes, rungs, tried)
            if run is not None:
                tried.append(run.sizes)
                runs.append(run)
        self._ones = list(extremes.ones())
        related = [sizes for sizes in extremes.related() if self._work.of(sizes) <= _RELATED_WORK]
        for candidates in (
            *([sizes] for sizes in self._ones),
            extremes.empty(),
            *([sizes] for sizes in related),
        ):
            affordable = (
                sizes for sizes in candidates if sizes not in tried and not self._objection(sizes)
            )
            run = next(
                filter(None, (self._probe(sizes, len(tried) + 1) for sizes in affordable)), None
            )
            if run is not None:
                tried.append(run.sizes)
                runs.append(run)

    def _largest(
        self, extremes: ExtremeSizes, rungs: Sequence[Sequence[Sizes]], tried: Sequence[Sizes]
    ) -> ReferenceRun | None:
        """A run with the largest sizes of an axis that the original accepts, by bisection.

        ``rungs`` are the sizes to try, ascending; each has alternatives.
        """
        cheap = [rung for rung in rungs if any(self._affordable(extremes, rung[:1]))]
        if len(cheap) < len(rungs):
            largest = extremes.single(rungs[-1][0])
            self.skipped.append(SkippedRun(largest, self._objection(largest)))
        best: ReferenceRun | None = None
        low, high = 0, len(cheap)
        middle = high - 1
        for _ in range(_MAX_PROBES):
            if low >= high:
                break
            candidates = (
                sizes for sizes in self._affordable(extremes, cheap[middle]) if sizes not in tried
            )
            run = next(
                filter(
                    None, (self._probe(sizes, self._options.assignments) for sizes in candidates)
                ),
                None,
            )
            best = run or best
            low, high = (middle + 1, high) if run else (low, middle)
            middle = (low + high) // 2
        return best

    def _affordable(self, extremes: ExtremeSizes, rung: Sequence[Sizes]) -> Iterator[Sizes]:
        """The assignments with a batch of 1 that memory and budget allow when they are tried."""
        yield from (single for single in map(extremes.single, rung) if not self._objection(single))

    def _objection(self, sizes: Sizes) -> str:
        """The reason why memory or budget do not allow a run with some sizes; empty if they do."""
        work = self._work.of(sizes)
        if (
            self._need.total(sizes) > _PROBE_BYTES
            and (size := self._need.at_least(sizes)) > _PROBE_BYTES
        ):
            return (
                f"needs {size_text(size)} of memory, and a run with large sizes may take "
                f"{size_text(_PROBE_BYTES)}"
            )
        if not self._budget.allows(work):
            # An unknown axis counts as the longest axis: the estimate may be years.
            seconds, limit = self._budget.estimate(work), self._budget.limit
            duration = f"about {seconds:.3g} s" if seconds < _HOUR else "more than an hour"
            return (
                f"would take {duration}, and the budget of all runs is {limit:.3g} s "
                f"({Advice('verify-budget')})"
            )
        return ""

    def _probe(self, sizes: Sizes, run: int, plan: Planning | None = None) -> ReferenceRun | None:
        """A run with sizes or values that the original may refuse.

        The run is stopped when it takes the whole budget, and not started when the budget is spent.
        """
        if self._is_spent(sizes):
            return None
        runs: list[ReferenceRun] = []
        self._try(sizes, runs, [], run, plan)
        if not runs and self._budget.spent > self._budget.limit:
            reason = (
                f"was stopped after {self._budget.limit:.2g} s, the budget of all runs "
                f"({Advice('verify-budget')})"
            )
            self.skipped.append(SkippedRun(sizes, reason))
        return replace(runs[0], is_probe=True) if runs else None

    def _is_spent(self, sizes: Sizes) -> bool:
        """Whether the budget is spent: then a run with these sizes is noted as skipped."""
        if self._budget.is_spent:
            reason = (
                f"was not begun: the budget of all runs, {self._budget.limit:.2g} s, is spent "
                f"({Advice('verify-budget')})"
            )
            self.skipped.append(SkippedRun(sizes, reason))
        return self._budget.is_spent

    def _patience(self, has_run: bool) -> int:
        """The number of failures that ends the search: fewer once there is a run, 1 when there is
        nothing to vary.
        """
        limit = self._options.max_attempts if self._feeding.random else 1
        return min(_FURTHER_ATTEMPTS, limit) if has_run else limit

    def _try(
        self,
        sizes: Sizes,
        runs: list[ReferenceRun],
        failures: list[Exception],
        run: int | None = None,
        plan: Planning | None = None,
    ) -> None:
        """Add one more run, or one more failure for each attempt.

        ``plan`` makes the values of a probe. Raises `RunStoppedError` when the first run takes
        longer than it may.
        """
        is_probe, run = run is not None, len(runs) if run is None else run
        ended_by = WATCH.end_at(sizes)
        if ended_by:
            reason = f"is as small as one that ended the process ({ended_by})"
            self.skipped.append(SkippedRun(sizes, reason))
            failures.append(RunError(f"a run with {sizes_text(sizes)} {reason}"))
            return
        for gentle in self._feeding.gentle_flags:
            start = time.perf_counter()
            try:
                self._need.check(sizes)
                values = (plan or self._feeding.plan)(sizes, run, gentle)
                self.check_on_cpu(values)
                limit = self._budget.limit if is_probe else self._budget.patience
                with WATCH.at(sizes, is_trial=True):
                    reference_run = run_plan(self._session, values, limit)
                work = self._work.of(sizes)
                self._budget.charge(work, reference_run.seconds)
                self._budget.spend(time.perf_counter() - start - reference_run.seconds)
                runs.append(self._store.keep(replace(reference_run, work=work)))
                return
            except (FeedError, RunError) as error:
                # the frames of the traceback would keep the memory of the session
                failures.append(type(error)(str(error)))
            except MemoryError:
                failures.append(RunError("there is not enough memory for a run"))
            self._budget.spend(time.perf_counter() - start)
            is_endless = isinstance(failures[-1], RunStoppedError)
            if is_endless and not runs and not is_probe:
                raise failures[-1]  # other values and sizes may take as long
            if time.perf_counter() > self._deadline:
                return

    def check_on_cpu(self, plan: RunPlan) -> None:
        """Raise RunError for values that a model must refuse: on a GPU, an index out of range reads
        other memory.
        """
        if self._on_cpu is not None:
            with suppress(RunStoppedError):
                self._on_cpu.run(plan.feeds, self._budget.limit)


def _cpu_session(
    model: onnx.ModelProto, base_dir: Path | None, options: VerificationOptions
) -> Session | None:
    """The model on the CPU, ``None`` if the CPU lacks kernels."""
    settings = replace(options.settings, providers=("cpu",))
    try:
        return Session(model, settings.without_copies(), base_dir=base_dir)
    except LoadError:
        return None


class Reference(NamedTuple):
    """The original without its external data, its inputs, its outputs and at least one run.

    ``chosen`` are the dimensions whose sizes the caller determined, ``coverage`` tells which
    branches the runs reached. ``is_short``: whether a run takes so little time that many runs are
    worth it. ``settings`` are those of the optimized model as well.
    """

    proto: onnx.ModelProto
    base_dir: Path | None
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    runs: list[ReferenceRun]
    chosen: frozenset[str] = frozenset()
    settings: SessionSettings = SessionSettings()
    skipped: tuple[SkippedRun, ...] = ()
    coverage: Coverage = Coverage()
    is_short: bool = False


def read_original(
    model: ModelLike, options: VerificationOptions
) -> tuple[onnx.ModelProto, Path | None]:
    """The protobuf of a model and the folder of its external data.

    Raises `LoadError` when it cannot be read, or its local functions expand to too many nodes.
    """
    try:
        proto, base_dir = read_defined(
            model, options.original_dir, options.custom_op_libs, options.providers
        )
        size = expanded_size(proto) if proto.functions else 0
    except ModelError as error:
        raise LoadError(str(error)) from error
    if size > EXPANSION_LIMIT:
        raise LoadError(f"its local functions expand to {size:,} nodes, which is too many")
    return proto, base_dir


def run_reference(
    model: ModelLike,
    options: VerificationOptions,
    proto: onnx.ModelProto | None = None,
    other: onnx.ModelProto | None = None,
) -> Reference:
    """Run the original on the number of assignments in the options.

    ``proto`` is the result of `read_original`, if known. ``other``: a model that will be compared
    with the original, and whose numbers count in the choice of sizes and values.

    Raises:
        LoadError: onnxruntime refuses the model, or its functions expand to too many nodes.
        FeedError: an input cannot be fed, or a choice does not fit the model.
        RunError: the model fails on the given values, or on all sizes that were tried.
        ProviderUnavailable: an execution provider is missing.
    """
    if proto is None:
        proto, base_dir = read_original(model, options)
    elif isinstance(model, onnx.ModelProto):
        base_dir = options.original_dir
    else:
        base_dir = Path(model).resolve().parent
    if not fits_into_memory(proto, options.memory_limit, copies=1):
        size = size_text(weight_bytes(proto))
        raise LoadError(f"its weights need {size} of memory, which is not free")
    settings = options.settings
    if is_large(proto, options.memory_limit):
        settings = settings.without_copies()
    session = Session(model, settings, base_dir=options.original_dir)
    ports, store = (session.inputs, session.outputs), ResultStore()
    if options.test_data is not None:
        MemoryNeed(SizedModel(proto, base_dir), options.memory_limit).check({})
        data = test_feeds(options.test_data, proto, options)
        plans = (RunPlan("test data", {}, options.seed, feeds) for feeds in data)
        runs = [store.keep(run_plan(session, plan)) for plan in plans]
        reference = Reference(proto, base_dir, *ports, runs, settings=settings)
        if options.assignments == 1 or not options.extremes:
            return reference
        return reference._replace(coverage=Reach.of(proto, runs, base_dir, settings).coverage())
    search = Search(session, proto, base_dir, options, store, other)
    runs, skipped = run_samples(search.runs(), session, proto, options, store, search.check_on_cpu)
    chosen = frozenset(search.chosen)
    reference = Reference(proto, base_dir, *ports, runs, chosen, settings)
    return reference._replace(
        skipped=(*search.skipped, *skipped),
        coverage=search.coverage,
        is_short=search.is_short,
    )
