"""One pass of a model over outputs that exist, on CPU: what it would have said, and how likely."""
