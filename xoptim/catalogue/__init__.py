"""Fourth floor: which patterns there are, and which of them run."""
