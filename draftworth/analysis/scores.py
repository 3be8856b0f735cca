"""Compares the scores that a user's program gave to outputs of variant and baseline."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.pairing import Pair, Traffic, counting, paired
from draftworth.analysis.spread import spread
from draftworth.analysis.statistics import CONFIDENCE, Estimate
from draftworth.analysis.summary import groups_of
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcripts


@dataclass(frozen=True, kw_only=True)
class ToScore:
    """The baseline's and a variant's output of one prompt, which the user's program is to score."""

    traffic: Traffic
    variant: str
    pair: Pair

    def line(self, transcripts: Transcripts) -> Mapping[str, object]:
        plain, drafted = self.pair.plain, self.pair.drafted
        one, other = transcripts[plain.request_id], transcripts[drafted.request_id]
        return {
            "prompt_class": self.pair.prompt_class,
            "prompt_id": plain.prompt_id,
            "variant": self.variant,
            "baseline_text": one.text,
            "variant_text": other.text,
            "baseline_token_ids": one.token_ids,
            "variant_token_ids": other.token_ids,
        }


@dataclass(frozen=True, kw_only=True)
class ScoreComparison:
    """The mean score of the baseline's outputs, and how far the variant's mean score is from it.

    difference: the variant's mean score minus the baseline's, in the unit of the scores.
    """

    traffic: Traffic
    variant: str
    baseline_mean: float
    difference: Estimate


def to_score(run: Run, transcripts: Transcripts) -> list[ToScore]:
    """Return all pairs of outputs of baseline and variant that can be scored.

    Both requests of a pair have transcripts, succeeded, and have a timing that can be trusted.
    run: without its control (the baseline on a second server).
    """
    baseline = run.result.baseline
    return [
        ToScore(traffic=traffic, variant=variant, pair=pair)
        for group in groups_of(run.blocks)
        for variant in run.result.variants
        if variant != baseline
        for traffic in [Traffic.of(group)]
        for pair in counting(paired(run.blocks, traffic, variant=variant, baseline=baseline))
        if {pair.plain.request_id, pair.drafted.request_id} <= transcripts.keys()
    ]


def compare_scores(
    outputs: Sequence[ToScore], scores: Sequence[tuple[float, float]]
) -> Iterator[ScoreComparison]:
    """Yield a comparison of the mean scores for each traffic and variant.

    scores: (score of the baseline's output, score of the variant's output) for each pair in
    `outputs`, in the same order.
    """
    groups: defaultdict[tuple[str, str], list[tuple[ToScore, float, float]]] = defaultdict(list)
    for output, (plain, drafted) in zip(outputs, scores, strict=True):
        groups[output.traffic.label, output.variant].append((output, plain, drafted))
    for rows in groups.values():
        first, count = rows[0][0], len(rows)
        mean = math.fsum(drafted - plain for _, plain, drafted in rows) / count
        error = spread(
            [o.pair.sample((drafted - plain - mean) / count) for o, plain, drafted in rows]
        )
        half = error.half_width(CONFIDENCE) if error else None
        yield ScoreComparison(
            traffic=first.traffic,
            variant=first.variant,
            baseline_mean=math.fsum(plain for _, plain, _ in rows) / count,
            difference=Estimate(
                value=mean,
                low=None if half is None else mean - half,
                high=None if half is None else mean + half,
                prompts=error.prompts if error else 0,
                blocks=error.blocks if error else 0,
                samples=count,
                repetitions=error.repetitions if error else 0,
            ),
        )
