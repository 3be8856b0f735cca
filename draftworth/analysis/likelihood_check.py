"""Judges if a variant's outputs are the target's, by the likelihoods that a model gives them."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

from draftworth.records import likelihoods
from draftworth.records.load_shapes import Load

# Accepted share of correct servers that a check calls wrong.
FALSE_ALARMS = 0.01


@dataclass(frozen=True, kw_only=True)
class DiffersSooner:
    """Greedy outputs at a load differ from the baseline's sooner than correct servers' do.

    outputs, differing: number of outputs, and of those that differ. tokens: how many tokens were
    equal before the differences, in all outputs. of_control: the correct servers are baseline and
    control; else they are the baseline's own repeats. rounding_share: the share of tokens at which
    correct servers differ by rounding.
    """

    load: Load
    outputs: int
    differing: int
    tokens: int
    of_control: bool
    rounding_share: float


@dataclass(frozen=True, kw_only=True)
class AnswersCheck:
    """Whether a variant's outputs are the target's.

    is_the_targets: False if they are shown to differ, True if nothing shows it, None if not known.
    evidence: what it was judged by; None: outputs that do not differ.
    """

    variant: str
    is_the_targets: bool | None
    evidence: likelihoods.ModelsCheck | DiffersSooner | None


def judged(check: likelihoods.ModelsCheck) -> AnswersCheck:
    """Judge whether a variant's outputs are the target's, by the likelihoods of their tokens."""
    is_the_targets: bool | None
    match check:
        case likelihoods.Likelihood():
            most = NormalDist().inv_cdf(1 - FALSE_ALARMS / 2)
            is_the_targets = abs(check.deviation) <= most
        case likelihoods.GreedyLikelihood():
            is_the_targets = check.chance > FALSE_ALARMS
        case likelihoods.DraftLikelihood():
            is_the_targets = _by_draft(check)
    return AnswersCheck(variant=check.variant, is_the_targets=is_the_targets, evidence=check)


def judged_variants(checks: Iterable[likelihoods.ModelsCheck]) -> set[str]:
    """Return the variants for which a model could tell if their outputs are the target's."""
    return {check.variant for check in map(judged, checks) if check.is_the_targets is not None}


def _by_draft(check: likelihoods.DraftLikelihood) -> bool | None:
    """Return whether a draft finds a variant's outputs as likely as the baseline's.

    True: the interval of the difference (nats per token) is within `DRAFT_MARGIN_NATS` of 0.
    False: it is not, and lacks 0 (for 1% of correct servers, by chance). None: too few prompts.
    """
    low, high = check.low, check.high
    if low is None or high is None:
        return None
    if low >= -likelihoods.DRAFT_MARGIN_NATS and high <= likelihoods.DRAFT_MARGIN_NATS:
        return True
    return False if low > 0 or high < 0 else None
