"""Finds where the experiment's nodes can be bought, and at which price. Nothing is bought here."""
