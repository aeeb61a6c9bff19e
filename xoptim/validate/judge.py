"""The judge: runs the optimized model on the values of the original, compares, and weighs the differences."""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dtypes import bits, element_type, is_float, numpy_dtype
from xoptim.facts.protos import fed_inputs, inner_graphs, is_external, replace_items
from xoptim.validate.compare import Comparison, ComparisonRules, ErrorBin, add_bins, compare_values, explains
from xoptim.validate.errors import LoadError, RunError
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike, large_tensors, light_copy, tensor_array
from xoptim.validate.reference import Reference
from xoptim.validate.report import Cause, Noise, RunReport, SkippedRun, Status, ValidationReport, rounding_note
from xoptim.validate.runs import ReferenceRun, RunPlan
from xoptim.validate.session import Port, Session, Value

_SMALLEST_WEIGHT: Final = 32  # elements
_MOST_ELEMENTS: Final = 200_000_000  # moved in all, to bound time and memory
_MOST_EXTERNAL: Final = 1 << 24  # of these, elements that lie in external files
_LONGEST_AXIS: Final = 1 << 16  # for which every place gets a factor of its own
_FEWEST_ELEMENTS: Final = 8  # of a result of static shape: fewer may be sizes that are computed as floats
_DEFAULTS_FROM: Final = 4  # version of the file format; before, the default of an input cannot be replaced
_FACTOR_TYPES: Final = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_ROUNDING_OPERATORS: Final = frozenset({
    "Add", "Attention", "AveragePool", "BatchNormalization", "BiasGelu", "Conv", "ConvTranspose", "Cos",
    "DequantizeLinear", "Div", "Einsum", "Elu", "Erf", "Exp", "FusedMatMul", "GRU", "Gelu", "Gemm", "GlobalAveragePool",
    "GroupNormalization", "InstanceNormalization", "LRN", "LSTM", "LayerNormalization", "Log", "LogSoftmax", "LpPool",
    "MatMul", "MatMulNBits", "Mish", "Mul", "MultiHeadAttention", "Pow", "QuickGelu", "RMSNormalization", "RNN",
    "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "Resize", "Selu", "Sigmoid", "SimplifiedLayerNormalization", "Sin", "SkipLayerNormalization",
    "Softmax", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh",
})  # fmt: skip


def noisy_weights(model: onnx.ModelProto, base_dir: Path | None, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Weights moved by one unit in the last place, up or down at random."""
    kept, scales = _special_weights(model)
    moved: dict[str, np.ndarray] = {}
    left = {False: _MOST_ELEMENTS, True: _MOST_EXTERNAL}
    for tensor in sorted(model.graph.initializer, key=lambda tensor: math.prod(tensor.dims)):
        count, place = math.prod(tensor.dims), is_external(tensor)
        wanted = (count >= _SMALLEST_WEIGHT and tensor.name not in kept) or tensor.name in scales
        if wanted and count <= left[place] and _is_measured(tensor.data_type):
            left[place] -= count
            moved[tensor.name] = move_one_ulp(tensor_array(tensor, base_dir), rng)
    return moved


class NoisyModel:
    """A model whose numbers can be moved: one session of it measures the noise as often as needed.

    A multiplication follows each result of ``proto`` that rounds; ``weights`` belong to the main graph, moved once.
    """

    def __init__(self, model: onnx.ModelProto, base_dir: Path | None, rng: np.random.Generator) -> None:
        self.weights = noisy_weights(model, base_dir, rng)
        self.proto, self._factors = noisy_graph(model, self.weights)

    def feeds(self, feeds: Mapping[str, Value], rng: np.random.Generator) -> dict[str, Value]:
        """Feeds with their numbers moved, and factors next to 1 for the results within the model."""
        return {**noisy_feeds(feeds, rng), **{name: move_one_ulp(ones, rng) for name, ones in self._factors.items()}}


def noisy_graph(model: onnx.ModelProto, left_out: Collection[str] = ()) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A copy in which a multiplication follows each result that rounds, and the factors of these, all 1 by default.

    Only results that have a known type and are not scalars get one; models before opset 7 get none. The copy lacks the data of
    initializers that are ``left_out``.
    """
    copy, factors = light_copy(model, left_out), dict[str, np.ndarray]()
    if any(opset.domain in ("", "ai.onnx") and opset.version < 7 for opset in model.opset_import):
        return copy, factors
    types = _tensor_types(model)
    del copy.graph.node[:]
    for serial, original in enumerate(model.graph.node):
        node = copy.graph.node.add()
        node.CopyFrom(original)
        kind = types.get(node.output[0]) if node.op_type in _ROUNDING_OPERATORS else None
        ones = None if kind is None else _ones(kind)
        if ones is not None:
            result, noise = node.output[0], f"noise {serial}"
            node.output[0] = f"before noise {serial}"
            copy.graph.node.append(onnx.helper.make_node("Mul", [node.output[0], noise], [result]))
            factors[noise] = ones
    _add_defaults(copy, factors)
    return copy, factors


def _add_defaults(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> None:
    if model.ir_version < _DEFAULTS_FROM:
        replace_items(model.graph.input, fed_inputs(model))
    model.ir_version = max(model.ir_version, _DEFAULTS_FROM)
    for name, value in values.items():
        tensor = numpy_helper.from_array(value, name)
        model.graph.initializer.append(tensor)
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, value.shape))


def _tensor_types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto.Tensor]:
    """Types of the values of the main graph that are declared or can be inferred."""
    try:
        graph = onnx.shape_inference.infer_shapes(light_copy(model, large_tensors(model, 8192))).graph
    except Exception:  # a model that onnx cannot type may still run in onnxruntime
        graph = model.graph
    return {v.name: v.type.tensor_type for values in (graph.value_info, graph.output) for v in values}


def _ones(kind: onnx.TypeProto.Tensor) -> np.ndarray | None:
    """Factors of 1 that are broadcast-compatible with a tensor and keep its shape, ``None`` when it should stay as it is."""
    if kind.elem_type not in _FACTOR_TYPES or not kind.HasField("shape") or not kind.shape.dim:
        return None
    sizes = [dim.dim_value for dim in kind.shape.dim]
    if all(sizes) and math.prod(sizes) < _FEWEST_ELEMENTS:  # an open dimension has the size 0 here
        return None
    # Factors along the last axis fit any sizes of the other axes; an open or very long axis gets one factor.
    shape = (sizes[-1],) if 0 < sizes[-1] <= _LONGEST_AXIS else ()
    return np.ones(shape, numpy_dtype(kind.elem_type))


def _special_weights(model: onnx.ModelProto) -> tuple[set[str], set[str]]:
    """Weights that are stored narrow but computed with after a cast, and scales of (de)quantization."""
    cast: set[str] = set()
    used: set[str] = set()
    scales: set[str] = set()
    for node in model.graph.node:
        (cast if node.op_type == "Cast" else used).update(node.input)
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            scales.add(node.input[1])
    # A weight that is also read without a Cast is computed with in its own type.
    return cast - used, scales


def noisy_feeds(feeds: Mapping[str, Value], rng: np.random.Generator) -> dict[str, Value]:
    """Feeds with their measured numbers moved by one unit in the last place, up or down at random."""
    return {name: _noisy(value, rng) for name, value in feeds.items()}


def _noisy(value: Value, rng: np.random.Generator) -> Value:
    if isinstance(value, list):
        return [_noisy(item, rng) for item in value]
    if not isinstance(value, np.ndarray) or not _is_measured(element_type(value.dtype)):
        return value
    wide = value.astype(np.float64)
    return value if np.array_equal(wide, np.rint(wide), equal_nan=True) else move_one_ulp(value, rng)


def _is_measured(element: int) -> bool:
    """Whether numbers of a type carry rounding errors; a step of 8 bits or fewer is not a rounding error."""
    return is_float(element) and bits(element) >= 16


def move_one_ulp(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The neighbours of numbers of 16, 32 or 64 bits, towards 0 or away from it; 0, infinities and NaN stay."""
    code = {2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize]
    pattern = np.asarray(array, order="C").view(code)
    down = rng.integers(0, 2, array.shape, dtype=np.int8).astype(code)
    # Within one sign, floating-point numbers are ordered as their bits are: plus 1 (or minus 1) is the neighbour.
    moved: np.ndarray = (pattern + code(1) - 2 * down).astype(code).view(array.dtype)
    # The step down from 0 wraps around to NaN, and the step up from the largest number is an infinity.
    stays = (array == 0) | ~np.isfinite(array) | ~np.isfinite(moved) | (moved == 0)
    return np.where(stays, array, moved)


_DRAWS: Final = 4  # most times that the noise is measured
_Levels: TypeAlias = dict[str, dict[int, ErrorBin]]
"""Differences that rounding makes in each output, by the magnitude of its elements."""
_RANDOM: Final = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
_HOPELESS: Final = 0.1  # largest noise, relative to the largest elements of an output, at which a comparison is still evidence
Signature: TypeAlias = tuple[Sequence[Port], Sequence[Port]]
"""Inputs and outputs of a model."""


def judge(
    reference: Reference,
    optimized: ModelLike,
    options: ValidationOptions,
    base_dir: Path | None = None,
    *,
    is_part: bool = False,
) -> ValidationReport:
    """Compare a model, its external data in ``base_dir``, with runs of the original.

    ``is_part``: whether the models are sections of others, whose interior results may hold infinities and NaN.
    """
    judging = Judge(options)
    judging.skipped = reference.skipped
    try:
        candidate = Session(optimized, reference.settings, base_dir=base_dir)
    except LoadError as error:
        return judging.report("different", f"onnxruntime cannot load the optimized model: {error}")
    expected, actual = (reference.inputs, reference.outputs), (candidate.inputs, candidate.outputs)
    judging.faults = compare_signatures(expected, actual, fewer_inputs=options.fewer_inputs)
    if judging.faults:
        fault = judging.faults[0]
        return judging.report("different", f"{fault.output}: {fault.message}")
    for run in reference.runs:
        try:
            judging.runs.append(_compare_run(run, reference.outputs, candidate, options))
        except RunError as error:
            where = _where(run.sizes) + _values(run)
            return judging.report("different", f"onnxruntime cannot run the optimized model{where}: {error}")
    del candidate  # frees its weights before the verdict loads further sessions
    return judging.verdict(reference, is_part)


def _where(sizes: Mapping[str, int]) -> str:
    return f" with {', '.join(f'{name}={size}' for name, size in sizes.items())}" if sizes else ""


def _values(run: RunPlan | RunReport) -> str:
    return {"overridden": ", initializers overridden", "wide": ", large numbers and zeros", "odd": ", NaN and infinities"}.get(
        run.source, ""
    )


def compare_signatures(expected: Signature, actual: Signature, *, fewer_inputs: bool = False) -> tuple[Comparison, ...]:
    """Faults of names, order and types of inputs and outputs; ``fewer_inputs`` may be missing."""
    (inputs, outputs), (other_inputs, other_outputs) = expected, actual
    if fewer_inputs:
        found = {port.name for port in other_inputs}
        inputs = [port for port in inputs if port.name in found]
    return (*_compare_ports("input", inputs, other_inputs), *_compare_ports("output", outputs, other_outputs))


def _compare_ports(kind: str, expected: Sequence[Port], actual: Sequence[Port]) -> list[Comparison]:
    types, found = {p.name: p.type for p in expected}, {p.name: p.type for p in actual}
    faults = [Comparison(f"{kind} {name!r}", "missing", "is missing") for name in types if name not in found]
    faults += [Comparison(f"{kind} {name!r}", "structure", "is new") for name in found if name not in types]
    faults += [
        Comparison(f"{kind} {name!r}", "dtype", f"{found[name]} instead of {types[name]}")
        for name in types
        if found.get(name, types[name]) != types[name]
    ]
    if not faults and list(types) != list(found):
        faults.append(Comparison(f"{kind}s", "structure", f"order {list(found)} instead of {list(types)}"))
    return faults


def _compare_run(run: ReferenceRun, outputs: Sequence[Port], candidate: Session, options: ValidationOptions) -> RunReport:
    start = time.perf_counter()
    results = candidate.run(run.feeds)
    seconds = time.perf_counter() - start
    rules = replace(options.rules, signed_zeros=run.source == "odd" and options.exactness == "exact")
    compared = _compare_results(outputs, run.results, results, rules)
    is_coarse = run.source == "wide" and options.considers_noise
    return RunReport(
        run.source, dict(run.sizes), run.seed, run.seconds, seconds, compared, is_probe=run.is_probe, is_coarse=is_coarse
    )


def _compare_results(
    outputs: Sequence[Port], expected: Sequence[Value], actual: Sequence[Value], rules: ComparisonRules
) -> tuple[Comparison, ...]:
    triples = zip(outputs, expected, actual, strict=True)
    return tuple(c for port, e, a in triples for c in compare_values(port.name, e, a, rules))


def hollow_outputs(runs: Sequence[RunReport]) -> set[str]:
    """Outputs that hold elements, none of them finite."""
    compared = [c for run in runs for c in run.comparisons]
    return {c.output for c in compared if not c.finite} - {c.output for c in compared if c.finite and c.count}


def _random_operator(model: onnx.ModelProto) -> str:
    """An operator that draws other numbers at another place of the graph, ``""`` when there is none."""
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    nodes += [node for graph in inner_graphs(nodes) for node in graph.node]
    found = (n.op_type for n in nodes if n.op_type in _RANDOM and all(a.name != "seed" for a in n.attribute))
    return next((f"{op_type} without a seed" for op_type in found), "")


def _sensitivity(run: RunReport, c: Comparison) -> str:
    return (
        f"differs by {c.max_abs:.2g}, but moves by {run.noise[c.output].level:.2g} when all numbers move by one unit in "
        f"the last place (its largest magnitude is {c.top:.2g}); give rtol and atol to judge it"
    )


class Judge:
    """Collects comparisons and decides the verdict."""

    def __init__(self, options: ValidationOptions) -> None:
        self._options = options
        self._notes: list[str] = []
        if any(name.lower().startswith("cuda") for name in options.providers):
            self._notes.append(f"TF32 is {'on' if options.tf32 else 'off'}")
        self.faults: tuple[Comparison, ...] = ()
        self.runs: list[RunReport] = []
        self.skipped: tuple[SkippedRun, ...] = ()

    def report(self, status: Status, reason: str = "", cause: Cause = "") -> ValidationReport:
        """The report so far."""
        return ValidationReport(
            status=status,
            reason=reason,
            cause=cause,
            exactness=self._options.exactness,
            providers=tuple(self._options.providers),
            faults=self.faults,
            runs=tuple(self.runs),
            notes=tuple(self._notes),
            skipped=self.skipped,
            assumptions=Assumptions.of(self._options.assume).texts,
        )

    def verdict(self, reference: Reference, is_part: bool = False) -> ValidationReport:
        """The report after all runs."""
        broken = [i for i, run in enumerate(self.runs) if not all(c.ok for c in run.comparisons)]
        unsteady = _random_operator(reference.proto) if broken else ""
        if broken and not unsteady and self._options.considers_noise:
            self._measure_noise(reference, broken)
        # Most differences are rounding: the original is loaded once more for that, and only for a doubt a second time.
        if not unsteady and not all(map(RunReport.is_accepted, self.runs)):
            unsteady = self._unsteady_output(reference, broken[0])
        if unsteady:
            return self.report("not validated", f"the original does not repeat its own results: {unsteady}", "evidence")
        rejected = [(run, c) for run in self.runs for c in run.comparisons if not run.accepts(c)]
        silent = [run for run, comparison in rejected if run.is_probe and self._is_hopeless(run, comparison)]
        self._notes += [f"outputs are too sensitive to be compared{_where(run.dims)}" for run in silent[:1]]
        rejected = [(run, c) for run, c in rejected if not (run.is_probe and self._is_hopeless(run, c))]
        # An output that is too sensitive to be compared excuses its own differences, but not a fault elsewhere.
        rejected.sort(key=lambda pair: self._is_hopeless(*pair))
        if rejected:
            run, comparison = rejected[0]
            place = f"output {comparison.output!r}{_where(run.dims)}{_values(run)}"
            if self._is_hopeless(run, comparison):
                return self.report("not validated", f"{place} {_sensitivity(run, comparison)}", "evidence")
            return self.report("different", f"{place}: {comparison.message}")
        return self._weigh_evidence(reference, is_part)

    def _weigh_evidence(self, reference: Reference, is_part: bool) -> ValidationReport:
        """Report equal, unless there was nothing to compare."""
        compared = [c for run in self.runs for c in run.comparisons]
        if compared and not any(c.count for c in compared):
            self._notes.append("no output held an element")
        hollow = set() if is_part else hollow_outputs(self.runs)
        if hollow and hollow == {c.output for c in compared}:
            return self.report("not validated", "no output of the original holds a finite number", "evidence")
        self._notes += [f"output {name!r} never held a finite number" for name in sorted(hollow)]
        self._notes += [] if is_part else rounding_note(self.runs)
        if self.skipped:
            most = max(self.skipped, key=lambda each: sum(each.dims.values()))
            count = f"{len(self.skipped)} of {len(self.runs) + len(self.skipped)} runs"
            self._notes.append(f"{count} left out: one{_where(most.dims)} {most.reason}")
        tried = {tuple(run.dims.items()) for run in self.runs if run.source == "random"}
        open_sizes = {name for run in self.runs for name in run.dims} - reference.chosen
        if len(tried) == 1 and open_sizes and self._options.assignments > 1:
            self._notes.append("only one assignment of sizes was found on which the original runs")
        return self.report("equal")

    def _unsteady_output(self, reference: Reference, index: int) -> str:
        """The output in which a new session of the original breaks a rule, ``""`` when there is none."""
        run, options = reference.runs[index], self._options
        results = Session(reference.proto, reference.settings, base_dir=reference.base_dir).run(run.feeds)
        again = _compare_results(reference.outputs, run.results, results, options.rules)
        return next((f"output {c.output!r}: {c.message}" for c in again if not c.ok), "")

    def _measure_noise(self, reference: Reference, broken: Sequence[int]) -> None:
        """Measure the effect of rounding alone on the outputs that differ, for the broken runs, until it explains them."""
        levels: list[_Levels] = [{} for _ in reference.runs]
        rng = np.random.default_rng(self._options.seed)
        try:
            model = NoisyModel(reference.proto, reference.base_dir, rng)
            session = Session(model.proto, reference.settings, base_dir=reference.base_dir, weights=model.weights)
            for _ in range(_DRAWS):
                for index in broken:
                    run = reference.runs[index]
                    moved = session.run(model.feeds(run.feeds, rng))
                    for c in _compare_results(reference.outputs, run.results, moved, self._options.rules):
                        add_bins(levels[index].setdefault(c.output, {}), iter(c.error_bins.items()))
                    self.runs[index] = replace(self.runs[index], noise=self._noise(self.runs[index], levels[index]))
                if all(self.runs[index].is_accepted() for index in broken):
                    break
        except (LoadError, RunError) as error:
            self._notes.append(f"the sensitivity to rounding is known in part only: {error}")

    def _noise(self, run: RunReport, levels: _Levels) -> dict[str, Noise]:
        """The noise of the outputs that break the rule by finite differences, and whether it excuses these."""
        noise: dict[str, Noise] = {}
        multiple = self._options.noise_multiple
        for c in run.comparisons:
            if c.fault == "value" and c.tolerance is not None and math.isfinite(c.excess):
                moved = levels.get(c.output, {})
                level = max((each.largest for each in moved.values()), default=0.0)
                explained = explains(moved, c.error_bins, multiple)
                noise[c.output] = Noise(level, explained, explained and multiple * level <= _HOPELESS * c.top)
        return noise

    def _is_hopeless(self, run: RunReport, comparison: Comparison) -> bool:
        """Whether rounding alone moves an output as much as it differs, but by too much to accept that."""
        noise = run.noise.get(comparison.output)
        return noise is not None and noise.explains
