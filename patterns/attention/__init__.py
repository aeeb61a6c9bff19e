"""Attention: softmax(q · kᵀ) · v as one operator, and what it reads and writes."""
