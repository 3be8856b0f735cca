"""A note: a setting that is allowed, but probably not intended."""

from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "more-in-flight-than-seats",
    "rate-takes-more-warm-up",
    "prompts-longer-than-input-tokens",
    "output-length-is-fixed",
    "outputs-are-sampled",
    "sampling-is-doubtful",
    "verdict-holds-for-few-starts",
    "region-is-new",
    "value-is-an-example",
    "driver-does-not-fit",
    "standard-support-ends",
    "nodes-are-on-hold",
    "no-administrator",
    "api-is-private",
    "hub-token-is-missing",
    "draft-window-is-not-known",
    "draft-may-be-refused",
    "heads-may-be-refused",
    "baseline-as-shipped-takes-a-slot",
    "baseline-as-shipped-is-the-baseline",
    "model-is-not-pinned",
    "stop-needs-a-price",
    "price-is-doubtful",
    "search-ends-with-few-candidates",
    "search-ends-early",
    "run-ends-unfinished",
    "run-may-end-unfinished",
    "stop-leaves-out-a-candidate",
    "block-is-too-short",
    "budget-is-below-the-block",
]


@dataclass(frozen=True)
class Note:
    """A sentence on a setting that is probably not intended, and on what to do about it.

    code: names the rule that yields the note; it stays if the sentence is worded differently.
    """

    code: Code
    sentence: str
