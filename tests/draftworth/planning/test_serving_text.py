"""What a plan says of a winner that goes on serving, and what the measuring Job is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from draftworth.errors import UserInputError
from draftworth.experiment.afterwards import ServeHere, ServeOnDevices
from draftworth.experiment.aws import CapacityBlock
from draftworth.experiment.patterns import EXAMPLE_RESERVATION
from draftworth.planning.advice import notes
from draftworth.planning.resolved import ResolvedExperiment, ResolvedNeuron, load
from draftworth.planning.run_specification import Server, nodes_of_winner, run_spec, serving_limits
from draftworth.planning.serving_text import serving_advice, serving_lines
from draftworth.planning.timeline import forecast
from tests.conftest import ROOT
from tests.draftworth.measuring.specifications import endpoint
from tests.support.experiments import changed, changed_aws, on_small_nodes, resolved, with_rounds
from tests.support.timelines import BY_HAND

UNTIL = datetime(2026, 12, 1, 8, tzinfo=UTC)


def serving(experiment: ResolvedNeuron | None = None, **values: Any) -> ResolvedNeuron:
    after = ServeOnDevices(**{"kind": "serve", "budget_usd": 40.0, **values})
    return changed(experiment or with_rounds(), after=after)


def lines(experiment: ResolvedExperiment, *, hours: float = 1000.0) -> Iterator[str]:
    """Of a deploy so many hours before `UNTIL`."""
    run = forecast(experiment, BY_HAND) if isinstance(experiment, ResolvedNeuron) else None
    return serving_lines(experiment, run=run, now=UNTIL - timedelta(hours=hours))


def test_where_nothing_stays_nothing_is_said() -> None:
    assert [*lines(with_rounds())] == []
    assert serving_limits(with_rounds()) is None
    assert [*serving_advice(with_rounds(), run=None, now=UNTIL)] == []


def test_a_plan_says_until_when_where_and_for_how_much() -> None:
    usd = resolved().node_price.usd_per_hour
    _, first, second = lines(serving(serve_until=UNTIL))
    assert "until 2026-12-01 08:00 UTC, at most until it has cost 40 USD" in first
    assert f"1 x trn2.48xlarge, {usd:.2f} USD an hour for at most {40 / usd:.1f} hours" in second
    assert "a probe every 60 s" in second
    _, first, _ = lines(serving())
    assert "serving at most until it has cost 40 USD" in first


def test_in_a_capacity_block_its_end_is_told_and_no_budget() -> None:
    block = CapacityBlock(kind="capacity_block", reservation_id=EXAMPLE_RESERVATION)
    _, first, second = lines(serving(changed_aws(with_rounds(), capacity=block)))
    assert "serving at most until 40 minutes before its Capacity Block ends" in first
    assert "after.budget_usd is no limit there" in first
    assert "USD " not in f"{first}{second}"


def test_without_a_price_no_cost_is_made_up() -> None:
    unpriced = serving(changed_aws(with_rounds(), price=None))
    assert "1 x trn2.48xlarge, whose price is not known" in [*lines(unpriced)][2]
    with pytest.raises(UserInputError, match="python -m draftworth price"):
        serving_limits(unpriced)


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (-60, "2026-12-01 08:00 UTC, which is past: no winner would go on serving"),
        (0, "which is past: no winner would go"),
        (60, "08:00 UTC, which is 60 minutes from now; a first run is over 110 to 218 minutes"),
        (109, "after its deploy begins: no winner would go on serving; give a later time"),
        (111, "after its deploy begins: the winner may not go on serving; give a later time"),
        (219, ""),
    ],
)
def test_an_end_before_the_run_is_over_is_noted_and_still_loads(minutes: float, said: str) -> None:
    experiment = serving(serve_until=UNTIL)
    run = forecast(experiment, BY_HAND)
    told = [*notes(experiment, run=run, now=UNTIL - timedelta(minutes=minutes))]
    about = [note for note in told if "after.serve_until" in note]
    assert len(about) == bool(said)
    assert all(said in note for note in about)


def test_the_hours_of_serving_end_with_their_time() -> None:
    """The run takes 110 minutes at best, and 40 USD last for 4.7 hours."""
    experiment = serving(serve_until=UNTIL)
    assert "for at most 4.7 hours" in [*lines(experiment, hours=10)][2]
    assert "for at most 3.2 hours" in [*lines(experiment, hours=5)][2]
    assert "for at most 0.0 minutes" in [*lines(experiment, hours=1)][2]


@pytest.mark.parametrize("repetitions", [1, 2])
def test_in_every_slot_all_nodes_of_the_run_are_paid(repetitions: int) -> None:
    """As the capacity controller keeps them, also where a variant has its slots on one node."""
    apart = changed(on_small_nodes(with_rounds()), repetitions=repetitions)
    usd = apart.node_price.usd_per_hour
    assert apart.placement.nodes == 2
    for replicas, nodes in (("one", 1), ("every_slot", 2)):
        experiment = serving(apart, replicas=replicas)
        limits = serving_limits(experiment)
        assert limits
        assert nodes_of_winner(experiment) == nodes
        assert set(limits.usd_per_hour.values()) == {nodes * usd}
        words = f"{nodes} x trn2.3xlarge, {nodes * usd:.2f} USD an hour for"
        assert words in [*lines(experiment)][2]


def test_the_limits_are_the_files() -> None:
    limits = serving_limits(serving(serve_until=UNTIL, probe_seconds=30))
    assert limits
    assert (limits.serve_until_unix_s, limits.budget_usd) == (UNTIL.timestamp(), 40.0)
    assert limits.probe_seconds == 30
    variant = with_rounds().variants[0].name
    hours = 40 / limits.usd_per_hour[variant]
    assert limits.ends_at_unix_s(variant, 0.0) == pytest.approx(3600 * hours)
    assert limits.ends_at_unix_s(variant, UNTIL.timestamp() - 60) == UNTIL.timestamp()
    unlimited = replace(limits, serve_until_unix_s=None)
    assert unlimited.ends_at_unix_s(variant, 1e9) == pytest.approx(1e9 + 3600 * hours)


def test_a_rehearsal_counts_what_this_machine_is_taken_to_cost() -> None:
    experiment = load(ROOT / "experiments/rehearsal-serve.yaml")
    after, limits = experiment.spec.after, serving_limits(experiment)
    assert isinstance(after, ServeHere)
    assert limits
    assert limits.usd_per_hour == {v.name: after.usd_per_hour for v in experiment.variants}
    assert "this machine, 1.00 USD an hour for at most 0.8 minutes" in [*lines(experiment)][2]


def test_the_run_specification_has_what_stays_and_not_how_long() -> None:
    def made(experiment: ResolvedNeuron) -> Any:
        servers = {v.name: [_server(v.name)] for v in experiment.variants}
        return run_spec(experiment, servers=servers, ready_deadline_seconds=None)

    assert made(with_rounds()).after is None
    assert made(serving()).after.replicas == "one"
    assert made(serving(replicas="every_slot")).after.replicas == "every_slot"
    assert made(serving(budget_usd=1.0)) == made(serving(budget_usd=2.0))


def _server(name: str) -> Server:
    return Server(base_url=endpoint(name, 0).base_url, name=name)
