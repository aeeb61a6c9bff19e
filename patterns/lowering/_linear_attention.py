"""Base of the lowerings of LinearAttention: the operands and their sizes."""

from typing import Any, ClassVar, Final

from onnx import TensorProto

from xoptim.match import GraphView, Match, PatternBuilder
from xoptim.match.trace import Optional, Symbol

from .._nodes import size_along
from ._lowering import _Lowering

_ATTRIBUTES: Final = frozenset(
    ("q_num_heads", "kv_num_heads", "scale", "chunk_size", "update_rule")
)
_DEFAULT_RULE: Final = "gated_delta"


class _LowerLinearAttention(_Lowering):
    """LinearAttention with a state for each head.

    Refuses when:
    1. a size or the number of heads is not known, or 0.
    2. the number of heads of queries or keys does not divide the number of states. Or the state is
       absent, or an attribute is not supported.
    3. decay or beta, if the update rule uses it, is absent or does not have one number for each
       head. (decay may also have one for each key feature of each head.)
    4. the type is not float32.
    """

    min_opset = 13
    operand_types = {"q": frozenset((TensorProto.FLOAT,))}  # (4)
    operand_ranks = {"q": 3, "k": 3, "v": 3, "past": 4}
    derives: ClassVar[tuple[str, ...]] = ("rule", "sizes", "shared", "decays")

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        past: Symbol,
        decay: Optional,
        beta: Optional,
    ) -> Any:
        return g.op.LinearAttention(
            *(q, k, v, past, decay, beta),
            domain="com.microsoft",
            outputs=2,
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, (_, *sizes) = m.nodes[0], g.get_shape(m.past)
        widths = [g.get_shape(name)[2] for name in (m.q, m.k, m.v)]
        if not all(isinstance(size, int) and size > 0 for size in (*sizes, *widths)):  # (1)
            return self.none(node, msg="a size is not known, or 0")
        heads, key, _ = sizes
        shared = [m.written["q_num_heads"], widths[1] // key]
        if not set(m.written) <= _ATTRIBUTES or any(
            not count or heads % count for count in shared
        ):  # (2)
            return self.none(
                node, msg="an attribute is unsupported, or heads do not divide the number of states"
            )
        rule = m.written.get("update_rule", _DEFAULT_RULE)
        decays, rates = (size_along(g, name, 2) if name else 0 for name in (m.decay, m.beta))
        has_decay = not is_gated(rule) or decays in (heads, heads * key)
        if not has_decay or (is_delta(rule) and rates != heads):  # (3)
            return self.none(node, msg="decay or beta is absent, or has an unsupported size")
        return m.derive(rule=rule, sizes=sizes, shared=shared, decays=decays)


def is_step(g: GraphView, m: Match) -> bool:
    """Whether queries, keys and values have one token."""
    return all(g.get_shape(name)[1] == 1 for name in (m.q, m.k, m.v))


def is_gated(rule: str) -> bool:
    """Whether the state decays with this update rule."""
    return rule in ("gated", "gated_delta")


def is_delta(rule: str) -> bool:
    """Whether a new value replaces the old value of its key, instead of being added to it."""
    return rule in ("delta", "gated_delta")
