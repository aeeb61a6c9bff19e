"""Test which workarounds for defects of onnxruntime are still needed with the installed version.

Run as ``python -m lab.workarounds`` (`make workarounds`); `make nightly` does it with the nightly
build. A rewrite that works around a defect declares the versions with the defect in its class
attribute ``onnxruntime``. Its examples or those of `MODELS` show the defect. `REFUSALS` lists
defects that rewrites avoid. A child process runs each model with ORT graph optimizations and
without them. The defect is there if the process crashes, or the optimized run fails or gives other
numbers.
"""

import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import requires, version
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
import onnx
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.support import run
from xoptim import installed_patterns
from xoptim.match.rewrite import Example
from xoptim.testing.feeds import make_all_feeds
from xoptim.testing.variant import parse
from xoptim.verification.runs.session import Value

DEFECT: Final = 3
"""Exit status of a child process whose results are wrong."""
_PYTHON_ERROR: Final = 1
_TOLERANCE: Final = 1e-2  # enough for float16; wrong results differ by more
_MAX_FEEDS: Final = 8  # sets of inputs for one model


class Workaround(NamedTuple):
    """A workaround for a defect of onnxruntime.

    Attributes:
        place: name of the rewrite, or the place of the code.
        versions: versions with the defect, such as ``<1.33``.
        models: examples whose models before the rewrite show the defect.
    """

    place: str
    versions: str
    models: tuple[Example, ...]


_BLOCKS = "d = DequantizeLinear <axis = 0, block_size = 16> (w, s) p = MatMul(x, d)"
_WEIGHTS = f"<int8[32,1] w = {{{', '.join(['1'] * 32)}}}, float[2,1] s = {{1, 1}}>"
REFUSALS = (
    Workaround(
        "patterns/movement/_region.py, _ends_onnxruntime",
        "<1.33",
        Example.only(
            "agraph (float16[n,4,4] x, float[4,5] w) => (float[a,b,5] y) { "
            "t = Transpose <perm = [1, 0, 2]> (x) c = Cast <to = 1> (t) y = MatMul(c, w) }",
            "{}",
        ),
    ),
    Workaround(
        "xoptim/precision/switches.py, _SwitchWriter",
        "<1.33",
        Example.only(
            f"agraph (float[2,32] x, bool c) => (float[2,1] y) {_WEIGHTS} {{ y = If (c) <"
            f"then_branch = a () => (float[2,1] p) {{ {_BLOCKS} }}, "
            f"else_branch = b () => (float[2,1] p) {{ {_BLOCKS} }}> }}",
            "{}",
            opset=21,
        ),
    ),
)

_ONES = ", ".join(["1"] * 64)
_QUANTIZED = "float s = {0.1}, uint8 z = {128}, int8 v = {0}"
MODELS: Final[Mapping[str, tuple[Example, ...]]] = {
    # the defect needs quantized convolutions around the Resize
    "ResizeAxes": Example.only(
        "agraph (uint8[1,8,8,8] x) => (uint8[1,8,11,11] y) "
        f"<int8[8,8,1,1] w = {{{_ONES}}}, {_QUANTIZED}, int64[2] c = {{11, 11}}> {{ "
        "a = QLinearConv(x, s, z, w, s, v, s, z) "
        'r = Resize <axes = [2, 3], mode = "nearest"> (a, , , c) '
        "y = QLinearConv(r, s, z, w, s, v, s, z) }",
        "{}",
        opset=18,
    )
}
"""Models of rewrites whose examples are too small to show the defect."""


def workarounds() -> list[Workaround]:
    """The rewrites that declare a defect, and `REFUSALS`."""
    declared = [
        Workaround(name, cls.onnxruntime, (*cls.examples, *MODELS.get(name, ())))
        for name, cls in installed_patterns().items()
        if cls.onnxruntime
    ]
    return [*declared, *REFUSALS]


def has_defect(example: Example) -> bool:
    """Whether the installed onnxruntime runs the ``before`` model of an example incorrectly.

    Raises `RuntimeError` when the example itself is wrong.
    """
    code = (
        "import sys; from lab.workarounds import DEFECT, is_correct; "
        "from xoptim.match.rewrite import Example; "
        f"sys.exit(0 if is_correct({example!r}) else DEFECT)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode == _PYTHON_ERROR:
        raise RuntimeError(done.stderr)
    return done.returncode != 0  # `DEFECT`, or the signal that ended the process


def is_correct(example: Example) -> bool:
    """Whether the ``before`` model of an example computes the same with ORT graph optimizations as
    without them.

    A run may crash the process. Inputs on which the model fails without optimizations, such as
    those with a dimension of size 0, are skipped. Raises `RuntimeError` when it fails on all.
    """
    model = parse(example.before, example.opset, example.domains)
    all_feeds = islice(make_all_feeds(model, example.ranges, special="finite"), _MAX_FEEDS)
    is_same = [answer for feeds in all_feeds if (answer := _is_same(model, feeds)) is not None]
    if not is_same:
        raise RuntimeError(f"the model does not run: {example.before}")
    return all(is_same)


def _is_same(model: onnx.ModelProto, feeds: Mapping[str, Value]) -> bool | None:
    """Whether the optimized run gives the same; ``None`` if the run without optimizations fails."""
    # onnxruntime's errors have no common base but Exception
    try:
        expected = run(model, feeds)
    except Exception:
        return None
    try:
        outputs = run(model, feeds, optimized=True)
    except Exception:
        return False
    return all(
        np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
        for a, b in zip(expected, outputs, strict=True)
    )


def oldest_supported(package: str = "onnxruntime") -> Version:
    """The oldest version of a package that xoptim supports."""
    requirements = map(Requirement, requires("xoptim") or ())
    requirement = next(
        entry for entry in requirements if entry.name == package and entry.marker is None
    )
    return Version(next(bound.version for bound in requirement.specifier if bound.operator == ">="))


def judgement(
    versions: str, installed: Version, oldest: Version, is_there: bool
) -> tuple[bool, str]:
    """Whether the declared versions are right, and a text about the workaround.

    Args:
        versions: the versions that are declared to have the defect.
        installed: the version that was tested.
        oldest: the oldest version that xoptim supports.
        is_there: whether the installed version has the defect.
    """
    declared = SpecifierSet(versions, prereleases=True)
    is_declared = Version(installed.base_version) in declared
    if is_there and not is_declared:
        return False, f"{installed} still has the defect: declare more than {versions}"
    if is_there:
        return True, f"needed, {installed} has the defect"
    if is_declared:
        return False, f"{installed} does not have the defect: declare less than {versions}"
    if oldest not in declared:
        return False, "can be removed: no supported version has the defect"
    return (
        True,
        f"fixed in {installed}; still needed for supported versions {versions} (oldest: {oldest})",
    )


def main() -> int:
    """Print a line for each workaround; returns 1 when a declaration must change."""
    installed, oldest = Version(version("onnxruntime")), oldest_supported()
    status = 0
    for workaround in workarounds():
        versions = workaround.versions
        is_there = any(map(has_defect, workaround.models))
        is_right, text = judgement(versions, installed, oldest, is_there)
        sys.stdout.write(f"{'' if is_right else '! '}{workaround.place} ({versions}): {text}\n")
        status |= not is_right
    return status


if __name__ == "__main__":
    sys.exit(main())
