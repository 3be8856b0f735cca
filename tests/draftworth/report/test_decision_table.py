"""One table of decisions: every row is held in every form of the answer, so no two can disagree.

`decision_rows` has runs of every kind. Beside them, every combination of cost, limits and control,
and of the rates that each side keeps, is decided with figures that are not measured: what is
served after each is in `decisions.txt`.
"""

import html
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path

import pytest

from charts.winner.measured_winner import MeasuredWinner
from charts.winner.winner_alarms import watched
from charts.winner.winner_annotations import annotations_of
from draftworth.analysis.doubts import LatencyAtLimit
from draftworth.analysis.limits import LimitCheck, RateBounds
from draftworth.analysis.statistics import Estimate
from draftworth.decision.decide import decide
from draftworth.decision.facts import RunFacts
from draftworth.decision.verdict import Comparison, hides_in_floor, judge
from draftworth.decision.winner import NoWinnerError, Winner
from draftworth.records.findings import Verdict
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import PoissonLoad
from draftworth.report.answer_of_run import answer_of
from draftworth.report.brief import COLUMNS, MOST_LINES, answer_lines
from draftworth.report.contents import document_of, handover_document
from draftworth.report.document import Document
from draftworth.report.sentences import (
    decision_sentence,
    headline,
    next_step,
    verdict_of,
    winner_to_export,
)
from draftworth.report.writing import html_of, markdown_of
from lambdas.capacity_controller.decision import Decision as NodesDecision
from lambdas.capacity_controller.notifications import of_decision
from lambdas.capacity_controller.observed_run import ObservedRun, quoted_answer
from lambdas.metrics_publisher.metric_data_calls import plan_verdict
from tests.draftworth.report import runs
from tests.draftworth.report.decision_rows import (
    BASELINE,
    TABLE,
    VARIANT,
    Row,
    Status,
    ended,
)
from tests.lambdas.capacity_controller.plans import NOW, make_deployment, make_observation
from tests.support.experiments import resolved
from tests.support.present import present
from tests.support.snapshot import assert_snapshot


@cache
def facts_of_row(name: str) -> RunFacts:
    """Return the facts of the run of a row, which tests share."""
    return runs.make_facts(TABLE[name].run())


@pytest.fixture(params=TABLE, scope="module")
def name(request: pytest.FixtureRequest) -> str:
    row_name: str = request.param
    return row_name


@pytest.fixture(scope="module")
def row(name: str) -> Row:
    return TABLE[name]


@pytest.fixture(scope="module")
def facts(name: str) -> RunFacts:
    return facts_of_row(name)


@pytest.fixture(scope="module")
def documents(facts: RunFacts) -> tuple[Document, Document]:
    """Return the report of the row's run, and its handover."""
    return document_of(facts), handover_document(facts)


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
    assert decision_sentence(facts).startswith(row.first_line)
    step = decision.next_step
    assert (step if step and step.removes_a_doubt else None) is row.cure


def test_the_ten_lines_name_what_removes_a_doubt(row: Row, facts: RunFacts) -> None:
    lines = answer_lines(answer_of(facts), next_commands=["draftworth report RUN"], files="RUN")
    cures = [line for line in lines if line.startswith("Cure:  ")]
    assert len(cures) == (row.cure is not None)
    assert all(len(line) <= COLUMNS for line in cures)
    assert len(lines) <= MOST_LINES


def test_every_form_of_an_answer_agrees(facts: RunFacts) -> None:
    assert_all_agree(facts)


@pytest.mark.parametrize("written", [markdown_of, partial(html_of, images={})])
@pytest.mark.parametrize("place", [0, 1], ids=["report", "handover"])
def test_every_page_begins_with_the_decision(
    facts: RunFacts,
    documents: tuple[Document, Document],
    place: int,
    written: Callable[[Document], str],
) -> None:
    document = documents[place]
    decision = decision_sentence(facts)
    assert document.decision == decision
    page = " ".join(html.unescape(written(replace(document, sections=()))).split())
    assert decision.split(" (")[0].rstrip(".") in page.replace("\\", "")


def test_the_handover_says_what_is_missing(
    row: Row, facts: RunFacts, documents: tuple[Document, Document]
) -> None:
    (section,) = (s for s in documents[1].sections if s.title == "Handover")
    text = " ".join(map(str, section.paragraphs))
    assert ("There is nothing to hand over yet" in text) == bool(row.missing)
    step = next_step(facts)
    assert f"Next: {step}." in text if step else "Next: " not in text


def assert_all_agree(facts: RunFacts) -> None:
    """Check that every form of the answer says what `facts.decision` says."""
    decision, first = facts.decision, decision_sentence(facts)
    assert first.startswith("Decision: serve ") == decision.is_made
    answer = answer_of(facts)
    (line, *_) = answer_lines(answer, next_commands=["draftworth report RUN"], files="RUN")
    assert (line, answer.decision, answer.serve) == (first, first, decision.serve)
    served = {name for name in answer.serve_by_class.values() if name != BASELINE}
    assert served == ({decision.winner} if decision.serves_by_class else set())
    assert bool(answer.missing) == (not decision.is_made)
    assert answer.next_step == next_step(facts)
    verdict = verdict_of(facts)
    assert (verdict.decision, verdict.headline) == (first, headline(facts))
    assert plan_verdict(verdict, written_at_unix_s=NOW).words[0].startswith(first)
    if facts.run.result.status == "complete":
        assert_mail_agrees(facts, verdict)
    assert_winner_agrees(facts)


def assert_mail_agrees(facts: RunFacts, verdict: Verdict) -> None:
    quoted, sentences = quoted_answer(verdict)
    run = ObservedRun(state="complete", run_id="RUN", decision=quoted, answer=sentences)
    over = NodesDecision(desired_size=0, reason="complete", text="the run is complete")
    observation = make_observation(run=run)
    mail = of_decision(make_deployment(), over, observation, before=None, now=NOW)
    first = decision_sentence(facts)
    assert mail.text.splitlines()[:2] == [first, headline(facts)]
    about = first.removeprefix("Decision: ").split(". ")[0].rstrip(".")
    assert about[:40] in mail.subject


def assert_winner_agrees(facts: RunFacts) -> None:
    """Check the winner that is exported, its annotations and its alarm."""
    decision, winner = facts.decision, exported(facts)
    assert (winner is not None) == decision.is_made
    if winner is None:
        return
    assert (winner.variant, winner.speculates) == (decision.winner, decision.serves_variant)
    served = decision.by_class.classes if decision.serves_by_class and decision.by_class else ()
    assert winner.classes == served
    measured = MeasuredWinner(
        winner=winner,
        headline=headline(facts),
        result=facts.run.result,
        variant=resolved().variants[-1],
    )
    written = annotations_of(measured, resolved(), "an-image")
    assert written["draftworth/winner"].startswith(winner.variant)
    assert ("(no speculation)" in written["draftworth/winner"]) == (not decision.serves_variant)
    assert ("draftworth/for-classes" in written) == decision.serves_by_class
    assert written["draftworth/verdict"] == headline(facts)
    if watched(measured):
        assert decision.serves_variant


# Cost ratios (value, low, high) of a variant; None: not known.
COSTS: dict[str, tuple[float, float, float] | None] = {
    "cheaper": (0.6, 0.55, 0.65),
    "equal": (1.0, 0.97, 1.03),
    "dearer": (1.6, 1.5, 1.7),
    "open": (0.9, 0.7, 1.2),
    "unknown": None,
}
# Cost ratios of the control: a second server without speculation.
CONTROLS = {
    "no control": None,
    "control equal": (1.0, 0.98, 1.02),
    "control cheaper": (0.6, 0.5, 0.7),
    "control dearer": (1.6, 1.4, 1.8),
}
LIMITS = {"limits kept": True, "limits open": None, "limits broken": False}
# The highest rate that keeps the limits and the lowest that breaks them, in requests per second.
SIDES = {
    "keeps all": (4.0, None),
    "breaks 4": (2.0, 4.0),
    "2, 4 open": (2.0, None),
    "breaks all": (None, 2.0),
}


def estimate(ends: tuple[float, float, float] | None) -> Estimate | None:
    if ends is None:
        return None
    value, low, high = ends
    return replace(present(measured_comparison().cost_ratio), value=value, low=low, high=high)


def one_class() -> RunFacts:
    return facts_of_row("cost: cheaper, one class")


def measured_comparison() -> Comparison:
    (comparison,) = (v.comparison for v in one_class().speculative if v.comparison)
    return comparison


def by_cost(cost: str, limits: str, control: str, *, status: Status = "complete") -> RunFacts:
    """Return the facts of a run whose only comparison has these figures."""
    measured, ratio, floor = (
        measured_comparison(),
        estimate(COSTS[cost]),
        estimate(CONTROLS[control]),
    )
    latency = LatencyAtLimit(
        latency="TTFT", group=measured.traffic.groups[0], variant=VARIANT, p95=None, limit_s=0.5
    )
    kept = LIMITS[limits]
    judgement, reason = judge(ratio, LimitCheck(kept=kept, latency=None if kept else latency))
    by_floor = hides_in_floor(judgement, ratio, floor)
    comparison = replace(
        measured,
        cost_ratio=ratio,
        floor=floor,
        judgement=Judgement.INCONCLUSIVE if by_floor else judgement,
        reason=reason,
        by_floor=by_floor,
    )
    return decided(one_class(), comparison, status=status)


def decided(facts: RunFacts, comparison: Comparison, *, status: Status) -> RunFacts:
    run = ended(facts.run, status)
    (group,) = facts.groups
    speculative = (replace(v, comparison=comparison) for v in group.speculative)
    return replace(
        facts,
        run=run,
        groups=(replace(group, variants=(group.baseline, *speculative)),),
        decision=decide(run, mixes=(), of_classes=(comparison,)),
    )


def by_rates(variant: str, baseline: str, *, status: Status = "complete") -> RunFacts:
    """Return the facts of a run in which the two sides keep the limits up to these rates."""
    bounds = tuple(
        RateBounds(
            variant=name,
            input_tokens=None,
            kept=PoissonLoad(requests_per_second=kept) if kept else None,
            broken=PoissonLoad(requests_per_second=broken) if broken else None,
        )
        for name, (kept, broken) in ((BASELINE, SIDES[baseline]), (VARIANT, SIDES[variant]))
    )
    facts = facts_of_row("rate: the variant takes more")
    run = ended(facts.run, status)
    of_classes = [v.comparison for v in facts.speculative if v.comparison]
    decision = decide(run, mixes=facts.mixes, of_classes=of_classes, highest_rates=bounds)
    return replace(facts, run=run, highest_rates=bounds, decision=decision)


def combinations() -> Iterator[tuple[str, Callable[..., RunFacts]]]:
    """Yield a name and a function that returns the facts of a run of a status (`complete`)."""
    for cost, limits, control in product(COSTS, LIMITS, CONTROLS):
        yield f"{cost}, {limits}, {control}", partial(by_cost, cost, limits, control)
    for variant, baseline in product(SIDES, SIDES):
        name = f"{VARIANT} {variant}, {BASELINE} {baseline}"
        yield name, partial(by_rates, variant, baseline)


def test_what_is_served_in_every_combination() -> None:
    text = ""
    for name, facts_of_status in combinations():
        facts = facts_of_status()
        assert_all_agree(facts)
        text += f"{name}: {decision_sentence(facts).removesuffix('.')}\n"
    assert_snapshot(text, Path(__file__).parent / "snapshots" / "decisions.txt")


def test_a_failed_run_decides_nothing_ever() -> None:
    for name, facts_of_status in combinations():
        decision = facts_of_status(status="failed").decision
        assert not decision.is_made, name
        assert decision.winner is None, name


def test_a_higher_latency_is_reported_at_equal_rates() -> None:
    """Both sides keep the limit on TTFT, and the variant takes 1.4 times as long in E2E."""
    facts = facts_of_row("rate: both keep the limits")
    assert {mix.judgement for mix in facts.mixes} == {Judgement.WITHIN_LIMITS}
    assert "E2E 1.4" in verdict_of(facts).headline.replace("1.37", "1.4")
    assert "measure higher rates" in answer_of(facts).next_step
    with pytest.raises(NoWinnerError, match="measure higher rates"):
        winner_to_export(facts)
