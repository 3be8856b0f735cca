"""What a plan takes from a step-cost card: speeds of the same servers, and from which card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.planning.assumptions import assumption_data
from draftworth.planning.card import by_card
from draftworth.planning.run_specification import serving_facts
from draftworth.records.codec import dump_record
from draftworth.records.findings import StepCost, StepCostCard
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.results import AS_SHIPPED
from draftworth.records.servers import Decoding
from tests.conftest import ROOT
from tests.draftworth.estimating.test_card import cost
from tests.support.experiments import resolved

EXPERIMENT = resolved()
ASSUMED = assumption_data().for_target(EXPERIMENT.spec.target.model)
BASELINE, DRAFTED = (variant.name for variant in EXPERIMENT.variants)
LOAD = EXPERIMENT.loads[0]
FACTS = serving_facts(EXPERIMENT)
QWEN = str(ROOT / "experiments" / "qwen3-32b.yaml")


def plain(seconds: float = 0.040, **other: Any) -> StepCost:
    """A step of the baseline, which yields a token."""
    return replace(cost(BASELINE, seconds, **{"load": LOAD, **other}), tokens_per_step=1.0)


def drafted(seconds: float = 0.080, **other: Any) -> StepCost:
    """Four tokens a step."""
    return cost(DRAFTED, seconds, **{"load": LOAD, **other})


def card(*costs: StepCost, decoding: dict[str, Decoding] | None = None, **facts: Any) -> Any:
    serving = replace(FACTS, decoding={**FACTS.decoding, **(decoding or {})}, **facts)
    return StepCostCard(run_id="r", experiment="x", serving=serving, costs=costs).sealed()


def ends(given: StepCostCard) -> dict[str, tuple[float, float]]:
    rows = by_card(given, EXPERIMENT, ASSUMED)
    return {name: (row.low, row.high) for name, row in rows.items()}


def test_a_token_takes_a_steps_time_by_its_tokens() -> None:
    """Intervals of 10%: 40 ms a token, and 80 ms for four."""
    assert ends(card(plain(), drafted())) == {
        "baseline_ms_per_token": (36.0, 44.0),
        "speculative_ms_per_token": (18.0, 22.0),
    }


def test_what_the_experiment_does_not_have_is_not_taken() -> None:
    """Another load, another window, and the engine with its own defaults."""
    others = {
        "wide": replace(FACTS.decoding[DRAFTED], window=14),
        AS_SHIPPED: Decoding(method="none"),
    }
    given = card(
        plain(),
        plain(9.0, load=ConcurrencyLoad(concurrency=999)),
        replace(drafted(9.0), variant="wide"),
        replace(plain(9.0), variant=AS_SHIPPED),
        decoding=others,
    )

    assert ends(given) == {"baseline_ms_per_token": (36.0, 44.0)}


def test_every_row_names_the_run_and_the_card() -> None:
    given = card(plain(), drafted())
    for row in by_card(given, EXPERIMENT, ASSUMED).values():
        assert row.source.startswith(f"card {given.content_sha256[:12]} of run r: step latency")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            card(plain(), release="neuron-0", instance_type="inf2.48xlarge"),
            r"of other servers \(release neuron-0, here .*; instance_type inf2.*next: plan",
        ),
        (card(plain(), tensor_parallel_size=1), "tensor_parallel_size 1, here"),
        (card(plain(), target_model="another"), "target_model another, here Qwen/Qwen3-32B"),
        (card(plain(load=ConcurrencyLoad(concurrency=999))), "no step of .*, allowed: at c"),
        (card(replace(plain(), step_latency_s=None)), "no step of the experiment's variants"),
        (card(plain(-1.0)), "step_latency_high_s: given .*, allowed"),
        (replace(card(plain()), serving=None), "does not say what served it"),
    ],
)
def test_a_card_of_something_else_is_refused(given: StepCostCard, said: str) -> None:
    with pytest.raises(UserInputError, match=said):
        by_card(given, EXPERIMENT, ASSUMED)


def planned(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["plan", QWEN, *options]) == 0
    return capsys.readouterr().out


def test_the_plan_measures_as_long_as_the_card_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = card(plain(), drafted())
    path = tmp_path / "step_costs.json"
    path.write_bytes(dump_record(given))

    text = planned(capsys, "--card", str(path))

    assert "tokens x baseline_ms_per_token 36 to 44" in text
    assert "speculative_ms_per_token 18 to 22" in text
    assert f"baseline_ms_per_token 36 to 44 ms per token: card {given.content_sha256[:12]}" in text
    assert "baseline_ms_per_token 7" in planned(
        capsys, "--card", str(path), "--assume", "baseline_ms_per_token=7"
    )
    assert "card" not in planned(capsys)


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        (QWEN, "no step-cost card there"),
        (str(ROOT / "experiments/rehearsal.yaml"), "--card, --learn: given"),
    ],
)
def test_a_card_that_is_not_there_or_not_wanted_is_told_alone(
    experiment: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", experiment, "--card", str(tmp_path / "none")]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
