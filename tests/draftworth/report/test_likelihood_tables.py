"""Whose outputs they are: shown, said first, and no verdict on what is not the target's."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.likelihood_check import judged
from draftworth.cli import main
from draftworth.decision.facts import RunFacts, facts_of
from draftworth.records import likelihoods
from draftworth.records.codec import dump_record
from draftworth.report.attention import attention_of
from draftworth.report.sentences import headline
from tests.draftworth.report.runs import make_run, write_run


def by_target(**overrides: Any) -> likelihoods.Likelihood:
    fields: dict[str, Any] = {"outputs": 64, "tokens": 9600, "deviation": 0.7, "per_token": 0.002}
    return likelihoods.Likelihood(variant="k7", **{**fields, **overrides})


NOISE = by_target(deviation=-856.1, per_token=-10.93)


def by_draft(low: float | None, high: float | None) -> likelihoods.DraftLikelihood:
    middle = 0.0 if low is None or high is None else (low + high) / 2
    return likelihoods.DraftLikelihood(
        variant="k7",
        prompt_class="structured",
        draft="draft",
        prompts=16,
        outputs=32,
        difference=middle,
        low=low,
        high=high,
    )


def greedy(chance: float) -> likelihoods.GreedyLikelihood:
    return likelihoods.GreedyLikelihood(
        variant="k7", outputs=16, tokens=2400, beyond=9, farthest=4.0, chance=chance
    )


def read_run_with(folder: Path, check: likelihoods.ModelsCheck, *, temperature: float) -> Path:
    """Write and return the folder of a run with `check`, one model's check of its outputs."""
    run = make_run(temperature=temperature)
    path = write_run(run, folder / "run")
    record = likelihoods.Likelihoods(run_id=run.result.run_id, likelihoods=(check,))
    (path / likelihoods.LIKELIHOODS_FILE).write_bytes(dump_record(record))
    return path


@cache
def facts_at(temperature: float) -> RunFacts:
    return facts_of(make_run(temperature=temperature), {})


MARGIN = likelihoods.DRAFT_MARGIN_NATS


@pytest.mark.parametrize(
    ("check", "right"),
    [
        (by_draft(-0.1, 0.1), True),
        # The interval lacks 0, but it is within the margin that counts as equal.
        (by_draft(0.01, MARGIN), True),
        (by_draft(0.01, MARGIN + 0.01), False),
        (by_draft(-3.0, -2.0), False),
        (by_draft(-0.1, MARGIN + 0.01), None),
        (by_draft(None, None), None),
        (greedy(0.5), True),
        (greedy(1e-6), False),
        (by_target(), True),
        (NOISE, False),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_only_proven_foreign_answers_lose_their_verdict(
    check: likelihoods.ModelsCheck, right: bool | None, temperature: float
) -> None:
    unread = facts_at(temperature)
    facts = facts_of(replace(unread.run, likelihoods=(check,)), {})
    judgements = [v.comparison and v.comparison.judgement for v in facts.speculative]

    assert judged(check).is_the_targets is right
    if right is False:
        assert set(judgements) == {"inconclusive"}
        assert "its answers are not the target's" in headline(facts)
        first, *_ = attention_of(facts)
        assert "k7" in first
    else:
        assert judgements == [v.comparison and v.comparison.judgement for v in unread.speculative]
    says_too_few = any("too few" in line for line in attention_of(facts))
    assert says_too_few is (right is None)


@pytest.mark.parametrize(
    ("check", "words", "temperature"),
    [
        (by_draft(-3.0, -2.0), "-3.000 to -2.000", 0.8),
        (by_draft(None, None), "not known", 0.0),
        (greedy(1e-6), "outputs with a token beyond a near tie", 0.0),
        (NOISE, "-856.1", 0.8),
        (NOISE, "10.93 nats less likely than what the target draws", 0.8),
    ],
)
def test_the_report_says_who_read_them(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    check: likelihoods.ModelsCheck,
    words: str,
    temperature: float,
) -> None:
    folder = read_run_with(tmp_path, check, temperature=temperature)
    assert main(["report", str(folder), "--verbose"]) == 0

    assert words in capsys.readouterr().out
