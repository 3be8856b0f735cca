"""Judges published figures by a run (docs/decisions/0035-four-words-for-a-claim.md)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from draftworth.analysis.facts import RunFacts, VariantFacts
from draftworth.analysis.limits import why_not_comparable
from draftworth.analysis.pairing import TRAFFIC_MIX, Traffic
from draftworth.analysis.statistics import ends_of_ratio
from draftworth.claims.file import Claim, ClaimsFile, conditions_of
from draftworth.experiment.validation_errors import shown
from draftworth.metrics.definitions import INPUT_TOKENS, OUTPUT_TOKENS
from draftworth.records.findings import ClaimAnswer, ClaimFinding
from draftworth.report.tables import figure_rows

# A row of figures.csv, with what the run says of each condition; None: it says nothing.
_Known = Mapping[str, Any]


def judge(claims: ClaimsFile | None, facts: RunFacts) -> tuple[ClaimFinding, ...]:
    """Say of each claim whether the run reproduces it, in the order of the file."""
    known = [*_known(facts)] if claims and facts.run.result.status != "failed" else []
    return tuple(_judged(known, claims, claim) for claim in claims.claims) if claims else ()


def _judged(known: Sequence[_Known], claims: ClaimsFile, claim: Claim) -> ClaimFinding:
    rows = [row for row in known if row["figure"] == claim.figure]
    sides = [(claims, claim), *([(claims, claim, claim.against)] if claim.against else [])]
    found = [_fitting(conditions_of(*given), rows) for given in sides]
    answer: ClaimAnswer = "not comparable"
    told = next((why for _, why in found if why), "")
    if not told:
        value, low, high = _measured([row for row, _ in found])
        doubt = next(filter(None, (row["doubt"]() for row, _ in found)), "")
        answer = "inconclusive" if doubt else _answer(claim, low, high)
        ends = "no interval" if low is None else f"{low:.4g} to {high:.4g}"
        claimed = "claimed is {:.4g} to {:.4g}".format(*claim.ends).replace("to inf", "or more")
        told = f"{claim.figure} is {value:.4g} ({ends}), {claimed}{doubt and f'; {doubt}'}"
    sentence = f"{claim.claim}: {answer}: {told} ({claim.source})."
    return ClaimFinding(claim=claim.claim, answer=answer, sentence=sentence)


def _answer(claim: Claim, low: float | None, high: float | None) -> ClaimAnswer:
    least, most = claim.ends
    if low is None or high is None or low < least <= high or low <= most < high:
        return "inconclusive"
    return "reproduced" if least <= low and high <= most else "not reproduced"


def _measured(rows: Sequence[_Known]) -> tuple[float, float | None, float | None]:
    """Return (value, low, high) of one row's figure or, of two rows, of the first's / the second's;
    then the interval ignores that both rows have the same prompts."""
    if len(rows) == 1:
        return rows[0]["value"], rows[0].get("low"), rows[0].get("high")
    value = rows[0]["value"] / rows[1]["value"] if rows[1]["value"] else math.inf
    halves = [math.log(row["high"] / row["low"]) / 2 for row in rows if row.get("low")]
    return value, *ends_of_ratio(value, math.hypot(*halves) if len(halves) == 2 else math.inf)


def _fitting(conditions: _Known, rows: Sequence[_Known]) -> tuple[_Known, str]:
    """Return (the only row that fits, ""), or if none or several fit: ({}, the reason in words)."""
    unlike = [
        [
            f"{key} is {shown(row[key])}, not {shown(wanted)}"
            for key, wanted in conditions.items()
            if not _agrees(key, wanted, row[key])
        ]
        for row in rows
    ]
    fitting = [row for row, differences in zip(rows, unlike, strict=True) if not differences]
    if len(fitting) > 1:
        labels = (f"{row['prompt_class']} at {row['load']}, {row['variant']}" for row in fitting)
        return {}, f"it may be about {' or '.join(labels)}"
    nearest = min(unlike, key=len, default=["the run failed, or has no such figure"])
    return (fitting[0], "") if fitting else ({}, "; ".join(nearest))


def _agrees(key: str, wanted: Any, found: Any) -> bool:
    if found and key.endswith("_tokens"):
        return bool(wanted[0] <= min(found) and max(found) <= wanted[1])
    return {*wanted} <= {*(found or ())} if key == "windows" else bool(found == wanted)


def _known(facts: RunFacts) -> Iterator[_Known]:
    for row in figure_rows(facts):
        own = [
            v
            for v in facts.variants
            if (v.name, v.summary.group.load.label) == (row.get("variant"), row.get("load"))
            and row["prompt_class"] in (v.summary.group.prompt_class, TRAFFIC_MIX)
        ]
        if own and isinstance(row.get("value"), int | float):
            yield {**_conditions(facts, own), **row, "doubt": partial(_doubt, facts, own)}


def _conditions(facts: RunFacts, own: Sequence[VariantFacts]) -> _Known:
    serving, name = facts.run.result.serving, own[0].name
    decoding = serving.decoding.get(name) if serving else None
    candidates = facts.run.search.search.candidates if facts.run.search else ()
    drafts = {candidate.variant: candidate.draft for candidate in candidates}
    return {
        "target": serving.target_model if serving else facts.run.blocks[0].model,
        "release": serving.release if serving else None,
        "temperature": facts.run.result.temperature,
        "concurrency": own[0].summary.group.load.in_flight,
        "input_tokens": [n for v in own if (n := v.value(INPUT_TOKENS))],
        "output_tokens": [n for v in own if (n := v.value(OUTPUT_TOKENS))],
        **{key: getattr(decoding, key, None) for key in ("method", "draft", "window")},
        "windows": [c.window for c in candidates if c.draft == drafts.get(name)],
    }


def _doubt(facts: RunFacts, own: Sequence[VariantFacts]) -> str:
    """Say why a verdict on a variant's requests would be inconclusive; empty if it would not."""
    run, sides = facts.run, {facts.run.result.baseline: 0, own[0].name: 0}
    classes = {v.summary.group.prompt_class: 1.0 for v in own}
    traffic = Traffic(weights=classes, load=own[0].summary.group.load)
    wrong = (c.words for c in facts.answers if c.variant in sides and c.is_the_targets is False)
    return why_not_comparable(run.blocks, traffic, run.result.limits, [*sides]) or "; ".join(wrong)
