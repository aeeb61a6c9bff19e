"""The models of a benchmark as files, and the values that they run on."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple, TypeAlias

import onnx

from xoptim.bench.options import BenchOptions
from xoptim.graph.assumed import noted
from xoptim.graph.load import read_proto
from xoptim.graph.save import save_proto
from xoptim.graph.sources import Source
from xoptim.validate.errors import FeedError, LoadError, RunError
from xoptim.validate.protos import ModelLike
from xoptim.validate.reference import run_reference
from xoptim.validate.runs import ReferenceRun
from xoptim.validate.session import Session, SessionSettings, Value

Models: TypeAlias = "Sequence[ModelLike] | Mapping[str, ModelLike]"


class Subject(NamedTuple):
    """A model to measure: its label and its file."""

    label: str
    path: Path


@contextmanager
def as_files(models: Models, base_dirs: Mapping[str, Path]) -> Iterator[list[Subject]]:
    """The models as files; protobufs, their external data in ``base_dirs``, are written into a temporary folder.

    Models of a sequence are called by their paths, or ``model 1``, ``model 2``, ... A path that is given again, to see how much
    two sessions of one model differ, is called ``PATH (2)``. Raises `ValueError` when there is no model, and `ModelError` when
    a file is not a model, or its external data cannot be read.
    """
    named = _named(models)
    if not named:
        raise ValueError("there is no model to measure")
    with tempfile.TemporaryDirectory() as folder:
        subjects = []
        for number, (label, model) in enumerate(named):
            if isinstance(model, onnx.ModelProto):
                path = Path(folder) / f"{number}.onnx"
                # The locations of its weights change when they are written elsewhere.
                save_proto(deepcopy(model), path, base_dirs.get(label))
            else:
                path = Path(model)
                Source(path)  # names what is wrong with a file; onnxruntime would not
            subjects.append(Subject(label, path))
        yield subjects


def _named(models: Models) -> list[tuple[str, ModelLike]]:
    if isinstance(models, Mapping):
        return list(models.items())
    named: list[tuple[str, ModelLike]] = []
    seen: Counter[str] = Counter()
    for number, model in enumerate(models, start=1):
        label = f"model {number}" if isinstance(model, onnx.ModelProto) else str(model)
        seen[label] += 1
        named.append((label if seen[label] == 1 else f"{label} ({seen[label]})", model))
    return named


def known_of(subjects: Iterable[Subject]) -> list[str]:
    """The assumptions in the metadata of models, which the values of all hold."""
    return [text for subject in subjects for text in noted(read_proto(subject.path)).texts]


def values_for(subject: Subject, options: BenchOptions) -> ReferenceRun:
    """Values that the first model runs on, with its results; raises the errors of `run_reference`."""
    with _named_in_errors(subject):
        return run_reference(subject.path, options.checks).runs[0]


def opened(subject: Subject, settings: SessionSettings, feeds: Mapping[str, Value]) -> Session:
    """A session of a model that has run on the values of the first one.

    Raises `FeedError` when it has inputs that the first one lacks, and `LoadError` or `RunError` when it does not run.
    """
    with _named_in_errors(subject):
        session = Session(subject.path, settings)
        needed = {port.name for port in session.inputs}
        if not needed <= feeds.keys():
            names = ", ".join(sorted(needed ^ feeds.keys()))
            raise FeedError(f"it cannot be fed like the first model: only one of them has the inputs {names}")
        session.run(feeds)
        return session


@contextmanager
def _named_in_errors(subject: Subject) -> Iterator[None]:
    try:
        yield
    except (LoadError, FeedError, RunError) as error:
        raise type(error)(f"{subject.label!r}: {error}") from error
