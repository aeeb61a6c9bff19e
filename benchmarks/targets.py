"""Nodes that targets take: of originals, of default results, of fitted results; and whether the latter are right there.

    python -m benchmarks.targets FOLDER --target webgpu --software-device      # models of benchmarks.zoo, or any others
    python -m benchmarks.targets FOLDER --target qnn --only vit --write

A model may have values beside it, in ``MODEL.feeds.npz``: a target that needs fixed shapes gets their sizes. Each model is
fitted, and verified on the target, as ``xopt MODEL --target NAME`` does it. ``--write`` adds the table to ``docs/targets.md``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import numpy as np
import onnx

from xoptim import OptimizationOptions, Preparation, ValidationOptions, XoptimError
from xoptim.facts.protos import fed_inputs
from xoptim.graph.sources import Source
from xoptim.optimizing.proof import ProofOptions
from xoptim.preparation.ports import dimensions
from xoptim.targets import Placement, Target, named, place
from xoptim.workflow.fitting import FittingOutcome
from xoptim.workflow.job import Job, JobOptions

_PAGE: Final = Path(__file__).parents[1] / "docs" / "targets.md"
_HEAD: Final = "## Measured"


@dataclass(frozen=True, slots=True)
class Row:
    """One model on one target."""

    model: str
    original: Placement | None
    default: Placement | None
    fitting: FittingOutcome | None
    error: str = ""

    def cells(self) -> list[str]:
        """The cells of the table."""
        fitted = None if self.fitting is None or self.fitting.fitted is None else self.fitting.fitted.after
        check = None if self.fitting is None else self.fitting.check
        verdict = self.error or ("not verified" if check is None else check.status)
        if check is not None and check.ok:
            verdict = f"equal, {check.error:.1g}"
        return [self.model, *map(_counts, (self.original, self.default, fitted)), verdict]


def _counts(placement: Placement | None) -> str:
    """Nodes left, shape arithmetic included, and partitions."""
    if placement is None:
        return ""
    if not placement.compiles:
        return "does not compile"
    return f"{_left(placement)} left, {placement.partitions}"


def _left(placement: Placement) -> int:
    return len(placement.left) + len(placement.shapes)


def sizes_of(path: Path) -> dict[str, int]:
    """The sizes of the open dimensions of a model, from the values beside it."""
    values = path.with_name(f"{path.stem}.feeds.npz")
    if not values.exists():
        return {}
    model = onnx.load(path, load_external_data=False)
    found: dict[str, int] = {}
    with np.load(values, allow_pickle=False) as feeds:
        for value in fed_inputs(model):
            if value.name in feeds.files:
                shape = feeds[value.name].shape
                pairs = zip(dimensions(value.type), shape, strict=False)
                found.update({dim.dim_param: size for dim, size in pairs if dim.dim_param.isidentifier()})
    return found


def measured(path: Path, target: Target, checks: ValidationOptions) -> Row:
    """Place the original and the default result of a model, and fit it."""
    sizes: Mapping[str, int] = sizes_of(path) if target.needs.static_shapes else {}
    preparation = Preparation(fix={name: [size] for name, size in sizes.items()})
    software = checks.software_device

    def placed(model: onnx.ModelProto) -> Placement:
        return place(model, target, path.parent, software_device=software)

    try:
        how = ProofOptions(checks=checks)
        plain = Job(path, JobOptions(preparation=preparation, verification=ProofOptions(whole=False))).run()
        chosen = OptimizationOptions(target=target.name)
        fitted = Job(path, JobOptions(preparation=preparation, optimization=chosen, verification=how)).run()
        return Row(path.stem, placed(Source(path).proto), placed(plain.proof.proto), fitted.fitting)
    except XoptimError as error:
        return Row(path.stem, None, None, None, str(error)[:80])


def totals(rows: list[Row]) -> Iterator[str]:
    """Sums over the models with all three placements."""
    complete = [row for row in rows if row.original is not None and row.default is not None and row.fitting is not None]
    before = sum(_left(row.original) for row in complete if row.original is not None and row.original.compiles)
    default = sum(_left(row.default) for row in complete if row.default is not None and row.default.compiles)
    placements = [row.fitting.fitted.after for row in complete if row.fitting is not None and row.fitting.fitted is not None]
    compiled = [each for each in placements if each.compiles]
    right = sum(row.fitting is not None and row.fitting.is_verified for row in complete)
    yield f"{len(complete)} models: {before} nodes left as exported, {default} by default, {sum(map(_left, compiled))} fitted."
    one = sum(each.partitions == 1 for each in compiled)
    yield f"Fitted: {len(compiled)} load, {one} in one partition, {right} verified on the target."


def table(target: Target, rows: list[Row]) -> str:
    """The table as Markdown, with its caption."""
    lines = [
        f"### {target.name} ({target.version})",
        "",
        "Nodes that stay on the processor, shape arithmetic included, and partitions.",
        "",
        "| model | original | default | fitted | on the target |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(row.cells())} |" for row in rows),
        "",
        *totals(rows),
    ]
    return "\n".join(lines)


def written(page: str, target: Target, text: str) -> str:
    """The page with the table of a target in place of an older one."""
    head, _, rest = page.partition(f"\n{_HEAD}\n")
    known = dict(re.findall(r"^### (\S+) .*?\n(.*?)(?=^### |\Z)", rest, re.MULTILINE | re.DOTALL))
    sections = {name: f"### {name}{body}" for name, body in known.items() if name != target.name}
    sections[target.name] = text
    parts = "\n\n".join(sections[name].strip() for name in sorted(sections))
    return f"{head.rstrip()}\n\n{_HEAD}\n\n{parts}\n"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--target", "name", default="webgpu", show_default=True)
@click.option("--only", default="", help="Models whose names match this regular expression.")
@click.option("--software-device", is_flag=True, help="WebGPU on the processor.")
@click.option("--write", is_flag=True, help="Write the table to docs/targets.md.")
def main(folder: Path, name: str, only: str, software_device: bool, write: bool) -> None:
    """Fit all models of FOLDER to a target, and print a table."""
    target = named(name)
    checks = ValidationOptions(software_device=software_device)
    rows: list[Row] = []
    for path in sorted(folder.glob("*.onnx")):
        if re.search(only, path.stem):
            rows.append(measured(path, target, checks))
            click.echo(" | ".join(rows[-1].cells()))
    text = table(target, rows)
    click.echo(f"\n{text}")
    if write:
        _PAGE.write_text(written(_PAGE.read_text(encoding="utf-8"), target, text), encoding="utf-8")


if __name__ == "__main__":
    main()
