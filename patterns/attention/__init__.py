"""Attention: softmax(q · kᵀ) · v as one operator, its operands and its results."""
