"""The mail that says that a run is complete brings its answer, and comes without one too."""

import pytest

from draftworth.records.codec import dump_record
from lambdas.capacity_controller.s3_reading import QUOTED_LINES
from tests.lambdas.capacity_controller.conftest import RUN_EVENT, Account, started
from tests.lambdas.capacity_controller.fakes import RESULTS
from tests.lambdas.capacity_controller.plans import RUN_ID, make_verdict

ADDRESS = f"s3://{RESULTS}/runs/{RUN_ID}"


def told(account: Account, *, verdict: bytes | None) -> list[str]:
    """The lines of the mail of a run that ends with this verdict beside it."""
    started(account)
    account.instances_follow()
    if verdict is not None:
        account.give_verdict(verdict)
    account.end_run()
    account.handle(RUN_EVENT)
    assert account.outcome == (0, "complete")
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: 0 nodes, complete"
    return mail["text"].split("\n")


def test_the_answer_comes_first_then_its_sentences_then_where_the_report_is(
    account: Account,
) -> None:
    verdict = make_verdict()
    assert told(account, verdict=dump_record(verdict))[:7] == [
        verdict.headline,
        f"    {verdict.findings[0].sentence}",
        f"    {verdict.notes[0]}",
        f"Report, within minutes: {ADDRESS}/report/report.html",
        f"Or on your machine: draftworth report {ADDRESS}",
        "",
        "Accelerator nodes of qwen3-32b: 1 -> 0",
    ]


def test_of_many_sentences_the_mail_quotes_some_and_says_how_many_are_left(
    account: Account,
) -> None:
    notes = tuple(f"sentence {number}" for number in range(100))
    lines = told(account, verdict=dump_record(make_verdict(notes=notes)))
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
def test_without_a_verdict_that_can_be_read_the_mail_says_so(
    account: Account, verdict: bytes | None, why: str
) -> None:
    headline, *rest = told(account, verdict=verdict)
    assert headline.startswith(f"The verdict is not known here: {why}")
    assert rest[0] == f"Report, within minutes: {ADDRESS}/report/report.html"
