"""Updates of a part of a tensor: ScatterElements and ScatterND."""
