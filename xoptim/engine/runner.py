"""Run passes within an optimization."""

from collections.abc import Iterable, Sequence
from time import perf_counter

from xoptim.engine.applier import PASSED_ON, TAG
from xoptim.engine.events import Application
from xoptim.engine.state import State
from xoptim.facts.errors import XoptimError
from xoptim.graph.model import Changes, Model, watching
from xoptim.match.rewrite import Condition, ModelPass, unmet


def run_passes(passes: Iterable[ModelPass], model: Model, state: State) -> int:
    """Run passes in order, except unusable ones; returns the number of changes.

    A step reports its changes itself. Any other pass counts as one rewrite: the model is cleaned
    afterwards, and a pass that raises is skipped from then on.

    Raises `XoptimError` under strict options when a pass raises, or when a condition that it
    requires or ensures does not hold. Conditions that a pass ensures are not checked again before
    the next pass.
    """
    total, guarantees = 0, frozenset[Condition]()
    for item in passes:
        if state.is_usable(item, model.opsets.get("", 0)):
            _check(
                item,
                "requires",
                [name for name in item.requires if name not in guarantees],
                model,
                state,
            )
            total += (
                _run_step(item, model, state) if item.is_step else _run_rewrite(item, model, state)
            )
            _check(item, "ensures", item.ensures, model, state)
            guarantees = frozenset(item.ensures)
    return total


def _check(
    item: ModelPass, verb: str, conditions: Sequence[Condition], model: Model, state: State
) -> None:
    problem = unmet(model, conditions) if conditions and state.options.strict else ""
    if problem:
        raise XoptimError(f"pass {item.name()} {verb} {', '.join(conditions)}: {problem}")


def _run_step(step: ModelPass, model: Model, state: State) -> int:
    if step.name():
        state.events.send("starting", step.name())
    start = perf_counter()
    count = step.run_in(model, state)
    if step.name():
        state.events.send("timed", step.name(), seconds=perf_counter() - start, count=count)
    return count


def _run_rewrite(rewrite: ModelPass, model: Model, state: State) -> int:
    if state.is_exhausted:
        return 0
    state.events.send("starting", rewrite.name())
    start, count = perf_counter(), 0
    with watching(model) as changes:
        try:
            count = rewrite.run_in(model, state)
        except PASSED_ON:
            raise
        except Exception as error:  # the code of a pass may raise anything
            state.fail(rewrite, None, error)
        if changes.count:
            state.clean(list(model.graphs()))
    _report(rewrite, model, state, changes, max(count, 1), perf_counter() - start)
    return changes.count


def _report(
    rewrite: ModelPass, model: Model, state: State, changes: Changes, count: int, seconds: float
) -> None:
    name, added = rewrite.name(), changes.added_nodes
    if changes.first is None:  # the pass changed nothing, or only the metadata of the model
        state.events.send("tried", name, seconds=seconds, tried=1)
        return
    if state.options.tag_nodes:
        for node in added:
            node.metadata = {TAG: name, **(node.metadata or {})}
    # No matched nodes are recorded: the changes of a pass cannot be run as a model of their own.
    application = Application(state.rewrites + 1, rewrite, changes.first, model.graph, (), ())
    state.applied(application, added, changes.removed_nodes, seconds, count)
