"""Fewer bits, within an error that the user allows: which products are rounded, and what that
gives.
"""
