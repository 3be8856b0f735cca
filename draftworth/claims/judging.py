"""Reads a claims file, and judges its published figures by a run.

docs/decisions/0035-four-words-for-a-claim.md says what the four results of judging a claim mean.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from draftworth.analysis.limits import why_not_comparable
from draftworth.analysis.pairing import TRAFFIC_MIX, Traffic
from draftworth.analysis.statistics import ends_of_ratio
from draftworth.decision.facts import RunFacts, VariantFacts
from draftworth.decision.reasons import Doubt
from draftworth.decision.verdict import not_the_targets
from draftworth.experiment import search_settings, strict_model, variants
from draftworth.experiment.validation_errors import json_excerpt, shape_problems
from draftworth.experiment.yaml_source import read_source
from draftworth.metrics.definitions import INPUT_TOKENS, OUTPUT_TOKENS
from draftworth.records.findings import ClaimAnswer, ClaimFinding
from draftworth.records.results import MAX_TEMPERATURE
from draftworth.report.csv_files import figure_rows
from draftworth.report.reason_sentences import words_of

Text = Annotated[str, Field(min_length=1, max_length=300)]
Ends = Annotated[tuple[strict_model.PositiveInt, ...], Field(min_length=2, max_length=2)]


class Conditions(strict_model.StrictModel):
    """The conditions under which a figure holds; one that is left out may have any value."""

    target: Text | None = None
    """Hugging Face id of the target model"""
    release: Text | None = None
    """release of the catalogue, as in neuron-2.26.1"""
    temperature: Annotated[float, Field(ge=0, le=MAX_TEMPERATURE)] | None = None
    """sampling temperature; 0: greedy"""
    prompt_class: Text | None = None
    """class of the prompts, or `traffic mix`"""
    concurrency: strict_model.PositiveInt | None = None
    input_tokens: Ends | None = None
    """lowest and highest median of the prompts' lengths, as the server counts them"""
    output_tokens: Ends | None = None
    """lowest and highest median of the outputs' lengths"""
    variant: Text | None = None
    """the variant's name; runs of `measure` and `compare` have no other condition of a variant"""
    method: Text | None = None
    """how tokens are drafted; none: the baseline"""
    draft: Text | None = None
    """Hugging Face id of the draft"""
    window: variants.Window | None = None
    windows: search_settings.Windows | None = None
    """for the figure best_window: the windows of which it is the best"""


class Claim(Conditions):
    """One published figure; a condition that it sets replaces the whole file's for the same key."""

    claim: Text
    """what was published, in words"""
    source: Text
    """who published it, and where"""
    figure: Text
    """name of the figure in figures.csv, as in itl_speedup; names have their units"""
    against: Conditions | None = None
    """the claim is about the figure / the same figure under these other conditions"""
    relation: Literal["equal", "at_least", "at_most"] = "equal"
    """whether the figure equals the value, or the value is the lowest or highest promised"""
    value: strict_model.PositiveFloat
    """the published figure"""
    tolerance_percent: Annotated[float, Field(ge=0.1, le=50)]
    """how far a figure may be from the value; 20: by a factor of 1.2"""

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest figure that agree with the claim."""
        factor = 1 + self.tolerance_percent / 100
        low, high = self.value / factor, self.value * factor
        return {"equal": (low, high), "at_least": (low, inf), "at_most": (0.0, high)}[self.relation]


class ClaimsFile(Conditions):
    """Figures that somebody published, and the conditions that they share."""

    claims: Annotated[tuple[Claim, ...], Field(min_length=1, max_length=100)]
    """the published figures"""


def conditions_of(*conditions: Conditions) -> dict[str, Any]:
    """Return the conditions that a figure must fit, as values by key, such as `temperature`.

    Keys without a value are left out.
    conditions: those of the claims file, then those of a claim and, if it compares two figures,
        those of the second figure. If several have a key, the last value counts.
    """
    keys = Conditions.model_fields
    return {k: v for one in conditions for k, v in one if k in keys and v is not None}


def read_claims(path: Path) -> ClaimsFile:
    """Read and check a claims file; raise UserInputError with every problem found."""
    source = read_source(path, example="experiments/claims/published.yaml")
    try:
        return ClaimsFile.model_validate(source.data)
    except ValidationError as error:
        raise source.refused(shape_problems(error, source.data, ClaimsFile)) from error


# A row of figures.csv by column, together with the value that the run has for each condition of a
# claim, by the condition's key (None: the run has no such value).
_Row = Mapping[str, Any]


def judge(claims: ClaimsFile, facts: RunFacts) -> tuple[ClaimFinding, ...]:
    """Return for each claim whether the run reproduces it."""
    rows = [*_rows_with_conditions(facts)] if facts.run.result.status != "failed" else []
    return tuple(_judged(rows, claims, claim) for claim in claims.claims)


def _judged(all_rows: Sequence[_Row], claims: ClaimsFile, claim: Claim) -> ClaimFinding:
    rows = [row for row in all_rows if row["figure"] == claim.figure]
    sides = [(claims, claim), *([(claims, claim, claim.against)] if claim.against else [])]
    fitting = [_fitting(conditions_of(*conditions), rows) for conditions in sides]
    answer: ClaimAnswer = "not comparable"
    explanation = next((why for _, why in fitting if why), "")
    if not explanation:
        value, low, high = _measured([row for row, _ in fitting])
        doubt = next(filter(None, (row["doubt"]() for row, _ in fitting)), "")
        answer = "inconclusive" if doubt else _answer(claim, low, high)
        ends = "no interval" if low is None else f"{low:.4g} to {high:.4g}"
        claimed = "claimed is {:.4g} to {:.4g}".format(*claim.ends).replace("to inf", "or more")
        explanation = f"{claim.figure} is {value:.4g} ({ends}), {claimed}{doubt and f'; {doubt}'}"
    sentence = f"{claim.claim}: {answer}: {explanation} ({claim.source})."
    return ClaimFinding(claim=claim.claim, answer=answer, sentence=sentence)


def _answer(claim: Claim, low: float | None, high: float | None) -> ClaimAnswer:
    least, most = claim.ends
    if low is None or high is None or low < least <= high or low <= most < high:
        return "inconclusive"
    return "reproduced" if least <= low and high <= most else "not reproduced"


def _measured(rows: Sequence[_Row]) -> tuple[float, float | None, float | None]:
    """Return (value, low, high) of the measured figure that a claim is about.

    low and high are the ends of its interval; None: it has none.
    rows: the row of figures.csv that has the figure. If there are two rows, the claim is about the
        first row's figure / the second row's. The interval of this ratio ignores that both rows
        have the same prompts.
    """
    if len(rows) == 1:
        return rows[0]["value"], rows[0].get("low"), rows[0].get("high")
    value = rows[0]["value"] / rows[1]["value"] if rows[1]["value"] else math.inf
    halves = [math.log(row["high"] / row["low"]) / 2 for row in rows if row.get("low")]
    return value, *ends_of_ratio(value, math.hypot(*halves) if len(halves) == 2 else math.inf)


def _fitting(conditions: _Row, rows: Sequence[_Row]) -> tuple[_Row, str]:
    """Return (the row that fits all conditions, ""); if not exactly one fits, ({}, why, in words).

    conditions: the values that a claim requires, by key. rows: the rows of figures.csv with the
        claimed figure, each with the run's value for every condition.
    """
    unlike = [
        [
            f"{key} is {json_excerpt(row[key])}, not {json_excerpt(wanted)}"
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


def _agrees(key: str, wanted: Any, actual: Any) -> bool:
    if actual and key.endswith("_tokens"):
        return bool(wanted[0] <= min(actual) and max(actual) <= wanted[1])
    return {*wanted} <= {*(actual or ())} if key == "windows" else bool(actual == wanted)


def _rows_with_conditions(facts: RunFacts) -> Iterator[_Row]:
    for row in figure_rows(facts):
        variant_facts = [
            v
            for v in facts.variants
            if (v.name, v.summary.group.load.label) == (row.get("variant"), row.get("load"))
            and row["prompt_class"] in (v.summary.group.prompt_class, TRAFFIC_MIX)
        ]
        if variant_facts and isinstance(row.get("value"), int | float):
            yield {
                **_conditions(facts, variant_facts),
                **row,
                "doubt": partial(_doubt, facts, variant_facts),
            }


def _conditions(facts: RunFacts, variant_facts: Sequence[VariantFacts]) -> _Row:
    serving, name = facts.run.result.serving, variant_facts[0].name
    decoding = serving.decoding.get(name) if serving else None
    candidates = facts.run.search.search.candidates if facts.run.search else ()
    drafts = {candidate.variant: candidate.draft for candidate in candidates}
    return {
        "target": serving.target_model if serving else facts.run.blocks[0].model,
        "release": serving.release if serving else None,
        "temperature": facts.run.result.temperature,
        "concurrency": variant_facts[0].summary.group.load.in_flight,
        "input_tokens": [n for v in variant_facts if (n := v.value(INPUT_TOKENS))],
        "output_tokens": [n for v in variant_facts if (n := v.value(OUTPUT_TOKENS))],
        **{key: getattr(decoding, key, None) for key in ("method", "draft", "window")},
        "windows": [c.window for c in candidates if c.draft == drafts.get(name)],
    }


def _doubt(facts: RunFacts, variant_facts: Sequence[VariantFacts]) -> str:
    """Return why a variant's figures are not believed, in words; empty if nothing speaks against.

    A doubt about the traffic mix holds for its classes too, which may have too few requests to show
    it.
    """
    run, name = facts.run, variant_facts[0].name
    sides = {run.result.baseline: 0, name: 0}
    classes = {v.summary.group.prompt_class: 1.0 for v in variant_facts}
    traffic = Traffic(weights=classes, load=variant_facts[0].summary.group.load)
    reason = (
        why_not_comparable(run.blocks, traffic, run.result.limits, [*sides])
        or not_the_targets(facts.answers, sides)
        or next(_doubts_about(facts, traffic, name), None)
    )
    return words_of(reason) if reason else ""


def _doubts_about(facts: RunFacts, traffic: Traffic, variant: str) -> Iterator[Doubt]:
    for comparison in facts.comparisons:
        compared = comparison.traffic
        is_within = compared.load == traffic.load and {*traffic.weights} <= {*compared.weights}
        if comparison.doubt and comparison.variant == variant and is_within:
            yield comparison.doubt
