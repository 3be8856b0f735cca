"""One table of decisions: every row is held in every form of the answer, so no two can disagree."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial

import pytest

from draftworth.decision.decide import Missing
from draftworth.decision.facts import RunFacts
from draftworth.decision.winner import NoWinnerError, Winner
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import PoissonLoad
from draftworth.records.results import BlockResult, Limits
from draftworth.records.run_folder import Run
from draftworth.report.brief import answer_lines, answer_of
from draftworth.report.contents import document_of, handover_document
from draftworth.report.document import Document
from draftworth.report.sentences import verdict_of, winner_to_export
from draftworth.report.writing import html_of, markdown_of
from lambdas.capacity_controller.notifications import answer_in_subject
from tests.draftworth.report import runs, searches, states
from tests.support.blocks import each_request

BASELINE, VARIANT = runs.BASELINE, runs.VARIANT


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run, and what is decided after it.

    serve: the variant or baseline for all traffic; None: neither. classes: the classes that the
    variant serves if the baseline serves the others. first_line: the beginning of every form of the
    answer. missing: what is missing for a decision.
    """

    run: Callable[[], Run]
    serve: str | None = None
    classes: tuple[str, ...] = ()
    first_line: str
    missing: tuple[Missing, ...] = ()


def at_rates(
    ttfts_s: dict[str, dict[float, float]], *, slower: float = 1.0, limit_s: float | None = 0.5
) -> Run:
    """Return a run whose requests arrive at rates.

    ttfts_s: {variant: {requests per second: TTFT in seconds}}. slower: how many times as long the
    variant takes from end to end. limit_s: the limit on the 95th percentile of TTFT; None: none.
    """
    blocks = tuple(
        _at_rate(block, rate, ttft_s, slower if block.variant == VARIANT else 1.0)
        for block in states.many_prompts().blocks
        for rate, ttft_s in ttfts_s[block.variant].items()
    )
    limits = Limits() if limit_s is None else Limits(ttft_p95_s=limit_s)
    return runs.make_run(blocks=blocks, limits=limits)


def _at_rate(block: BlockResult, rate: float, ttft_s: float, slower: float) -> BlockResult:
    at = replace(
        block,
        load=PoissonLoad(requests_per_second=rate),
        block=block.block + round(1000 * rate),
    )
    return each_request(
        at,
        lambda r: replace(r, ttft_s=ttft_s, end_to_end_latency_s=r.took_s * slower),
    )


FAST, SLOW = 0.2, 0.9


@cache
def equal_rate() -> Run:
    """Return a run in which both sides keep the limit on TTFT at the only rate, 2 per second.

    From end to end, the variant takes 1.4 times as long.
    """
    return at_rates({BASELINE: {2.0: FAST}, VARIANT: {2.0: FAST}}, slower=1.4)


def controlled(factor: float) -> Run:
    blocks = tuple(
        b if b.variant == BASELINE else runs.slower(b, 0.6) for b in runs.make_run().blocks
    )
    return runs.with_control(runs.make_run(blocks=blocks), factor=factor)


def two_variants() -> Run:
    """Return a run in which `k7` costs 41% less than the baseline, and `k3` as much."""
    cheaper = states.with_factor(0.6).blocks
    equal = [
        replace(runs.slower(b, 1.0), variant="k3", block=b.block + 100)
        for b in runs.make_run().blocks
        if b.variant == VARIANT
    ]
    most = {BASELINE: 1, VARIANT: runs.WINDOW, "k3": runs.WINDOW}
    return runs.make_run(
        blocks=(*cheaper, *equal), variants=(BASELINE, VARIANT, "k3"), max_tokens_per_step=most
    )


BY_CLASS = f"Decision: serve structured with {VARIANT}, open_ended without speculation."
TABLE = {
    "cost: cheaper": Row(
        run=lambda: states.with_factor(0.6),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: cheaper, one class": Row(
        run=lambda: runs.structured_run(4),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: cheaper, and not by speculation": Row(
        run=states.faster_server,
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Cheaper, and not by speculation.",
    ),
    "cost: more expensive in both classes": Row(
        run=lambda: states.with_factor(2.5),
        serve=BASELINE,
        first_line="Decision: serve without speculation. Speculation does not pay.",
    ),
    "cost: no difference, and classes differ in sign": Row(
        run=runs.make_run, serve=BASELINE, classes=("structured",), first_line=BY_CLASS
    ),
    "cost: more expensive, and classes differ in sign": Row(
        run=lambda: states.with_factor(1.3),
        serve=BASELINE,
        classes=("structured",),
        first_line=BY_CLASS,
    ),
    "cost: open, and classes differ in sign": Row(
        run=lambda: runs.with_repetitions(runs.make_run(), 2),
        classes=("structured",),
        first_line=BY_CLASS,
    ),
    "cost: open": Row(
        run=states.few_prompts,
        first_line="No decision at c4: too few prompts or rounds",
        missing=(Missing.VERDICT,),
    ),
    "cost: cheaper, a limit broken": Row(
        run=lambda: states.many_prompts(limits=Limits(ttft_p95_s=0.1)),
        serve=BASELINE,
        first_line="Decision: serve without speculation. Speculation does not keep the limits.",
    ),
    "cost: too few requests for a limit": Row(
        run=lambda: states.with_factor(0.6, limits=Limits(ttft_p95_s=9.0)),
        first_line="No decision at c4: TTFT p95 of k7 in structured at c4",
        missing=(Missing.VERDICT,),
    ),
    "cost: several variants": Row(
        run=two_variants,
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: a ladder of loads": Row(
        run=lambda: states.at_loads(0.6, 0.7, 1.0),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: cheaper than the control differs": Row(
        run=lambda: controlled(1.0),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: cheaper, as a second server is": Row(
        run=lambda: controlled(0.5),
        first_line="No decision at c4: a token costs at least",
        missing=(Missing.VERDICT,),
    ),
    "cost: not believed": Row(
        run=lambda: states.with_requests(number_output_tokens=200),
        first_line="No decision at c4: the servers count tokens differently.",
        missing=(Missing.VERDICT,),
    ),
    "rate: both keep the limits": Row(
        run=equal_rate,
        first_line="No decision: all keep the limits at every measured rate.",
        missing=(Missing.HIGHER_RATES,),
    ),
    "rate: the variant takes more": Row(
        run=lambda: at_rates(
            {BASELINE: {2.0: FAST, 4.0: SLOW}, VARIANT: {2.0: FAST, 4.0: FAST}}, slower=1.4
        ),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. It takes more requests within the limits.",
    ),
    "rate: the baseline takes more": Row(
        run=lambda: at_rates({BASELINE: {2.0: FAST, 4.0: FAST}, VARIANT: {2.0: FAST, 4.0: SLOW}}),
        serve=BASELINE,
        first_line="Decision: serve without speculation. It takes more requests within the limits.",
    ),
    "rate: both end between the same rates": Row(
        run=lambda: at_rates({BASELINE: {2.0: FAST, 4.0: SLOW}, VARIANT: {2.0: FAST, 4.0: SLOW}}),
        first_line="No decision: the highest rates within the limits are not shown to differ.",
        missing=(Missing.OTHER_RATES,),
    ),
    "rate: none keeps the limits": Row(
        run=lambda: at_rates({BASELINE: {2.0: SLOW}, VARIANT: {2.0: SLOW}}),
        first_line="No decision: none keeps the limits at the lowest measured rate.",
        missing=(Missing.LOWER_RATES,),
    ),
    "rate: without limits": Row(
        run=lambda: at_rates({BASELINE: {2.0: FAST}, VARIANT: {2.0: FAST}}, limit_s=None),
        first_line="No decision at p2: arrivals at a rate have no cost per token.",
        missing=(Missing.LIMITS,),
    ),
    "status: failed": Row(
        run=lambda: runs.make_run(
            blocks=states.with_factor(0.6).blocks, status="failed", reason="the deadline passed"
        ),
        first_line="No decision, the run is not complete: the deadline passed.",
        missing=(Missing.COMPLETE_RUN,),
    ),
    "status: one server": Row(
        run=lambda: states.STATES["one server"],
        first_line="One server was measured: there is nothing to compare it with.",
        missing=(Missing.ANOTHER_SERVER,),
    ),
    "search": Row(
        run=searches.make_search_run,
        serve="a-k6",
        first_line="Decision: serve a-k6 (window 6 of hub/a). Speculation pays.",
    ),
}


@pytest.fixture(params=list(TABLE.values()), ids=list(TABLE), scope="module")
def row(request: pytest.FixtureRequest) -> Row:
    made: Row = request.param
    return made


@pytest.fixture(scope="module")
def facts(row: Row) -> RunFacts:
    return runs.make_facts(row.run())


def exported(facts: RunFacts) -> Winner | None:
    with suppress(NoWinnerError):
        return winner_to_export(facts)
    return None


def test_the_decision_is_that_of_the_row(row: Row, facts: RunFacts) -> None:
    decision = facts.decision
    assert decision.serve == row.serve
    assert decision.missing == row.missing
    assert decision.serves_by_class == bool(row.classes)
    if row.classes and decision.by_class:
        assert decision.by_class.classes == row.classes


def test_terminal_and_record_say_so(row: Row, facts: RunFacts) -> None:
    answer = answer_of(facts)
    (first, *_) = answer_lines(answer, next_command="draftworth report RUN", files="RUN")
    assert first.startswith(row.first_line)
    assert (answer.decision, answer.serve) == (first, row.serve)
    by_class = {c for c, name in answer.serve_by_class.items() if name != BASELINE}
    assert by_class == {*row.classes}
    assert bool(answer.missing) == bool(answer.next_step) == bool(row.missing)


@pytest.mark.parametrize("made", [document_of, handover_document])
@pytest.mark.parametrize("written", [markdown_of, partial(html_of, images={})])
def test_every_page_says_so(
    row: Row,
    facts: RunFacts,
    made: Callable[[RunFacts], Document],
    written: Callable[[Document], str],
) -> None:
    document = made(facts)
    assert document.decision.startswith(row.first_line)
    page = " ".join(written(replace(document, sections=())).split())
    assert answer_of(facts).decision.split(" (")[0].rstrip(".") in page.replace("\\", "")


def test_the_verdicts_file_and_its_mail_say_so(row: Row, facts: RunFacts) -> None:
    verdict = verdict_of(facts)
    assert verdict.decision.startswith(row.first_line)
    subject = answer_in_subject(verdict.decision)
    if row.classes:
        assert subject == BY_CLASS.removeprefix("Decision: ").rstrip(".")
    elif row.serve == BASELINE:
        assert subject == "serve without speculation"
    elif row.serve:
        assert subject.startswith(f"serve {row.serve}")
    else:
        assert subject.startswith(("No decision", "One server was measured"))


def test_the_winner_to_export_is_the_same(row: Row, facts: RunFacts) -> None:
    winner = exported(facts)
    if row.missing:
        assert winner is None
    elif row.classes:
        assert winner is not None
        assert (winner.variant, winner.classes) == (VARIANT, row.classes)
    else:
        assert winner is not None
        assert (winner.variant, winner.classes) == (row.serve, ())


def test_a_higher_latency_is_reported_at_equal_rates() -> None:
    """Both sides keep the limit on TTFT, and the variant takes 1.4 times as long in E2E."""
    facts = runs.make_facts(equal_rate())
    assert {mix.judgement for mix in facts.mixes} == {Judgement.WITHIN_LIMITS}
    assert "E2E 1.4" in verdict_of(facts).headline.replace("1.37", "1.4")
    assert "measure higher rates" in answer_of(facts).next_step
    with pytest.raises(NoWinnerError, match="measure higher rates"):
        winner_to_export(facts)
