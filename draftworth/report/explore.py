"""The page of `report --explore`: one HTML file whose script judges a run for a reader's choices.

For the traffic mix, load, prices, limits and tokens a day that a reader chooses, `explore.js`
computes what `analysis` computes. What these choices do not change is computed here: the pairs of
requests, and the latencies that a limit is about.
"""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from markupsafe import Markup

from draftworth.analysis import clustering
from draftworth.analysis.answer import best_of, choices_of, verdict_of
from draftworth.analysis.facts import RunFacts, weights_of
from draftworth.analysis.handover import next_step
from draftworth.analysis.limits import LATENCIES, LIMIT_REQUESTS, latency_p95, why_not_comparable
from draftworth.analysis.pairing import Pair, Traffic, paired
from draftworth.analysis.ratios import cost_amounts, pair_amounts
from draftworth.analysis.statistics import CONFIDENCE
from draftworth.analysis.summary import groups_of, summarize
from draftworth.analysis.verdict import INDIFFERENCE, not_the_targets
from draftworth.errors import DraftworthError
from draftworth.metrics.definitions import OUTPUT_THROUGHPUT, SECONDS_PER_HOUR, slot_usd_per_second
from draftworth.records.codec import dump_json
from draftworth.records.judgement import Judgement
from draftworth.records.results import CONTROL, BlockResult, RunResult
from draftworth.report import words
from draftworth.report.brief import answer_of
from draftworth.report.writing import filled, write_files

PAGE = "explore.html"
SCRIPT = Path(__file__).with_name("templates") / "explore.js"


def write_exploration(facts: RunFacts, folder: Path, *, root: Path | None = None) -> Path:
    """Write `explore.html`, return its path; raise DraftworthError if the run has no decision.

    root: see `write_files`.
    """
    answer, choices = answer_of(facts), choices_of(facts)
    if answer.serve is None:
        raise DraftworthError(
            f"--explore: given a run without a decision ({answer.decision.rstrip('.')}), allowed: "
            f"a run with one; next: {next_step(facts, choices)}"
        )
    script = SCRIPT.read_text(encoding="utf-8")
    asked = questions_of(facts)
    page = filled(
        "explore.html.jinja",
        answer=answer,
        asked=asked,
        interval=words.INTERVAL,
        decided_at=best_of(choices).traffic.load.label,
        # In a script element, only `<` can begin a tag or a comment.
        data=Markup(dump_json(asked).decode().replace("<", r"\u003c")),  # noqa: S704
        script=Markup(script),  # noqa: S704 (a file of this package)
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    write_files({PAGE: page.encode()}, folder, root=root)
    return folder / PAGE


def questions_of(facts: RunFacts) -> dict[str, Any]:
    """Return what `explore.js` reads: the run's figures, and the rules of a verdict."""
    result, groups = facts.run.result, groups_of(facts.run.blocks)
    variants = [*dict.fromkeys(c.variant for c in choices_of(facts))]
    prices = (slot_usd_per_second(result.price, name) for name in (result.baseline, *variants))
    weights = weights_of(facts.run)
    ordered = sorted({group.load for group in groups}, key=lambda load: load.order)
    loads = [_at_load(facts, Traffic(weights=weights, load=load), variants) for load in ordered]
    return {
        "verdict": asdict(verdict_of(facts)),
        "baseline": result.baseline,
        "variants": variants,
        "classes": [*weights],
        "weights": [*weights.values()],
        "prices": [price and price * SECONDS_PER_HOUR for price in prices],
        "limits": vars(result.limits),
        "latencies": [{"name": name, "limit": limit} for name, _, limit in LATENCIES],
        "not_the_targets": [
            not_the_targets(facts.answers, (result.baseline, name)) for name in variants
        ],
        "rules": {
            "confidence": CONFIDENCE,
            "indifference": INDIFFERENCE,
            "min_prompts": clustering.MIN_PROMPTS,
            "many_repetitions": clustering.MANY_REPETITIONS,
            "many_degrees": clustering.MANY_DEGREES,
            "normal_quantile": clustering.student_t(0.5 + CONFIDENCE / 2, clustering.MANY_DEGREES),
            "requests_for_a_limit": LIMIT_REQUESTS,
        },
        "tones": {judgement: judgement.tone for judgement in Judgement},
        "loads": loads,
    }


def _at_load(facts: RunFacts, traffic: Traffic, variants: Sequence[str]) -> dict[str, Any]:
    blocks, result, load = facts.run.blocks, facts.run.result, traffic.load
    baseline = [summarize(blocks, group, result.baseline) for group in traffic.groups]
    return {
        "label": load.label,
        "words": f"{load.words} ({load.label})",
        "has_cost_per_token": load.has_cost_per_token,
        "tokens_per_s": [found.value(OUTPUT_THROUGHPUT) for found in baseline],
        "variants": [_beside(blocks, traffic, result, name) for name in variants],
        "control": _beside(facts.control, traffic, result, CONTROL),
    }


def _beside(
    blocks: Sequence[BlockResult], traffic: Traffic, result: RunResult, variant: str
) -> dict[str, Any]:
    """Return the variant's pairs of requests with the baseline; for each class, return their
    number, the reason if they allow no verdict, and 95th percentiles of the variant's latencies."""
    sides = (result.baseline, variant)
    pairs = paired(blocks, traffic, variant=variant, baseline=result.baseline)
    return {
        "name": variant,
        "pairs": _amounts(pairs, [*traffic.weights]) if traffic.load.has_cost_per_token else [],
        "classes": [
            {
                "label": group.label,
                "pairs": sum(pair.prompt_class == group.prompt_class for pair in pairs),
                "why_not": why_not_comparable(blocks, Traffic.of(group), result.limits, sides),
                "p95s": [
                    found and vars(found)
                    for _, field, _ in LATENCIES
                    for found in [latency_p95(blocks, group, variant, field)]
                ],
            }
            for group in traffic.groups
        ],
    }


def _amounts(pairs: Iterable[Pair], classes: Sequence[str]) -> list[tuple[float, ...]]:
    """Return each pair's class and clusters as numbers, and seconds and tokens of both sides."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    return [
        (
            classes.index(pair.prompt_class),
            *(numbers[name] for name in (place.stratum, place.prompt, place.block)),
            *(numbers[name] for name in (place.repetition, place.case)),
            *both[0],
            *both[1],
        )
        for pair in pairs
        for place in [pair.place]
        if (both := pair_amounts(pair, cost_amounts))
    ]
