"""Which draft and window is best: predicted, then measured until no other can still beat it."""
