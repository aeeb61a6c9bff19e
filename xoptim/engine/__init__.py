"""The loop that applies rewrites, and the passes around it."""
