"""What goes wrong before a server is healthy, and what it costs by the controller's ledger.

Before there were canaries and wrappers that report, nobody noticed such a server for 225 minutes.
"""

from __future__ import annotations

import pytest

from tests.end_to_end.conftest import DRAFT, TARGET, Environment, FirstRun
from tests.end_to_end.stand_ins import (
    give_up_staging,
    ledger,
    paid_minutes,
    report_canaries,
    wrappers,
)

pytestmark = [pytest.mark.synth, pytest.mark.emulator]

# The best case of `plan`: node_start_minutes and image_pull_minutes of its assumptions.
BOOT_MINUTES = 6
CRASH_LOOP_MINUTES, REFUSED_LOAD_MINUTES, COMPILATION_MINUTES = 15, 30, 130
LOG = ("Traceback (most recent call last):", "RuntimeError: nrt_init failed: no devices")


def begun(env: Environment, first_run: FirstRun) -> None:
    """The node is up and has the images; the Job's pod has begun to wait for its servers."""
    env.stage(first_run.contents)
    env.put("results", {f"runs/{env.job_name}-89abcdef/journal/0001-0000-started.json": b"{}"})
    env.cloud.heartbeat(after_minutes=BOOT_MINUTES - 2)


def check_ended(env: Environment, *, at_most_minutes: float) -> str:
    """The nodes go; neither their end nor the hours after it cost more than a drain.

    The mail about it.
    """
    cloud, paid = env.cloud, paid_minutes(env)
    assert 0 < paid <= at_most_minutes
    price = env.experiment.node_price.usd_per_hour
    assert ledger(env).spent_usd == pytest.approx(paid / 60 * price)
    assert cloud.desired_nodes == 0
    cloud.nodes_follow()
    cloud.heartbeat(after_minutes=2)
    assert paid_minutes(env) == pytest.approx(paid + 2)
    cloud.heartbeat(after_minutes=120)
    assert paid_minutes(env) == pytest.approx(paid + 2)
    told = cloud.notifications()
    assert len(told) == 1, told[1][:300]
    return told[0]


def test_a_server_that_ends_at_every_start(env: Environment, first_run: FirstRun) -> None:
    begun(env, first_run)
    broken, other = wrappers(env)
    other.says("starting")
    for _ in range(3):
        broken.says("starting")
        env.cloud.heartbeat(after_minutes=2)
        broken.says("ended", exit_code=1, last_lines=LOG)
    assert env.cloud.desired_nodes == 1
    broken.says("given_up", exit_code=1, last_lines=LOG, reason="3 starts, and never healthy")
    told = check_ended(env, at_most_minutes=CRASH_LOOP_MINUTES)
    assert all(words in told for words in ("server gave up", LOG[-1], broken.variant, "3 starts"))


def test_a_compiled_graph_that_does_not_load(env: Environment, first_run: FirstRun) -> None:
    begun(env, first_run)
    for wrapper in wrappers(env):
        wrapper.says("starting")
    broken = wrapper
    for _ in range(3):
        for _ in range(3):
            env.cloud.heartbeat(after_minutes=2)
        broken.says("ended", exit_code=70, last_lines=LOG)
        broken.says("starting")
    env.cloud.heartbeat(after_minutes=2)
    broken.says("given_up", exit_code=70, last_lines=LOG, reason="3 loads, and never healthy")
    told = check_ended(env, at_most_minutes=REFUSED_LOAD_MINUTES)
    assert "artifacts EXPERIMENT --run" in told


def test_a_first_compilation_that_hangs(env: Environment, first_run: FirstRun) -> None:
    """No wrapper gives up, and the Job waits: the controller's own limit ends it."""
    begun(env, first_run)
    for wrapper in wrappers(env):
        wrapper.says("starting")
    minutes = 0
    while env.cloud.desired_nodes:
        minutes += 2
        assert minutes < COMPILATION_MINUTES
        env.cloud.heartbeat(after_minutes=2)
    told = check_ended(env, at_most_minutes=COMPILATION_MINUTES)
    assert "no server ready" in told


def test_a_slow_compilation_is_left_its_time(env: Environment, first_run: FirstRun) -> None:
    begun(env, first_run)
    slow, other = wrappers(env)
    for wrapper in (slow, other):
        wrapper.says("starting")
    for _ in range(11):
        env.cloud.heartbeat(after_minutes=10)
    slow.says("healthy")
    for _ in range(4):
        env.cloud.heartbeat(after_minutes=10)
    assert env.cloud.desired_nodes == 1


def check_nothing_paid(env: Environment) -> str:
    """No node came up, and none does; the one mail about it."""
    (told,) = env.cloud.notifications()
    env.cloud.heartbeat(after_minutes=60)
    env.cloud.nodes_follow()
    assert (env.cloud.desired_nodes, env.cloud.instances) == (0, 0)
    assert (paid_minutes(env), ledger(env).spent_usd) == (0, 0)
    return told


def test_a_canary_that_fails_costs_nothing(env: Environment, first_run: FirstRun) -> None:
    env.put("checkpoints", first_run.contents["checkpoints"])
    env.cloud.events()
    env.cloud.notifications()
    log = ("mount: ok", "No signing credentials were found in credentials chain")
    report_canaries(env, ok=False, text="checkpoints cannot be read", lines=log)
    told = check_nothing_paid(env)
    assert all(words in told for words in ("canary failed", log[-1], "checkpoints cannot be read"))


def test_a_canary_that_is_silent_costs_nothing(env: Environment, first_run: FirstRun) -> None:
    env.put("checkpoints", first_run.contents["checkpoints"])
    env.cloud.events()
    env.cloud.notifications()
    for _ in range(6):
        env.cloud.heartbeat(after_minutes=2)
    told = check_nothing_paid(env)
    assert all(words in told for words in ("canary is silent", "describe pods", *env.ports))


def test_a_stager_that_gives_up_costs_nothing(env: Environment, first_run: FirstRun) -> None:
    staged = first_run.contents["checkpoints"]
    env.put("checkpoints", {k: v for k, v in staged.items() if k.startswith(f"{DRAFT}/")})
    env.cloud.events()
    env.cloud.notifications()
    give_up_staging(env, TARGET, "403 of the hub: accept the conditions of the model's page")
    told = check_nothing_paid(env)
    assert all(words in told for words in ("staging failed", TARGET, "accept the conditions"))


def test_a_node_that_spot_replaces_is_paid_for_twice_and_told_once(
    env: Environment, first_run: FirstRun
) -> None:
    env.stage(first_run.contents)
    for wrapper in wrappers(env):
        wrapper.says("healthy")
    env.cloud.start_replacement()
    before = paid_minutes(env)
    for _ in range(7):
        env.cloud.heartbeat(after_minutes=2)
    (told,) = env.cloud.notifications()
    assert "more nodes than desired" in told
    env.cloud.nodes_follow()
    env.cloud.heartbeat(after_minutes=2)
    assert paid_minutes(env) == pytest.approx(before + 2 * 16)
    assert (env.cloud.desired_nodes, env.cloud.instances) == (1, 1)
    assert env.cloud.notifications() == []
