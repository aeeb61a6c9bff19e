"""Latency of models side by side: interleaved rounds, so that a change of the machine's load affects all of them alike."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from xoptim.validate.protos import ModelLike
from xoptim.validate.session import Session, SessionSettings, Value


@dataclass(frozen=True, slots=True)
class Latency:
    """Wall times of one model.

    Attributes:
        median: seconds.
        best: seconds.
        seconds: of every round, in order.
    """

    median: float
    best: float
    seconds: tuple[float, ...]


def benchmark(
    models: Mapping[str, ModelLike],
    feeds: Mapping[str, Value],
    *,
    rounds: int = 20,
    warmup: int = 2,
    settings: SessionSettings | None = None,
    base_dirs: Mapping[str, Path] | None = None,
) -> dict[str, Latency]:
    """Measure models on the same values, one run of each a round, each round starting with another one.

    Args:
        models: the models to measure, by label.
        feeds: values of the inputs, for all models.
        rounds: measured runs of each model, at least 1.
        warmup: runs of each model before, not counted.
        settings: of onnxruntime; its own optimizations are on by default, as in production.
        base_dirs: folders of the external data of models that are protobufs, by label.

    Raises:
        LoadError: onnxruntime refuses a model.
        RunError: a model cannot run on the values.
        ProviderUnavailable: an execution provider is missing.
        ValueError: ``rounds`` is less than 1.
    """
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}, at least 1 is needed")
    settings = settings or SessionSettings(optimize=True)
    folders = base_dirs or {}
    sessions = {label: Session(model, settings, base_dir=folders.get(label)) for label, model in models.items()}
    for session in sessions.values():
        for _ in range(warmup):
            session.run(feeds)
    labels = list(sessions)
    seconds: dict[str, list[float]] = {label: [] for label in labels}
    for turn in range(rounds):
        first = turn % max(1, len(labels))
        for label in labels[first:] + labels[:first]:
            start = time.perf_counter()
            sessions[label].run(feeds)
            seconds[label].append(time.perf_counter() - start)
    return {label: Latency(median(taken), min(taken), tuple(taken)) for label, taken in seconds.items()}
