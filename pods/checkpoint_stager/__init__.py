"""Stages one model: copies it from the Hugging Face hub into the checkpoints bucket."""
