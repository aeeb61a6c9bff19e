"""Fifth floor: the loop, and the steps around it."""
