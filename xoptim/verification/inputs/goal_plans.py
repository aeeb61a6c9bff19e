"""Runs on inputs that decide a condition, while all other inputs vary as usual."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.protos import every_node
from xoptim.verification.errors import FeedError, LoadError, RunError
from xoptim.verification.inputs.dims import InputSpec, Sizes
from xoptim.verification.inputs.feed_style import Style
from xoptim.verification.inputs.feeding import Feeding, Planning, RunPlan
from xoptim.verification.inputs.goals import Content, Goal, Solution
from xoptim.verification.runs.session import Session, Value

Evaluate = Callable[[Collection[str], Mapping[str, Value]], dict[str, Value]]
"""Computes results of the main graph from values of the inputs. Raises `RunError`."""
_STYLES: Final = (Style(), Style(numbers="wide"), Style(numbers="far"))
"""Styles of the free inputs, in turn."""
_QUANTIZING: Final = frozenset(("QuantizeLinear", "DynamicQuantizeLinear"))
"""Operators whose steps are coarse for wide numbers: rounding alone then moves results far."""
_FOLLOWING: Final = ("copy", "less", "quotient")
"""Forms of content that depend on another value."""
_POWERS: Final = np.array([0.5, 2.0, -4.0, 0.25, -1.0, 8.0, -0.125])
"""Numbers whose quotients are exact."""


class Evaluator:
    """Computes inner results of the original in sessions that ``open_session`` opens."""

    def __init__(
        self, model: onnx.ModelProto, open_session: Callable[[onnx.ModelProto], Session]
    ) -> None:
        self._model = model
        self._open = open_session
        self._sessions: dict[frozenset[str], Session | None] = {}
        self._results = {name for node in model.graph.node for name in node.output if name}

    def __call__(self, names: Collection[str], feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The values of inputs and results of the main graph; other names are skipped."""
        inputs = {name: feeds[name] for name in names if name in feeds}
        inner = frozenset(names) & self._results
        if not inner:
            return inputs
        session = self._session(inner)
        if session is None:
            raise RunError("the inner results of the original cannot be read")
        results = session.run(feeds)
        ports = [port.name for port in session.outputs]
        return {**inputs, **{n: r for n, r in zip(ports, results, strict=True) if n in inner}}

    def _session(self, names: frozenset[str]) -> Session | None:
        if names not in self._sessions:
            model = onnx.ModelProto()
            model.CopyFrom(self._model)
            outputs = {value.name for value in model.graph.output}
            names_to_add = sorted(names - outputs)
            model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names_to_add)
            try:
                self._sessions[names] = self._open(model)
            except LoadError:
                self._sessions[names] = None
        return self._sessions[names]


class GoalPlans:
    """Makes plans of solutions; ``feeding`` makes the values of the other inputs."""

    def __init__(self, feeding: Feeding, evaluate: Evaluate) -> None:
        self._feeding = feeding
        self._evaluate = evaluate
        self._specs = {spec.name: spec for spec in feeding.random}
        nodes = (node for model in feeding.models for node in every_node(model.graph.node))
        quantizes = any(node.op_type in _QUANTIZING for node in nodes)
        self._styles = [style for style in _STYLES if not (quantizes and style.numbers == "wide")]

    def can_be_tried(self, solution: Solution) -> bool:
        """Whether a solution changes nothing that the caller chose."""
        is_free = solution.inputs.keys() <= self._specs.keys()
        return is_free and self._feeding.fixed.keys().isdisjoint(solution.sizes)

    def plan(self, solution: Solution, turn: int) -> Planning:
        """Values with a solution, in the style of a turn; raises `FeedError` where an input cannot
        hold its content.
        """
        styled = self._feeding.styled("goal", self._styles[turn % len(self._styles)])

        def plan(sizes: Sizes, run: int, gentle: bool) -> RunPlan:
            plan_sizes = self._feeding.assumptions.fitted({**sizes, **solution.sizes})
            usual = styled(plan_sizes, run, gentle)
            feeds = dict(usual.feeds)
            rng = np.random.default_rng(usual.seed)
            contents = sorted(solution.inputs.items(), key=lambda item: item[1].form in _FOLLOWING)
            for name, content in contents:
                self._lead(content, feeds)
                source = self._followed(content, feeds)
                feeds[name] = _content(self._specs[name], content, feeds[name], source, rng)
            return RunPlan("goal", plan_sizes, usual.seed, self._feeding.held(feeds))

        return plan

    def is_met(self, goal: Goal, feeds: Mapping[str, Value]) -> bool | None:
        """Whether a condition has its wanted value; ``None`` if the value is not known.

        ``False`` if the model does not run.
        """
        truths = {goal.condition: goal.wanted, **dict(goal.around)}
        try:
            values = self._evaluate(truths.keys(), feeds)
        except RunError:
            return False
        present = {name: value for name, value in values.items() if value is not None}
        is_met = all((np.asarray(value) == truths[name]).all() for name, value in present.items())
        return is_met if present or not is_met else None

    def _lead(self, content: Content, feeds: dict[str, Value]) -> None:
        """Give the divisor of a quotient, if it is an input, values with exact quotients."""
        value = feeds.get(content.source)
        is_input = content.form == "quotient" and content.source in self._specs
        if is_input and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            feeds[content.source] = np.resize(_POWERS, value.shape).astype(value.dtype)

    def _followed(self, content: Content, feeds: Mapping[str, Value]) -> Value:
        """The value that the content of an input depends on."""
        if content.form not in _FOLLOWING:
            return None
        return self._evaluate([content.source], feeds).get(content.source)


def _content(
    spec: InputSpec, content: Content, usual: Value, source: Value, rng: np.random.Generator
) -> Value:
    """The content of an input; raises `FeedError` where its type cannot hold it."""
    if content.form == "present":
        return usual if content.value else None
    if content.form == "length":
        return _lengthened(usual, int(content.value))
    if not isinstance(usual, np.ndarray):
        raise FeedError(f"input {spec.name!r} holds no tensor")
    if spec.element_type == TensorProto.STRING:
        return np.full(usual.shape, str(content.value), np.object_)
    numbers = _numbers(content, usual, source, rng)
    dtype = numpy_dtype(spec.element_type)
    with np.errstate(all="ignore"):
        array = np.broadcast_to(numbers, usual.shape).astype(dtype)
    if usual.dtype.kind in "iu" and not np.array_equal(
        array, np.broadcast_to(numbers, array.shape)
    ):
        raise FeedError(f"input {spec.name!r} cannot hold {content.value}")
    return array


def _numbers(
    content: Content, usual: np.ndarray, source: Value, rng: np.random.Generator
) -> np.ndarray:
    if content.form == "fill":
        return np.full(usual.shape, content.value)
    if content.form == "sum":
        return _summed(usual, content)
    if content.form == "nonzero":
        numbers = np.zeros(usual.shape)
        places = rng.permutation(usual.size)[: int(content.value)]
        numbers.reshape(-1)[places] = rng.integers(1, 6, places.size)
        return numbers
    if content.form == "steps":
        columns = np.arange(usual.shape[-1] if usual.ndim else 1) * content.value
        start = usual[..., :1] if usual.ndim else usual
        return np.asarray(start + columns if usual.ndim else usual)
    if not isinstance(source, np.ndarray) or source.dtype.hasobject:
        raise FeedError("the value that an input follows is not known")
    followed = source.astype(usual.dtype if usual.dtype.kind in "iu" else np.float64)
    try:
        followed = np.broadcast_to(followed, usual.shape)
    except ValueError as error:
        raise FeedError("the value that an input follows has another shape") from error
    with np.errstate(all="ignore"):
        if content.form == "copy":
            return np.asarray(followed + content.value)
        return np.asarray(
            content.value - followed if content.form == "less" else content.value / followed
        )


def _summed(usual: np.ndarray, content: Content) -> np.ndarray:
    """The usual numbers, changed to have a sum along axes: all floats by the same difference, of
    integers only the first.
    """
    axes = content.axes or tuple(range(usual.ndim))
    numbers = usual.astype(np.float64 if usual.dtype.kind == "f" else np.int64)
    difference = content.value - numbers.sum(axis=axes, keepdims=True)
    if usual.dtype.kind == "f":
        count = usual.size // max(1, difference.size)
        return np.asarray(numbers + difference / max(1, count))
    is_first = np.ones(usual.shape, bool)
    for axis in axes:
        shape = [1] * usual.ndim
        shape[axis] = usual.shape[axis]
        is_first &= (np.arange(usual.shape[axis]) == 0).reshape(shape)
    return np.asarray(np.where(is_first, numbers + difference, numbers))


def _lengthened(usual: Value, length: int) -> Value:
    """A sequence of some length, whose items differ."""
    if not isinstance(usual, list) or not usual or length < 0:
        raise FeedError("it is no sequence")
    items: list[Value] = []
    for place in range(length):
        item = usual[place % len(usual)]
        is_float = isinstance(item, np.ndarray) and item.dtype.kind == "f"
        items.append(np.asarray(item * (1 + place)).astype(item.dtype) if is_float else item)
    return items


def mask_plans(feeding: Feeding, names: Sequence[str]) -> Iterator[Planning]:
    """Plans in which one of the masks keeps nothing, one position of each row, or all but one."""
    usual = feeding.styled("mask", Style())

    def planning(name: str, keeps_one: bool | None) -> Planning:
        def plan(sizes: Sizes, run: int, gentle: bool) -> RunPlan:
            base = usual(sizes, run, gentle)
            value = base.feeds[name]
            if not isinstance(value, np.ndarray) or not value.ndim:
                raise FeedError(f"input {name!r} has no rows")
            mask = np.zeros(value.shape, bool)
            if keeps_one is not None:
                rng = np.random.default_rng(base.seed)
                places = rng.integers(0, max(1, value.shape[-1]), value.shape[:-1])[..., None]
                mask = (np.arange(value.shape[-1]) == places) == keeps_one
            feeds = feeding.held({**base.feeds, name: mask.astype(value.dtype)})
            return RunPlan("mask", base.sizes, base.seed, feeds)

        return plan

    for name in names:
        yield from (planning(name, keeps_one) for keeps_one in (None, True, False))
