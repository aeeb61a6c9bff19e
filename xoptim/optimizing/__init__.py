"""Optimizing one model: the façade of its graph, and the proof of the result."""
