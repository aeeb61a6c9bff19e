"""Write ``xoptim/targets/tables.toml``: the operators that documentation lists for targets.

    npm pack onnxruntime-web && tar xzf onnxruntime-web-*.tgz
    python -m benchmarks.target_tables package/docs 1.30.0

The tables of Core ML and NNAPI come with the installed onnxruntime. Only names and versions are
taken over.
"""

import argparse
import json
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

import onnxruntime

OUT: Final = Path(__file__).parents[1] / "xoptim" / "targets" / "tables.toml"
_WEB: Final = re.compile(r"^\| (\w+) \|(.*?)\|")
_SET: Final = re.compile(r"([\w.]+)\(([^)]*)\)")
_MOBILE: Final = re.compile(r"^\|([\w.]+):(\w+)\|")
_SPELLING: Final = {"Argmax": "ArgMax"}


def web(text: str) -> Iterator[tuple[str, list[str]]]:
    """Operators and ranges of versions of a table of onnxruntime-web."""
    for line in text.splitlines():
        row = _WEB.match(line)
        if row is None:
            continue
        for domain, ranges in _SET.findall(row[2]):
            name = row[1] if domain == "ai.onnx" else f"{domain}::{row[1]}"
            yield name, [part.strip() for part in ranges.split(",")]


def mobile(text: str) -> Iterator[tuple[str, list[str]]]:
    """Operators of a table of the helpers for mobile devices, which have no versions."""
    for line in text.splitlines():
        row = _MOBILE.match(line)
        if row is not None:
            name = _SPELLING.get(row[2], row[2])
            yield (name if row[1] == "ai.onnx" else f"{row[1]}::{name}"), []


def main() -> None:
    """Read the tables, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("docs", type=Path, help="folder of webgpu-operators.md and the like")
    parser.add_argument("version", help="version of onnxruntime-web")
    given = parser.parse_args()
    helpers = resources.files("onnxruntime.tools.mobile_helpers")
    tables = {
        name: (
            f"onnxruntime-web {given.version}",
            web((given.docs / f"{name}-operators.md").read_text(encoding="utf-8")),
        )
        for name in ("webgpu", "webnn")
    }
    for name, file in (
        ("coreml", "coreml_supported_mlprogram_ops.md"),
        ("nnapi", "nnapi_supported_ops.md"),
    ):
        tables[name] = (
            f"onnxruntime {onnxruntime.__version__}",
            mobile((helpers / file).read_text(encoding="utf-8")),
        )
    lines = [
        "# Operators and ranges of operator sets as documented; [] stands for any version.",
        "# `python -m benchmarks.target_tables` writes webgpu, webnn, coreml and nnapi, and keeps "
        "the others.",
    ]
    kept = tomllib.loads(OUT.read_text(encoding="utf-8"))
    others = {name: table for name, table in kept.items() if name not in tables}
    written = {
        **tables,
        **{name: (each["origin"], each["operators"].items()) for name, each in others.items()},
    }
    for name, (origin, rows) in written.items():
        lines += ["", f"[{name}]", f'origin = "{origin}"', f"[{name}.operators]"]
        merged: dict[str, list[str]] = {}
        for operator, ranges in rows:
            merged.setdefault(operator, []).extend(ranges)
        for operator, ranges in sorted(merged.items()):
            lines.append(f'"{operator}" = {json.dumps(ranges)}')
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
