"""The entry of the metadata about assumptions."""

from tests.support import load
from xoptim.facts.assumptions import ENTRY, Assumptions
from xoptim.passes.guards import NoteAssumptions


def test_the_entry_is_written_and_stays() -> None:
    model = load("agraph (float[n] x) => (float[n] y) { y = Neg(x) }")
    model.assumptions = Assumptions.of(["finite"])
    for _ in range(2):
        assert NoteAssumptions().run(model) == 0
    assert [(each.key, each.value) for each in model.shell.metadata_props] == [(ENTRY, "finite")]
    model.assumptions = Assumptions.of(["n >= 2"])
    NoteAssumptions().run(model)
    assert [(each.key, each.value) for each in model.shell.metadata_props] == [
        (ENTRY, "n >= 2; finite")
    ]
