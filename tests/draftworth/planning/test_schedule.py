"""What a limit leaves of a run: by hand."""

import pytest

from draftworth.planning.schedule import TEARDOWN, Schedule, Span

RUN = Schedule(
    spans={
        "prepare": Span(start=0, end=10, billed=False),
        "node": Span(start=10, end=12),
        "a": Span(start=12, end=15),
        "b": Span(start=12, end=17),
        "work": Span(start=17, end=37, measured=True),
        TEARDOWN: Span(start=37, end=38),
    }
)


def until(minute: float) -> Schedule:
    return RUN.until([(minute, "deadline")])


def test_nodes_are_billed_from_launch_to_release_and_not_before() -> None:
    assert RUN.billed_minutes == 2 + 5 + 20 + 1
    assert RUN.measured_minutes == 20


def test_a_limit_cuts_a_phase_and_releases_the_nodes() -> None:
    run = until(27)

    assert run.ended_by == "deadline"
    assert run.spans["work"] == Span(start=17, end=27, measured=True, cut=True)
    assert run.spans[TEARDOWN] == Span(start=27, end=28)
    assert run.billed_minutes == 2 + 5 + 10 + 1


@pytest.mark.parametrize("minute", [37, 37.5, 38, 100])
def test_a_limit_that_is_reached_when_the_work_is_done_cuts_nothing(minute: float) -> None:
    assert until(minute) == RUN


@pytest.mark.parametrize("minute", [4, 10])
def test_a_limit_before_the_launch_leaves_no_node(minute: float) -> None:
    run = until(minute)

    assert run.ended_by == "deadline"
    assert run.billed_minutes == 0
    assert [*run.spans] == ["prepare"]


def test_a_phase_that_ends_at_the_limit_is_complete_and_nothing_follows_it() -> None:
    run = until(12)

    assert run.spans["node"] == Span(start=10, end=12)
    assert "a" not in run.spans
    assert run.billed_minutes == 2 + 1


def test_a_limit_in_the_middle_of_parallel_phases_starts_nothing_new() -> None:
    run = until(14)

    assert run.spans["a"] == run.spans["b"] == Span(start=12, end=14, cut=True)
    assert "work" not in run.spans
    assert run.measured_minutes == 0


def test_the_first_limit_wins() -> None:
    run = RUN.until([(30, "late"), (18, "soon")])

    assert run.ended_by == "soon"
    assert run.billed_minutes == 2 + 6 + 1
