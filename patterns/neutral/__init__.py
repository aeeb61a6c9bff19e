"""Operators that change nothing: identities, neutral elements, and pairs that cancel."""
