"""What operators compute, element by element; each module registers its operators."""

from xoptim.proof.denotations import movement

__all__ = ["movement"]
