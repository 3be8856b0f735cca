"""Tables that show how likely a model finds the outputs, and the predicted tokens per step."""

from collections.abc import Sequence

from draftworth.analysis.likelihood_check import judged
from draftworth.records import likelihoods
from draftworth.report.document import Section, Table, table
from draftworth.report.words import ABOUT, MISSING, yes_or_no


def likelihood_tables(found: Sequence[likelihoods.ModelsCheck]) -> tuple[Table, ...]:
    """Return a table for each kind of check: of sampled outputs, of greedy ones, and by drafts."""
    by_target = (_sampled_cells(f) for f in found if isinstance(f, likelihoods.Likelihood))
    greedy = (_greedy_cells(f) for f in found if isinstance(f, likelihoods.GreedyLikelihood))
    by_draft = (_draft_cells(f) for f in found if isinstance(f, likelihoods.DraftLikelihood))
    return (
        *table(_SAMPLED_HEADINGS, by_target, names=2),
        *table(_GREEDY_HEADINGS, greedy, names=2),
        *table(_DRAFT_HEADINGS, by_draft, names=4),
    )


_SAMPLED_HEADINGS = (
    *("variant", "drawn from the target", "outputs", "tokens"),
    *("log-likelihood a token, beside the target's own (nats)", "in standard errors"),
)
_GREEDY_HEADINGS = (
    *("variant", "what the target says", "outputs", "tokens"),
    *("outputs with a token beyond a near tie", "furthest below the most likely (nats)"),
)
_DRAFT_HEADINGS = (
    *("variant", "class", "as the baseline's", "read by", "prompts", "outputs"),
    *("log-likelihood a token, beside the baseline's (nats)", "99% interval"),
)


def _sampled_cells(found: likelihoods.Likelihood) -> tuple[str, ...]:
    return *_judged_cells(found), f"{found.per_token:+.3f}", f"{found.deviation:+.1f}"


def _greedy_cells(found: likelihoods.GreedyLikelihood) -> tuple[str, ...]:
    return *_judged_cells(found), str(found.beyond), f"{found.farthest:.2f}"


def _judged_cells(
    found: likelihoods.Likelihood | likelihoods.GreedyLikelihood,
) -> tuple[str, ...]:
    told = yes_or_no(judged(found).is_the_targets, no="NO")
    return found.variant, told, str(found.outputs), f"{found.tokens:,}"


def _draft_cells(found: likelihoods.DraftLikelihood) -> tuple[str, ...]:
    told = judged(found).is_the_targets
    known = found.low is not None and found.high is not None
    return (
        *(found.variant, found.prompt_class),
        *(yes_or_no(told, no="NO", unknown="not known"), found.draft),
        *(str(found.prompts), str(found.outputs), f"{found.difference:+.3f}"),
        f"{found.low:+.3f} to {found.high:+.3f}" if known else MISSING,
    )


def predicted_sections(predictions: Sequence[likelihoods.Prediction]) -> tuple[Section, ...]:
    """Return a section on predicted and measured tokens per step; none without predictions."""
    rows = (
        (
            *(p.prompt_class, p.variant, str(p.requests)),
            *(f"{p.predicted:.3f}", f"{p.measured:.3f}", f"{p.difference:+.2%}"),
            f"{p.same_sequence} of {p.shown}",
        )
        for p in predictions
    )
    headings = (
        *("class", "variant", "requests", "tokens a step, predicted", "measured", "difference"),
        "each step as predicted",
    )
    tables = table(headings, rows, names=2)
    if not tables:
        return ()
    title = "Predicted without a server"
    return (Section(title=title, paragraphs=(ABOUT["predicted"],), tables=tables),)
