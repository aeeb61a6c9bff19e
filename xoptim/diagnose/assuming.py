"""Assumptions that would let patterns apply, found by trying them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import onnx

from xoptim.catalogue.selection import Item
from xoptim.diagnose.explain import Explainer, one_pattern
from xoptim.diagnose.explanation import Explanation, locate
from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dtypes import is_float
from xoptim.facts.errors import XoptimError
from xoptim.graph.assumed import open_sizes
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.graph.model import Model

_MOST_SIZES: Final = 8
"""Most assumptions that are tried one by one."""
_MOST_REFUSALS: Final = 3
"""Most refusals for which assumptions are tried."""


def candidates(proto: onnx.ModelProto, known: Assumptions) -> list[str]:
    """Assumptions that hold for most models: no size is 0, and no mask of floating-point numbers hides by infinity."""
    facts = dict(known.sizes)
    sizes = [f"{name} >= 1" for name in open_sizes(proto) if name not in facts or not facts[name].least]
    masks = [
        f"finite({value.name})"
        for value in proto.graph.input
        if "mask" in value.name.lower() and is_float(value.type.tensor_type.elem_type) and not known.has("finite", value.name)
    ]
    return [*sizes, *masks]


def needed(texts: Sequence[str], is_enough: Callable[[Sequence[str]], bool]) -> list[str]:
    """As few of some assumptions as are enough; all of them where there are many."""
    kept = list(texts)
    for text in texts if len(texts) <= _MOST_SIZES else ():
        rest = [each for each in kept if each != text]
        if is_enough(rest):
            kept = rest
    return kept


def option_of(texts: Sequence[str]) -> str:
    """The options of the command that assume something."""
    return " ".join(f"--assume '{text}'" for text in texts)


def with_assumptions(model: Model, pattern: Item, found: Sequence[Explanation], provider: str = "cpu") -> list[Explanation]:
    """The explanations; the nearest misses name the assumptions under which the search would go on, if there are any."""
    near = [each for each in found if each.status == "refused"][:_MOST_REFUSALS]
    proto = export_model(model) if near else onnx.ModelProto()
    texts = candidates(proto, model.assumptions)
    if not texts:
        return list(found)

    def explainer(chosen: Sequence[str]) -> tuple[Model, Explainer]:
        known = Assumptions.of((*model.assumptions.texts, *chosen))
        assumed = load_model(proto, model.base_dir, assumptions=known)
        return assumed, Explainer(assumed, one_pattern(pattern), provider)

    advised: dict[int, Explanation] = {}
    for each in near:
        if _goes_on(each, *explainer(texts)):
            option = option_of(needed(texts, lambda chosen, each=each: _goes_on(each, *explainer(chosen))))  # type: ignore[misc]
            advice = "; ".join(filter(None, (each.advice, f"{option} lifts this")))
            advised[id(each)] = replace(each, advice=advice)
    return [advised.get(id(each), each) for each in found]


def _goes_on(refused: Explanation, model: Model, explainer: Explainer) -> bool:
    """Whether a pattern matches where it was refused, or is refused by a later condition."""
    try:
        node = locate(model, next(filter(None, refused.anchor.outputs)))[0]
        found = explainer.explain(node)
    except (XoptimError, StopIteration, IndexError):
        return False
    return found.matches or found.progress > refused.progress
