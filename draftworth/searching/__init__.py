"""Finds the best draft and window by measuring until no other is likely to be better."""
