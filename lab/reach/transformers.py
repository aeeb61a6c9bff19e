"""Count nodes for each graph transformer of onnxruntime, on a small model that it rewrites.

    python -m lab.reach.transformers [PART_OF_A_NAME]

A graph transformer is one of the graph optimizations of onnxruntime, such as NotWhereFusion. Each
model of ``lab/reach/transformers.toml`` resembles one in the tests of a graph transformer. It is
optimized as `lab.reach.models` does. Without an argument, the counts are written to
``lab/transformers.md``.
"""

import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import onnx

import xoptim
from benchmarks.tools import offline
from lab.reach.models import OPTIONS, RIVALS
from lab.reach.peers import operators

FORMS: Final = Path(__file__).with_suffix(".toml")
TARGET: Final = Path(__file__).parents[2] / "lab" / "transformers.md"
COLUMNS: Final = ("original", "basic", "extended", *OPTIONS)
_HEAD: Final = """# Graph transformers of onnxruntime

Nodes of small models: the original, onnxruntime's offline result at the levels `basic` and
`extended`, and those of xoptim: by default, with the preset `onnxruntime`, and as `xopt fast`.
Written by `python -m lab.reach.transformers` for onnxruntime {version}; a test compares xoptim's
numbers. Where onnxruntime has fewer nodes, the last column says why.

"""


class Form(NamedTuple):
    """A model that a graph transformer rewrites.

    Attributes:
        transformer: name of the graph transformer.
        model: the graph in ONNX text.
        opset: operator set of the model.
        reason: why onnxruntime's result has fewer nodes; "" if it has not.
    """

    transformer: str
    model: str
    opset: int = 18
    reason: str = ""

    def proto(self) -> onnx.ModelProto:
        """The model."""
        imports = f'"" : {self.opset}, "com.microsoft" : 1, "ai.onnx.ml" : 3'
        return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> {self.model}")


class Line(NamedTuple):
    """The nodes of a form, by column."""

    form: Form
    nodes: dict[str, int]

    def is_behind(self) -> bool:
        """Whether onnxruntime has fewer nodes than xoptim in a pair of columns of `RIVALS`."""
        return any(self.nodes[ort] < self.nodes[xopt] for ort, xopt in RIVALS)

    def row(self) -> str:
        """The row of the page."""
        names = " ".join(sorted(operators(self.form.proto()).elements()))
        cells = [self.form.transformer, names, *(str(self.nodes[column]) for column in COLUMNS)]
        return f"| {' | '.join(cells)} | {self.form.reason} |"


def read_forms(path: Path = FORMS) -> tuple[Form, ...]:
    """The forms that a table states."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["form"]
    return tuple(Form(**row) for row in rows)


def results(form: Form) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The results of xoptim, by column."""
    for column, options in OPTIONS.items():
        yield column, xoptim.optimize(form.proto(), **options)


def count(form: Form) -> Line:
    """The nodes of a form."""
    models = {"original": form.proto()}
    models |= {level: offline(form.proto(), level) for level in ("basic", "extended")}
    models |= dict(results(form))
    return Line(form, {column: operators(model).total() for column, model in models.items()})


def page(lines: Sequence[Line]) -> str:
    """The content of ``lab/transformers.md``."""
    import onnxruntime

    head = ("transformer", "operators", *COLUMNS, "reason")
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(line.row() for line in lines)]
    return _HEAD.format(version=onnxruntime.__version__) + "\n".join(rows) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Write the page, or print the rows of some transformers."""
    part = arguments[0] if arguments else ""
    text = page([count(form) for form in read_forms() if part in form.transformer])
    if part:
        sys.stdout.write(text)
    else:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
