"""The Python of the page: optimizes a model in memory, without onnxruntime, hence without proof."""

from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

import onnx

import xoptim


def optimized(content: Any, name: str) -> dict[str, Any]:
    """Optimize a model.

    Args:
        content: the bytes of the file, an array of JavaScript or of Python.
        name: of the file.

    Returns:
        ``name``, ``model`` (bytes), ``report`` (a page of HTML) and ``summary`` of the result; or
        ``error``, one line.
    """
    data = bytes(content.to_py() if hasattr(content, "to_py") else content)
    try:
        with TemporaryDirectory() as folder:
            page = Path(folder, "report.html")
            result = xoptim.optimize(data, report=page)
            report = page.read_text(encoding="utf-8")
    except xoptim.XoptimError as error:
        return {"error": " ".join(str(error).split())}
    before, after = (len(onnx.load_model_from_string(each).graph.node) for each in (data, result))
    summary = f"nodes {before} → {after}, bytes {len(data):,} → {len(result):,}, not compared"
    return {
        "name": f"{PurePath(name).stem}.opt.onnx",
        "model": result,
        "report": report,
        "summary": summary,
    }
