"""One job: load, prepare, optimize, verify, quantize, keep if faster, measure, report, write."""

from dataclasses import replace
from time import perf_counter

from xoptim.workflow.options import AnySource, JobOptions as JobOptions
from xoptim.workflow.outcome import Outcome
from xoptim.workflow.requests import check_static, precision_for, target_of
from xoptim.workflow.stages import Optimize, prepared, stages_of


class Job:
    """The only implementation of the steps from a model to its result.

    A refusal stops the job: nothing is written then, and the outcome has the reason.

    Args:
        source: the model: a path, or a model in memory.
        options: the stages.
    """

    def __init__(self, source: AnySource, options: JobOptions) -> None:
        self._source = source
        self._options = options
        self._target = target_of(options.optimization)
        self._precision = precision_for(options.precision, self._target)

    def run(self) -> Outcome:
        """Run the stages.

        Raises:
            ModelError: the model cannot be read, or the result cannot be written.
            ChoiceError: values, sizes or other options do not fit the model.
            UnknownPatternError: a pattern name is unknown.
            ProviderUnavailable: onnxruntime lacks a requested execution provider.
            RunError, LoadError, FeedError: the model cannot be quantized, as it does not run.
        """
        check_static(self._precision, self._target, self._options.plan.verify)
        start = perf_counter()
        task = prepared(self._source, self._options, self._target, self._precision)
        seconds = perf_counter() - start
        outcome = Optimize(task).run()
        if not self._options.preparation.is_empty:
            outcome = replace(outcome, times={"preparing": seconds, **outcome.times})
        for stage in stages_of(task):
            if outcome.refusal is not None:
                break
            start = perf_counter()
            outcome = stage.run(outcome)
            seconds = perf_counter() - start
            outcome = replace(outcome, times={**outcome.times, stage.name: seconds})
        return outcome
