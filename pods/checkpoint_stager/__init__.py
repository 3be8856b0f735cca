"""Copies one model from Hugging Face to S3, and marks a complete copy with `_READY.json`."""
