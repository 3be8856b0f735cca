"""What a search may spend, with figures that a reader of the message can check."""

from dataclasses import replace

import pytest

from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.search_plan import why_over
from draftworth.records.results import Price
from draftworth.searching.next_candidate import SearchState
from tests.draftworth.searching.candidates import search, state
from tests.support.specifications import PRICE, endpoint, specification


def spec(price: Price | None = PRICE) -> RunSpec:
    return replace(specification((endpoint("baseline", 0), endpoint("k7", 1))), price=price)


def state_after(**limits: object) -> SearchState:
    return state(7, 4, of=search(**limits))


def why(
    seconds: float, search_state: SearchState, *, price: Price | None = PRICE, gain: float = 0.02
) -> str:
    return why_over(spec(price), seconds, search_state, "draft-k2", gain)


def test_hours_and_dollars_end_it() -> None:
    assert (
        why(7200.0, state_after(hours=2.0))
        == "it has lasted 2.00 hours; search.stop.last_start_hours is 2"
    )
    assert why(7199.0, state_after(hours=2.0)) == ""
    assert (
        why(7200.0, state_after(usd=72.0))
        == "it has cost 72.00 USD; search.stop.last_start_usd is 72"
    )
    assert why(7199.0, state_after(usd=72.0)) == ""
    assert why(1e9, state_after()) == ""


def test_a_candidate_is_worth_what_it_may_save() -> None:
    """A candidate is measured if it is expected to save at least what measuring it costs.

    Two candidates took an hour, so the next costs half of 36 USD. A token of the baseline takes
    10 ms of half a node, which is 0.00005 USD. At 1,800,000 tokens per day, 2% of the cost of ten
    days are 18 USD.
    """
    traffic = {"tokens_per_day": 1_800_000.0, "days": 10.0}
    assert why(3600.0, state_after(**traffic), gain=0.0201) == ""
    assert why(3600.0, state_after(**traffic), gain=0.0199) == (
        "measuring draft-k2 would cost 18.00 USD (30 minutes, as each so far) and can be expected "
        "to save 17.91 USD: 1.99% of 900 USD, which 10 days of 1,800,000 output tokens cost "
        "without a draft"
    )


@pytest.mark.parametrize("price", [None, replace(PRICE, node_shares={})])
def test_without_a_price_nothing_is_weighed(price: Price | None) -> None:
    assert why(3600.0, state_after(tokens_per_day=1.0), price=price) == ""


def test_before_the_first_prediction_nothing_is_weighed() -> None:
    assert why_over(spec(), 3600.0, state_after(tokens_per_day=1.0), "draft-k2", None) == ""
