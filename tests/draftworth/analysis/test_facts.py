"""What the report says of the traffic mix and of missing requests."""

import pytest

from draftworth.analysis.answer import findings, missing_requests
from draftworth.analysis.attention import attention_of
from draftworth.report.contents import document_of
from tests.draftworth.report.runs import BASELINE, make_facts, make_run
from tests.support.blocks import make_price

# The variant takes less time for a token, on a larger part of a node.
PRICE = make_price(node_shares={"baseline": 0.2, "k7": 0.3})


def test_the_verdict_on_the_mix_comes_first_with_its_weights_and_cost() -> None:
    facts = make_facts(make_run(price=PRICE, class_weights={"structured": 0.8, "open_ended": 0.2}))
    of_mix, *_ = findings(facts)
    assert of_mix.sentence == (
        "traffic mix (80% structured, 20% open_ended) at c4, k7: dearer; a token costs at least 9% "
        "more in this run. A million output tokens cost 1.97 USD instead of 1.77."
    )
    document = document_of(facts)
    assert document.cards[0].label == "traffic mix at c4, k7"
    assert document.sections[0].tables[0].rows[0][:4] == (
        "traffic mix",
        "c4",
        "k7",
        "dearer",
    )


@pytest.mark.parametrize("weights", [{}, {"structured": 1.0}])
def test_one_class_is_no_mix(weights: dict[str, float]) -> None:
    assert make_facts(make_run(class_weights=weights)).mixes == ()


def test_a_mix_with_a_class_that_was_not_measured_is_inconclusive() -> None:
    run = make_run(class_weights={"structured": 0.5, "chat": 0.5})
    (mix,) = make_facts(run).mixes
    assert mix.judgement == "inconclusive"


def test_a_run_of_one_endpoint_has_no_mix() -> None:
    assert make_facts(make_run(variants=(BASELINE,))).mixes == ()


def test_a_sampled_run_says_that_its_outputs_are_not_compared() -> None:
    greedy, sampled = (make_facts(make_run(temperature=t)) for t in (0.0, 0.7))
    assert not any("sampled" in line for line in attention_of(greedy))
    assert attention_of(sampled)[0].startswith("Outputs were sampled at temperature 0.7")
    assert "is not checked" in attention_of(sampled)[0]
    alone = make_facts(make_run(temperature=0.7, variants=(BASELINE,)))
    assert not any("sampled" in line for line in attention_of(alone))


def test_what_is_missing_is_counted_in_what_helps() -> None:
    wide, narrow = (make_facts(make_run(target_interval_width=w)) for w in (0.9, 0.01))
    assert missing_requests(wide, wide.speculative[0]) == ""
    # Both rounds are alike, so only prompts make the interval wide.
    said = missing_requests(narrow, narrow.speculative[0])
    assert said.startswith(" About ")
    assert "more prompts would reach 1%" in said
