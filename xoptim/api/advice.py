"""Names of `xoptim.facts.advice` for the command line: messages name options as the shell or as
Python takes them.
"""

from xoptim.facts.advice import (
    PYTHON as PYTHON,
    Advice as Advice,
    current_reader as current_reader,
    on_command_line as on_command_line,
)
