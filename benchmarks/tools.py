"""What several benchmarks use: other optimizers as functions from model to model, calls in separate
processes, and the reading and writing of tables.
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


def apart(function: Callable[..., Any], *arguments: Any, limit: float | None = None) -> Any:
    """Call a function of a module in a new process; the arguments and the result are pickled.

    Raises:
        RuntimeError: the function failed, or took more seconds than the limit. The message is one
            line.
    """
    context = get_context("spawn")
    results, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        if not results.poll(limit):
            raise RuntimeError(f"> {limit:.0f} s")
        failure, result = results.recv()
    except EOFError:
        process.join()
        failure = f"exit {process.exitcode}"
    finally:
        process.kill()
        process.join()
    if failure:
        raise RuntimeError(failure)
    return result


def _answer(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = "", function(*arguments)
    except Exception as error:  # other packages raise any exception
        answer = (str(error).strip().splitlines() or [type(error).__name__])[-1][:80], None
    sender.send(answer)


def offline(model: onnx.ModelProto, level: str = "extended") -> onnx.ModelProto:
    """The model that onnxruntime saves after graph optimizations of a level, such as ``basic``."""
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
    """The cell of a table with a ratio and its interval."""
    return (
        ""
        if ratio is None
        else f"{ratio.value:.2f} ({ratio.interval.low:.2f} to {ratio.interval.high:.2f})"
    )


def missing_provider(provider: str) -> str:
    """Why an execution provider cannot be measured; "" if it can."""
    try:
        resolve_providers([provider])
    except ProviderUnavailable as error:
        return str(error)
    return ""


def read_toml(name: str) -> dict[str, Any]:
    """The content of the file ``NAME.toml`` in this folder."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def write_between(page: Path, name: str, text: str) -> None:
    """Replace the text of a page between the comments ``<!-- NAME: begin -->`` and ``end``."""
    begin, end = (f"<!-- {name}: {word} -->" for word in ("begin", "end"))
    written = re.sub(
        f"{begin}.*{end}",
        lambda _: f"{begin}\n{text}\n{end}",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    page.write_text(written, encoding="utf-8")
