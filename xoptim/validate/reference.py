"""Runs of the original: on given values, on test data, or on random values of sizes that it accepts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.errors import ModelError
from xoptim.graph.inline import EXPANSION_LIMIT, expanded_size
from xoptim.validate.dims import InputSpec, Sizes, assignments, bind_sizes, input_specs, open_dimensions
from xoptim.validate.errors import FeedError, LoadError, RunError
from xoptim.validate.feeds import Style, has_daring_values, make_feeds
from xoptim.validate.memory import MemoryNeed
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike, read_proto
from xoptim.validate.roles import Role, input_roles
from xoptim.validate.session import Port, Session, Value
from xoptim.validate.testdata import load_test_data

Source: TypeAlias = Literal["random", "given", "test data"]

_FURTHER_ATTEMPTS: Final = 8  # for another assignment, once one works


class ReferenceRun(NamedTuple):
    """One run of the original.

    Attributes:
        source: where the values come from.
        sizes: sizes of the open dimensions (of those that are known when the values are given).
        seed: of the random values.
        feeds: what was fed.
        results: what came out.
        seconds: wall time of the run.
    """

    source: Source
    sizes: Sizes
    seed: int
    feeds: dict[str, Value]
    results: list[Value]
    seconds: float


class Reference(NamedTuple):
    """What the original accepts and computes.

    Attributes:
        proto: the model, external data left outside.
        base_dir: folder of the external data.
        inputs: what must be fed.
        outputs: what comes out.
        runs: at least one.
    """

    proto: onnx.ModelProto
    base_dir: Path | None
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    runs: list[ReferenceRun]


def run_reference(model: ModelLike, options: ValidationOptions) -> Reference:
    """Run the original as often as asked for.

    Raises:
        LoadError: onnxruntime refuses the model, or it would unfold to more nodes than can be handled.
        FeedError: an input cannot be fed, or a choice of the user does not fit the model.
        RunError: it fails on the values given, or on every assignment of sizes tried.
        ProviderUnavailable: an execution provider is missing.
    """
    try:
        proto, base_dir = read_proto(model, options.original_dir)
        size = expanded_size(proto) if proto.functions else 0
    except (OSError, DecodeError, ModelError) as error:
        raise LoadError(str(error)) from error
    if size > EXPANSION_LIMIT:
        raise LoadError(f"its local functions unfold to {size:,} nodes")
    session = Session(model, options.settings, base_dir=options.original_dir)
    if options.test_data is not None:
        MemoryNeed(proto, base_dir, options.memory_limit).check({})
        data = load_test_data(options.test_data, proto)
        runs = [_run(session, "test data", {}, options.seed, feeds) for feeds in data]
    else:
        runs = _Search(session, proto, base_dir, options).runs()
    return Reference(proto, base_dir, session.inputs, session.outputs, runs)


def _run(session: Session, source: Source, sizes: Sizes, seed: int, feeds: dict[str, Value]) -> ReferenceRun:
    start = time.perf_counter()
    results = session.run(feeds)
    return ReferenceRun(source, sizes, seed, feeds, results, time.perf_counter() - start)


class _Search:
    """Looks for sizes and values on which the original runs."""

    def __init__(self, session: Session, model: onnx.ModelProto, base_dir: Path | None, options: ValidationOptions) -> None:
        self._need = MemoryNeed(model, base_dir, options.memory_limit)
        self._deadline = time.perf_counter() + options.time_limit
        self._session = session
        self._model = model
        self._options = options
        specs = {spec.name: spec for spec in input_specs(model, options.feeds.keys())}
        self._given = _given_feeds(options.feeds, specs, session.inputs)
        self._specs = list(specs.values())
        self._random = [spec for spec in self._specs if spec.name not in self._given]
        self._fixed = _fixed_sizes(self._specs, self._given, options.dims)

    def runs(self) -> list[ReferenceRun]:
        """As many runs as are wanted: on different sizes as far as they are found, then on other values."""
        wanted = self._options.assignments if self._random else 1
        roles = input_roles(self._model, {spec.name: spec.element_type for spec in self._random})
        styles = (False, True) if has_daring_values(self._random, roles) else (False,)
        found: list[ReferenceRun] = []
        failures: list[Exception] = []
        for sizes in assignments(self._specs, self._model, self._fixed):
            late = time.perf_counter() > self._deadline
            if len(found) >= wanted or late or len(failures) >= self._patience(bool(found)):
                break
            self._try(sizes, roles, styles, found, failures)
        if not found and not self._random:
            raise failures[0]
        if not found:
            raise RunError(f"it ran with none of {len(failures)} random feeds; the first error: {failures[0]}")
        for _ in range(len(found), wanted):
            self._try(found[0].sizes, roles, styles, found, failures)
        return found

    def _patience(self, found: bool) -> int:
        """How many failures to bear: fewer once there is a result, none when there is nothing to vary."""
        most = self._options.max_attempts if self._random else 1
        return min(_FURTHER_ATTEMPTS, most) if found else most

    def _try(
        self,
        sizes: Sizes,
        roles: Mapping[str, Role],
        styles: Sequence[bool],
        found: list[ReferenceRun],
        failures: list[Exception],
    ) -> None:
        """One more run, or one more failure for each style."""
        seed = self._options.seed + len(found)
        source: Source = "random" if self._random else "given"
        for gentle in styles:
            try:
                self._need.check(sizes)
                feeds = make_feeds(self._random, roles, sizes, seed, Style(len(found), gentle))
                found.append(_run(self._session, source, sizes, seed, self._given | feeds))
                return
            except (FeedError, RunError) as error:
                failures.append(error)
            except MemoryError:
                failures.append(RunError("there is not enough memory for a run"))
            if time.perf_counter() > self._deadline:
                return


def _given_feeds(feeds: Mapping[str, Value], specs: Mapping[str, InputSpec], inputs: Sequence[Port]) -> dict[str, Value]:
    """The values of the user, those of types that numpy lacks (raw bytes in a file) as what they are.

    Raises:
        FeedError: there is no such input.
    """
    unknown = feeds.keys() - {port.name for port in inputs}
    if unknown:
        listed = ", ".join(port.name for port in inputs) or "none"
        raise FeedError(f"feeds for {', '.join(sorted(unknown))}, but the inputs of the model are: {listed}")
    given: dict[str, Value] = {}
    for name, value in feeds.items():
        raw = isinstance(value, np.ndarray) and value.dtype.kind == "V" and value.dtype.isbuiltin == 0
        given[name] = value.view(numpy_dtype(specs[name].element_type)) if raw and name in specs else value  # type: ignore[union-attr]
    return given


def _fixed_sizes(specs: Sequence[InputSpec], given: Mapping[str, Value], chosen: Mapping[str, int]) -> Sizes:
    """The sizes that follow from given arrays, and those that the user has chosen, which go first.

    Raises:
        FeedError: the model has no such dimension.
    """
    known = open_dimensions(specs)
    unknown = chosen.keys() - known.keys()
    if unknown:
        listed = ", ".join(known) or "none"
        raise FeedError(f"sizes for {', '.join(sorted(unknown))}, but the open dimensions of the model are: {listed}")
    sizes: Sizes = {}
    for spec in specs:
        value = given.get(spec.name)
        if isinstance(value, np.ndarray):
            sizes |= bind_sizes(spec, value.shape)
    return {name: size for name, size in sizes.items() if name in known} | dict(chosen)
