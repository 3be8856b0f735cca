"""Judges if a variant's outputs are the target's, by the likelihoods that a model gives them."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

from draftworth.records import likelihoods

# Accepted share of correct servers that a check calls wrong.
FALSE_ALARMS = 0.01

_WRONG = "its answers are not the target's"
_NOT_KNOWN = "whether its answers are the target's is not known"


@dataclass(frozen=True, kw_only=True)
class AnswersCheck:
    """Whether a variant's outputs are the target's.

    is_the_targets: False if they are shown to differ, True if nothing shows it, None if not known.
    words: the reason; empty if `is_the_targets` is True.
    """

    variant: str
    is_the_targets: bool | None
    words: str


def judged(found: likelihoods.ModelsCheck) -> AnswersCheck:
    """Judge whether a variant's outputs are the target's, by the likelihoods of their tokens."""
    is_the_targets: bool | None
    match found:
        case likelihoods.Likelihood():
            is_the_targets, reason = _sampled(found)
        case likelihoods.GreedyLikelihood():
            is_the_targets, reason = _greedy(found)
        case likelihoods.DraftLikelihood():
            is_the_targets, reason = _by_draft(found)
    problem = _NOT_KNOWN if is_the_targets is None else _WRONG
    words = "" if is_the_targets else f"{found.variant}: {problem}: {reason}"
    return AnswersCheck(variant=found.variant, is_the_targets=is_the_targets, words=words)


def judged_variants(found: Iterable[likelihoods.ModelsCheck]) -> set[str]:
    """Return the variants for which a model could tell if their outputs are the target's."""
    return {check.variant for check in map(judged, found) if check.is_the_targets is not None}


def _sampled(found: likelihoods.Likelihood) -> tuple[bool, str]:
    less = "less" if found.deviation < 0 else "more"
    reason = (
        f"their tokens are {abs(found.per_token):.2f} nats {less} likely than what the target "
        f"draws ({abs(found.deviation):.1f} standard errors, {_counted(found.outputs, 'output')})"
    )
    return abs(found.deviation) <= NormalDist().inv_cdf(1 - FALSE_ALARMS / 2), reason


def _greedy(found: likelihoods.GreedyLikelihood) -> tuple[bool, str]:
    reason = (
        f"{found.beyond} of {found.outputs} have a token that the target would not have said, and "
        f"rounding does not explain (up to {found.farthest:.1f} nats below its most likely one; a "
        f"near tie: {likelihoods.NEAR_TIE_NATS:g})"
    )
    return found.chance > FALSE_ALARMS, reason


def _by_draft(found: likelihoods.DraftLikelihood) -> tuple[bool | None, str]:
    """Return whether a draft finds a variant's outputs as likely as the baseline's, and the reason.

    True: the interval of the difference (nats per token) is within `DRAFT_MARGIN_NATS` of 0.
    False: it is not, and lacks 0 (for 1% of correct servers, by chance). None: too few prompts.
    """
    low, high = found.low, found.high
    prompts = f"{_counted(found.prompts, 'prompt')} of {found.prompt_class}"
    if low is None or high is None:
        return None, f"{prompts} are too few to tell"
    reason = (
        f"under {found.draft} their tokens are {low:+.2f} to {high:+.2f} nats beside the "
        f"baseline's ({prompts}; equal: within {likelihoods.DRAFT_MARGIN_NATS:g})"
    )
    if low >= -likelihoods.DRAFT_MARGIN_NATS and high <= likelihoods.DRAFT_MARGIN_NATS:
        return True, reason
    if low > 0 or high < 0:
        return False, reason
    return None, f"{reason}: too few prompts to tell"


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
