"""Makes predictions of tokens per step, with defaults for what a test does not set."""

from typing import Any

from draftworth.records import likelihoods


def prediction(**overrides: Any) -> likelihoods.Prediction:
    fields: dict[str, Any] = {
        "variant": "k7",
        "prompt_class": "structured",
        "requests": 32,
        "predicted": 7.9,
        "measured": 7.8,
        "shown": 30,
        "same_sequence": 28,
    }
    return likelihoods.Prediction(**{**fields, **overrides})
