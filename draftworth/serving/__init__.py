"""The `vllm serve` command of one variant in each dialect, and the key of its compiled graphs."""
