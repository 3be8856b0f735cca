"""What is told of drafts as JSON: which is meant, at which load."""

from __future__ import annotations

import json
from dataclasses import replace

from draftworth.estimating.card import CardStepCosts
from draftworth.estimating.estimate import DraftEstimate, estimate_of, json_lines
from draftworth.estimating.forecast import Range
from draftworth.records.likelihoods import Prediction
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
    found = estimate_of("target", draft, readings, {"chat": 1.0}, windows={3: 3}, step_costs=costs)
    return replace(found, predictions=(PREDICTED,))


def test_drafts_in_folders_of_one_name_are_told_apart() -> None:
    both = [estimate("a/draft", "c1"), estimate("b/draft", "c1")]

    found = json.loads("\n".join(json_lines(both)))

    assert [(d["draft"], d["draft_folder"], d["load"]) for d in found] == [
        ("draft", "a/draft", "c1"),
        ("draft", "b/draft", "c1"),
    ]


def test_a_window_has_its_cost_in_each_class_and_in_the_traffic() -> None:
    (found,) = json.loads("\n".join(json_lines([estimate("a", None)])))

    (window,) = found["windows"]
    assert window["class_cost_ratios"] == {"chat": window["cost_ratio"]}
    assert found["windows_to_measure"] == []
    assert (found["target"], window["window"], window["drafts_checked"]) == ("target", 3, 3)
