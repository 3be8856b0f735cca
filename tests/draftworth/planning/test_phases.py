"""Phases: what waits for what, what is billed, what a limit does."""

from __future__ import annotations

import pytest

from draftworth.planning.bounds import Bounds, exactly
from draftworth.planning.phases import Limit, Phase, Schedule, Span, Timeline, schedule


def phase(
    name: str, minutes: float, *after: str, billed: bool = True, measured: bool = False
) -> Phase:
    bounds = Bounds(minutes, 2 * minutes)
    return Phase(name=name, minutes=bounds, after=after, billed=billed, measured=measured)


PHASES = (
    phase("prepare", 10, billed=False),
    phase("node", 2, "prepare"),
    phase("a", 3, "node"),
    phase("b", 5, "node"),
    phase("work", 20, "a", "b", measured=True),
    phase("gone", 1, "work"),
)


def best(*limits: Limit) -> Schedule:
    return schedule(PHASES, "best", limits=limits)


def limit(name: str, after: str, minutes: float) -> Limit:
    return Limit(name=name, after=after, minutes=exactly(minutes))


def test_a_phase_begins_when_the_slowest_that_it_waits_for_has_ended() -> None:
    run = best()

    assert run.spans["a"] == Span(start=12, end=15)
    assert run.spans["b"] == Span(start=12, end=17)
    assert run.spans["work"] == Span(start=17, end=37)
    assert run.ended_by is None


def test_nodes_are_billed_from_launch_to_release_and_not_before() -> None:
    run = Timeline.of(PHASES)

    assert run.bounds(lambda r: r.billed_minutes) == Bounds(2 + 5 + 20 + 1, 2 * (2 + 5 + 20 + 1))
    assert run.best.billed_minutes_before_first_token == 2 + 5
    assert run.best.measured_minutes == 20


def test_a_limit_cuts_what_runs_and_releases_the_nodes() -> None:
    run = best(limit("deadline", "prepare", 17))

    assert run.ended_by == "deadline"
    assert run.spans["work"] == Span(start=17, end=27, cut=True)
    assert run.spans["gone"] == Span(start=27, end=28)
    assert run.billed_minutes == 2 + 5 + 10 + 1


def test_without_limits_the_same_phases_go_to_their_end() -> None:
    run = best()

    assert run.ended_by is None
    assert run.billed_minutes == 28


@pytest.mark.parametrize("minutes", [27, 27.5, 28, 100])
def test_a_limit_that_is_reached_when_the_work_is_done_cuts_nothing(minutes: float) -> None:
    run = best(limit("deadline", "prepare", minutes))

    assert run.ended_by is None
    assert run.billed_minutes == 28


@pytest.mark.parametrize("minutes", [4, 10])
def test_a_limit_before_the_launch_leaves_no_node(minutes: float) -> None:
    phases = (phase("deploy", 1, billed=False), phase("prepare", 10, "deploy", billed=False))
    deadline = limit("deadline", "deploy", minutes)
    run = schedule((*phases, *PHASES[1:]), "best", limits=[deadline])

    assert run.ended_by == "deadline"
    assert run.billed_minutes == 0
    assert run.billed_minutes_before_first_token == 0
    assert "node" not in run.spans
    assert "gone" not in run.spans


def test_a_phase_that_ends_at_the_limit_is_complete_and_nothing_follows_it() -> None:
    run = best(limit("deadline", "prepare", 2))

    assert run.spans["node"] == Span(start=10, end=12)
    assert "a" not in run.spans
    assert run.billed_minutes == 2 + 1


def test_a_limit_in_the_middle_of_parallel_phases_starts_nothing_new() -> None:
    run = best(limit("deadline", "prepare", 4))

    assert run.spans["a"] == Span(start=12, end=14, cut=True)
    assert run.spans["b"] == Span(start=12, end=14, cut=True)
    assert "work" not in run.spans
    assert run.billed_minutes == 2 + 2 + 1
    assert run.billed_minutes_before_first_token == run.billed_minutes
    assert run.measured_minutes == 0


def test_the_first_limit_wins() -> None:
    run = best(limit("late", "prepare", 20), limit("soon", "node", 6))

    assert run.ended_by == "soon"
    assert run.billed_minutes == 2 + 6 + 1
