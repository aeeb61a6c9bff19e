"""The checks of a model against a git revision: its results, its size and its time."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from xoptim import verify
from xoptim.bench import BenchOptions, bench
from xoptim.diagnose.explanation import bytes_text
from xoptim.verification import VerificationOptions, at_revision
from xoptim.verification.errors import FeedError, LoadError, RunError
from xoptim.verification.runs.revision import file_bytes

from .exit_codes import DIFFERENT, code_of
from .findings import Finding
from .guard import note
from .loosened import loosened_text


class Limits(NamedTuple):
    """The limits of a model in comparison with its former revision.

    Attributes:
        larger: by how many percent the files may be larger; ``None`` for no check.
        slower: by how many percent the model may be slower; ``None`` for no check.
        measurement: the options of the measured runs.
    """

    larger: float | None
    slower: float | None
    measurement: BenchOptions


def against(
    model: Path, revision: str, limits: Limits, checks: VerificationOptions
) -> Iterator[Finding]:
    """Compare a model with a former revision.

    Raises `ModelError` when the revision or one of its files cannot be read.
    """
    note(f"comparing {model} with {revision}")
    with at_revision(model, revision) as former:
        if former is None:
            yield Finding("against", model, True, f"not compared: not in {revision}", (), 0)
            return
        yield _compared(model, former, revision, checks)
        if limits.larger is not None:
            yield _larger(model, former, limits.larger)
        if limits.slower is not None:
            note(f"measuring {model} and its revision {revision}")
            yield _slower(model, former, limits.slower, limits.measurement)


def _compared(model: Path, former: Path, revision: str, checks: VerificationOptions) -> Finding:
    """Compare the results."""
    reports = [
        verify(former, model, checks, providers=(provider,)) for provider in checks.providers
    ]
    worst = next((report for report in reports if not report.ok), reports[0])
    detail = f"against {revision}: {worst.summary()}{loosened_text()}"
    code = code_of(reports, doubtful=DIFFERENT)
    return Finding("against", model, worst.ok, detail, worst.assumptions, code)


def _larger(model: Path, former: Path, limit: float) -> Finding:
    """Compare the sizes of the files, external data included."""
    before, after = file_bytes(former), file_bytes(model)
    sizes, change = f"{bytes_text(before)} → {bytes_text(after)}", 100 * (after / before - 1)
    detail = f"size: {sizes}, {change:+.1f} %; at most +{limit:g} % allowed"
    is_within = after <= before * (1 + limit / 100)
    return Finding("max-larger", model, is_within, detail, (), DIFFERENT)


def _slower(model: Path, former: Path, limit: float, options: BenchOptions) -> Finding:
    """Measure both models side by side.

    The check fails only if the complete confidence interval of the ratio is above the limit: on a
    busy machine, the interval is wide.
    """
    try:
        ratio = bench([former, model], options).models[1].ratio
    except (FeedError, LoadError, RunError) as error:
        return Finding("max-slower", model, False, f"time: not measured: {error}", (), DIFFERENT)
    assert ratio is not None
    detail = f"time ratio: {ratio}; at most {1 + limit / 100:g} allowed"
    is_within = ratio.interval.low <= 1 + limit / 100
    return Finding("max-slower", model, is_within, detail, (), DIFFERENT)
