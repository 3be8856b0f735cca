"""Which methods a release serves, in words, and why one is served nowhere here."""

from __future__ import annotations

from draftworth.errors import Key, Problem
from draftworth.experiment.catalog import NO_SPECULATION, catalog


def methods_on(release: str) -> str:
    """`none (the baseline), eagle3, dflash on neuron-2.33.0`."""
    served = catalog().releases[release].methods
    return f"{', '.join([f'{NO_SPECULATION} (the baseline)', *served])} on {release}"


def unserved_method(key: Key, method: str, release: str) -> Problem:
    """The problem of a method that exists and cannot be measured here, with what can be instead."""
    facts = catalog().unserved_methods[method]
    return Problem(
        key=key,
        given=f"{method} on release {release}",
        allowed=f"{methods_on(release)}; in the place of {method}: {facts.instead}",
        reason=facts.because,
    )
