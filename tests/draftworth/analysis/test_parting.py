"""Greedy outputs that differ from the baseline's: by rounding, or sooner than rounding explains."""

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from draftworth.analysis.control import without_control
from draftworth.analysis.likelihood_check import FALSE_ALARMS, AnswersCheck
from draftworth.analysis.likelihood_check import judged as judged_likelihood
from draftworth.analysis.output_differences import ROUNDING_PER_TOKEN, partings
from draftworth.analysis.statistics import at_least
from draftworth.decision.facts import facts_of
from draftworth.records.likelihoods import GreedyLikelihood
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import CONTROL
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript
from draftworth.report.attention import attention_of
from draftworth.report.reason_sentences import answers_words
from draftworth.report.sentences import headline
from tests.draftworth.report.runs import VARIANT, make_run, with_control

LENGTH = 150
# By variant, the probability that its output begins to differ from the target's at the next token.
# A prompt's output is the same each time, because a greedy server repeats its outputs.
Hazards = dict[str, float]


def transcripts_of(run: Run, hazards: Hazards, *, seed: int = 0) -> dict[str, Transcript]:
    """Return transcripts with token ids: the target's up to a random token, others after it."""
    drawn: dict[str, tuple[int, ...]] = {}
    transcripts = {}
    for block in run.blocks:
        hazard = hazards.get(block.variant, 0.0)
        for record in block.requests:
            prompt = f"{seed} {block.variant} {block.prompt_class} {record.prompt_id}"
            if prompt not in drawn:
                drawn[prompt] = token_ids(random.Random(prompt), hazard)
            ids = drawn[prompt]
            transcripts[record.request_id] = Transcript(request_id=record.request_id, token_ids=ids)
    return transcripts


def token_ids(draws: random.Random, hazard: float) -> tuple[int, ...]:
    part = next((i for i in range(LENGTH) if draws.random() < hazard), LENGTH)
    return (*range(part), *(1000 + i for i in range(LENGTH - part)))


RUN = make_run()
BOTH = with_control(RUN)


def judged(hazards: Hazards, *, control: bool = True, seed: int = 0) -> AnswersCheck:
    equals = without_control(BOTH.blocks)[1] if control else ()
    transcripts = transcripts_of(BOTH, hazards, seed=seed)
    (check,) = partings(RUN, equals, transcripts, but=())
    return check


def test_outputs_that_part_quickly_are_not_the_targets() -> None:
    check = judged({VARIANT: 0.5})

    assert check.is_the_targets is False
    assert (
        f"{VARIANT}: its answers are not the target's: at 4 requests at a time 16 of 16 differ"
        in answers_words(check)
    )
    assert "a second server without speculation" in answers_words(check)


def test_foreign_answers_leave_no_verdict_and_come_first() -> None:
    facts = facts_of(BOTH, transcripts_of(BOTH, {VARIANT: 0.5}))

    assert {v.comparison.judgement for v in facts.speculative if v.comparison} == {"inconclusive"}
    assert "its answers are not the target's" in headline(facts)
    assert "its answers are not the target's" in attention_of(facts)[0]


@pytest.mark.parametrize("hazard", [0.0, 0.01], ids=["alike", "by rounding"])
def test_outputs_that_rounding_parts_keep_their_verdict(hazard: float) -> None:
    """A variant that differs by rounding alone is right, although the control never differs.

    The control computes with the baseline's tensor shapes, so its outputs equal the baseline's.
    """
    facts = facts_of(BOTH, transcripts_of(BOTH, {VARIANT: hazard}))
    unread = facts_of(BOTH, {})

    assert all(check.is_the_targets for check in facts.answers)
    assert [v.comparison and v.comparison.judgement for v in facts.speculative] == [
        v.comparison and v.comparison.judgement for v in unread.speculative
    ]


def test_equal_servers_that_part_prove_nothing() -> None:
    assert judged({VARIANT: 0.5, CONTROL: 0.5}).is_the_targets


def test_without_control_the_baselines_repeats_are_the_floor() -> None:
    check = judged({VARIANT: 0.5}, control=False)

    assert check.is_the_targets is False
    assert "the baseline's own repeats" in answers_words(check)


def test_without_control_or_repeats_nothing_is_judged() -> None:
    once = replace(RUN, blocks=tuple(b for b in RUN.blocks if b.round == 1))
    facts = facts_of(once, transcripts_of(once, {VARIANT: 0.5}))

    assert facts.answers == ()
    assert any("nothing here says how often" in line for line in attention_of(facts))


def test_without_token_ids_nothing_is_judged() -> None:
    assert facts_of(BOTH, {}).answers == ()


def test_sampled_outputs_are_not_compared_token_by_token() -> None:
    run = with_control(make_run(temperature=0.8))

    assert facts_of(run, transcripts_of(run, {VARIANT: 0.5})).answers == ()


@pytest.mark.parametrize(("beyond", "chance", "right"), [(0, 1.0, True), (8, 1e-9, False)])
def test_the_targets_reading_replaces_the_comparison(
    beyond: int, chance: float, right: bool
) -> None:
    read = GreedyLikelihood(
        variant=VARIANT, outputs=8, tokens=1200, beyond=beyond, farthest=3.0, chance=chance
    )
    run = replace(BOTH, likelihoods=(read,))
    (check,) = facts_of(run, transcripts_of(run, {VARIANT: 0.5})).answers

    assert check == judged_likelihood(read)
    assert check.is_the_targets is right


def alarms(hazards: Callable[[int], Hazards], runs: int) -> int:
    return sum(judged(hazards(n), seed=n).is_the_targets is False for n in range(runs))


def test_right_servers_raise_few_false_alarms() -> None:
    """Variant and control differ by rounding alone.

    The variant's rate of differing tokens is the highest that rounding explains; the control's is
    lower.
    """
    runs = 300
    alarm_count = alarms(lambda n: {VARIANT: ROUNDING_PER_TOKEN, CONTROL: n % 3 * 0.01}, runs)

    assert alarm_count <= runs * FALSE_ALARMS + 3 * math.sqrt(runs * FALSE_ALARMS)


def test_wrong_servers_are_caught_in_planted_runs() -> None:
    assert alarms(lambda _: {VARIANT: 0.4, CONTROL: 0.01}, 40) >= 38


def test_several_loads_share_the_false_alarms() -> None:
    """On all seven prompts, the variant's output differs sooner than the baseline's repeats do.

    By chance this has a probability of 1 / 128, which is enough with one load, but not with two.
    """
    few = [
        replace(b, requests=b.requests[:7]) for b in RUN.blocks if b.prompt_class == "structured"
    ]
    more = [
        replace(b, load=ConcurrencyLoad(concurrency=1), round=b.round + 2, block=b.block + 8)
        for b in few
    ]
    for blocks, right in ((few, False), ([*few, *more], True)):
        run = replace(RUN, blocks=tuple(blocks))
        checks = partings(run, (), transcripts_of(run, {VARIANT: 1.0}), but=())
        assert {check.is_the_targets for check in checks} == {right}


@pytest.mark.parametrize(
    ("successes", "trials", "chance"), [(0, 5, 1.0), (5, 5, 1 / 32), (1, 2, 0.75), (0, 0, 1.0)]
)
def test_the_chance_of_so_many_or_more(successes: int, trials: int, chance: float) -> None:
    assert at_least(successes, trials, 0.5) == pytest.approx(chance)
