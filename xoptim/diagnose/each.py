"""Check each rewrite alone, on values recorded in a run of the original model.

Dump the nodes before and after each rewrite as models, and compare them later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
import onnx

from xoptim.diagnose.report import Culprit
from xoptim.diagnose.required_exactness import are_quantized, required_exactness
from xoptim.engine.events import Application, Event, for_applications
from xoptim.facts.assumptions import USUAL, Assumptions
from xoptim.facts.dtypes import GRADES
from xoptim.facts.errors import ModelError, XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult, member
from xoptim.facts.protos import replace_items
from xoptim.graph.assumed import fitting, note, noted
from xoptim.graph.atomic_write import replacing
from xoptim.graph.fragment import fragment, side_by_side
from xoptim.graph.graph import Graph
from xoptim.graph.load import read_proto
from xoptim.graph.node import Node
from xoptim.graph.walk import reads
from xoptim.match.quantization import first_result
from xoptim.match.rewrite import ModelPass, unmet
from xoptim.operators.registry import is_deterministic
from xoptim.proof.proving import Proof, prove_models
from xoptim.verification.errors import ChoiceError, FeedError, LoadError, RunError
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.judging.report import Status, VerificationReport
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import ModelLike, light_copy
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.verify import compare, verify_models

_MAX_RECORDED_BYTES: Final = 1 << 30
"""Bytes of recorded results; results beyond this limit are computed again when needed."""
_MAX_CACHED_BYTES: Final = 1 << 24
"""Bytes of a result that is kept when it was not recorded; a larger one, such as weights cast to
float32, is computed again when needed.
"""
_MAX_COMPUTED_NODES: Final = 10_000
"""Maximum number of nodes that are run to compute a result that was not recorded."""


@dataclass(frozen=True, slots=True)
class Disagreement(JsonResult):
    """A rewrite whose replacement computes different results.

    Attributes:
        number: number of the rewrite in the run, from 1.
        pattern: name of the pattern.
        node: name of the node at which it matched, or of its first result.
        result: the first result of this node.
        report: the comparison of the results.
        before: the matched nodes, as a model.
        after: the replacement of these nodes, as a model.
        feeds: values of the inputs on which the results differ.
    """

    __json__ = JsonForm("number pattern node verification=report")
    number: int
    pattern: str
    node: str
    result: str
    report: VerificationReport
    before: onnx.ModelProto
    after: onnx.ModelProto
    feeds: Mapping[str, Value]

    def __str__(self) -> str:
        return (
            f"pattern {self.pattern} at {self.node!r} (rewrite {self.number}) changes a result: "
            f"{self.report.reason}"
        )


class Unchecked(NamedTuple):
    """A rewrite that could not be checked by itself.

    Attributes:
        pattern: name of the pattern.
        reason: the reason.
    """

    pattern: str
    reason: str


@dataclass(slots=True)
class EachCheck(JsonResult):
    """The checks of single rewrites.

    An object is called for each rewrite of an optimization
    (`OptimizationOptions.on_application`). The operands of matched nodes are recorded in a run of
    the original model on the feeds of a verification. An operand without a recorded value (within
    a subgraph, or when the original does not run) gets random values. A rewrite that differs on
    random values counts as unchecked.

    Attributes:
        original: the model before the optimization.
        options: the options of the comparisons.
        checked: number of rewrites that were found equal.
        equal_patterns: names of the patterns of the rewrites that were found equal.
        unchecked: rewrites that could not be checked.
        disagreements: rewrites that compute different results.
    """

    __json__ = JsonForm("checked unchecked disagreements", name="Each")
    original: ModelLike
    options: VerificationOptions = field(default_factory=VerificationOptions)
    checked: int = 0
    equal_patterns: set[str] = field(default_factory=set)
    unchecked: list[Unchecked] = field(default_factory=list)
    disagreements: list[Disagreement] = field(default_factory=list)
    _values: dict[str, Value] | None = field(default=None, repr=False)

    @property
    def culprit(self) -> Culprit | None:
        """The first wrong rewrite, ``None`` when all are right.

        Its ``result`` is set if the other rewrites of the pattern were found equal.
        """
        if not self.disagreements:
            return None
        first = self.disagreements[0]
        count = sum(rewrite.pattern == first.pattern for rewrite in self.disagreements)
        culprit = Culprit.of(first)
        is_alone = count == 1 and first.pattern in self.equal_patterns
        return culprit if is_alone else replace(culprit, result="")

    def summary(self) -> str:
        """The verdict in one line."""
        counts = [f"{self.checked} checked individually"]
        if self.unchecked:
            pattern, reason = self.unchecked[0]
            counts.append(f"{len(self.unchecked)} not checked (such as {pattern}: {reason})")
        if self.disagreements:
            counts.append(f"{len(self.disagreements)} wrong")
        return ", ".join(counts)

    def __call__(self, application: Application) -> None:
        """Check one rewrite."""
        if isinstance(application.pattern, ModelPass):
            violation = unmet(application.graph.model, application.pattern.ensures)
            self.unchecked.append(
                Unchecked(application.pattern.name(), violation or "it changes the whole model")
            )
            return
        before, after = side_by_side(application.graph, application.matched, application.given)
        feeds = self._feeds(application.graph, before, after)
        exactness = required_exactness(application.pattern.exactness, (before, after))
        options = replace(
            self.options,
            exactness=exactness,
            feeds=feeds,
            dims={},
            test_data=None,
            assume=(),
            assignments=1,
        )
        if exactness == "approximate" and are_quantized(before):
            options = replace(options, integer_atol=max(1, options.integer_atol))
        report = compare(before, after, options)
        if report.status == "equal":
            self.checked += 1
            self.equal_patterns.add(application.pattern.name())
        elif report.status == "different" and any(
            value.name not in feeds for value in before.graph.input
        ):
            # Random values may be inconsistent with each other, such as a sequence and its items.
            self.unchecked.append(
                Unchecked(application.pattern.name(), f"on random values {report.summary()}")
            )
        elif report.status == "different":
            anchor = application.anchor
            node = anchor.name or anchor.output[0]
            self.disagreements.append(
                Disagreement(
                    application.number,
                    application.pattern.name(),
                    node,
                    first_result(anchor),
                    report,
                    before,
                    after,
                    feeds,
                )
            )
        else:
            self.unchecked.append(Unchecked(application.pattern.name(), report.reason))

    def _feeds(
        self, graph: Graph, before: onnx.ModelProto, after: onnx.ModelProto
    ) -> dict[str, Value]:
        names = dict.fromkeys(
            value.name for model in (before, after) for value in model.graph.input
        )
        values = {name: self.value(graph, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def values(self) -> dict[str, Value]:
        """All known results, by name."""
        if self._values is None:
            self._values = record(self.original, self.options)
        return self._values

    def value(self, graph: Graph, name: str) -> Value:
        """A result, recorded or computed from recorded ones; ``None`` when neither is possible."""
        values = self.values
        if name not in values:
            tensor = graph.tensor(name)
            if tensor is not None:
                return tensor.numpy()
            computed = self._compute(graph, name, values)
            if computed is None or (
                isinstance(computed, np.ndarray) and computed.nbytes > _MAX_CACHED_BYTES
            ):
                return computed
            values[name] = computed
        return values[name]

    def _compute(self, graph: Graph, name: str, values: Mapping[str, Value]) -> Value:
        """Compute a result that was not recorded from known values, ``None`` when that fails."""
        nodes: dict[Node, None] = {}
        pending = deque([name])
        while pending:
            value = pending.popleft()
            if value in values or graph.tensor(value) is not None:
                continue
            node = graph.producer(value)
            if node is None or len(nodes) >= _MAX_COMPUTED_NODES:
                return None
            if node not in nodes:
                nodes[node] = None
                pending.extend(reads(node))
        model = fragment(graph, list(nodes), [name])
        tensors = {port.name: graph.tensor(port.name) for port in model.graph.input}
        feeds = {
            operand: values[operand] if tensor is None else tensor.numpy()
            for operand, tensor in tensors.items()
        }
        try:
            return Session(model, self.options.settings).run(feeds)[0]
        except (LoadError, RunError):
            return None


def record(original: ModelLike, options: VerificationOptions) -> dict[str, Value]:
    """Results of the main graph in one run on the feeds of a verification.

    Empty when the model does not run. Results that depend on constants only, such as weights cast
    to float32, are skipped: they can be computed at any time.
    """
    try:
        reference = run_reference(original, replace(options, assignments=1))
        run = reference.runs[0]
        names = _varying(reference.proto.graph)
        session = Session(
            with_outputs(reference.proto, names), options.settings, base_dir=reference.base_dir
        )
        results = session.run(run.feeds)
    except ChoiceError:
        raise
    except (FeedError, LoadError, RunError):
        return {}
    values = dict(run.feeds)
    size = 0
    for port, result in zip(session.outputs, results, strict=True):
        size += result.nbytes if isinstance(result, np.ndarray) else 0
        if size <= _MAX_RECORDED_BYTES and result is not None:
            values[port.name] = result
    return values


def _varying(graph: onnx.GraphProto) -> list[str]:
    """The results that depend on more than constants."""
    constants = {tensor.name for tensor in graph.initializer} - {
        value.name for value in graph.input
    }
    names = list[str]()
    for node in graph.node:
        results = [name for name in node.output if name]
        reads_constants = node.input and all(name in constants for name in node.input if name)
        is_plain = is_deterministic(node.op_type, node.domain) and not any(
            attribute.HasField("g") for attribute in node.attribute
        )
        if is_plain and (reads_constants or node.op_type == "Constant"):
            constants.update(results)
        else:
            names += results
    return names


def with_outputs(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """A copy of a model whose outputs are these results."""
    copy = light_copy(model, ())
    declared = {value.name: value for value in (*model.graph.output, *model.graph.value_info)}
    replace_items(
        copy.graph.output, (declared.get(name) or onnx.ValueInfoProto(name=name) for name in names)
    )
    return copy


def dump_to(folder: Path) -> Callable[[Event], None]:
    """A listener to events that dumps each rewrite into a folder; see `dump_application`."""
    return for_applications(partial(dump_application, folder))


def dump_application(folder: Path, application: Application) -> None:
    """Write ``NUMBER_PATTERN.before.onnx``, ``.after.onnx`` and ``.txt`` into a folder, which is
    created when missing.

    The metadata of the models names the pattern, its exactness, and the assumptions. Raises
    `XoptimError` when the folder cannot be written.
    """
    pattern, matched, nodes = application.pattern, application.matched, application.given
    if not matched:  # a rewrite of a whole model
        return
    name = pattern.name()
    models = side_by_side(application.graph, matched, nodes)
    exactness = required_exactness(pattern.exactness, models)
    for model in models:
        onnx.helper.set_model_props(model, {"xoptim.pattern": name, "xoptim.exactness": exactness})
        note(model, Assumptions.of(fitting(application.graph.model.assumptions.texts, model)[0]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{_next_number(folder):05d}_{name}"
        lines = [name, "", "matched:", *map(repr, matched), "", "replacement:", *map(repr, nodes)]
        contents = [model.SerializeToString() for model in models]
        contents.append(("\n".join(lines) + "\n").encode())
        with replacing(folder / f"{stem}.txt") as files:
            for suffix, content in zip(_SUFFIXES, contents, strict=True):
                with files.open(folder / f"{stem}{suffix}", syncs=False) as stream:
                    stream.write(content)
        _last[folder] = stem
    except OSError as error:
        raise XoptimError(
            f"DUMPPATTERNS: cannot write into {str(folder)!r}: {error.strerror or error}"
        ) from error
    except ModelError as error:
        raise XoptimError(f"DUMPPATTERNS: {error}") from error


_last: dict[Path, str] = {}
"""The stem written last into each folder, so that its files are counted only once."""


def _next_number(folder: Path) -> int:
    stem = _last.get(folder)
    if stem is not None and (folder / f"{stem}.txt").exists():
        return int(stem.partition("_")[0]) + 1
    return sum(1 for _ in folder.glob("*.txt"))


_SUFFIXES = (".before.onnx", ".after.onnx", ".txt")


@dataclass(frozen=True, slots=True)
class Replayed(JsonResult):
    """The check of one dumped rewrite.

    Attributes:
        name: name of the dump.
        pattern: name of the pattern.
        report: the comparison; ``None`` when the dump cannot be read.
        damage: the reason why the models cannot be read; empty when they can.
        proof: the proof of the rewrite, if it was asked for.
    """

    __json__ = JsonForm(
        "name pattern status reason report", member("proof=proof.text", is_optional=True)
    )
    name: str  # the stem of its files
    pattern: str
    report: VerificationReport | None
    damage: str = ""
    proof: Proof | None = None

    @property
    def status(self) -> Status | Literal["damaged"]:
        """The verdict; ``damaged`` when the dump cannot be read."""
        return "damaged" if self.report is None else self.report.status

    @property
    def reason(self) -> str:
        """The reason why the models are not known to be equal; empty when they are equal."""
        return self.damage if self.report is None else self.report.reason

    @property
    def largest(self) -> float | None:
        """Largest absolute difference of an output, ``None`` when nothing was compared."""
        worst = None if self.report is None else self.report.largest
        return None if worst is None else worst.max_abs


def replay(
    folder: str | Path,
    *,
    providers: Sequence[str] = ("cpu",),
    custom_op_libs: Sequence[str] = (),
    assume_from_model: bool = False,
    software_device: bool = False,
    prove: bool = False,
) -> list[Replayed]:
    """Run the dumped models before and after each rewrite, and compare the results.

    The tolerance follows from the exactness of the pattern, which the dump names. Returns one entry
    for each rewrite, in order. Raises `XoptimError` when the folder cannot be read, or contains no
    dump.

    Args:
        folder: the folder that the environment variable ``DUMPPATTERNS`` named.
        providers: execution providers of onnxruntime to run them on.
        custom_op_libs: custom operator libraries to load: files, or ``onnxruntime-extensions``.
        assume_from_model: run them under the assumptions in their metadata.
        software_device: whether an execution provider that has no device here runs on the CPU
            instead (``webgpu``).
        prove: also prove each rewrite for all sizes, where possible.
    """
    folder = Path(folder)
    try:
        files = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise XoptimError(f"cannot read {str(folder)!r}: {error.strerror or error}") from error
    stems = sorted(
        {
            name.removesuffix(suffix)
            for name in files
            for suffix in _SUFFIXES
            if name.endswith(suffix)
        }
    )
    stems = [stem for stem in stems if stem.partition("_")[0].isdecimal()]
    if not stems:
        raise XoptimError(
            f"{str(folder)!r} holds no dump; DUMPPATTERNS={folder} xopt MODEL writes one"
        )
    options = VerificationOptions(
        providers=tuple(providers),
        custom_op_libs=tuple(custom_op_libs),
        assume_from_model=assume_from_model,
        software_device=software_device,
    )
    return [_replay(folder, stem, files, options, proves=prove) for stem in stems]


def _replay(
    folder: Path, stem: str, files: set[str], options: VerificationOptions, *, proves: bool
) -> Replayed:
    name = stem.partition("_")[2]
    missing = [stem + suffix for suffix in _SUFFIXES if stem + suffix not in files]
    if missing:
        return Replayed(stem, name, None, f"{missing[0]} is missing; the dump is incomplete")
    try:
        before, after = (read_proto(folder / f"{stem}.{kind}.onnx") for kind in ("before", "after"))
    except ModelError as error:
        return Replayed(stem, name, None, str(error))
    metadata = {entry.key: entry.value for entry in before.metadata_props}
    name = metadata.get("xoptim.pattern", name)
    exactness = metadata.get("xoptim.exactness", "rounding")
    if exactness not in GRADES:
        return Replayed(stem, name, None, f"{stem}.before.onnx: unknown exactness {exactness!r}")
    options = replace(options, exactness=exactness)
    reason = _why_not_runnable(before)
    report = (
        VerificationReport("not verified", reason, options.exactness, options.providers)
        if reason
        else None
    )
    assumptions = noted(before) if options.assume_from_model else USUAL
    proof = prove_models(before, after, assumptions) if proves else None
    return Replayed(stem, name, report or verify_models(before, after, options), proof=proof)


def _why_not_runnable(model: onnx.ModelProto) -> str:
    """The reason why a fragment cannot be run, empty when it can."""
    if not model.graph.output:
        return "no result of the matched nodes is read"
    names = [value.name for value in model.graph.input if not _is_typed(value.type)]
    return (
        f"the type of input {names[0]!r} is unknown; all types within a local function are unknown"
        if names
        else ""
    )


def _is_typed(proto: onnx.TypeProto) -> bool:
    kind = proto.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or proto.tensor_type.elem_type != 0)
