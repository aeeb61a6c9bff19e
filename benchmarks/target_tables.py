"""Write ``xoptim/targets/tables.toml``: the operators of targets, as documentation lists them.

    npm pack onnxruntime-web && tar xzf onnxruntime-web-*.tgz
    python -m benchmarks.target_tables package/docs 1.30.0

The tables of Core ML and NNAPI come with the installed onnxruntime, the table of WebNN with the npm
package. Only names and versions of operators are copied. `benchmarks.provider_facts` writes the
table of WebGPU.
"""

import argparse
import datetime
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

import onnxruntime

TODAY: Final = datetime.datetime.now(datetime.UTC).date().isoformat()
OUT: Final = Path(__file__).parents[1] / "xoptim" / "targets" / "tables.toml"
_WEB_ROW: Final = re.compile(r"^\| (\w+) \|(.*?)\|")
_WEB_OPSETS: Final = re.compile(r"([\w.]+)\(([^)]*)\)")
_MOBILE_ROW: Final = re.compile(r"^\|([\w.]+):(\w+)\|")
_SPELLING: Final = {"Argmax": "ArgMax"}


def web(text: str) -> Iterator[tuple[str, list[str]]]:
    """Operators and ranges of versions in a Markdown table of onnxruntime-web."""
    for line in text.splitlines():
        row = _WEB_ROW.match(line)
        if row is None:
            continue
        for domain, ranges in _WEB_OPSETS.findall(row[2]):
            name = row[1] if domain == "ai.onnx" else f"{domain}::{row[1]}"
            yield name, [part.strip() for part in ranges.split(",")]


def mobile(text: str) -> Iterator[tuple[str, list[str]]]:
    """Operators in a Markdown table of ``onnxruntime.tools.mobile_helpers``, without versions."""
    for line in text.splitlines():
        row = _MOBILE_ROW.match(line)
        if row is not None:
            name = _SPELLING.get(row[2], row[2])
            yield (name if row[1] == "ai.onnx" else f"{row[1]}::{name}"), []


class OperatorTable(NamedTuple):
    """The operators of a target.

    Attributes:
        origin: where the table comes from.
        date: when it was written.
        operators: ranges of operator sets by operator; empty for any version.
    """

    origin: str
    date: str
    operators: Mapping[str, Sequence[str]]


def documented_here() -> dict[str, OperatorTable]:
    """The tables of Core ML and NNAPI in the installed onnxruntime."""
    helpers = resources.files("onnxruntime.tools.mobile_helpers")
    origin = f"onnxruntime {onnxruntime.__version__}"
    return {
        name: OperatorTable(
            origin, TODAY, joined(mobile((helpers / file).read_text(encoding="utf-8")))
        )
        for name, file in (
            ("coreml", "coreml_supported_mlprogram_ops.md"),
            ("nnapi", "nnapi_supported_ops.md"),
        )
    }


def joined(rows: Iterable[tuple[str, Sequence[str]]]) -> dict[str, list[str]]:
    """The ranges of each operator, joined from all rows of the table that name it."""
    operators: dict[str, list[str]] = {}
    for operator, ranges in rows:
        operators.setdefault(operator, []).extend(ranges)
    return operators


def read_tables() -> dict[str, OperatorTable]:
    """The tables of the file, by target."""
    tables = tomllib.loads(OUT.read_text(encoding="utf-8"))
    return {
        name: OperatorTable(table["origin"], table["date"], table["operators"])
        for name, table in tables.items()
    }


def write_tables(tables: Mapping[str, OperatorTable]) -> None:
    """Write the file."""
    lines = [
        "# Operators and ranges of operator sets that targets support; [] stands for any version.",
        "# `make provider-facts` compares coreml, nnapi and webgpu with what is installed,",
        "# `python -m benchmarks.target_tables` writes webnn out of the package onnxruntime-web.",
    ]
    for name, table in tables.items():
        lines += ["", f"[{name}]", f'origin = "{table.origin}"', f'date = "{table.date}"']
        lines.append(f"[{name}.operators]")
        lines += [
            f'"{operator}" = {json.dumps(list(ranges))}'
            for operator, ranges in sorted(table.operators.items())
        ]
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Read the tables, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("docs", type=Path, help="folder of webnn-operators.md")
    parser.add_argument("version", help="version of onnxruntime-web")
    options = parser.parse_args()
    text = (options.docs / "webnn-operators.md").read_text(encoding="utf-8")
    table = OperatorTable(f"onnxruntime-web {options.version}", TODAY, joined(web(text)))
    write_tables({**read_tables(), "webnn": table, **documented_here()})


if __name__ == "__main__":
    main()
