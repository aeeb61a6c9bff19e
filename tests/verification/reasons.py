"""What the reason of a verdict is about."""

from xoptim.verification.judging.judge import values_text
from xoptim.verification.judging.report import VerificationReport


def named_source(report: VerificationReport) -> str:
    """The source of the run whose values the reason of a verdict describes."""
    texts = {run.source: values_text(run) for run in report.runs}
    (source,) = (name for name, text in texts.items() if text and text in report.reason)
    return source
