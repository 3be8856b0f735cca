"""What is printed of drafts: which is meant, at which load, and the figures in words."""

from __future__ import annotations

import json
from dataclasses import replace

from draftworth.estimating.card import CardStepCosts
from draftworth.estimating.estimate import DraftEstimate, estimate_of, json_lines, text_lines
from draftworth.estimating.forecast import Range
from draftworth.records.predictions import Prediction
from draftworth.records.readings import Reading

PREDICTED = Prediction(
    variant="k7",
    prompt_class="chat",
    requests=1,
    predicted=2.0,
    measured=2.0,
    shown=1,
    same_sequence=1,
)


def estimate(draft: str, load: str | None, *, outputs: int = 1) -> DraftEstimate:
    readings = [
        Reading(
            id=str(n),
            prompt_class="chat",
            case="case",
            prompt_id=str(n),
            hits="110",
            log_likelihood=-1.0,
            entropy=1.0,
            variance=1.0,
        )
        for n in range(outputs)
    ]
    costs = CardStepCosts(measured={3: Range(low=1.1, high=1.2)}, source="measured", load=load)
    found = estimate_of(draft, readings, {"chat": 1.0}, windows={3: 3}, step_costs=costs)
    return replace(found, predictions=(PREDICTED,))


def test_several_loads_are_named_and_what_servers_did_is_told_once() -> None:
    lines = [*text_lines([estimate("a/draft", "c1"), estimate("a/draft", "c4")])]

    assert [line.split(":")[0] for line in lines if line.startswith("a/draft")] == [
        "a/draft at c1",
        "a/draft at c4",
    ]
    assert sum(line.startswith("Predicted beside measured") for line in lines) == 1


def test_drafts_in_folders_of_one_name_are_told_apart() -> None:
    both = [estimate("a/draft", "c1"), estimate("b/draft", "c1")]

    lines = [*text_lines(both)]

    assert any(line.startswith("a/draft: ") for line in lines)
    assert any(line.startswith("b/draft: ") for line in lines)
    assert sum(line.startswith("Predicted beside measured") for line in lines) == 2
    found = json.loads("\n".join(json_lines(both)))
    assert [(d["draft"], d["draft_folder"], d["load"]) for d in found] == [
        ("draft", "a/draft", "c1"),
        ("draft", "b/draft", "c1"),
    ]


def test_one_output_is_no_outputs_and_the_first_tokens_are_not_counted() -> None:
    (_, one, *_), (_, two, *_) = (
        [*text_lines([estimate("d", None, outputs=number)])] for number in (1, 2)
    )

    assert one.startswith("1 output, 3 tokens after the first of each, of which the draft would")
    assert two.startswith("2 outputs, 6 tokens after the first of each")
