"""Advice in messages, and who reads it; for the command line."""

from xoptim.facts.advice import (
    PYTHON as PYTHON,
    Advice as Advice,
    current_reader as current_reader,
    on_command_line as on_command_line,
)
