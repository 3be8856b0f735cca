"""What a limit leaves of a run: by hand."""

import pytest

from draftworth.planning.timeline import TEARDOWN, Schedule, Span

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
    # The first limit wins.
    assert RUN.until([(30, "late"), (27, "deadline")]) == run
    for minute in (37, 37.5, 38, 100):
        assert until(minute) == RUN, "the work is done"


@pytest.mark.parametrize(
    ("minute", "phases", "cut", "billed"),
    [
        # Before the launch there is no node.
        (4, ["prepare"], ["prepare"], 0),
        (10, ["prepare"], [], 0),
        # A phase that ends at the limit is complete, and nothing follows it.
        (12, ["prepare", "node", TEARDOWN], [], 2 + 1),
        # In the middle of parallel phases nothing new starts.
        (14, ["prepare", "node", "a", "b", TEARDOWN], ["a", "b"], 2 + 2 + 1),
    ],
)
def test_an_early_limit_leaves_what_has_begun(
    minute: float, phases: list[str], cut: list[str], billed: float
) -> None:
    run = until(minute)
    assert run.ended_by == "deadline"
    assert [*run.spans] == phases
    assert (run.billed_minutes, run.measured_minutes) == (billed, 0)
    assert [n for n, span in run.spans.items() if span.cut] == cut
