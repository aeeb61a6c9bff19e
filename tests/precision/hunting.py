"""Random networks of all kinds, quantized as a whole: what comes out is verified, within the
tolerance, or nothing.

make fuzz-precision, or python -m tests.precision.hunting FIRST COUNT
"""

import multiprocessing
import queue
import random
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from tests.precision.mixed import Mixed
from tests.properties.strategy import random_model
from tests.support import run
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import XoptimError
from xoptim.facts.protos import inner_graphs
from xoptim.optimizing.plans import Plan, VerifyPlan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision import attempts, times
from xoptim.precision.metrics import error
from xoptim.precision.options import SCHEMES, PrecisionOptions
from xoptim.precision.quantize import before_quantization, quantize
from xoptim.precision.quantized import Quantized
from xoptim.verification.errors import ChoiceError
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings

_LONGEST: Final = 90
"""Seconds after which a network is left."""
_MEANT: Final = (
    'compute="float16"',
    "no output has a finite value",
    "nothing can be quantized",
    "ONNX Runtime contrib operators",
    "needs the ranges of its inputs",
    "nothing can be computed in float16",
)


def drawn_options(
    rng: random.Random, feeds: Sequence[dict[str, np.ndarray]]
) -> tuple[PrecisionOptions, str]:
    """The options of a network, and the selection of patterns."""
    scheme = rng.choice(SCHEMES)
    given = feeds[: rng.choice((0, 1, 2, 3, 4))]
    more: dict[str, Any] = (
        {"compute": "float16"} if scheme != "bfloat16" and rng.random() < 0.3 else {}
    )
    more |= {"io_types": "float16"} if scheme == "float16" and rng.random() < 0.15 else {}
    if scheme == "int8" and given and not more and rng.random() < 0.5:
        more |= {"static": True, "symmetric": rng.random() < 0.3}
    if scheme == "int4" and rng.random() < 0.5:
        more |= {"bits": rng.randint(3 if more else 2, 8), "block_size": rng.choice((16, 32, 64))}
    more["calibration"] = rng.choice(("minmax",) * 4 + ("percentile", "entropy"))
    more["metric"] = rng.choice(("largest",) * 3 + ("rms",))
    more["goal"] = rng.choice(("speed", "size", "size"))
    tolerance = {"int8": 0.03, "int4": 0.2, "float16": 0.01, "bfloat16": 0.02}[scheme]
    return PrecisionOptions(
        scheme=scheme, tolerance=tolerance * rng.choice((0.3, 1, 3)), feeds=given, **more
    ), rng.choice(("default", "default+onnxruntime"))


def quantized(model: onnx.ModelProto, precision: PrecisionOptions, patterns: str) -> Quantized:
    """The model in lower precision, as the command makes it."""
    options, how = (
        OptimizationOptions(patterns=patterns, strict=True),
        Plan(verify=VerifyPlan(bisect=False)),
    )
    return quantize(
        optimize_verified(model, before_quantization(options), how), options, how, precision
    )


def drawn(seed: int) -> tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]:
    """A network, and samples."""
    drawing = Mixed(seed)
    return (drawing.model(), drawing.samples(8)) if seed % 20 else (random_model(seed), [])


def runs(seed: int) -> bool:
    """Whether the network itself runs."""
    model, feeds = drawn(seed)
    try:
        Session(model, SessionSettings(level="all"))
        for each in feeds:
            run(model, each)
    except Exception:
        return False
    return True


def outcome(seed: int) -> str:
    """The fate of a network that runs; one that begins with ``FAULT`` must not be."""
    model, feeds = drawn(seed)
    precision, patterns = drawn_options(random.Random(f"options {seed}"), feeds)
    try:
        found = quantized(model, precision, patterns)
    except ChoiceError as refusal:
        return (
            "refused"
            if any(text in str(refusal) for text in _MEANT)
            else f"FAULT refused: {refusal}"
        )
    except XoptimError as refusal:
        return f"FAULT {type(refusal).__name__}: {refusal}"
    except Exception as error_:
        frame = traceback.extract_tb(error_.__traceback__)[-1]
        return (
            f"FAULT {type(error_).__name__}: {error_} "
            f"({frame.filename.rpartition('/')[2]}:{frame.lineno})"
        )
    if found.fault:
        return ("beyond: " if "the error is" in found.fault else "FAULT ") + found.fault
    made = found.verified.proto
    if (reason := _invalid(made)) and not _invalid(model):
        return f"FAULT invalid: {reason}"
    if not found.applied:
        return "floats"
    floats = optimize_verified(
        model, OptimizationOptions(patterns=patterns), Plan(verify=VerifyPlan(whole=False))
    ).proto
    if _weights(made) > 1.02 * _weights(floats) + 200:
        return f"FAULT larger {_weights(made)} {_weights(floats)}"
    try:
        far = _error(model, made, feeds[len(precision.samples) :], precision)
    except Exception as error_:
        return f"FAULT does not run: {str(error_)[:200]}"
    if far <= 3 * precision.tolerance:
        return "quantized"
    # The range of a single sample need not be the one of others.
    kind = (
        "few"
        if len(found.samples.to_choose) < 2 and "Int8Conv" in found.applied.values()
        else "FAULT error"
    )
    counts = dict(Counter(found.applied.values()))
    return (
        f"{kind}: {far:.3%} of {precision.tolerance:.2%} ({found.error:.2%}, "
        f"{found.samples.summary()}) {counts}"
    )


def _error(
    model: onnx.ModelProto,
    made: onnx.ModelProto,
    samples: Sequence[dict[str, np.ndarray]],
    precision: PrecisionOptions,
) -> float:
    """The largest error of an output, of all samples together."""
    kinds = {port.name: port.type.tensor_type.elem_type for port in made.graph.input}
    expected, actual = [], []
    for values in samples:
        narrow = {
            name: v.astype(helper.tensor_dtype_to_np_dtype(kinds[name]))
            for name, v in values.items()
        }
        expected.append(run(model, values))
        actual.append(
            [
                np.asarray(v, e.dtype)
                for v, e in zip(run(made, narrow, optimized=True), expected[-1], strict=True)
            ]
        )
    flat = [
        [np.concatenate([each.ravel() for each in of]) for of in zip(*runs, strict=True)]
        for runs in (expected, actual)
    ]
    with np.errstate(all="ignore"):
        return error(precision.metric, *flat)


def _weights(model: onnx.ModelProto) -> int:
    return sum(
        each.ByteSize()
        for graph in (model.graph, *inner_graphs(model.graph.node))
        for each in graph.initializer
    )


def _invalid(model: onnx.ModelProto) -> str:
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error_:
        return str(error_)[:200]
    return ""


def _work(seeds: Any, results: Any) -> None:
    """Serve outcomes; times are not measured for long, and do not matter."""
    attempts._SECONDS = times._SECONDS = 0.0  # type: ignore[misc]
    for seed in iter(seeds.get, None):
        results.put("" if (can_run := runs(seed)) else "does not run")
        if can_run:
            results.put(outcome(seed))


class _Worker:
    """A process that may end, as onnxruntime does on some models; then there is another one."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._seeds, self._results = context.Queue(), context.Queue()
        self.process = context.Process(target=_work, args=(self._seeds, self._results), daemon=True)
        self.process.start()

    def outcome(self, seed: int) -> str:
        """The fate of a network, in a process that may end."""
        self._seeds.put(seed)
        end = "does not run: onnxruntime ends"
        for _ in range(_LONGEST):
            try:
                if text := str(self._results.get(timeout=1)):
                    return text
                end = "FAULT the process ended"
            except queue.Empty:
                if not self.process.is_alive():
                    return f"{end} ({self.process.exitcode})"
        self.process.kill()
        self.process.join()
        return f"slow: more than {_LONGEST} seconds"


def main() -> None:
    """Draw networks, and print what is wrong."""
    first, count = map(int, sys.argv[1:])
    counts, worker = Counter[str](), _Worker()
    for place, seed in enumerate(range(first, first + count), 1):
        worker = worker if worker.process.is_alive() else _Worker()
        text = worker.outcome(seed)
        counts["FAULT" if text.startswith("FAULT") else text.partition(":")[0]] += 1
        if text.startswith("FAULT"):
            sys.stdout.write(f"{seed}: {text}\n")
        if place % 100 == 0 or place == count:
            sys.stdout.write(f"{place} networks: {dict(counts)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
