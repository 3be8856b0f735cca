"""Which servers run when, and which of them are measured."""

import pytest

from draftworth.measuring.run_specification import Endpoint
from draftworth.measuring.schedule import Stage, stages
from tests.draftworth.measuring.specifications import endpoint, specification


def names(stage: Stage, part: str = "measured") -> list[tuple[str, int | None]]:
    return [(e.variant, e.slot) for e in getattr(stage, part)]


PAIR = (
    endpoint("baseline", 0),
    endpoint("k7", 1),
    endpoint("baseline", 1),
    endpoint("k7", 0),
)


def test_two_variants_swap_their_slots_in_every_second_repetition() -> None:
    found = list(stages(specification(PAIR, repetitions=3)))

    assert [names(stage) for stage in found] == [
        [("baseline", 0), ("k7", 1)],
        [("baseline", 1), ("k7", 0)],
        [("baseline", 0), ("k7", 1)],
    ]
    assert all(stage.running == stage.measured for stage in found)


def test_the_control_takes_the_baselines_other_slot_from_the_variant_that_has_it() -> None:
    found = [s for s in stages(specification(PAIR, repetitions=2, control=True)) if s.is_control]

    assert [names(stage) for stage in found] == [
        [("baseline", 0), ("control", 1)],
        [("baseline", 1), ("control", 0)],
    ]
    assert [names(stage, "running") for stage in found] == [names(stage) for stage in found]
    assert [e.server for e in found[0].measured] == ["baseline-0", "baseline-1"]


def test_a_third_variant_stays_up_during_the_control() -> None:
    three = (
        *(endpoint("baseline", 0), endpoint("k3", 1), endpoint("k7", 2)),
        *(endpoint("baseline", 1), endpoint("k3", 2), endpoint("k7", 0)),
    )
    _, control = stages(specification(three, control=True))

    assert names(control, "running") == [("baseline", 0), ("k7", 2), ("control", 1)]
    assert names(control) == [("baseline", 0), ("control", 1)]


@pytest.mark.parametrize(
    ("endpoints", "changes", "said"),
    [
        ((endpoint("baseline", 0, server=""),), {"repetitions": 2}, "no `server` that can be"),
        ((endpoint("baseline", 0, server=""),), {"control": True}, "no `server` that can be"),
        ((endpoint("baseline", 0),), {"control": True}, "two endpoints of the baseline"),
        ((endpoint("baseline", 0),), {"repetitions": 0}, "allowed: 1 or more"),
    ],
)
def test_a_run_that_cannot_be_is_refused(
    endpoints: tuple[Endpoint, ...], changes: dict[str, int], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        specification(endpoints, **changes)
