"""Other optimizers, as functions from model to model, calls in a process of their own, and what
tables show.
"""

import re
import tempfile
import tomllib
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import onnx

from xoptim.bench import Ratio
from xoptim.verification.errors import ProviderUnavailable
from xoptim.verification.runs.session import resolve_providers


def apart(function: Callable[..., Any], *given: Any, limit: float | None = None) -> Any:
    """Call a function of a module in a new process; the operands and the result are pickled.

    Raises:
        RuntimeError: it failed, or took more seconds than the limit; the message says why in a
            line.
    """
    context = get_context("spawn")
    results, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, given))
    process.start()
    sender.close()
    try:
        if not results.poll(limit):
            raise RuntimeError(f"> {limit:.0f} s")
        failure, found = results.recv()
    except EOFError:
        process.join()
        failure = f"exit {process.exitcode}"
    finally:
        process.kill()
        process.join()
    if failure:
        raise RuntimeError(failure)
    return found


def _answer(sender: Connection, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    try:
        answer = "", function(*given)
    except Exception as error:  # of other packages too
        answer = (str(error).strip().splitlines() or [type(error).__name__])[-1][:80], None
    sender.send(answer)


def offline(model: onnx.ModelProto, level: str = "extended") -> onnx.ModelProto:
    """The model that onnxruntime saves after its graph optimizations of a level (``basic``)."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    settings.graph_optimization_level = getattr(levels, f"ORT_ENABLE_{level.upper()}")
    settings.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        settings.optimized_model_filepath = f"{folder}/model.onnx"
        onnxruntime.InferenceSession(
            model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
        )
        return onnx.load(settings.optimized_model_filepath)


def _onnxsim(model: onnx.ModelProto) -> Any:
    import onnxsim

    return onnxsim.simplify(model)[0]


def _onnxslim(model: onnx.ModelProto) -> Any:
    import onnxslim

    return onnxslim.slim(model)


def _onnxscript(model: onnx.ModelProto) -> Any:
    from onnxscript import optimizer

    return optimizer.optimize(model)


PEERS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
    "onnxscript": _onnxscript,
}
"""Optimizers by the name of their package."""


def cell(ratio: Ratio | None) -> str:
    """A ratio and its interval."""
    return (
        ""
        if ratio is None
        else f"{ratio.value:.2f} ({ratio.interval.low:.2f} to {ratio.interval.high:.2f})"
    )


def missing_provider(provider: str) -> str:
    """Why an execution provider cannot be measured, or ""."""
    try:
        resolve_providers([provider])
    except ProviderUnavailable as error:
        return str(error)
    return ""


def read_toml(name: str) -> dict[str, Any]:
    """A file of this folder."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what stands in a page between the marks of a name."""
    begin, end = (f"<!-- {name}: {word} -->" for word in ("begin", "end"))
    written = re.sub(
        f"{begin}.*{end}",
        lambda _: f"{begin}\n{text}\n{end}",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    page.write_text(written, encoding="utf-8")
