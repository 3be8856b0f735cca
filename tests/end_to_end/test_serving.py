"""A winner that goes on serving: its run is complete, its traffic drifts, its budget is spent.

What the measuring Job says of it (`kept.json`, probes) is put there by hand.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from charts.names import server_name
from draftworth.analysis.drift import LOOKS_NEEDED, has_drifted
from draftworth.records.codec import dump_record
from draftworth.records.live import KeptWinner
from draftworth.records.results import RUN_FILE
from tests.end_to_end.conftest import (
    DEADLINE_MINUTES,
    Environment,
    FirstRun,
    Synthesis,
    new_environment,
    synthesis_of,
)
from tests.end_to_end.programs import ledger
from tests.end_to_end.stand_ins import wrappers
from tests.support.blocks import make_run
from tests.support.live import make_probe

pytestmark = [pytest.mark.synth, pytest.mark.emulator]

WINNER = "qwen3-1.7b-k7"
SERVING_BUDGET_USD = 50.0
ALARM = "AWS::CloudWatch::Alarm"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    after = {"kind": "serve", "budget_usd": SERVING_BUDGET_USD}
    return synthesis_of(tmp_path_factory.mktemp("serving"), after=after)


@pytest.fixture
def env(serving: Synthesis, first_run: FirstRun, tmp_path: Path) -> Iterator[Environment]:
    """Deployed and staged, the node is up and both servers are healthy."""
    with new_environment(*serving, tmp_path) as made:
        made.cloud.deploy()
        made.stage(first_run.contents)
        for wrapper in wrappers(made):
            wrapper.says("healthy")
        yield made


def run_id_of(env: Environment) -> str:
    return f"{env.job_name}-89abcdef"


def complete(env: Environment, *, kept: bool = True) -> None:
    """What the measuring Job writes at the end of its run."""
    run_id = run_id_of(env)
    (winner,) = (v for v in env.experiment.variants if v.name == WINNER)
    said = KeptWinner(
        run_id=run_id,
        variant=WINNER,
        servers=(server_name(winner.slot),),
        since_unix_s=env.cloud.now_unix_s,
    )
    files = {f"runs/{run_id}/{RUN_FILE}": dump_record(make_run(run_id=run_id))}
    if kept:
        files = {f"runs/{run_id}/kept.json": dump_record(said), **files}
    env.put("results", files)
    assert env.cloud.events() == 1


def probe(env: Environment, *tokens_per_step: float) -> None:
    """A look a minute, the last one now; the break-even is 2."""
    now, count = time.time(), len(tokens_per_step)
    for index, tokens in enumerate(tokens_per_step):
        margins = [tokens / 2 for tokens in tokens_per_step[: index + 1]]
        look = make_probe(
            drifted=has_drifted(margins),
            run_id=run_id_of(env),
            number=1 + index,
            ended_at_unix_s=now - 60 * (count - 1 - index),
            tokens_per_step=tokens,
        )
        env.put("results", {look.key: dump_record(look)})


def alarm_rings(env: Environment) -> bool:
    """By the template's words: in the last period the finding was there."""
    (alarm,) = (
        r["Properties"]
        for name, r in env.cloud.templates["benchmark"]["Resources"].items()
        if r["Type"] == ALARM and "Drift" in name
    )
    points: list[dict[str, Any]] = env.cloud.client("cloudwatch").get_metric_statistics(
        Namespace=alarm["Namespace"],
        MetricName=alarm["MetricName"],
        Dimensions=alarm["Dimensions"],
        StartTime=datetime.fromtimestamp(time.time() - 3600, UTC),
        EndTime=datetime.fromtimestamp(time.time() + 3600, UTC),
        Period=alarm["Period"],
        Statistics=[alarm["Statistic"]],
    )["Datapoints"]
    last = sorted(points, key=lambda p: p["Timestamp"])[-alarm["EvaluationPeriods"] :]
    assert len(last) == alarm["EvaluationPeriods"], "too few looks for the alarm to say anything"
    assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
    return all(point[alarm["Statistic"]] >= alarm["Threshold"] for point in last)


def test_the_winner_stays_when_its_run_is_complete_and_goes_when_its_budget_is_spent(
    env: Environment,
) -> None:
    cloud = env.cloud
    complete(env)
    assert (cloud.desired_nodes, cloud.instances) == (1, 1)
    (told,) = cloud.notifications()
    assert WINNER in told
    assert f"of {SERVING_BUDGET_USD:.2f} USD" in told
    hours = SERVING_BUDGET_USD / env.experiment.node_price.usd_per_hour
    cloud.heartbeat(after_minutes=60 * hours - 1)
    assert cloud.desired_nodes == 1
    cloud.heartbeat(after_minutes=2)
    assert cloud.desired_nodes == 0
    (told,) = cloud.notifications()
    assert "serving over" in told
    cloud.nodes_follow()
    assert cloud.instances == 0
    assert ledger(env).serving_usd >= SERVING_BUDGET_USD
    cloud.heartbeat(after_minutes=DEADLINE_MINUTES)
    assert (cloud.desired_nodes, cloud.notifications()) == (0, [])


def test_without_a_winner_the_node_goes_with_its_run(env: Environment) -> None:
    complete(env, kept=False)
    assert env.cloud.desired_nodes == 0
    (told,) = env.cloud.notifications()
    assert "no winner goes on serving" in told


def test_it_serves_beyond_the_deadline_of_the_run(env: Environment) -> None:
    env.cloud.heartbeat(after_minutes=DEADLINE_MINUTES - 5)
    complete(env)
    env.cloud.heartbeat(after_minutes=30)
    assert env.cloud.desired_nodes == 1


@pytest.mark.parametrize(("looks", "rings"), [(3, False), (LOOKS_NEEDED, True)])
def test_the_alarm_rings_when_enough_looks_are_below_break_even(
    env: Environment, looks: int, *, rings: bool
) -> None:
    complete(env)
    probe(env, *[3.0] * LOOKS_NEEDED, *[1.5] * looks)
    published = {entry["event"] for entry in env.cloud.publish()}
    assert published == {"published"}
    assert alarm_rings(env) is rings
