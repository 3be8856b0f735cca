"""Trained models and prompts of others for `make rehearse-real`: fetched, checked, converted."""
