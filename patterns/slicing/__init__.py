"""Parts of tensors, taken and put together: Slice, Gather, Split and Concat."""
