"""The measured winner of a run as things that can be applied in another cluster."""
