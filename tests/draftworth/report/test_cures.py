"""What removes a doubt has a few words, for servers of an experiment and for the user's own."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.decision.run_decision import NextStep
from draftworth.report.brief import COLUMNS
from draftworth.report.cures import cure
from tests.draftworth.report import runs

OWN_SERVERS: dict[str, Any] = {"class_weights": {}}


def words(step: NextStep | None, **overrides: Any) -> str:
    facts = runs.make_facts(runs.make_run(**overrides))
    return cure(replace(facts, decision=replace(facts.decision, next_step=step)))


@pytest.mark.parametrize("step", [*NextStep, None])
def test_only_a_doubt_has_a_cure(step: NextStep | None) -> None:
    cure_words = words(step, **OWN_SERVERS)
    assert bool(cure_words) is (step is not None and step.removes_a_doubt)
    assert len(f"Cure:  {cure_words}") <= COLUMNS


def test_an_experiment_warms_its_servers_up_longer() -> None:
    step = NextStep.MEASURE_WARM_SERVERS
    assert "workload.warmup_requests" in words(step)
    assert "the same servers again" in words(step, **OWN_SERVERS)
