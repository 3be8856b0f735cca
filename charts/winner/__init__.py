"""The measured winner of a run as files that can be applied to another cluster."""
