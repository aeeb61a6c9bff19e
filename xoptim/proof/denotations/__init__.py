"""What operators compute, element by element; each module registers its operators."""

from xoptim.proof.denotations import arithmetic, movement, sums

__all__ = ["arithmetic", "movement", "sums"]
