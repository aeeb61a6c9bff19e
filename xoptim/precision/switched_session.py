"""Errors of choices of candidates, measured in one session."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from xoptim.precision.budget import ErrorCache, SearchBudget
from xoptim.precision.candidates import Candidate, Form
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.reference import Errors, FloatReference
from xoptim.precision.samples import Samples
from xoptim.precision.slices import output_origins
from xoptim.precision.subgraphs import ResultSubgraph
from xoptim.precision.switches import with_switches
from xoptim.precision.weight_only import WeightOnlyQuantizer
from xoptim.system.machine import release_memory
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings


class SwitchedSession:
    """A session of a model in which any choice of candidates can be quantized.

    Its outputs with everything in float32 are the reference.

    Args:
        model: the model.
        folder: of external data.
        subgraphs: compute the results of the quantized operators, in each form.
        constants: the constants that can be stored in lower precision.
        candidates: the forms of these constants.
        samples: the values to run on.
        precision: the metric, and the tolerances.
        settings: of the sessions.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: Path | None,
        subgraphs: Mapping[Form, ResultSubgraph],
        constants: WeightOnlyQuantizer,
        candidates: Iterable[Candidate],
        samples: Samples,
        precision: PrecisionOptions,
        settings: SessionSettings,
    ) -> None:
        names = [value.name for value in model.graph.output]
        origins = output_origins(model, folder, samples.feeds, settings)
        is_optimized = settings.level != "off"
        switched, self._switches = with_switches(model, subgraphs, is_optimized=is_optimized)
        constants.make_inputs(switched)
        self._constants = constants
        self._names = {candidate.form: candidate.weights for candidate in candidates}
        self._session = Session(switched, settings, base_dir=folder)
        self._samples = samples
        expected = [self._run(index, {}) for index in range(len(samples.feeds))]
        self.reference = FloatReference.from_outputs(
            names, origins, samples, expected, precision, settings
        )
        self.limit(SearchBudget(None))

    def limit(self, budget: SearchBudget) -> None:
        """Measure no new choice after the end of a budget."""
        self.budget = budget
        self._errors = ErrorCache(self._measured, self.reference, budget)

    def errors(self, forms: Mapping[str, str], indices: Iterable[int]) -> Errors:
        """The errors when some candidates are quantized; see `ErrorCache.errors`.

        Args:
            forms: the results of the candidates, each with the name of the pattern.
            indices: of the samples, at least one.
        """
        return self._errors.errors(forms, indices)

    def close(self) -> None:
        """Free the weights in all forms."""
        del self._session
        release_memory()

    def _measured(self, index: int, forms: Mapping[str, str]) -> Errors:
        return self.reference.errors(index, self._run(index, forms))

    def _run(self, index: int, forms: Mapping[str, str]) -> Sequence[Value]:
        switched = {
            name: np.array(forms.get(result) == pattern)
            for (result, pattern), name in self._switches.items()
        }
        stored = {self._names[form]: form[1] for form in forms.items() if form in self._names}
        feeds = {**self._samples.feeds[index], **switched, **self._constants.feeds(stored)}
        return self._session.run(feeds)
