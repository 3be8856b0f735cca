"""Whether outputs are the target's: by their likelihood under the target itself, or under a draft.

Speculation must not change what is said. Three methods, by what was asked for and what is at hand:

Sampled, read by the target. Two right servers say different things, and only their distribution can
be checked. Where each token is drawn from the target's distribution p, log p(token) + the entropy
of p at its position has the mean 0 given all tokens before it: a martingale difference, whose
variance the target's own distribution gives. So the sum over all tokens of all outputs, divided by
the root of the summed variances, is a standard normal number whatever the texts are about
(martingale central limit theorem; Brown 1971), and one that lies far out shows a sampler that is
not the target's: too likely tokens (a lower temperature, repeats), or too unlikely ones (noise).
The variance is not clustered by prompt: of a right sampler, outputs to one prompt are drawn each
for itself, so their sums have nothing in common, and p says how far they spread. Clustered, the
false alarms are the same and a variance has to be estimated from a few prompts (counted in
tests/draftworth/estimating/test_likelihood.py).

Greedy, read by the target. Each token is the target's most likely one, but for near ties, of which
rounding says either. A right server has a token beyond a near tie in at most one of
`RIGHT_BEYOND` outputs; more, by an exact binomial test, are not the target's.

Read by a draft, where the target does not fit. A draft does not know how likely the target finds a
token. But what is the same text, or drawn from the same distribution, has under any model the same
mean log-likelihood on both sides: the difference, prompt by prompt, has an interval by Student's t,
of 99% for all classes together (Bonferroni). Within a margin both sides are equal, else beside 0
they differ, else there are too few prompts to tell. Each class for itself: noise is less likely
than what a draft knows well and more likely than what it does not know, and over both classes that
may add up to nothing. It sees less than the target does: a draft that finds two texts equally
likely cannot tell them apart.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from draftworth.analysis.clustering import MIN_PROMPTS, student_t
from draftworth.analysis.statistics import at_least
from draftworth.records.likelihoods import (
    FALSE_ALARMS,
    NEAR_TIE_NATS,
    DraftLikelihood,
    GreedyLikelihood,
    Likelihood,
)
from draftworth.records.readings import Reading

# Of a right server, the part of outputs with a token beyond a near tie, at most: those that who
# reads rounds in another way than who served.
RIGHT_BEYOND = 0.05


def likelihood_of(variant: str, readings: Sequence[Reading]) -> Likelihood | None:
    """Check outputs that were sampled; None where the target leaves nothing to chance."""
    variance = math.fsum(r.variance for r in readings)
    if variance <= 0:
        return None
    surplus, tokens = math.fsum(r.log_likelihood + r.entropy for r in readings), _tokens(readings)
    return Likelihood(
        variant=variant,
        outputs=len(readings),
        tokens=tokens,
        deviation=surplus / math.sqrt(variance),
        per_token=surplus / tokens,
    )


def greedy_likelihood_of(variant: str, readings: Sequence[Reading]) -> GreedyLikelihood | None:
    """Check greedy outputs, of each prompt the first; None without any."""
    firsts = [*{_prompt(r): r for r in reversed(readings)}.values()]
    if not firsts:
        return None
    beyond = sum(r.farthest > NEAR_TIE_NATS for r in firsts)
    return GreedyLikelihood(
        variant=variant,
        outputs=len(firsts),
        tokens=_tokens(firsts),
        beyond=beyond,
        farthest=max(r.farthest for r in firsts),
        chance=at_least(beyond, len(firsts), RIGHT_BEYOND),
    )


def draft_likelihoods_of(
    variant: str, readings: Sequence[Reading], baseline: Sequence[Reading], *, draft: str
) -> list[DraftLikelihood]:
    """Compare outputs with the baseline's by what a draft says, class by class."""
    own, others = _by_prompt(readings), _by_prompt(baseline)
    differences: defaultdict[str, list[float]] = defaultdict(list)
    for prompt in sorted(own.keys() & others.keys()):
        differences[prompt[0]].append(own[prompt] - others[prompt])
    false_alarms = FALSE_ALARMS / max(1, len(differences))
    return [
        _draft_likelihood(
            values,
            false_alarms,
            variant=variant,
            prompt_class=name,
            draft=draft,
            outputs=sum(r.prompt_class == name and _prompt(r) in others for r in readings),
        )
        for name, values in differences.items()
    ]


def _draft_likelihood(
    differences: Sequence[float],
    false_alarms: float,
    *,
    variant: str,
    prompt_class: str,
    draft: str,
    outputs: int,
) -> DraftLikelihood:
    """Of one class; without an interval with too few prompts."""
    count, mean = len(differences), statistics.fmean(differences)
    half = None
    if count >= MIN_PROMPTS:
        t = student_t(1 - false_alarms / 2, count - 1)
        half = t * statistics.stdev(differences) / math.sqrt(count)
    return DraftLikelihood(
        variant=variant,
        prompt_class=prompt_class,
        draft=draft,
        prompts=count,
        outputs=outputs,
        difference=mean,
        low=None if half is None else mean - half,
        high=None if half is None else mean + half,
    )


def _by_prompt(readings: Iterable[Reading]) -> dict[tuple[str, str, str], float]:
    """Mean over a prompt's outputs of their log-likelihood a token: as many or few as there are."""
    found: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for reading in readings:
        found[_prompt(reading)].append(reading.log_likelihood / _tokens([reading]))
    return {prompt: statistics.fmean(values) for prompt, values in found.items()}


def _prompt(reading: Reading) -> tuple[str, str, str]:
    return reading.prompt_class, reading.case, reading.prompt_id


def _tokens(readings: Iterable[Reading]) -> int:
    return sum(len(r.hits) + 1 for r in readings)
