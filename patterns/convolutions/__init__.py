"""Windows that slide over a tensor: Conv, ConvTranspose and pooling, with what comes before and
after.
"""
