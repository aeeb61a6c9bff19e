"""Write blocks that repeat along a graph, such as the layers of a transformer, once."""
