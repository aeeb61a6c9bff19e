"""Movements, which only rearrange elements: Transpose, Reshape, Flatten, Squeeze and Unsqueeze."""
