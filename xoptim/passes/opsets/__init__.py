"""Other operator sets: a model is raised or lowered to one of them, and computes the same
afterwards.
"""
