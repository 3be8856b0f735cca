"""The `vllm serve` command of a variant, and the key under which its compiled graphs are stored.

The command depends on the dialect: how the engine of a release takes its settings.
"""
