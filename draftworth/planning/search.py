"""Makes the measuring Job's search from the one in the experiment file."""

from draftworth.experiment.catalog import catalog
from draftworth.experiment.forecast import Forecast
from draftworth.experiment.model import Experiment
from draftworth.experiment.variants import Speculative, Variant
from draftworth.records.search import Candidate, Search

# The step cost of a method without published figures.
_UNKNOWN_STEP_COST = (0.0, 0.5)


def search_of(spec: Experiment, forecast: Forecast) -> Search | None:
    """Return the search, in which every speculative variant is a candidate; None without one."""
    if spec.search is None:
        return None
    facts, stop = catalog().methods[spec.search.method], spec.search.stop
    drafting = [v for v in spec.served_variants if isinstance(v, Speculative)]
    return Search(
        candidates=tuple(
            Candidate(
                variant=variant.name,
                draft=variant.draft.given,
                draft_size=_gib(variant) / _gib(drafting[0]),
                window=variant.window,
                checked=spec.max_tokens_per_step(variant) - 1,
                is_asked_for=variant in spec.variants,
            )
            for variant in drafting
        ),
        drafts_read_text=facts.draft == "causal_lm",
        step_cost_per_draft=facts.step_cost_per_draft or _UNKNOWN_STEP_COST,
        forecast=forecast,
        within=stop.within,
        hours=stop.hours,
        usd=stop.usd,
        tokens_per_day=stop.tokens_per_day,
        days=stop.days,
    )


def _gib(variant: Variant) -> float:
    """Return the size of the draft's weights; all unknown drafts count as equal."""
    facts = variant.hub_draft.facts if variant.hub_draft else None
    return facts.checkpoint_gib if facts and facts.checkpoint_gib else 1.0
