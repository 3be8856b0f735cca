"""The mail about a complete run quotes the run's verdict, and is sent without a verdict too."""

import pytest

from draftworth.records.codec import dump_record
from lambdas.capacity_controller.s3_reading import QUOTED_LINES
from tests.lambdas.capacity_controller.conftest import RUN_EVENT, Account, started
from tests.lambdas.capacity_controller.fakes import RESULTS
from tests.lambdas.capacity_controller.plans import RUN_ID, make_verdict

ADDRESS = f"s3://{RESULTS}/runs/{RUN_ID}"


def mail_of(account: Account, *, verdict: bytes | None, subject: str = "") -> list[str]:
    """Return the lines of the mail about a run that ends with this verdict.

    subject: the part of the mail's subject that comes from the verdict.
    """
    started(account)
    account.instances_follow()
    if verdict is not None:
        account.give_verdict(verdict)
    account.end_run()
    account.handle(RUN_EVENT)
    assert account.outcome == (0, "complete")
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: 0 nodes, complete" + subject
    return mail["text"].split("\n")


def test_the_mail_has_answer_sentences_and_report(
    account: Account,
) -> None:
    verdict = make_verdict()
    assert mail_of(account, verdict=dump_record(verdict))[:7] == [
        verdict.headline,
        f"    {verdict.findings[0].sentence}",
        f"    {verdict.notes[0]}",
        f"Report, within minutes: {ADDRESS}/report/report.html",
        f"Or on your machine: draftworth report {ADDRESS}",
        "",
        "Accelerator nodes of qwen3-32b: 1 -> 0",
    ]


def test_the_decision_stands_in_the_subject_and_first(account: Account) -> None:
    decision = "Decision: serve k7 (wïndow 7). Speculation pays."
    verdict = dump_record(make_verdict(decision=decision))
    first, headline, *_ = mail_of(account, verdict=verdict, subject=": serve k7 (w?ndow 7)")
    assert (first, headline) == (decision, make_verdict().headline)


def test_a_long_answer_is_cut_with_a_count(
    account: Account,
) -> None:
    notes = tuple(f"sentence {number}" for number in range(100))
    lines = mail_of(account, verdict=dump_record(make_verdict(notes=notes)))
    assert (
        lines[QUOTED_LINES + 1]
        == f"    ... and {101 - QUOTED_LINES} sentences more, in the report."
    )
    assert "sentence 99" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        (None, "there is no verdict.json."),
        (b"{", "verdict.json cannot be read: not JSON: "),
        (dump_record(make_verdict(run_id="another")), "verdict.json is another run's."),
        (dump_record(make_verdict(schema="draftworth.verdict/0")), "verdict.json cannot be read: "),
    ],
)
def test_without_a_readable_verdict_the_mail_says_so(
    account: Account, verdict: bytes | None, why: str
) -> None:
    headline, *rest = mail_of(account, verdict=verdict)
    assert headline.startswith(f"The verdict is not known here: {why}")
    assert rest[0] == f"Report, within minutes: {ADDRESS}/report/report.html"
