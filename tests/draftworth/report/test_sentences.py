"""The answer in one sentence, and the record that carries it."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.decision.decide import decide
from draftworth.decision.facts import RunFacts
from draftworth.decision.reasons import KeepsLimits
from draftworth.decision.verdict import Comparison
from draftworth.records.codec import dump_record, load_record
from draftworth.records.findings import Verdict
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import PoissonLoad
from draftworth.records.results import AS_SHIPPED, Limits
from draftworth.report.attention import attention_of
from draftworth.report.contents import document_of
from draftworth.report.reason_sentences import words_of
from draftworth.report.sentences import (
    findings,
    headline,
    missing_requests,
    verdict_of,
)
from tests.draftworth.report.runs import BASELINE, make_facts, make_plain_block, make_run
from tests.support.blocks import make_price


def judged(*judgements: Judgement) -> RunFacts:
    """Return facts with one comparison in the mix per judgement, each of another variant."""
    facts = make_facts()
    mixes = (
        replace(
            facts.mixes[0],
            variant=f"k{number}",
            cost_ratio=None,
            judgement=judgement,
            reason=KeepsLimits(),
            extremes=None,
        )
        for number, judgement in enumerate(judgements)
    )
    return with_mixes(facts, *mixes)


def with_mixes(facts: RunFacts, *mixes: Comparison) -> RunFacts:
    decision = decide(facts.run, mixes=mixes, of_classes=())
    return replace(facts, mixes=mixes, decision=decision)


def test_the_answer_is_that_of_the_traffic_mix() -> None:
    facts = make_facts(make_run(class_weights={"structured": 0.95, "open_ended": 0.05}))
    assert headline(facts) == (
        "Speculation pays: traffic mix at 4 requests at a time, k7: a token costs at least 36% "
        "less in this run. A run of this size may have missed what happens in fewer than 1 of 6 "
        "requests or 3 of 4 blocks or 3 of 16 prompts. So few rounds do not show whether a server "
        "warms up."
    )


@pytest.mark.parametrize(
    ("judgements", "answer"),
    [
        (
            (Judgement.MORE_EXPENSIVE, Judgement.CHEAPER),
            "Speculation pays: traffic mix at 4 requests at a time, k1",
        ),
        (
            (Judgement.NO_DIFFERENCE, Judgement.INCONCLUSIVE),
            "No answer yet: traffic mix at 4 requests at a time, k1",
        ),
        (
            (Judgement.OUTSIDE_LIMITS, Judgement.MORE_EXPENSIVE),
            "Speculation does not pay: traffic mix at 4 requests at a time, k1",
        ),
    ],
)
def test_the_best_of_several_comparisons_is_the_answer(
    judgements: tuple[Judgement, ...], answer: str
) -> None:
    assert headline(judged(*judgements)) == (
        f"{answer}: {words_of(KeepsLimits())} (the best of {len(judgements)} comparisons)."
    )


def test_the_baseline_as_shipped_is_no_answer() -> None:
    facts = judged(Judgement.MORE_EXPENSIVE, Judgement.CHEAPER)
    plain, shipped = facts.mixes
    facts = with_mixes(facts, plain, replace(shipped, variant=AS_SHIPPED))
    assert headline(facts).startswith(
        "Speculation does not pay: traffic mix at 4 requests at a time, k0"
    )


def test_at_rates_the_answer_is_the_highest_rate() -> None:
    load = PoissonLoad(requests_per_second=2.0)
    blocks = tuple(replace(block, load=load) for block in make_run().blocks)
    facts = make_facts(make_run(blocks=blocks, limits=Limits(ttft_p95_s=10.0)))
    words = headline(facts)
    assert f"Highest measured rate within the limits, {BASELINE}: " in words
    assert words.startswith(" ".join(verdict_of(facts).notes[:2]))


def test_without_a_second_variant_there_is_no_verdict() -> None:
    run = make_run(blocks=(make_plain_block(1, "structured"),), variants=(BASELINE,))
    verdict = verdict_of(make_facts(run))
    assert (verdict.headline, verdict.findings) == (
        "The run has no speculative variant beside its baseline: no verdict.",
        (),
    )


def test_the_record_keeps_every_warning_when_read_back() -> None:
    wrong = make_facts(make_run(max_tokens_per_step={BASELINE: 1, "k7": 3}))
    verdict = verdict_of(wrong)
    assert attention_of(wrong)
    assert set(attention_of(wrong)) <= set(verdict.notes)
    assert load_record(Verdict, dump_record(verdict)) == verdict


# The variant's servers take a larger part of a node than the baseline's, so they cost more.
PRICE = make_price(node_shares={"baseline": 0.2, "k7": 0.3})


def test_the_mixs_verdict_leads_with_weights_and_cost() -> None:
    facts = make_facts(make_run(price=PRICE, class_weights={"structured": 0.8, "open_ended": 0.2}))
    of_mix, *_ = findings(facts)
    assert of_mix.sentence == (
        "traffic mix (80% structured, 20% open_ended) at 4 requests at a time, k7: more "
        "expensive; a token costs at least 10% more in this run. A million output tokens cost "
        "1.97 USD instead of 1.77. A run of this size may have missed what happens in fewer than "
        "1 of 8 requests or 3 of 4 blocks or 3 of 16 prompts. So few rounds do not show whether a "
        "server warms up."
    )
    document = document_of(facts)
    assert document.cards[0].label == "structured with k7, the rest without speculation"
    assert document.cards[1].label == "traffic mix, k7"
    first = document.sections[0].tables[0].rows[0]
    assert first[:4] == ("traffic mix", "4 at a time", "k7", Judgement.MORE_EXPENSIVE)


@pytest.mark.parametrize(
    "overrides",
    [{"class_weights": {"structured": 1.0}}, {"variants": (BASELINE,)}],
)
def test_one_class_or_one_endpoint_is_no_mix(overrides: dict[str, Any]) -> None:
    assert make_facts(make_run(**overrides)).mixes == ()


def test_unweighted_classes_count_alike_and_decide_together() -> None:
    facts = make_facts(make_run(class_weights={}))
    (mix,) = facts.mixes
    assert mix.traffic.weights == {"structured": 0.5, "open_ended": 0.5}
    assert facts.decision.choices == (mix,)


def test_a_mix_with_an_unmeasured_class_is_inconclusive() -> None:
    run = make_run(class_weights={"structured": 0.5, "chat": 0.5})
    (mix,) = make_facts(run).mixes
    assert mix.judgement == Judgement.INCONCLUSIVE


def test_what_is_missing_is_counted_in_what_helps() -> None:
    wide, narrow = (make_facts(make_run(target_interval_width=w)) for w in (0.9, 0.01))
    assert missing_requests(wide, wide.speculative[0]) == ""
    # Both rounds are alike, so only prompts make the interval wide.
    sentence = missing_requests(narrow, narrow.speculative[0])
    assert sentence.startswith(" About ")
    assert "more prompts would make the interval 1% wide" in sentence
