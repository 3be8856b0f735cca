"""Serving by class: its cost, compared with values worked out by hand, and what it saves.

In the run that `make_run` builds, a request takes 1.27465 s on average with the baseline and, with
the variant, 0.748465 s in `structured` and 1.738465 s in `open_ended`. All have 100 tokens.
"""

import math
from dataclasses import replace

import pytest

from draftworth.decision.by_class import ByClass
from draftworth.decision.decide import decide
from draftworth.records.results import Limits
from draftworth.records.run_folder import Run
from tests.draftworth.report import runs, states
from tests.support.blocks import make_price
from tests.support.present import present

PLAIN_S, STRUCTURED_S, OPEN_ENDED_S = 1.27465, 0.748465, 1.738465


def split_of(run: Run) -> ByClass:
    return present(runs.make_facts(run).decision.by_class)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_costs_are_those_worked_out_by_hand(share: float) -> None:
    weights = {"structured": share, "open_ended": 1 - share}
    split = split_of(runs.make_run(class_weights=weights))
    assert (split.classes, split.other_classes) == (("structured",), ("open_ended",))
    both_s = share * STRUCTURED_S + (1 - share) * PLAIN_S
    variant_s = share * STRUCTURED_S + (1 - share) * OPEN_ENDED_S
    assert split.cost_ratio.value == pytest.approx(both_s / PLAIN_S)
    assert split.alone == (runs.VARIANT if variant_s < PLAIN_S else runs.BASELINE)
    assert split.ratio_to_alone.value == pytest.approx(both_s / min(variant_s, PLAIN_S))


def test_each_class_has_the_price_of_its_server() -> None:
    price = make_price(node_shares={runs.BASELINE: 0.25, runs.VARIANT: 0.3})
    split = split_of(runs.make_run(price=price))
    both = 0.5 * 1.2 * STRUCTURED_S + 0.5 * PLAIN_S
    variant = 1.2 * (0.5 * STRUCTURED_S + 0.5 * OPEN_ENDED_S)
    assert split.cost_ratio.value == pytest.approx(both / PLAIN_S)
    assert (split.alone, variant > PLAIN_S) == (runs.BASELINE, True)
    assert split.ratio_to_alone.value == pytest.approx(both / PLAIN_S)


def test_servers_are_rounded_up_in_both_pools() -> None:
    """From `ByClass.servers` on, two pools need no more servers, however the work is divided.

    With one server fewer, they need more in some divisions of the work.
    """
    split = split_of(runs.make_run())
    high, servers = present(split.ratio_to_alone.high), present(split.servers)
    for count in range(servers, servers + 40):
        for percent in range(101):
            first = count * high * percent / 100
            assert math.ceil(first) + math.ceil(count * high - first) <= count
    fewer = servers - 1
    halves = [fewer * high * percent / 100 for percent in range(101)]
    assert any(math.ceil(x) + math.ceil(fewer * high - x) > fewer for x in halves)


def test_one_sign_or_one_class_is_no_split() -> None:
    for run in (states.with_factor(0.6), states.with_factor(2.5), runs.structured_run(4)):
        assert runs.make_facts(run).decision.by_class is None


def test_an_open_class_is_no_sign() -> None:
    assert runs.make_facts(states.few_prompts()).decision.by_class is None


def test_a_class_outside_its_limit_is_served_without() -> None:
    """The variant keeps the latency limit in `structured` only, so it serves only that class."""
    blocks = tuple(
        replace(
            b,
            requests=tuple(
                replace(r, ttft_s=0.9 if _is_slow(b.prompt_class, b.variant) else 0.1)
                for r in b.requests
            ),
        )
        for b in states.many_prompts().blocks
    )
    run = runs.make_run(blocks=blocks, limits=Limits(ttft_p95_s=0.5))
    decision = runs.make_facts(run).decision
    assert decision.serves_by_class
    assert present(decision.by_class).classes == ("structured",)


def _is_slow(prompt_class: str, variant: str) -> bool:
    return (prompt_class, variant) == ("open_ended", runs.VARIANT)


def test_what_saves_little_is_named_and_not_decided() -> None:
    """If nearly all traffic is in one class, the best server for that class serves all traffic."""
    run = runs.make_run(class_weights={"structured": 0.97, "open_ended": 0.03})
    decision = runs.make_facts(run).decision
    split = present(decision.by_class)
    assert not split.is_shown_to_save
    assert (decision.serve, decision.serves_by_class) == (runs.VARIANT, False)


def test_a_chosen_split_has_wider_intervals() -> None:
    facts = runs.make_facts()
    (mix,) = facts.mixes
    classes = [present(v.comparison) for v in facts.speculative]
    one, several = (
        present(decide(facts.run, mixes=(mix,) * count, of_classes=classes).by_class)
        for count in (1, 5)
    )
    assert one.ratio_to_alone.value == several.ratio_to_alone.value
    assert present(several.ratio_to_alone.low) < present(one.ratio_to_alone.low)
    assert present(several.ratio_to_alone.high) > present(one.ratio_to_alone.high)
