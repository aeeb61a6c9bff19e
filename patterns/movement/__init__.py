"""Elements in another arrangement: Transpose, Reshape, Flatten, Squeeze and Unsqueeze."""
