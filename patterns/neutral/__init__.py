"""Operators that change nothing: identities, neutral elements, pairs that cancel."""
