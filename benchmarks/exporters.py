"""Count the nodes that other exporters write, and those after onnxslim and after xoptim.

    python -m benchmarks.exporters               # all, writes the table of docs/exporters.md
    python -m benchmarks.exporters timm_model    # one, writes its row

Each script of ``examples/pipelines`` that has a function ``export`` runs in a process of its own.
``export`` verifies the models that it returns. ``make test-recipes`` installs the packages that the
scripts need.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from benchmarks.measured import ROOT, Table, keep, merged, read

FOLDER: Final = ROOT / "examples" / "pipelines"
PAGE: Final = ROOT / "docs" / "exporters.md"
MARK: Final = "exporters"
COLUMNS: Final = ("script", "exported", "onnxslim", "xoptim", "equals", "versions")
TRANSFORMERS: Final = ("transformers", "torch")
PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    "diffusers_unet": ("diffusers", "torch"),
    "keras_model": ("keras", "torch"),
    "paddle_ocr_file": ("rapidocr-onnxruntime",),
    "sentence_transformers_model": ("sentence-transformers", "torch"),
    "timm_model": ("timm", "torch"),
    "transformers_decoder": TRANSFORMERS,
    "transformers_encoder": TRANSFORMERS,
    "transformers_vision": TRANSFORMERS,
    "transformers_whisper": TRANSFORMERS,
    "ultralytics_export": ("ultralytics", "torch"),
}
"""The packages of each script. The table has their versions; the last one runs the original."""
FILES: Final = ("paddle_ocr_file",)
"""Scripts whose original is a file, not a network."""
_OUT_OF_PROCESS: Final = "--count"


def counts(name: str) -> dict[str, Any]:
    """The number of nodes of a script's model: exported, after onnxslim, and after xoptim.

    Raises `RuntimeError` when the script fails.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.exporters", _OUT_OF_PROCESS, name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-3000:]}")
    node_counts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return node_counts


def _count(name: str) -> dict[str, Any]:
    import onnxslim

    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    exported, optimized = module.export()
    before, after = len(exported.graph.node), len(optimized.graph.node)
    return {"exported": before, "xoptim": after, "slim": len(onnxslim.slim(exported).graph.node)}


def row(name: str) -> list[str]:
    """The row of a script in the table."""
    node_counts = counts(name)
    return [
        f"[{name}](../examples/pipelines/{name}.py)",
        *(str(node_counts[key]) for key in ("exported", "slim", "xoptim")),
        "the file" if name in FILES else PACKAGES[name][-1],
        ", ".join(f"{package} {version(package)}" for package in PACKAGES[name]),
    ]


def missing(name: str) -> list[str]:
    """The packages of a script that are not installed."""
    absent = []
    for package in (*PACKAGES[name], "onnxslim"):
        try:
            version(package)
        except PackageNotFoundError:
            absent.append(package)
    return absent


def main(names: Sequence[str]) -> None:
    """Measure scripts, and write the table."""
    if names[:1] == [_OUT_OF_PROCESS]:
        print(json.dumps(_count(names[1])))
        return
    scripts = names or list(PACKAGES)
    table = Table(COLUMNS, [row(name) for name in scripts if not missing(name)])
    for name in scripts:
        if absent := missing(name):
            print(f"{name} is skipped: {', '.join(absent)} not installed", file=sys.stderr)
    old = read(PAGE) if Path(PAGE.with_suffix(".toml")).exists() else {}
    keep(PAGE, {**old, MARK: merged(old.get(MARK), table, 1)})


if __name__ == "__main__":
    main(sys.argv[1:])
