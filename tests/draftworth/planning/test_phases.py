"""The event simulation: what waits for what, what is billed, what a limit does."""

from __future__ import annotations

import pytest

from draftworth.planning.assumptions import Bounds
from draftworth.planning.phases import Course, Limit, Phase, Span, simulate


def phase(name: str, minutes: float, *after: str) -> Phase:
    return Phase(name=name, minutes=Bounds(low=minutes, high=2 * minutes), how="", after=after)


def course(*limits: Limit) -> Course:
    """prepare 10, node 2, then a 3 beside b 5, work 20, gone 1."""
    return Course(
        phases=(
            phase("prepare", 10),
            phase("node", 2, "prepare"),
            phase("a", 3, "node"),
            phase("b", 5, "node"),
            phase("work", 20, "a", "b"),
            phase("gone", 1, "work"),
        ),
        launch="node",
        measure="work",
        release="gone",
        limits=limits,
    )


def limit(name: str, after: str, minutes: float) -> Limit:
    return Limit(name=name, after=after, minutes=Bounds(low=minutes, high=minutes))


def test_a_phase_begins_when_the_slowest_that_it_waits_for_has_ended() -> None:
    run = simulate(course(), "low")

    assert run.spans["a"] == Span(start=12, end=15)
    assert run.spans["b"] == Span(start=12, end=17)
    assert run.spans["work"] == Span(start=17, end=37)
    assert run.stopped_by is None


def test_nodes_are_billed_from_launch_to_release_and_not_before() -> None:
    low, high = simulate(course(), "low"), simulate(course(), "high")

    assert low.billed_minutes == 2 + 5 + 20 + 1
    assert low.billed_minutes_before_first_token == 2 + 5
    assert high.billed_minutes == 2 * low.billed_minutes


def test_a_limit_cuts_what_runs_and_releases_the_nodes() -> None:
    run = simulate(course(limit("deadline", "prepare", 17)), "low")

    assert run.stopped_by == "deadline"
    assert run.spans["work"] == Span(start=17, end=27, cut=True)
    assert run.spans["gone"] == Span(start=27, end=28)
    assert run.billed_minutes == 2 + 5 + 10 + 1


def test_without_limits_the_same_course_goes_to_its_end() -> None:
    run = simulate(course(limit("deadline", "prepare", 17)), "low", limited=False)

    assert run.stopped_by is None
    assert run.billed_minutes == 28


@pytest.mark.parametrize("minutes", [27, 27.5, 28, 100])
def test_a_limit_that_is_reached_when_the_work_is_done_cuts_nothing(minutes: float) -> None:
    run = simulate(course(limit("deadline", "prepare", minutes)), "low")

    assert run.stopped_by is None
    assert run.billed_minutes == 28


def test_a_limit_before_the_launch_leaves_no_node() -> None:
    early = Course(
        phases=(phase("deploy", 1), *course().phases),
        launch="node",
        measure="work",
        release="gone",
        limits=(limit("deadline", "deploy", 4),),
    )
    run = simulate(early, "low")

    assert run.stopped_by == "deadline"
    assert run.billed_minutes == 0
    assert run.billed_minutes_before_first_token is None
    assert "gone" not in run.spans


def test_a_limit_in_the_middle_of_parallel_phases_starts_nothing_new() -> None:
    run = simulate(course(limit("deadline", "prepare", 4)), "low")

    assert run.spans["a"] == Span(start=12, end=14, cut=True)
    assert run.spans["b"] == Span(start=12, end=14, cut=True)
    assert "work" not in run.spans
    assert run.billed_minutes == 2 + 2 + 1
    assert run.billed_minutes_before_first_token is None


def test_the_first_limit_wins() -> None:
    run = simulate(course(limit("late", "prepare", 20), limit("soon", "node", 6)), "low")

    assert run.stopped_by == "soon"
    assert run.billed_minutes == 2 + 6 + 1
