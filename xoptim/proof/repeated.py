"""Prove the rewrites of repeated layers once: they differ in names and constants only."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import onnx

from xoptim.facts.assumptions import Assumptions
from xoptim.proof.generalizing import generalized
from xoptim.proof.indices import OutOfTime
from xoptim.proof.proving import ConditionalProof, Proof, prove, prove_for_constants
from xoptim.proof.renaming import digest_without_names

Sides: TypeAlias = tuple[onnx.ModelProto, onnx.ModelProto]
_Key: TypeAlias = tuple[tuple[int, ...], bytes]
"""Indices of the inputs that are read as constants, and the digest of a `GeneralizedRewrite`."""


class RepeatedProofs:
    """The proofs of rewrites, which serve for equal rewrites with other names or constants."""

    def __init__(self) -> None:
        self._proofs: dict[bytes, Proof] = {}
        self._conditional_proofs: dict[_Key, ConditionalProof] = {}

    def prove(self, models: Sides, assumptions: Assumptions) -> Proof:
        """The proof of a rewrite; see `xoptim.proof.proving.prove`."""
        return self._for_any_constants(models, assumptions) or self._proved(models, assumptions)

    def _for_any_constants(self, models: Sides, assumptions: Assumptions) -> Proof | None:
        """The proof for all large constants that satisfy some conditions.

        ``None`` where there is none, or a condition does not hold for these constants.
        """
        general = generalized(models)
        if general is None:
            return None
        digest = digest_without_names(general.models, assumptions.texts)
        # at first only constants of one side are read as constants, and shared ones as inputs;
        # then all are constants, so that one may be folded from others
        for names in dict.fromkeys((general.folded, general.names)):
            indices = tuple(map(general.names.index, names))
            key = indices, digest
            if key not in self._conditional_proofs:
                conditional = prove_for_constants(*general.models, names, assumptions)
                self._conditional_proofs[key] = replace(
                    conditional, proof=_plain(conditional.proof)
                )
            conditions = self._conditional_proofs[key].conditions
            if conditions and all(condition.is_of_elements for condition in conditions):
                return None  # two constants are compared: `_proved` may find the same bits
            arrays = [general.arrays[index] for index in indices]
            proof = self._conditional_proofs[key].for_arrays(arrays)
            if proof is not None and proof.is_proved:
                return proof
            if proof is not None and proof.reason == str(OutOfTime()):
                return None
        return None

    def _proved(self, models: Sides, assumptions: Assumptions) -> Proof:
        """The proof of a rewrite, shared by rewrites that differ in names only."""
        key = digest_without_names(models, assumptions.texts)
        if key not in self._proofs:
            self._proofs[key] = _plain(prove(models, assumptions))
        return self._proofs[key]


def _plain(proof: Proof) -> Proof:
    """A proof without the elements of both sides, which have the names of one rewrite."""
    return replace(proof, elements=None)
