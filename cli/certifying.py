"""The option ``--certificate`` of the commands that optimize and compare."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click

from xoptim import proof
from xoptim.workflow.outcome import Outcome

from .files import STANDARD_OUTPUT, writable
from .preparation import Changes


@dataclass(frozen=True)
class CertifiedFile:
    """The file of a certificate, and the digest of the original model before a file is written."""

    path: Path
    original: str

    @classmethod
    def of(
        cls, path: Path | None, model: Path, target: Path, changes: Changes
    ) -> CertifiedFile | None:
        """The file that ``--certificate`` names, if any.

        Raises `click.UsageError`, before any work, when the file cannot be written, or the result
        cannot be certified.
        """
        if path is None:
            return None
        if STANDARD_OUTPUT in (path, target):
            raise click.UsageError("--certificate is about files; give -o FILE and a file name")
        if path.absolute() in (model.absolute(), target.absolute()):
            raise click.UsageError(f"--certificate {str(path)!r} would replace a model")
        if not changes.read().is_empty:
            raise click.UsageError(
                "--certificate is about the optimization alone; apply other changes (--fix, "
                "--rename, ...) in a first run, and optimize its result with --certificate"
            )
        return cls(writable(path), proof.certificate.fingerprint(model))

    def write(self, outcome: Outcome) -> Outcome:
        """Write the certificate, if the result was written and has proofs, and add its file."""
        proofs = outcome.verified.proofs
        if not outcome.written or proofs is None:
            return outcome
        result = proof.certificate.fingerprint(outcome.written[0])
        proof.certificate.Certificate(
            self.original, result, outcome.assumptions, proofs.obligations
        ).write(self.path)
        return replace(outcome, written=[*outcome.written, self.path])
