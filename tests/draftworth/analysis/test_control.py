"""The noise floor: the difference between two servers without speculation limits verdicts."""

from dataclasses import replace

import pytest

from draftworth.analysis.statistics import Estimate
from draftworth.records.results import CONTROL
from draftworth.records.run_folder import Run
from draftworth.report.attention import attention_of
from draftworth.report.contents import document_of
from draftworth.report.reason_sentences import reason_words
from draftworth.report.sentences import findings, headline
from tests.draftworth.report.runs import BASELINE, VARIANT, make_facts, make_run, with_control
from tests.support.blocks import make_failed_record
from tests.support.present import present


def ratio(low: float | None, high: float | None) -> Estimate:
    return Estimate(value=1.0, low=low, high=high, prompts=8, blocks=3, samples=24)


def test_a_control_is_no_variant_and_changes_nothing() -> None:
    plain, with_it = make_facts(), make_facts(with_control(make_run()))
    assert with_it.run.result.variants == (BASELINE, VARIANT)
    assert [v.summary for v in with_it.variants] == [v.summary for v in plain.variants]
    assert with_it.mixes[0].cost_ratio == plain.mixes[0].cost_ratio
    assert len(with_it.control) == 12
    assert CONTROL not in headline(with_it)
    assert {f.variant for f in findings(with_it)} == {VARIANT}


def test_its_interval_stands_under_every_verdict() -> None:
    facts = make_facts(with_control(make_run()))
    control_findings = list(findings(facts))
    assert len(control_findings) == 3
    for finding in control_findings:
        assert present(finding.noise_floor_low) <= 1.002 <= present(finding.noise_floor_high)
        assert "Two servers without speculation: " in finding.sentence
    assert [f.clears_noise_floor for f in control_findings] == [None, True, True]
    assert "which the verdict clears." in control_findings[1].sentence


def test_without_a_control_nothing_is_said_of_it() -> None:
    for finding in findings(make_facts()):
        assert "Two servers" not in finding.sentence
        assert (finding.noise_floor_low, finding.clears_noise_floor) == (None, None)


def test_a_class_without_control_has_no_floor() -> None:
    run = with_control(make_run())
    blocks = tuple(
        b for b in run.blocks if not (b.variant == CONTROL and b.prompt_class == "structured")
    )
    facts = make_facts(replace(run, blocks=blocks))
    floors = {f.traffic: f.noise_floor_low for f in findings(facts)}
    assert floors["structured"] is None
    assert floors["traffic mix"] is None
    assert floors["open_ended"] is not None


def test_equal_servers_that_differ_make_the_verdict_inconclusive() -> None:
    """In `structured`, the variant and a second server without speculation save about the same."""
    facts = make_facts(with_control(make_run(), factor=0.59))
    (comparison,) = (
        present(v.comparison)
        for v in facts.speculative
        if v.summary.group.prompt_class == "structured"
    )
    assert comparison.judgement == "inconclusive"
    assert "on a second server without speculation it costs -41." in reason_words(comparison)
    assert "so much may be no effect of speculation" in reason_words(comparison)
    (sentence,) = (f.sentence for f in findings(facts) if f.traffic == "structured")
    assert sentence.count(f"{comparison.floor.low - 1:+.1%}") == 1  # type: ignore[union-attr, operator]


def failing(run: Run, failed: int) -> Run:
    """Return the run with `failed` failed requests in each block of the control."""
    blocks = tuple(
        replace(
            block,
            requests=(*map(make_failed_record, range(failed)), *block.requests[failed:]),
        )
        if block.variant == CONTROL
        else block
        for block in run.blocks
    )
    return replace(run, blocks=blocks)


@pytest.mark.parametrize(("failed", "of_all"), [(2, "6 of 24"), (8, "24 of 24")])
def test_a_control_with_failures_gives_no_floor(failed: int, of_all: str) -> None:
    """The requests that did not fail may be the easy ones, so they show no noise floor."""
    facts = make_facts(failing(with_control(make_run()), failed))
    assert {f.noise_floor_low for f in findings(facts)} == {None}
    lines = [line for line in attention_of(facts) if "The control gives no noise floor" in line]
    assert [line.split(": ")[0].rpartition(" for ")[2] for line in lines] == [
        "structured at 4 requests at a time",
        "open_ended at 4 requests at a time",
    ]
    assert f"{of_all} requests of control in structured at 4 requests at a time failed" in lines[0]
    header = dict(document_of(facts).facts)["requests"]
    assert header.endswith(f"; control: 96, {failed * 6} failed, 0 excluded")


def test_a_control_of_one_round_gives_no_interval() -> None:
    facts = make_facts(with_control(make_run(), rounds=1))
    assert (
        "The control gives no noise floor for structured at 4 requests at a time: its pairs in "
        "structured at 4 requests at a time give no interval."
    ) in attention_of(facts)


def test_a_working_or_missing_control_needs_no_attention() -> None:
    for run in (with_control(make_run()), make_run()):
        assert not [line for line in attention_of(make_facts(run)) if "noise floor" in line]
    assert "control" not in dict(document_of(make_facts()).facts)["requests"]


def test_the_headline_names_an_unclear_floor() -> None:
    facts = make_facts(make_run(class_weights={"structured": 0.9, "open_ended": 0.1}))
    (mix,) = facts.mixes
    assert facts.decision.comparison == mix
    wide = replace(
        facts, decision=replace(facts.decision, comparison=replace(mix, floor=ratio(0.6, 1.6)))
    )
    assert "Speculation pays: " in headline(wide)
    assert "which the verdict does not clear" in headline(wide)
    clear = replace(facts.decision, comparison=replace(mix, floor=ratio(1, 1)))
    assert "Two servers" not in headline(replace(facts, decision=clear))
