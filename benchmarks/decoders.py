"""Times of decoders of real size, compared with the models that onnxruntime-genai builds of them.

    python -m benchmarks.decoders                                 # all, six layers each
    python -m benchmarks.decoders --only llama --layers 22 --folder models
    python -m benchmarks.decoders --only llama --exporter dynamo --selection int4

Each decoder (`decoder_models.py`) is exported by both of torch's exporters and optimized with each
selection. Three workloads run in onnxruntime with ORT graph optimizations at the level ``all``, on
one thread, with I/O binding. The original, the result and the built model are measured in the same
rounds of random order; the first round is dropped. No more than three sessions are open at a time.
Times are CPU times. All files are temporary, except that ``--folder`` keeps the exported and the
built models.
"""

import contextlib
import gc
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import click
import numpy as np

from benchmarks.decoder_models import (
    DECODERS,
    EXPORTERS,
    Decoder,
    build,
    export,
    missing,
    values_of,
)
from benchmarks.performance import size_of
from benchmarks.tools import apart
from xoptim.bench.rounds import Times, clock_for, measure_pass, ratio_of
from xoptim.bench.subjects import Loading, measure_loading
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings

INT4: Final = "int4"
GENAI: Final = "genai"
NEWEST: Final = ("--patterns", "default+onnxruntime", "--opset", "newest")
QUANTIZED: Final = ("--precision", "int4", "--tolerance", "99%")
SELECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "default": (),
    "newest": ("--opset", "newest"),
    "onnxruntime": ("--patterns", "default+onnxruntime"),
    "onnxruntime newest": NEWEST,
    "finite": ("--patterns", "default+onnxruntime+finite", "--opset", "newest"),
    GENAI: (),
    INT4: (*NEWEST, *QUANTIZED),
    f"{GENAI} {INT4}": QUANTIZED,
}
"""Options of ``xopt optimize`` by the name of a selection.

``finite`` assumes that no value is NaN or infinite. Selections with ``genai`` also get ``--genai``
with the settings of the model. Those with ``int4`` quantize all MatMuls that become faster for one
new token, whatever the error: the error of random weights says nothing.
"""
FLOAT32: Final = [name for name in SELECTIONS if not name.endswith(INT4)]
BUILT: Final = "built"
SETTINGS: Final = SessionSettings(level="all", threads=1, reuse=True, io_binding=True)


@dataclass(slots=True)
class Figures:
    """Figures of one model.

    Attributes:
        nodes: number of nodes.
        loading: time and memory to load the model.
        to_original: time divided by the original's, by workload.
        to_built: time divided by the built model's, by workload.
        logit_error: the largest difference of the logits, divided by the largest logit.
        seconds: time of the optimization.
    """

    nodes: int
    loading: Loading
    to_original: dict[str, float] = field(default_factory=dict)
    to_built: dict[str, float] = field(default_factory=dict)
    logit_error: float = 0.0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How to measure.

    Attributes:
        decoder: the architecture.
        layers: number of layers.
        seconds: duration of the rounds for each model and workload.
        passes: number of times that the sessions are created.
        selections: names of selections; if one of them is int4, the built model is int4 as well.
    """

    decoder: Decoder
    layers: int
    seconds: float
    passes: int
    selections: Sequence[str]


def is_int4(selection: str) -> bool:
    """Whether a selection quantizes weights to int4."""
    return selection.endswith(INT4)


def usual(decoder: Decoder) -> list[str]:
    """The selections that are measured by default: onnxruntime-genai runs no encoder."""
    return [name for name in FLOAT32 if name != GENAI or not decoder.source]


def settings_of(decoder: Decoder, folder: pathlib.Path) -> list[str]:
    """Write the settings of a decoder into a folder; returns the option that names the folder."""
    settings = {"max_position_embeddings": 2048, "eos_token_id": 2, **decoder.settings}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return ["--genai", str(folder)]


def sample_of(decoder: Decoder, layers: int, folder: pathlib.Path) -> list[str]:
    """Write the inputs of the first workload into a folder; returns the option for the file."""
    load = next(iter(decoder.workloads().values()))
    file = folder / "sample.npz"
    np.savez(file, **values_of(decoder, layers, load))  # type: ignore[arg-type]
    return ["--feeds", str(file)]


def optimize_file(source: pathlib.Path, target: pathlib.Path, selection: str, plan: Plan) -> float:
    """Run ``xopt optimize`` on a file; returns its wall time in seconds.

    Raises:
        RuntimeError: the command failed.
    """
    options = ["-o", str(target), "--no-verify", "--external-data", "--quiet"]
    options += SELECTIONS[selection]
    if selection.startswith(GENAI):
        options += settings_of(plan.decoder, target.parent)
    if is_int4(selection):
        options += sample_of(plan.decoder, plan.layers, target.parent)
    start = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-m", "xoptim", "optimize", str(source), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not target.exists():
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1])
    return time.perf_counter() - start


def difference(logits: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of the logits divided by the largest logit; infinite if one is NaN."""
    error = float(np.abs(logits - expected).max() / np.abs(expected).max())
    return error if np.isfinite(error) else float("inf")


def compared(
    models: Mapping[str, pathlib.Path], plan: Plan
) -> tuple[dict[str, dict[str, Times]], dict[str, float]]:
    """Times of models by workload and label, and the `difference` of each to the first model."""
    times = {load: {label: Times() for label in models} for load in plan.decoder.workloads()}
    errors = dict.fromkeys(models, 0.0)
    rng, clock = random.Random(0), clock_for([SETTINGS])
    for number in range(plan.passes):
        sessions = {
            label: Session(models[label], SETTINGS)
            for label in rng.sample(list(models), len(models))
        }
        for name, load in plan.decoder.workloads().items():
            feeds = values_of(plan.decoder, plan.layers, load)
            if not number:
                logits = {label: np.asarray(sessions[label].run(feeds)[0]) for label in models}
                first = logits[next(iter(models))]
                errors = {
                    label: max(errors[label], difference(logits[label], first)) for label in models
                }
            runs = [sessions[label].runner(feeds) for label in models]
            measure_pass(runs, list(times[name].values()), plan.seconds * len(models), rng, clock)
            del runs
        del sessions  # before those of the next pass are made
        gc.collect()
    return times, errors


def figures_of(path: pathlib.Path, plan: Plan) -> Figures:
    """Nodes and loading of one model, the figures that do not depend on another model."""
    first = next(iter(plan.decoder.workloads().values()))
    return Figures(
        size_of(path), measure_loading(path, SETTINGS, values_of(plan.decoder, plan.layers, first))
    )


def fill(
    figures: Mapping[str, Figures],
    times: Mapping[str, Mapping[str, Times]],
    errors: Mapping[str, float],
) -> None:
    """Write ratios and differences into the figures. Times are divided by the first model's."""
    for name, by_label in times.items():
        original = next(iter(by_label.values()))
        for label, own_times in by_label.items():
            rounds = own_times.rounds
            figures[label].to_original[name] = ratio_of(rounds, original.rounds).value
            if BUILT in by_label:
                figures[label].to_built[name] = ratio_of(rounds, by_label[BUILT].rounds).value
            figures[label].logit_error = errors[label]


def measured(
    source: pathlib.Path, built: pathlib.Path | None, plan: Plan
) -> Iterator[tuple[str, Figures, dict[str, float]]]:
    """For the original, the built model and each selection: label, figures, and the original's
    milliseconds by workload.

    The original and the built model run in the rounds of each selection; their figures are those of
    the first selection.
    """
    baselines = {"original": source, **({BUILT: built} if built else {})}
    figures = {label: figures_of(path, plan) for label, path in baselines.items()}
    for index, selection in enumerate(plan.selections):
        with tempfile.TemporaryDirectory(dir=source.parent) as folder:
            target = pathlib.Path(folder) / "model.onnx"
            seconds = optimize_file(source, target, selection, plan)
            figures[selection] = figures_of(target, plan)
            figures[selection].seconds = seconds
            times, errors = compared({**baselines, selection: target}, plan)
        fill(figures, times, errors)
        base = {
            name: 1e3 * median([t for rounds in by_label["original"].rounds for t in rounds])
            for name, by_label in times.items()
        }
        for label in (*(() if index else baselines), selection):
            yield label, figures[label], base


def row(label: str, figures: Figures, base: Mapping[str, float]) -> str:
    """A row of the table; the times of the original are milliseconds."""
    cells = [label, str(figures.nodes)]
    for name, ratio in figures.to_original.items():
        to_built = f" ({figures.to_built[name]:.2f})" if name in figures.to_built else ""
        spent = f"{base[name]:.{0 if base[name] >= 10 else 2}f} ms"
        cells.append(f"{spent if label == 'original' else f'{ratio:.2f}'}{to_built}")
    memory = figures.loading.memory
    cells += [f"{figures.loading.seconds:.1f}", "" if memory is None else f"{memory / 1e9:.1f}"]
    cells += ["" if label == "original" else f"{figures.logit_error:.0e}"]
    cells += ["" if figures.seconds is None else f"{figures.seconds:.0f}"]
    return f"| {' | '.join(cells)} |"


def head(plan: Plan) -> str:
    """The head of a table."""
    names = [*plan.decoder.workloads(), "loading, s", "memory, GB", "logit error", "optimizing, s"]
    return f"| model | nodes | {' | '.join(names)} |\n|---|---:|{'---:|' * len(names)}"


def lines_of(plan: Plan, exporters: Sequence[str], folder: pathlib.Path) -> Iterator[str]:
    """The tables of one decoder, line by line.

    Models that are in the folder already are not exported or built again.
    """
    precision = INT4 if any(map(is_int4, plan.selections)) else "fp32"
    built = folder / f"{BUILT} {precision}" / "model.onnx" if plan.decoder.built else None
    reason = missing("onnxruntime_genai") if built else ""
    if built and reason:
        yield f"{BUILT}: not measured: {reason}"
        built = None
    for exporter in EXPORTERS:
        if exporter not in exporters:
            continue
        source = folder / f"{exporter}.onnx"
        if not source.exists():
            apart(export, plan.decoder, plan.layers, exporter, source)
        if built and not built.exists():
            build(plan.decoder, plan.layers, built.parent, precision)
        yield from ("", f"{exporter}:", "", head(plan))
        for label, figures, base in measured(source, built, plan):
            yield row(label, figures, base)


@click.command()
@click.option(
    "--only",
    type=click.Choice([*DECODERS]),
    multiple=True,
    help="Decoder to measure (repeatable; default: all).",
)
@click.option("--layers", default=6, show_default=True)
@click.option(
    "--seconds", default=10.0, show_default=True, help="Time of rounds for each model and workload."
)
@click.option(
    "--passes", default=2, show_default=True, help="Number of times that sessions are created."
)
@click.option(
    "--exporter",
    "exporters",
    type=click.Choice(EXPORTERS),
    multiple=True,
    help="Exporter to measure (repeatable; default: both).",
)
@click.option(
    "--selection",
    "selections",
    type=click.Choice([*SELECTIONS]),
    multiple=True,
    help="Selection to measure (repeatable; default: the float32 selections).",
)
@click.option(
    "--folder",
    type=click.Path(path_type=pathlib.Path, file_okay=False),
    help="Keep the exported and the built models there.",
)
def main(
    only: tuple[str, ...],
    layers: int,
    seconds: float,
    passes: int,
    exporters: tuple[str, ...],
    selections: tuple[str, ...],
    folder: pathlib.Path | None,
) -> None:
    """Measure decoders of real size, and print a table for each export."""
    if reason := missing("torch", "transformers", "onnxscript"):
        raise click.ClickException(f"nothing measured: {reason}")
    for name in only or DECODERS:
        plan = Plan(DECODERS[name], layers, seconds, passes, selections or usual(DECODERS[name]))
        with (
            tempfile.TemporaryDirectory()
            if folder is None
            else contextlib.nullcontext(folder / name)
        ) as directory:
            path = pathlib.Path(directory)
            path.mkdir(parents=True, exist_ok=True)
            click.echo(f"\n{name}, {layers} layers")
            for line in lines_of(plan, exporters or EXPORTERS, path):
                click.echo(line)


if __name__ == "__main__":
    main()
