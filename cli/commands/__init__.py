"""The commands, one a file: ``new_pattern.py`` defines ``new_pattern_command``, which is ``xopt
new-pattern``.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

import click

COMMANDS: Final[tuple[click.Command, ...]] = tuple(
    getattr(import_module(f"{__name__}.{module.name}"), f"{module.name}_command")
    for module in iter_modules(__path__)
)
"""All commands."""
GROUPS: Final = {
    "Commands": ("optimize", "explain", "verify", "bench", "tune"),
    "Many models": ("batch", "check"),
    "One model, or two": ("place", "stats", "diff", "extract"),
    "Patterns": ("list", "apply", "new-pattern"),
    "Looking for defects": ("bisect", "replay", "doctor"),
    "Shells": ("completion",),
}
"""The names of all commands as the help lists them, the frequent ones first."""
MOVED: Final = {
    "find": "xopt explain MODEL PATTERN --matches",
    "infer": "xopt extract MODEL -o FILE, without --from and --to",
    "mine": "python -m lab.discovery.mine, in the repository of xoptim",
    "report": "xopt diff FIRST SECOND --html FILE",
    "sensitivity": "xopt MODEL --precision int8 --dry-run -v",
    "show": "xopt list PATTERN",
}
"""Commands that became options of others: what to write instead."""
