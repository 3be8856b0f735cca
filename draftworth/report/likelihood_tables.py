"""Tables of the likelihoods that a model gives outputs, and of predicted tokens per step."""

from collections.abc import Sequence

from draftworth.analysis.likelihood_check import judged
from draftworth.records import likelihoods
from draftworth.report.document import Section, Table, table
from draftworth.report.words import ABOUT, MISSING, yes_or_no


def likelihood_tables(checks: Sequence[likelihoods.ModelsCheck]) -> tuple[Table, ...]:
    """Return the tables of the checks of outputs by likelihoods, one for each kind of check.

    The target judges sampled outputs, the target judges greedy outputs, or a draft judges outputs.
    """
    by_target = (_sampled_cells(f) for f in checks if isinstance(f, likelihoods.Likelihood))
    greedy = (_greedy_cells(f) for f in checks if isinstance(f, likelihoods.GreedyLikelihood))
    by_draft = (_draft_cells(f) for f in checks if isinstance(f, likelihoods.DraftLikelihood))
    return (
        *table(_SAMPLED_HEADINGS, by_target, names=2, title="Sampled outputs, read by the target"),
        *table(_GREEDY_HEADINGS, greedy, names=2, title="Greedy outputs, read by the target"),
        *table(_DRAFT_HEADINGS, by_draft, names=4, title="Outputs, read by a draft"),
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


def _sampled_cells(check: likelihoods.Likelihood) -> tuple[str, ...]:
    return *_judged_cells(check), f"{check.per_token:+.3f}", f"{check.deviation:+.1f}"


def _greedy_cells(check: likelihoods.GreedyLikelihood) -> tuple[str, ...]:
    return *_judged_cells(check), str(check.beyond), f"{check.farthest:.2f}"


def _judged_cells(
    check: likelihoods.Likelihood | likelihoods.GreedyLikelihood,
) -> tuple[str, ...]:
    answer = yes_or_no(judged(check).is_the_targets, no="NO")
    return check.variant, answer, str(check.outputs), f"{check.tokens:,}"


def _draft_cells(check: likelihoods.DraftLikelihood) -> tuple[str, ...]:
    is_the_targets = judged(check).is_the_targets
    has_interval = check.low is not None and check.high is not None
    return (
        *(check.variant, check.prompt_class),
        *(yes_or_no(is_the_targets, no="NO", unknown="not known"), check.draft),
        *(str(check.prompts), str(check.outputs), f"{check.difference:+.3f}"),
        f"{check.low:+.3f} to {check.high:+.3f}" if has_interval else MISSING,
    )


def predicted_sections(predictions: Sequence[likelihoods.Prediction]) -> tuple[Section, ...]:
    """Return the section on predicted and measured tokens per step; empty without predictions."""
    rows = (
        (
            *(p.prompt_class, p.variant, str(p.requests)),
            *(f"{p.predicted:.3f}", f"{p.measured:.3f}", f"{p.difference:+.2%}"),
            f"{p.same_sequence} of {p.shown}",
        )
        for p in predictions
    )
    headings = (
        *("class", "variant", "requests", "tokens per step, predicted", "measured", "difference"),
        "each step as predicted",
    )
    tables = table(headings, rows, names=2)
    if not tables:
        return ()
    title = "Predicted without a server"
    return (Section(title=title, paragraphs=(ABOUT["predicted"],), tables=tables),)
