"""Judges whether a variant's outputs are the target's, by their likelihoods under a model."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

from draftworth.records import likelihoods
from draftworth.records.load_shapes import Load

# The share (0 to 1) of correct servers that a check may call wrong by chance.
FALSE_ALARMS = 0.01


@dataclass(frozen=True, kw_only=True)
class DiffersSooner:
    """A variant's greedy outputs differ from the baseline's sooner than correct servers' would.

    load: the load at which they do. outputs, differing: number of compared outputs, and of those
    that differ. tokens: number of compared tokens in all outputs, up to and including the first
    difference of each. of_control: True if the correct servers are the baseline and the control
    (the baseline on a second server), False if repeated outputs of the baseline stand for them.
    rounding_share: the largest share of tokens (0 to 1) at which rounding alone makes correct
    servers differ.
    """

    load: Load
    outputs: int
    differing: int
    tokens: int
    of_control: bool
    rounding_share: float


@dataclass(frozen=True, kw_only=True)
class AnswersCheck:
    """Whether a variant's outputs are the target model's.

    is_the_targets: False if the outputs are shown not to be, True if nothing shows this, None if it
        could not be told.
    evidence: the figures that `is_the_targets` follows from. None: the outputs were compared with
        the baseline's, and do not differ from them sooner than those of correct servers do.
    """

    variant: str
    is_the_targets: bool | None
    evidence: likelihoods.ModelsCheck | DiffersSooner | None


def judged(check: likelihoods.ModelsCheck) -> AnswersCheck:
    """Judge whether a variant's outputs are the target model's.

    check: how likely the tokens of the outputs are under the target model or under a draft model.
    """
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
    """Return the variants that are judged to send, or not to send, the target model's outputs.

    The others are those for which the likelihoods of the tokens do not suffice to judge.
    """
    return {check.variant for check in map(judged, checks) if check.is_the_targets is not None}


def _by_draft(check: likelihoods.DraftLikelihood) -> bool | None:
    """Return whether a draft model finds a variant's outputs as likely as the baseline's.

    It is judged by the interval of the difference between the two log-likelihoods per token, in
    nats. True: the whole interval is within `DRAFT_MARGIN_NATS` of 0. False: it is not, and does
    not contain 0; by chance this happens for 1% of correct servers. None: the interval contains 0
    but is too wide, or there are too few prompts for an interval.
    """
    low, high = check.low, check.high
    if low is None or high is None:
        return None
    if low >= -likelihoods.DRAFT_MARGIN_NATS and high <= likelihoods.DRAFT_MARGIN_NATS:
        return True
    return False if low > 0 or high < 0 else None
