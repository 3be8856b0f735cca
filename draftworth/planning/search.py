"""From an experiment's search to the one that the load generator does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from draftworth.experiment.catalog import catalog
from draftworth.experiment.search import Search as FileSearch
from draftworth.experiment.variants import HubSpeculative, Speculative, Variant
from draftworth.records.search import Candidate, Search

if TYPE_CHECKING:
    from draftworth.planning.resolved import ResolvedVariant

# Of a method of which nothing is published.
_UNKNOWN_STEP_COST = (0.0, 0.5)


def search_of(
    given: FileSearch, variants: Sequence[ResolvedVariant], by_hand: Sequence[Variant]
) -> Search:
    """Every variant that speculates is a candidate."""
    facts = catalog().methods[given.method]
    drafting = [v for v in variants if isinstance(v.spec, Speculative)]
    return Search(
        candidates=tuple(
            Candidate(
                variant=variant.name,
                draft=variant.draft or "",
                draft_size=_size(variant) / _size(drafting[0]),
                window=variant.spec.window,
                checked=variant.max_tokens_per_step - 1,
                is_asked_for=variant.spec in by_hand,
            )
            for variant in drafting
            if isinstance(variant.spec, Speculative)
        ),
        drafts_read_text=facts.draft == "causal_lm",
        step_cost_per_draft=facts.step_cost_per_draft or _UNKNOWN_STEP_COST,
        within=given.stop.within,
        hours=given.stop.hours,
        usd=given.stop.usd,
        tokens_per_day=given.stop.tokens_per_day,
        days=given.stop.days,
    )


def _size(variant: ResolvedVariant) -> float:
    """Of its draft's weights, GiB; where nobody looked it up, all are taken as alike."""
    spec = variant.spec
    facts = spec.draft.facts if isinstance(spec, HubSpeculative) else None
    return facts.checkpoint_gib if facts and facts.checkpoint_gib else 1.0
