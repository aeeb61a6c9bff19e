"""Parts of a tensor that are written: ScatterElements and ScatterND."""
