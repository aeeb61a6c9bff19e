"""Whether a model repeats its results in a new session, whose memory is filled where possible."""

from collections.abc import Iterable, Sequence

from xoptim.system.machine import filled_memory
from xoptim.verification.errors import RunError
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.judging.run_comparison import compare_results
from xoptim.verification.options import ComparisonRules
from xoptim.verification.runs.ports import Port
from xoptim.verification.runs.protos import Located
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings


def unsteady_output(
    model: Located,
    settings: SessionSettings,
    outputs: Sequence[Port],
    runs: Iterable[ReferenceRun],
    rules: ComparisonRules,
) -> str:
    """The output that breaks a rule when a model repeats runs, and how; empty when none does.

    A kernel may read uninitialized memory, which may happen to hold the same numbers again. Filled
    memory holds other numbers.
    """
    repeated = list(runs)
    if not repeated:
        return ""
    with filled_memory():
        session = Session(model.proto, settings, base_dir=model.base_dir)
        for run in repeated:
            try:
                results = session.run(run.feeds)
            except RunError as error:
                return f"it does not run on the same values again: {error}"
            comparisons = compare_results(outputs, run.results, results, rules)
            fault = next((c for c in comparisons if not c.ok), None)
            if fault is not None:
                return f"output {fault.output!r}: {fault.message}"
    return ""
