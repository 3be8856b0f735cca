"""Finds the best draft and window: predicts all costs, measures until no other may be better."""
