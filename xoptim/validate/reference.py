"""Runs of the original: on given values, on test data, or on random values of sizes that it accepts."""

from pathlib import Path
from typing import NamedTuple

import onnx

from xoptim.facts.errors import ModelError
from xoptim.graph.splice import EXPANSION_LIMIT, expanded_size
from xoptim.validate.errors import LoadError
from xoptim.validate.feeding import test_feeds
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike, read_proto
from xoptim.validate.report import SkippedRun
from xoptim.validate.runs import ReferenceRun, ResultStore, RunPlan, run_plan
from xoptim.validate.search import Search
from xoptim.validate.session import Port, Session, SessionSettings
from xoptim.validate.sized import SizedModel
from xoptim.validate.work import MemoryNeed, fits_into_memory, is_large, size_text, weight_bytes


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
