"""Copies one model from the hub into the checkpoints bucket; READY means that it is complete."""
