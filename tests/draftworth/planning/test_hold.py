"""The cost and time of a deploy on hold, by hand, and the run of the deploy after it."""

import pytest

from draftworth.planning import timeline
from draftworth.planning.assumptions import assumption_data
from draftworth.planning.hold import Hold
from tests.support.experiments import changed_aws
from tests.support.present import present
from tests.support.timelines import BY_HAND, QWEN

HELD = changed_aws(QWEN, hold=True)


def test_a_hold_by_hand() -> None:
    """30 minutes of deploy, 1 to start, 64.8 s to copy 64.8 GiB, each of which costs 0.045 USD."""
    hold = present(Hold.of(HELD, BY_HAND))
    assert hold.minutes.best == pytest.approx(32.08)
    assert (hold.nat_gib.best, hold.nat_gib.worst) == pytest.approx((64.8, 64.8))
    assert hold.nat_usd.best == pytest.approx(2.916)
    standing_usd = 32.08 / 60 * assumption_data().standing_usd_per_hour
    assert hold.usd.best == pytest.approx(2.916 + standing_usd)


def test_without_hold_there_is_no_cost_of_it() -> None:
    assert Hold.of(QWEN, BY_HAND) is None


def test_a_kept_bucket_spares_staging_at_best() -> None:
    kept = changed_aws(HELD, checkpoints_bucket="draftworth-x-storagecheckpoints-abc")
    hold = present(Hold.of(kept, BY_HAND))
    assert (hold.nat_usd.best, hold.nat_usd.worst) == pytest.approx((0, 2.916))


def test_the_run_after_a_hold_finds_checkpoints() -> None:
    first, after_hold, second = (
        timeline.forecast(QWEN, BY_HAND),
        timeline.forecast(HELD, BY_HAND),
        timeline.forecast(QWEN, BY_HAND, second=True),
    )
    spans = after_hold.unlimited.best.spans
    assert spans[timeline.SCALE_UP].start == second.unlimited.best.spans[timeline.SCALE_UP].start
    assert after_hold.nat_gib == second.nat_gib
    assert after_hold.billed_minutes.best == pytest.approx(first.billed_minutes.best)
    assert after_hold.billed_minutes.worst == pytest.approx(first.billed_minutes.worst)
    assert "compile baseline" in spans
