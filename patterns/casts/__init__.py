"""Changes of the element type: Cast and CastLike."""
