"""Which workarounds of onnxruntime's defects are still needed with the installed onnxruntime.

Run as ``python -m lab.workarounds`` (`make workarounds`); `make nightly` does it with the nightly
build. A rewrite declares its defect in its class attribute ``onnxruntime``, and its examples show
it, or those of `MODELS`; `REFUSALS` lists defects that rewrites avoid. A child process runs each
model with onnxruntime's own optimizations and without: the defect is there when it ends, fails or
gets other numbers.
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
_TOLERANCE: Final = 1e-2  # of float16; wrong results differ by more
_MOST: Final = 8  # feeds of one model


class Workaround(NamedTuple):
    """Code that works around a defect of some versions, and models that show the defect."""

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
        "xoptim/precision/switched.py, blocks stay in their subgraph",
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
    """Whether the installed onnxruntime does not run the model before a rewrite correctly.

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
    """Whether the model before a rewrite computes the same with all optimizations as without.

    It may end the process. Sizes that the model refuses without optimizations, such as 0, do not
    count. Raises `RuntimeError` when it refuses all.
    """
    model = parse(example.before, example.opset, example.domains)
    all_feeds = islice(make_all_feeds(model, example.ranges, special="finite"), _MOST)
    is_same = [answer for feeds in all_feeds if (answer := _is_same(model, feeds)) is not None]
    if not is_same:
        raise RuntimeError(f"the model does not run: {example.before}")
    return all(is_same)


def _is_same(model: onnx.ModelProto, feeds: Mapping[str, Value]) -> bool | None:
    try:
        expected = run(model, feeds)
    except Exception:  # see below
        return None
    try:
        found = run(model, feeds, optimized=True)
    except Exception:  # the classes of onnxruntime's errors have no other common base
        return False
    return all(
        np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
        for a, b in zip(expected, found, strict=True)
    )


def oldest_supported(package: str = "onnxruntime") -> Version:
    """The oldest version of a package that xoptim supports."""
    required = map(Requirement, requires("xoptim") or ())
    found = next(each for each in required if each.name == package and each.marker is None)
    return Version(next(each.version for each in found.specifier if each.operator == ">="))


def judgement(
    versions: str, installed: Version, oldest: Version, is_there: bool
) -> tuple[bool, str]:
    """Whether a declaration is right as it is, and what to say about the workaround.

    Args:
        versions: the versions that are declared to have the defect.
        installed: the version that was asked.
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
        return False, "can go: no supported version has the defect"
    return (
        True,
        f"gone in {installed}; can go when {oldest} and others {versions} are not supported",
    )


def main() -> int:
    """Print a line for each workaround; returns 1 when a declaration must change."""
    installed, oldest = Version(version("onnxruntime")), oldest_supported()
    status = 0
    for each in workarounds():
        is_there = any(map(has_defect, each.models))
        is_right, text = judgement(each.versions, installed, oldest, is_there)
        sys.stdout.write(f"{'' if is_right else '! '}{each.place} ({each.versions}): {text}\n")
        status |= not is_right
    return status


if __name__ == "__main__":
    sys.exit(main())
