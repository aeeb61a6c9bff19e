"""Operators that change nothing: neutral elements, identities, one operand only."""
