"""Windows that slide over a tensor: Conv, ConvTranspose and pooling, with what stands before and after."""
