"""The models of a benchmark: their files, the values that they run on, and the cost of loading."""

import pickle
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple, TypeAlias

import onnx

from xoptim.bench.options import BenchOptions
from xoptim.facts.advice import current_reader, set_reader
from xoptim.facts.words import listed
from xoptim.graph.assumed import assumed_of, report_unused
from xoptim.graph.load import read_proto
from xoptim.graph.save import save_proto
from xoptim.graph.sources import Source
from xoptim.system.child import Child, ChildGoneError, last_line, questions_and_answers, send
from xoptim.system.journal import ScratchFolder
from xoptim.system.machine import resident_size
from xoptim.verification.errors import FeedError, LoadError, RunError
from xoptim.verification.inputs.feeding import ReferenceRun, warn_of_missing
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.runs.fatal import fatal_optimizers
from xoptim.verification.runs.protos import ModelLike, with_definitions
from xoptim.verification.runs.session import Session, Value, resolve_providers
from xoptim.verification.runs.session_settings import SessionSettings

_CHILD = "from xoptim.bench.subjects import main; main()"


class Subject(NamedTuple):
    """A model to measure: label, file, and the ORT optimizations that may end the process."""

    label: str
    path: Path
    fatal: tuple[str, ...] = ()


class Loading(NamedTuple):
    """Time and memory to load a model.

    Attributes:
        seconds: time to create a session from the file, in seconds.
        memory: memory that loading took, in bytes; ``None`` when not known.
    """

    seconds: float
    # The growth of the process after loading and one run, without GPU memory; known on Linux only
    memory: int | None


def measure_loading(model: Path, settings: SessionSettings, feeds: Mapping[str, Value]) -> Loading:
    """Load a model in a new process and run it once.

    In a process that has loaded another model, libraries would be loaded already, and memory
    reused. Raises `LoadError` when onnxruntime cannot load or run the model.
    """
    with closing(Child(_CHILD)) as child:
        try:
            figures = child.ask_last((current_reader(), model, settings, dict(feeds)))
        except ChildGoneError:
            reason = last_line(child.errors) or f": exit code {child.end_code()}"
            text = f"{str(model)!r} cannot be loaded in a separate process{reason}"
            raise LoadError(text) from None
    return Loading(*figures)


def main() -> None:
    """Measure the loading of the model that standard input describes; write the figures to standard
    output.
    """
    questions, answers = questions_and_answers()
    reader, model, settings, feeds = pickle.load(questions)
    set_reader(reader)
    resolve_providers(settings.providers)  # loads the libraries, which all sessions share
    before = resident_size()
    start = time.perf_counter()
    session = Session(model, settings)
    seconds = time.perf_counter() - start
    session.runner(feeds)()
    after = resident_size()
    memory = None if before is None or after is None else max(0, after - before)
    send(answers, (seconds, memory))


Models: TypeAlias = "Sequence[ModelLike] | Mapping[str, ModelLike]"


@contextmanager
def as_files(models: Models, options: BenchOptions) -> Iterator[list[Subject]]:
    """Give each model a file.

    Protobufs, and models whose custom operators a pack defines, are written to a temporary folder;
    ``options.base_dirs`` names the folders of the protobufs' external data.

    Models of a sequence are labelled by their paths, or ``model 1``, ``model 2``, ... A path that
    comes again, to see how much two sessions of one model differ, is labelled ``PATH (2)``. Raises
    `ValueError` when there is no model, and `ModelError` when a file is not a model, or its
    external data cannot be read.
    """
    labelled = _labelled(models)
    if not labelled:
        raise ValueError("there is no model to measure")
    with ScratchFolder() as folder:
        subjects = []
        for number, (label, model) in enumerate(labelled):
            if isinstance(model, onnx.ModelProto):
                source = Source(model, options.base_dirs.get(label))
            else:
                source = Source(Path(model))  # its errors are clearer than those of onnxruntime
            proto = source.proto if options.custom_op_libs else with_definitions(source.proto)
            if source.kind == "path" and proto is source.proto:
                path = source.original
            else:
                path = Path(folder) / f"{number}.onnx"
                # Writing its weights elsewhere changes their locations.
                save_proto(deepcopy(proto), path, source.base_dir)
            subjects.append(Subject(label, path, fatal_optimizers(proto)))
        yield subjects


def _labelled(models: Models) -> list[tuple[str, ModelLike]]:
    if isinstance(models, Mapping):
        return list(models.items())
    pairs: list[tuple[str, ModelLike]] = []
    counts: Counter[str] = Counter()
    for number, model in enumerate(models, start=1):
        label = f"model {number}" if isinstance(model, onnx.ModelProto) else str(model)
        counts[label] += 1
        pairs.append((label if counts[label] == 1 else f"{label} ({counts[label]})", model))
    return pairs


def assumptions_of(subjects: Iterable[Subject], options: BenchOptions) -> list[str]:
    """The assumptions that input values satisfy: the caller's, and those in the metadata of the
    models if the options say so.
    """
    texts = dict.fromkeys(options.assume)
    for subject in subjects:
        proto = read_proto(subject.path)
        assumptions = assumed_of(proto, options.assume, from_model=options.assume_from_model)
        report_unused(proto, assumptions)
        texts.update(dict.fromkeys(assumptions.texts))
    return list(texts)


def values_for(subject: Subject, options: BenchOptions) -> ReferenceRun:
    """Values that the first model runs on, with its results.

    Raises the errors of `run_reference`.
    """
    with _label_in_errors(subject):
        run = run_reference(subject.path, options.checks).runs[0]
    warn_of_missing(subject.path, options.checks.feeds)
    return run


def opened(subject: Subject, settings: SessionSettings, feeds: Mapping[str, Value]) -> Session:
    """A session of a model that has run on the values of the first one.

    Raises `FeedError` when the model has inputs that the first one lacks, and `LoadError` or
    `RunError` when it does not run.
    """
    with _label_in_errors(subject):
        session = Session(subject.path, settings.without(subject.fatal))
        input_names = {port.name for port in session.inputs}
        if not input_names <= feeds.keys():
            names = listed(sorted(input_names ^ feeds.keys()))
            raise FeedError(
                f"it needs other inputs than the first model: only one of them has {names}"
            )
        session.run(feeds)
        return session


@contextmanager
def _label_in_errors(subject: Subject) -> Iterator[None]:
    try:
        yield
    except (LoadError, FeedError, RunError) as error:
        raise type(error)(f"{subject.label!r}: {error}") from error
