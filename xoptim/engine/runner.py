"""Run passes within an optimization."""

from collections.abc import Iterable, Sequence
from time import perf_counter

from xoptim.engine.engine import PASSED_ON, TAG
from xoptim.engine.events import Application
from xoptim.engine.state import State
from xoptim.facts.errors import XoptimError
from xoptim.graph.model import Changes, Model, watching
from xoptim.match.rewrite import Condition, ModelPass, unmet


def run_passes(passes: Iterable[ModelPass], model: Model, state: State) -> int:
    """Run those of some passes that are usable on a model, one after the other.

    Returns the number of changes.

    A step reports its changes itself. Any other pass counts as one rewrite: the model is cleaned
    afterwards, and a pass that raises is skipped from then on. Raises `XoptimError` when the
    options are strict, and a pass raises, or a condition that it requires or ensures does not hold;
    what one pass ensures is not checked again before the next.
    """
    total, held = 0, frozenset[Condition]()
    for each in passes:
        if state.is_usable(each, model.opsets.get("", 0)):
            _check(
                each, "requires", [name for name in each.requires if name not in held], model, state
            )
            total += (
                _run_step(each, model, state) if each.is_step else _run_rewrite(each, model, state)
            )
            _check(each, "ensures", each.ensures, model, state)
            held = frozenset(each.ensures)
    return total


def _check(
    chosen: ModelPass, verb: str, conditions: Sequence[Condition], model: Model, state: State
) -> None:
    wrong = unmet(model, conditions) if conditions and state.options.strict else ""
    if wrong:
        raise XoptimError(f"pass {chosen.name()} {verb} {', '.join(conditions)}: {wrong}")


def _run_step(chosen: ModelPass, model: Model, state: State) -> int:
    start = perf_counter()
    count = chosen.run_in(model, state)
    if chosen.name():
        state.events.send("timed", chosen.name(), seconds=perf_counter() - start, count=count)
    return count


def _run_rewrite(chosen: ModelPass, model: Model, state: State) -> int:
    if state.is_exhausted:
        return 0
    start, count = perf_counter(), 0
    with watching(model) as changes:
        try:
            count = chosen.run_in(model, state)
        except PASSED_ON:
            raise
        except Exception as error:  # the code of a pass may raise anything
            state.fail(chosen, None, error)
        if changes.count:
            state.clean(list(model.graphs()))
    _report(chosen, model, state, changes, max(count, 1), perf_counter() - start)
    return changes.count


def _report(
    chosen: ModelPass, model: Model, state: State, changes: Changes, count: int, seconds: float
) -> None:
    name, added = chosen.name(), changes.added_nodes
    if changes.first is None:  # it changed nothing, or the metadata of the model alone
        state.events.send("tried", name, seconds=seconds, tried=1)
        return
    if state.options.tag_nodes:
        for node in added:
            node.metadata = {TAG: name, **(node.metadata or {})}
    # All changes count as one rewrite. No region is recorded, since none could be run alone.
    application = Application(state.rewrites + 1, chosen, changes.first, model.graph, (), ())
    state.applied(application, added, changes.removed_nodes, seconds, count)
