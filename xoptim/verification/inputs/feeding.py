"""Runs of a model: the values to run it on (given ones, test data, random ones), and what it
computes.
"""

import contextlib
import itertools
import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.errors import ModelError
from xoptim.facts.protos import fed_inputs, is_external
from xoptim.facts.words import abridged, bytes_text, listed, meant
from xoptim.graph.assumed import assumed_of
from xoptim.graph.load import LARGEST_FILE
from xoptim.system.machine import available_memory
from xoptim.system.reading import read_file
from xoptim.verification.errors import ChoiceError, FeedError
from xoptim.verification.inputs.archives import Archive
from xoptim.verification.inputs.assumed import check_sizes, check_values, hold
from xoptim.verification.inputs.dims import (
    InputSpec,
    Sizes,
    assignments,
    bind_sizes,
    input_specs,
    open_dimensions,
    unknown_dimension,
)
from xoptim.verification.inputs.feed_style import Style
from xoptim.verification.inputs.feed_values import (
    has_daring_values,
    has_free_floats,
    has_free_numbers,
    make_feeds,
    preferring,
)
from xoptim.verification.inputs.input_kinds import input_kinds
from xoptim.verification.inputs.landmarks import Landmarks, landmarks, steers
from xoptim.verification.inputs.relations import derived_sizes, with_derived
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import ModelLike, element_types, read_proto
from xoptim.verification.runs.session import Session, Value

FeedSource: TypeAlias = Literal[
    "random", "given", "drawn", "test data", "overridden", "wide", "odd", "free", "far", "ties",
    "tiny", "offset", "level", "operands", "branches", "sorted", "single", "goal", "mask", "range",
    "strings", "items", "absent", "iterations", "small",
]  # fmt: skip
"""The kind of the values of a run.

``drawn``: elements of an example; ``overridden``: other initializers; ``operands``: other bounds,
axes and target shapes; ``branches``: reach another branch; ``goal``: decide a condition; ``mask``:
masks that keep nothing, one position or all but one; ``strings``: matches of patterns; ``items``:
sequences of other lengths; ``absent``: optional inputs without a value; ``iterations``: loops with
many iterations; ``small``: on a smaller scale; ``free``: any numbers, whatever nodes prefer;
``level``: one number everywhere; other names: see `Style`.
"""

_LOGGER = logging.getLogger("xoptim")
_NARROW: Final = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_IN_MEMORY: Final = 1 << 28  # bytes of feeds and results of all runs that are kept in memory


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Values to run the original on, their source, and the known sizes of dynamic dimensions."""

    source: FeedSource
    sizes: Sizes
    seed: int
    feeds: dict[str, Value]
    sample: str = field(default="", kw_only=True)  # the file of the values, one of several


Planning: TypeAlias = Callable[[Sizes, int, bool], RunPlan]
"""Makes the values of a run from its sizes, its number, and whether values are to be gentle: see
`Style`.

Raises `FeedError` when it cannot.
"""


@dataclass(frozen=True, slots=True)
class ReferenceRun(RunPlan):
    """One run of the original on the values of a plan.

    A failure of a probe, such as a run with extreme sizes, is no error.
    """

    results: list[Value]
    seconds: float
    is_probe: bool = False
    refused: Sizes = field(default_factory=dict)  # preferred sizes with which it does not run
    work: int = 0  # operations, where they are known
    level: float = np.inf  # largest magnitude of the values and constants of the run


class ResultStore:
    """Keeps runs while another model is loaded: arrays in memory, then in mapped files."""

    def __init__(self) -> None:
        self._left = _IN_MEMORY

    def keep(self, run: ReferenceRun) -> ReferenceRun:
        """The run, its arrays in memory or on disk."""
        feeds = {name: self._kept(value) for name, value in run.feeds.items()}
        return replace(run, feeds=feeds, results=list(map(self._kept, run.results)))

    def _kept(self, value: Value) -> Value:
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            return value
        self._left -= value.nbytes
        return value if self._left >= 0 or not value.nbytes else on_disk(value)


def on_disk(array: np.ndarray) -> np.ndarray:
    """The same numbers, mapped from a temporary file, which exists as long as the array does."""
    with tempfile.TemporaryFile(prefix="xopt-") as stream:
        np.asarray(array, order="C").tofile(stream)
        return np.memmap(stream, array.dtype, "r", shape=array.shape)


def run_plan(session: Session, plan: RunPlan, limit: float | None = None) -> ReferenceRun:
    """Run a model on the values of a plan, for ``limit`` seconds at most if that is less than the
    limit of the session.

    Raises `RunError` when the model cannot run on these values, or not within the limit.
    """
    start = time.perf_counter()
    results = session.run(plan.feeds) if limit is None else session.run(plan.feeds, limit)
    return ReferenceRun(
        plan.source, plan.sizes, plan.seed, plan.feeds, results, time.perf_counter() - start
    )


def load_test_data(folder: Path, model: onnx.ModelProto) -> list[dict[str, Value]]:
    """The feeds of all data sets of a folder, in the order of their numbers.

    The folder holds ``test_data_set_*``, or is itself one data set; ``input_0.pb``, ``input_1.pb``,
    ... are for the inputs of the model, in order. Raises `ChoiceError` when it has no data set, or
    a file cannot be read.
    """
    if not folder.is_dir():
        raise ChoiceError(f"there is no folder {str(folder)!r} of test data")
    sets = sorted(
        (path for path in folder.glob("test_data_set_*") if path.is_dir()), key=_number
    ) or [folder]
    inputs = fed_inputs(model)
    size = sum(path.stat().st_size for data_set in sets for path in _input_files(data_set))
    free = available_memory()
    if free is not None and size > free:
        raise ChoiceError(
            f"the test data in {str(folder)!r} has {bytes_text(size)}, and {bytes_text(free)} of "
            "memory is free"
        )
    data_sets = [_load_set(path, inputs) for path in sets]
    if not any(data_sets):
        raise ChoiceError(f"no test data (input_0.pb, ...) in {str(folder)!r}")
    return [feeds for feeds in data_sets if feeds]


def test_feeds(
    folder: Path, model: onnx.ModelProto, options: VerificationOptions
) -> list[dict[str, Value]]:
    """The data sets of a folder.

    Raises `ChoiceError` when they do not fit the model, or break what is assumed of it.
    """
    assumptions = _assumed(model, options)
    inputs = [value.name for value in fed_inputs(model)]
    specs = {spec.name: spec for spec in input_specs(model, inputs)}
    data_sets = [given_feeds(feeds, specs, specs) for feeds in load_test_data(folder, model)]
    for feeds in data_sets:
        check_values(assumptions, list(specs.values()), feeds)
    return data_sets


def _assumed(model: onnx.ModelProto, options: VerificationOptions) -> Assumptions:
    return assumed_of(model, options.assume, from_model=options.assume_from_model)


def _load_set(folder: Path, inputs: list[onnx.ValueInfoProto]) -> dict[str, Value]:
    files = _input_files(folder)
    if len(files) > len(inputs):
        raise ChoiceError(f"{folder} holds {len(files)} inputs, the model has {len(inputs)}")
    return {
        value.name: _load_value(path, value.type)
        for path, value in zip(files, inputs, strict=False)
    }


def _input_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("input_*.pb"), key=_number)


def _load_value(path: Path, type_proto: onnx.TypeProto) -> Value:
    kind = type_proto.WhichOneof("value")
    try:
        data = read_file(path, LARGEST_FILE)
        if kind == "sequence_type":
            sequence = onnx.SequenceProto.FromString(data)
            _refuse_external(*sequence.tensor_values)
            items: list[Value] = numpy_helper.to_list(sequence)
            return items
        if kind == "optional_type":
            content: Value = numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
            return content
        tensor = onnx.TensorProto.FromString(data)
        _refuse_external(tensor)
        return numpy_helper.to_array(tensor)
    except Exception as error:  # protobuf and onnx raise several kinds
        reason = getattr(error, "strerror", None) or error
        raise ChoiceError(f"{path} cannot be read: {reason}") from error


def _refuse_external(*tensors: onnx.TensorProto) -> None:
    """Raise for values in other files, which onnx would search in the current folder."""
    if any(map(is_external, tensors)):
        raise ValueError("its data is in another file")


def _number(path: Path) -> tuple[int, str]:
    digits = re.findall(r"\d+", path.stem)
    return (int(digits[-1]) if digits else 0), path.name


class Feeding:
    """The inputs with given values, those with random values and their use, and the sizes that are
    fixed.

    ``other`` is a model that is compared with this one: values are also chosen close to numbers
    that only it contains.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        options: VerificationOptions,
        other: onnx.ModelProto | None = None,
    ) -> None:
        specs = {spec.name: spec for spec in input_specs(model, options.feeds.keys())}
        self.model, self.options = model, options
        self.given = given_feeds(options.feeds, specs, [value.name for value in fed_inputs(model)])
        self.specs = list(specs.values())
        self.assumptions = _assumed(model, options)
        check_values(self.assumptions, self.specs, self.given)
        self.random = [spec for spec in self.specs if spec.name not in self.given]
        self.fixed = _fixed_sizes(self.specs, self.given, options.dims)
        check_sizes(self.assumptions, self.fixed)
        self.uses = input_kinds(model, {spec.name: spec.element_type for spec in self.random})
        # whether values are gentle, in the order of attempts
        has_daring = has_daring_values(self.random, self.uses)
        self.gentle_flags = (False, True) if has_daring else (False,)
        self.may_be_wide = has_free_numbers(self.random, self.uses)
        self.may_be_odd = has_free_floats(self.random, self.uses)
        # number of runs on usual sizes and values
        self.wanted = options.assignments if self.random else 1
        self.preferring = frozenset(preferring(self.random, self.uses))
        self._derived = derived_sizes(model)
        self._other = other
        self._landmarks: Landmarks | None = None
        self._steers: bool | None = None
        self._narrow: bool | None = None

    @property
    def models(self) -> list[onnx.ModelProto]:
        """The model, and the one that is compared with it, if any."""
        return [model for model in (self.model, self._other) if model is not None]

    @property
    def landmarks(self) -> Landmarks:
        """The bounds and thresholds of both models."""
        if self._landmarks is None:
            self._landmarks = landmarks(self.model, self._other)
        return self._landmarks

    def _is_narrow(self) -> bool:
        """Whether one of the models computes in 16 bits."""
        if self._narrow is None:
            self._narrow = any(not element_types(m).isdisjoint(_NARROW) for m in self.models)
        return self._narrow

    def _steering(self) -> bool:
        """Whether integers of the inputs may decide sizes."""
        if self._steers is None:
            self._steers = steers(self.model)
        return self._steers

    def assignments(self) -> Iterator[Sizes]:
        """Sizes for all dynamic dimensions that meet the assumptions, the strongest test first."""
        typical = self.options.typical
        return assignments(self.specs, self.model, self.fixed, self._fitted, typical=typical)

    def _fitted(self, sizes: Sizes) -> Sizes:
        """Sizes that meet the assumptions and the relations between operands."""
        return with_derived(self._derived, self.assumptions.fitted(sizes)) | self.fixed

    def plan(self, sizes: Sizes, run: int, gentle: bool) -> RunPlan:
        """Values for some sizes; raises `FeedError` when an input cannot be fed with them."""
        seed = self.options.seed + run
        return RunPlan(
            "random" if self.random else "given",
            sizes,
            seed,
            self._values(sizes, seed, Style(run, gentle)),
        )

    def styled(self, source: FeedSource, style: Style) -> Planning:
        """Values of one style; if `Style.free` is empty, all inputs in ``preferring`` are free."""
        base = style if style.free else style._replace(free=self.preferring)
        numbers, words = self.landmarks.all, self.landmarks.words
        hides_rows, steers = not self._is_narrow(), self._steering()
        complete = base._replace(
            landmarks=numbers, words=words, steers=steers, hides_rows=hides_rows
        )

        def plan(sizes: Sizes, run: int, gentle: bool) -> RunPlan:
            seed = self.options.seed + run
            return RunPlan(
                source,
                sizes,
                seed,
                self._values(sizes, seed, complete._replace(run=run, gentle=gentle)),
            )

        return plan

    def odd_plan(self) -> Planning:
        """NaN and infinities among the values; also the type's limits and -0 if exactness is
        ``exact``.
        """
        return self.styled(
            "odd", Style(numbers="odd" if self.options.exactness == "exact" else "holes")
        )

    def held(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """Values that meet the assumptions, and the caller's values as they are."""
        return hold(self.assumptions, feeds) | self.given

    def _values(self, sizes: Sizes, seed: int, style: Style) -> dict[str, Value]:
        """The given values, and random ones that meet the assumptions."""
        return self.given | hold(
            self.assumptions, make_feeds(self.random, self.uses, sizes, seed, style)
        )


def planned_batches(
    model: onnx.ModelProto, options: VerificationOptions
) -> Iterator[list[RunPlan]]:
    """Values for a model that runs in sections: complete sets of runs, to try in turn.

    Raises `FeedError` when an input cannot be fed, or a choice of the user does not fit the model.
    """
    if options.test_data is not None:
        yield [
            RunPlan("test data", {}, options.seed, feeds)
            for feeds in test_feeds(options.test_data, model, options)
        ]
        return
    feeding = Feeding(model, options)
    sizes = feeding.assignments()
    while batch := list(itertools.islice(sizes, feeding.wanted)):
        batch += [batch[0]] * (feeding.wanted - len(batch))
        for gentle in feeding.gentle_flags:
            with contextlib.suppress(FeedError):  # these sizes do not fit an input
                yield [
                    feeding.plan(batch_sizes, run, gentle) for run, batch_sizes in enumerate(batch)
                ]


def given_feeds(
    feeds: Mapping[str, Value], specs: Mapping[str, InputSpec], inputs: Iterable[str]
) -> dict[str, Value]:
    """The values of the user; raw bytes of types that numpy lacks are converted to these types.

    Raises `ChoiceError` when the model lacks an input, or the values of one do not fit it.
    """
    unknown = feeds.keys() - set(inputs)
    if unknown:
        name, names = min(unknown), list(inputs)
        raise ChoiceError(
            f"the model has no input {abridged(name)} (it has {listed(names)}){meant(name, names)}"
        )
    if isinstance(feeds, Archive):  # before its data is read
        for name in feeds.keys() & specs.keys():
            _check_value(specs[name], _from_bytes(specs[name], feeds.preview(name)))
    values: dict[str, Value] = {}
    for name, value in feeds.items():
        values[name] = _from_bytes(specs[name], value) if name in specs else value
        if name in specs:
            _check_value(specs[name], values[name])
    return values


def warn_of_missing(model: ModelLike, feeds: Mapping[str, Value]) -> None:
    """Log the inputs of a model for which the user gives no values: they get random values."""
    if not feeds:
        return
    with contextlib.suppress(ModelError):  # an unreadable model is reported where it is compared
        names = [value.name for value in fed_inputs(read_proto(model)[0])]
        missing = ", ".join(abridged(name) for name in names if name not in feeds)
        if missing:
            _LOGGER.warning("no values are given for %s; random values are used", missing)


def _from_bytes(spec: InputSpec, value: Value) -> Value:
    """Convert raw bytes of a type that numpy lacks to this type; return other values unchanged."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "V" or value.dtype.isbuiltin:
        return value
    try:
        expected = numpy_dtype(spec.element_type)
    except KeyError:
        return value
    return (
        value.view(expected)
        if value.dtype.itemsize == expected.itemsize and value.dtype.names is None
        else value
    )


def _check_value(spec: InputSpec, value: Value) -> None:
    """Raise for an array of another type, rank or size than an input requires."""
    if spec.container != "tensor" or not isinstance(value, np.ndarray):
        return
    expected = numpy_dtype(spec.element_type) if spec.element_type != TensorProto.STRING else None
    if expected is not None and value.dtype != expected:
        raise ChoiceError(f"the values of input {spec.name!r} are {value.dtype}, not {expected}")
    fits = spec.shape is None or (
        len(spec.shape) == value.ndim
        and all(
            size == actual
            for size, actual in zip(spec.shape, value.shape, strict=True)
            if isinstance(size, int)
        )
    )
    if not fits and spec.shape is not None:
        shape = ", ".join("?" if ":" in str(size) else str(size) for size in spec.shape)
        raise ChoiceError(
            f"the values of input {spec.name!r} have shape {list(value.shape)}, not [{shape}]"
        )


def check_agreement(
    specs: Sequence[InputSpec], given: Mapping[str, Value], chosen: Mapping[str, int]
) -> None:
    """Raise for choices that give one dimension two sizes.

    Call it only where the model does not run: some models accept such sizes.
    """
    bindings: dict[str, tuple[int, str]] = {}
    for spec in specs:
        value = given.get(spec.name)
        for name, size in (
            bind_sizes(spec, value.shape) if isinstance(value, np.ndarray) else {}
        ).items():
            if chosen.get(name, size) != size:
                raise ChoiceError(
                    f"dimension {name} is {size} in the values of input {spec.name!r}, but "
                    f"{chosen[name]} is given for it"
                )
            first, first_input = bindings.setdefault(name, (size, spec.name))
            if first != size:
                raise ChoiceError(
                    f"dimension {name} is {first} in the values of input {first_input!r}, but "
                    f"{size} in the values of input {spec.name!r}"
                )


def _fixed_sizes(
    specs: Sequence[InputSpec], feeds: Mapping[str, Value], choices: Mapping[str, int]
) -> Sizes:
    """The sizes that follow from given arrays, and those that the user has chosen, which take
    precedence.
    """
    dims = open_dimensions(specs)
    unknown = choices.keys() - dims.keys()
    if unknown:
        raise ChoiceError(unknown_dimension(min(unknown), dims))
    sizes: Sizes = {}
    for spec in specs:
        value = feeds.get(spec.name)
        if isinstance(value, np.ndarray):
            sizes |= bind_sizes(spec, value.shape)
    return {name: size for name, size in sizes.items() if name in dims} | dict(choices)
