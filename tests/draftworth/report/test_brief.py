"""The answer of a run in ten lines, and as a record."""

from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.handover import handover_of
from draftworth.analysis.winner import NoWinnerError, winner_of
from draftworth.records.codec import dump_record, load_record
from draftworth.records.findings import Finding
from draftworth.records.load_shapes import ConcurrencyLoad, PoissonLoad
from draftworth.records.reading import Run
from draftworth.records.results import Limits
from draftworth.report.brief import (
    MOST_LINES,
    Answer,
    ServerFigures,
    StepTokens,
    answer_lines,
    answer_of,
)
from tests.conftest import ROOT
from tests.draftworth.report import runs, searches
from tests.draftworth.report.test_spending import LOST
from tests.support.blocks import each_request
from tests.support.snapshot import assert_snapshot

SNAPSHOT = Path(__file__).with_name("snapshots") / "brief.txt"


def with_factor(factor: float, **overrides: object) -> Run:
    """A run whose variant takes so many times as long as in the built run."""
    blocks = tuple(
        b if b.variant == runs.BASELINE else runs.slower(b, factor) for b in runs.make_run().blocks
    )
    return runs.make_run(blocks=blocks, **overrides)


def at_loads(*factors: float) -> Run:
    """A run at 1, 2, 4 ... requests in flight, where the variant takes so many times as long."""
    blocks = tuple(
        replace(b, load=ConcurrencyLoad(concurrency=2**i), block=b.block + 100 * i)
        for i, factor in enumerate(factors)
        for b in with_factor(factor).blocks
    )
    return runs.make_run(blocks=blocks)


def few_prompts() -> Run:
    blocks = (replace(b, requests=b.requests[:2], speculation=None) for b in runs.make_run().blocks)
    return runs.make_run(blocks=tuple(blocks))


def many_prompts(**overrides: object) -> Run:
    """A run with prompts enough for the 95th percentile of a latency."""
    blocks = tuple(
        replace(
            b,
            requests=tuple(
                replace(r, request_id=f"{r.request_id}/{n}", prompt_id=f"{r.prompt_id}/{n}")
                for n in range(16)
                for r in b.requests
            ),
        )
        for b in runs.make_run().blocks
    )
    return runs.make_run(blocks=blocks, **overrides)


def at_a_rate(**overrides: object) -> Run:
    """Requests that arrive at random times, where the variant takes longer from end to end."""
    blocks = tuple(
        replace(block, load=PoissonLoad(requests_per_second=2.0)) for block in many_prompts().blocks
    )
    return runs.make_run(blocks=blocks, **overrides)


def faster_server(*, chunks: int = 100) -> Run:
    """A run whose variant is a server without speculation that takes 0.6 of the time."""
    plain = [b for b in runs.make_run().blocks if b.variant == runs.BASELINE]
    faster = [
        replace(
            runs.slower(b, 0.6), variant=runs.VARIANT, block=b.block + 100, max_tokens_per_step=None
        )
        for b in plain
    ]
    faster = [each_request(b, lambda r: replace(r, chunks=chunks)) for b in faster]
    return runs.make_run(blocks=(*plain, *faster), max_tokens_per_step={runs.BASELINE: 1})


def with_requests(**values: Any) -> Run:
    """A run in which a token of the variant costs less, with other values in its requests."""
    blocks = tuple(
        b if b.variant == runs.BASELINE else each_request(b, lambda r: replace(r, **values))
        for b in with_factor(0.6).blocks
    )
    return runs.make_run(blocks=blocks)


# Without a factor, a token costs as much with the variant as without it.
STATES = {
    "more expensive": with_factor(1.3),
    "cheaper": with_factor(0.6),
    "cheaper without speculation": faster_server(),
    "tokens that are counted twice": with_requests(number_output_tokens=200),
    "answers from a cache": with_requests(ttft_s=0.01, end_to_end_latency_s=0.05),
    "no difference": runs.make_run(),
    "inconclusive": few_prompts(),
    "within the limits at a rate": at_a_rate(limits=Limits(ttft_p95_s=9.0)),
    "outside the limits at a rate": at_a_rate(limits=Limits(ttft_p95_s=0.1)),
    "at a rate without limits": at_a_rate(),
    "outside the limits": many_prompts(limits=Limits(ttft_p95_s=0.1)),
    "failed run": runs.make_run(blocks=(), status="failed", reason="no server started"),
    "interrupted run": runs.make_run(interruptions=(LOST,)),
    "search": searches.make_search_run(),
    "repetitions": runs.with_repetitions(runs.make_run(), 2),
    "ladder": at_loads(0.6, 0.7, 1.0),
    "warnings": runs.make_run(temperature=0.7, price=None),
    "one server": runs.make_run(
        blocks=tuple(b for b in runs.make_run().blocks if b.variant == runs.BASELINE),
        variants=(runs.BASELINE,),
    ),
}


def answer(run: Run) -> Answer:
    return answer_of(runs.make_facts(run))


def lines(run: Run) -> list[str]:
    return answer_lines(
        answer(run), next_command="draftworth report runs/built --out", files="runs/built"
    )


def test_the_answer_of_every_kind_of_run() -> None:
    told = {name: lines(run) for name, run in STATES.items()}
    assert_snapshot(
        "\n\n".join("\n".join([f"# {name}", *own]) for name, own in told.items()) + "\n", SNAPSHOT
    )
    for own in told.values():
        assert len(own) <= MOST_LINES
        assert max(map(len, own)) <= 80


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        (100, "Cheaper, and not by speculation"),
        (96, "Cheaper, and not by speculation"),  # a few merged chunks
        (92, "Speculation pays"),  # 1.09 tokens per step
    ],
)
def test_what_is_cheaper_without_accepted_drafts_is_not_told_as_speculation(
    chunks: int, words: str
) -> None:
    made = answer(faster_server(chunks=chunks))
    assert made.decision == f"Decision: serve {runs.VARIANT}. {words}."
    assert made.headline.startswith(f"{words}: ")


def test_more_figures_than_fit_are_counted() -> None:
    many = lines(at_loads(*[0.6] * 7))
    assert len(many) == MOST_LINES
    assert "  and 18 more figures: --verbose" in many


def test_every_key_of_the_record_is_documented() -> None:
    page = (ROOT / "docs" / "json.md").read_text()
    for record in (Answer, Finding, ServerFigures, StepTokens):
        for field in fields(record):
            assert f"`{field.name}`" in page


@pytest.mark.parametrize("name", STATES)
def test_all_forms_of_an_answer_serve_the_same(name: str) -> None:
    """The ten lines, the record, the handover and the winner that is exported."""
    facts = runs.make_facts(STATES[name])
    serve, handover = answer_of(facts).serve, handover_of(facts)
    winner = None
    with suppress(NoWinnerError):
        winner = winner_of(facts).variant
    assert serve == winner
    assert handover.has_winner == (serve is not None)
    assert handover.pays == (serve is not None and serve != facts.run.result.baseline)
    first = answer(STATES[name]).decision
    assert first.startswith("Decision: serve ") == (serve is not None)
    assert first.startswith("Decision: serve without") == (serve == facts.run.result.baseline)


@pytest.mark.parametrize("name", STATES)
def test_the_record_reads_back(name: str) -> None:
    found = answer(STATES[name])
    assert load_record(Answer, dump_record(found)) == found
