"""Runs of the original: on given values, on test data, or on random values of sizes that it accepts."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.errors import ModelError
from xoptim.graph.inline import EXPANSION_LIMIT, expanded_size
from xoptim.validate.dims import InputSpec, Sizes, assignments, bind_sizes, input_specs, open_dimensions
from xoptim.validate.errors import ChoiceError, FeedError, LoadError, RunError
from xoptim.validate.extremes import Ends
from xoptim.validate.feeds import Style, has_daring_values, make_feeds
from xoptim.validate.memory import MemoryNeed, fits_into_memory, size_text, weight_bytes
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike, graph_inputs, read_proto
from xoptim.validate.roles import input_roles
from xoptim.validate.session import Port, Session, Value
from xoptim.validate.testdata import load_test_data

Source: TypeAlias = Literal["random", "given", "test data"]

_FURTHER_ATTEMPTS: Final = 8  # for another assignment, once one works
_MOST_PROBES: Final = 6  # runs to find the largest sizes that the original accepts
_PROBE_SECONDS: Final = 3.0  # that a run with large sizes may take, by what the first run took
_PROBE_BYTES: Final = 1 << 30  # that its results may take
_CHEAP_BYTES: Final = 1 << 24  # results that cannot take long


class ReferenceRun(NamedTuple):
    """One run of the original.

    Attributes:
        source: where the values come from.
        sizes: sizes of the open dimensions (of those that are known when the values are given).
        seed: of the random values.
        feeds: values of the inputs.
        results: values of the outputs.
        seconds: wall time of the run.
        is_probe: whether the sizes are extreme, so that a failure of the original is not an error.
    """

    source: Source
    sizes: Sizes
    seed: int
    feeds: dict[str, Value]
    results: list[Value]
    seconds: float
    is_probe: bool = False


class Reference(NamedTuple):
    """The original with its inputs, outputs and runs.

    Attributes:
        proto: the model, external data left outside.
        base_dir: folder of the external data.
        inputs: the inputs to feed.
        outputs: the outputs.
        runs: at least one.
        chosen: the dimensions whose sizes the caller determined, by number or by values.
    """

    proto: onnx.ModelProto
    base_dir: Path | None
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    runs: list[ReferenceRun]
    chosen: frozenset[str] = frozenset()


def read_original(model: ModelLike, options: ValidationOptions) -> tuple[onnx.ModelProto, Path | None]:
    """The protobuf of a model and the folder of its external data.

    Raises:
        LoadError: it cannot be read, or would unfold to more nodes than can be handled.
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
    """Run the original on the number of assignments in the options.

    Args:
        model: the original.
        options: the choices of the user.
        proto: the result of `read_original`, if it is known already.

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
    session = Session(model, options.settings, base_dir=options.original_dir)
    if options.test_data is not None:
        MemoryNeed(proto, base_dir, options.memory_limit).check({})
        specs = {spec.name: spec for spec in input_specs(proto, [value.name for value in graph_inputs(proto)])}
        data = [_given_feeds(feeds, specs, specs) for feeds in load_test_data(options.test_data, proto)]
        runs = [_run(session, Plan("test data", {}, options.seed, feeds)) for feeds in data]
        chosen: Iterable[str] = ()
    else:
        search = _Search(session, proto, base_dir, options)
        runs, chosen = search.runs(), search.chosen
    return Reference(proto, base_dir, session.inputs, session.outputs, runs, frozenset(chosen))


def _run(session: Session, plan: Plan) -> ReferenceRun:
    start = time.perf_counter()
    results = session.run(plan.feeds)
    return ReferenceRun(*plan, results, time.perf_counter() - start)


class Plan(NamedTuple):
    """Values to run the original on; as in `ReferenceRun`."""

    source: Source
    sizes: Sizes
    seed: int
    feeds: dict[str, Value]


class _Feeding:
    """The given values, and the inputs whose values are drawn at random."""

    def __init__(self, model: onnx.ModelProto, options: ValidationOptions) -> None:
        specs = {spec.name: spec for spec in input_specs(model, options.feeds.keys())}
        self.options = options
        self.given = _given_feeds(options.feeds, specs, [value.name for value in graph_inputs(model)])
        self.specs = list(specs.values())
        self.random = [spec for spec in self.specs if spec.name not in self.given]
        self.fixed = _fixed_sizes(self.specs, self.given, options.dims)
        self.roles = input_roles(model, {spec.name: spec.element_type for spec in self.random})
        self.styles = (False, True) if has_daring_values(self.random, self.roles) else (False,)
        self.wanted = options.assignments if self.random else 1

    def plan(self, sizes: Sizes, run: int, gentle: bool) -> Plan:
        """Values for some sizes.

        Raises:
            FeedError: an input cannot be fed with these sizes.
        """
        seed = self.options.seed + run
        feeds = make_feeds(self.random, self.roles, sizes, seed, Style(run, gentle))
        return Plan("random" if self.random else "given", sizes, seed, self.given | feeds)


def planned_batches(model: onnx.ModelProto, options: ValidationOptions) -> Iterator[list[Plan]]:
    """Values for a model that cannot be run as a whole: batches of as many as the options require, the next if one fails.

    Raises:
        FeedError: an input cannot be fed, or a choice of the user does not fit the model.
    """
    if options.test_data is not None:
        yield [Plan("test data", {}, options.seed, feeds) for feeds in load_test_data(options.test_data, model)]
        return
    feeding = _Feeding(model, options)
    sizes = assignments(feeding.specs, model, feeding.fixed)
    while batch := list(itertools.islice(sizes, feeding.wanted)):
        batch += [batch[0]] * (feeding.wanted - len(batch))
        for gentle in feeding.styles:
            with contextlib.suppress(FeedError):  # sizes that do not fit an input: others may
                yield [feeding.plan(each, run, gentle) for run, each in enumerate(batch)]


class _Search:
    """The search for sizes and values on which the original runs."""

    def __init__(self, session: Session, model: onnx.ModelProto, base_dir: Path | None, options: ValidationOptions) -> None:
        self._need = MemoryNeed(model, base_dir, options.memory_limit)
        self._deadline = time.perf_counter() + options.time_limit
        self._session = session
        self._model = model
        self._options = options
        self._feeding = _Feeding(model, options)

    @property
    def chosen(self) -> Iterable[str]:
        """The dimensions whose sizes the caller determined."""
        return self._feeding.fixed

    def runs(self) -> list[ReferenceRun]:
        """The number of runs in the options: on different sizes as far as they are found, then on other values."""
        feeding = self._feeding
        found: list[ReferenceRun] = []
        failures: list[Exception] = []
        for sizes in assignments(feeding.specs, self._model, feeding.fixed):
            late = bool(found or failures) and time.perf_counter() > self._deadline
            if len(found) >= feeding.wanted or late or len(failures) >= self._patience(bool(found)):
                break
            self._try(sizes, found, failures)
        if not found:
            _check_agreement(feeding.specs, feeding.given, self._options.dims)
        if not found and not feeding.random:
            raise failures[0]
        if not found:
            raise RunError(f"it ran with none of {len(failures)} random feeds; the first error: {failures[0]}")
        for _ in range(len(found), feeding.wanted):
            self._try(found[0].sizes, found, failures)
        if feeding.wanted > 1 and self._options.extremes:
            found += self._ends(found)
        return found

    def _ends(self, found: Sequence[ReferenceRun]) -> list[ReferenceRun]:
        """A run with sizes as large as the original and the time allow, and one with an empty axis, if it runs with one."""
        ends = Ends(self._feeding.specs, self._model, found[0].sizes, self._feeding.fixed)
        tried = [run.sizes for run in found]
        large = self._largest(ends, found[0])
        empties = ends.empty() if not self._need.may_divide_by_zero() else ()
        empty = (self._probe(sizes, len(found) + 1) for sizes in empties if sizes not in tried)
        runs = (large, next(filter(None, empty), None))
        return [run for run in runs if run is not None]

    def _largest(self, ends: Ends, first: ReferenceRun) -> ReferenceRun | None:
        """The largest sizes on which the original runs, by bisection of the candidates."""
        rungs = [[sizes for sizes in rung if self._affordable(first, sizes)] for rung in ends.large()]
        rungs = [rung for rung in rungs if rung]
        best: ReferenceRun | None = None
        low, high, start = 0, len(rungs), time.perf_counter()
        middle = high - 1
        for _ in range(_MOST_PROBES):
            if low >= high or time.perf_counter() - start > 2 * _PROBE_SECONDS:
                break
            probes = (self._probe(sizes, self._options.assignments) for sizes in rungs[middle])
            run = next(filter(None, probes), None)
            best = run or best
            low, high = (middle + 1, high) if run else (low, middle)
            middle = (low + high) // 2
        return best

    def _affordable(self, first: ReferenceRun, sizes: Sizes) -> bool:
        """Whether a run is expected to be within the limits of time and memory, both in proportion to the results.

        The time of a short run is not in proportion: a run with little memory is affordable.
        """
        size, known = self._need.total(sizes), self._need.total(first.sizes)
        if not known or size > _PROBE_BYTES:
            return False
        return size <= _CHEAP_BYTES or first.seconds * size <= _PROBE_SECONDS * known

    def _probe(self, sizes: Sizes, run: int) -> ReferenceRun | None:
        """A run with sizes that the original may refuse."""
        found: list[ReferenceRun] = []
        self._try(sizes, found, [], run)
        return found[0]._replace(is_probe=True) if found else None

    def _patience(self, found: bool) -> int:
        """Allowed number of failures: fewer once there is a result, none when there is nothing to vary."""
        most = self._options.max_attempts if self._feeding.random else 1
        return min(_FURTHER_ATTEMPTS, most) if found else most

    def _try(self, sizes: Sizes, found: list[ReferenceRun], failures: list[Exception], run: int | None = None) -> None:
        """One more run, or one more failure for each style."""
        run = len(found) if run is None else run
        for gentle in self._feeding.styles:
            try:
                self._need.check(sizes)
                found.append(_run(self._session, self._feeding.plan(sizes, run, gentle)))
                return
            except (FeedError, RunError) as error:
                failures.append(type(error)(str(error)))  # the frames of the traceback would keep the memory of the session
            except MemoryError:
                failures.append(RunError("there is not enough memory for a run"))
            if time.perf_counter() > self._deadline:
                return


def _given_feeds(feeds: Mapping[str, Value], specs: Mapping[str, InputSpec], inputs: Iterable[str]) -> dict[str, Value]:
    """The values of the user; raw bytes of types that numpy lacks are converted to these types.

    Raises:
        ChoiceError: the model lacks an input, or the values of one do not fit it.
    """
    unknown = feeds.keys() - set(inputs)
    if unknown:
        raise ChoiceError(f"values for {_listed(sorted(unknown))}, but the inputs of the model are {_listed(inputs)}")
    given: dict[str, Value] = {}
    for name, value in feeds.items():
        raw = isinstance(value, np.ndarray) and value.dtype.kind == "V" and value.dtype.isbuiltin == 0
        given[name] = value.view(numpy_dtype(specs[name].element_type)) if raw and name in specs else value  # type: ignore[union-attr]
        if name in specs:
            _check_value(specs[name], given[name])
    return given


def _check_value(spec: InputSpec, value: Value) -> None:
    """Raise for an array of another type, rank or size than an input requires."""
    if spec.container != "tensor" or not isinstance(value, np.ndarray):
        return
    expected = numpy_dtype(spec.element_type) if spec.element_type != TensorProto.STRING else None
    if expected is not None and value.dtype != expected:
        raise ChoiceError(f"the values of input {spec.name!r} are {value.dtype}, not {expected}")
    fits = spec.shape is None or (
        len(spec.shape) == value.ndim
        and all(size == found for size, found in zip(spec.shape, value.shape, strict=True) if isinstance(size, int))
    )
    if not fits and spec.shape is not None:
        wanted = ", ".join("?" if ":" in str(size) else str(size) for size in spec.shape)
        raise ChoiceError(f"the values of input {spec.name!r} have shape {list(value.shape)}, not [{wanted}]")


def _check_agreement(specs: Sequence[InputSpec], given: Mapping[str, Value], chosen: Mapping[str, int]) -> None:
    """Raise for choices that give one dimension two sizes (only where the model does not run: some accept that)."""
    seen: dict[str, tuple[int, str]] = {}
    for spec in specs:
        value = given.get(spec.name)
        for name, size in (bind_sizes(spec, value.shape) if isinstance(value, np.ndarray) else {}).items():
            if chosen.get(name, size) != size:
                raise ChoiceError(f"{name} is {size} in the values of input {spec.name!r}, but {chosen[name]} was chosen")
            first, where = seen.setdefault(name, (size, spec.name))
            if first != size:
                raise ChoiceError(f"{name} is {first} in the values of input {where!r}, but {size} in those of {spec.name!r}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _fixed_sizes(specs: Sequence[InputSpec], given: Mapping[str, Value], chosen: Mapping[str, int]) -> Sizes:
    """The sizes that follow from given arrays, and those that the user has chosen, which take precedence.

    Raises:
        ChoiceError: the model lacks a dimension.
    """
    known = open_dimensions(specs)
    unknown = chosen.keys() - known.keys()
    if unknown:
        raise ChoiceError(f"sizes for {_listed(sorted(unknown))}, but the open dimensions of the model are {_listed(known)}")
    sizes: Sizes = {}
    for spec in specs:
        value = given.get(spec.name)
        if isinstance(value, np.ndarray):
            sizes |= bind_sizes(spec, value.shape)
    return {name: size for name, size in sizes.items() if name in known} | dict(chosen)
