"""Parts of tensors, taken and concatenated: Slice, Gather, Split and Concat."""
