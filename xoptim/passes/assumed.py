"""The entry of the metadata about assumptions."""

from xoptim.graph.assumed import note
from xoptim.graph.model import Model
from xoptim.match.rewrite import Step


class NoteAssumptions(Step):
    """Writes into the metadata of a model what was assumed of it beside the default set."""

    title = "note_assumptions"

    def run(self, model: Model) -> int:
        """Write the entry; returns 0, since nothing changes that is computed."""
        note(model.shell, model.assumptions)
        return 0
