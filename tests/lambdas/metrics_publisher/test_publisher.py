"""One file is published to an emulated CloudWatch, and counted once whatever happens."""

import io
from collections.abc import Container
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from draftworth.metrics import definitions
from draftworth.records.codec import dump_record
from draftworth.records.results import BlockResult, claim_key
from lambdas.metrics_publisher.publish_errors import ClaimedError, NotNowError, UnusableError
from lambdas.metrics_publisher.publisher import CLOCK_SKEW_SECONDS
from tests.lambdas.metrics_publisher.conftest import BUCKET, Aws, KilledError, key_of
from tests.support.blocks import START_UNIX_S, make_block, make_failed_record, make_record

pytestmark = pytest.mark.emulator

SMALL_CALLS = pytest.mark.usefixtures("small_calls")


def assert_all_counted_once(aws: Aws, block: BlockResult, *, twice: Container[str] = ()) -> None:
    """Check that CloudWatch has each value of a block, which has three requests, once.

    twice: names of metrics whose values are there twice. A metric that the block lacks, such as an
    estimate of what its server counts, is not looked for.
    """
    for metric in definitions.published():
        if metric.of_request or metric.of_block(block) is not None:
            once = 3 if metric.of_request else 1
            times = 2 if metric.name in twice else 1
            assert aws.count(block, metric) == once * times, metric.name


def test_a_published_file_reads_back_from_cloudwatch(aws: Aws) -> None:
    requests = tuple(
        make_record(ttft_s=ttft_s, started_at_unix_s=START_UNIX_S + offset)
        for offset, ttft_s in [(0, 0.1), (1, 0.1), (2, 0.4), (60, 0.25)]
    )
    block = make_block(requests=(*requests, make_failed_record(40)))
    aws.publish(aws.upload(block))
    assert list(aws.read(block, definitions.TTFT, "SampleCount").values()) == [3, 1]
    assert list(aws.read(block, definitions.TTFT, "Sum").values()) == pytest.approx([600, 250])
    assert list(aws.read(block, definitions.TTFT, "Maximum").values()) == pytest.approx([400, 250])
    assert list(aws.read(block, definitions.ERRORS, "Sum").values()) == [0, 1]
    assert list(aws.read(block, definitions.ACCEPTANCE_RATE, "Average").values()) == [75]
    (output_tokens,) = (
        metric for metric in definitions.published() if metric.name == "OutputTokens"
    )
    assert list(aws.read(block, output_tokens, "Sum").values()) == [300, 100]


def test_the_same_file_counts_only_once(aws: Aws) -> None:
    block = make_block()
    key = aws.upload(block)
    first, second = aws.publish(key), aws.publish(key)
    assert (first.calls, second.calls, second.already_done) == (1, 0, 1)
    assert aws.publish(aws.upload(block)).calls == 0
    aws.now += 30 * 24 * 3600
    assert aws.publish(key).calls == 0, "published is published, also when it is too old now"
    assert aws.count(block) == 3


def test_a_file_changed_after_publishing_is_refused(aws: Aws) -> None:
    block = make_block()
    aws.publish(aws.upload(block))
    key = aws.upload_bytes(key_of(block), dump_record(make_block(request_count=4)))
    with pytest.raises(UnusableError, match="changed after 1 of 1 calls were published"):
        aws.publish(key)
    assert aws.count(block) == 3


@SMALL_CALLS
def test_a_delivery_meets_a_running_ones_claim(aws: Aws) -> None:
    block = make_block()
    key = aws.upload(block)
    refusals: list[str] = []

    def deliver_again(current: int) -> None:
        if current == 2:
            with pytest.raises(ClaimedError) as refused:
                aws.publish(key)
            refusals.append(str(refused.value))

    aws.on_put(deliver_again)
    aws.publish(key)
    assert "published 1 of 5 calls and holds it for 90 s more" in refusals[0]
    assert aws.count(block) == 3
    assert aws.publish(key).calls == 0


def let_a_rival_publish_before_the_next_write(aws: Aws, key: str) -> None:
    rival = iter([aws.publish])

    def publish_first(model: Any, **_: Any) -> None:
        for publish in rival:
            publish(key)

    aws.s3.meta.events.register("before-call.s3.PutObject", publish_first)


def test_of_two_first_deliveries_one_publishes(aws: Aws) -> None:
    block = make_block()
    key = aws.upload(block)
    let_a_rival_publish_before_the_next_write(aws, key)
    with pytest.raises(ClaimedError, match="claimed the file at this moment"):
        aws.publish(key)
    assert aws.count(block) == 3


@SMALL_CALLS
def test_of_two_that_take_over_one_publishes(aws: Aws) -> None:
    block = make_block()
    key = aws.upload(block)
    aws.throttle(2)
    with pytest.raises(ClientError, match="Throttling"):
        aws.publish(key)
    let_a_rival_publish_before_the_next_write(aws, key)
    with pytest.raises(ClaimedError):
        aws.publish(key)
    assert_all_counted_once(aws, block)


def test_a_claim_with_a_lost_answer_stays_valid(aws: Aws) -> None:
    key = aws.upload(make_block())
    once = iter([True])

    def write_before(params: dict[str, Any], **_: Any) -> None:
        # As if the answer to boto3's first try was lost: the second try meets the first's object.
        for _first in once:
            body = params["Body"]
            aws.s3.put_object(Bucket=BUCKET, Key=params["Key"], Body=io.BytesIO(body))

    aws.s3.meta.events.register("provide-client-params.s3.PutObject", write_before)
    assert aws.publish(key).calls == 1


@SMALL_CALLS
@pytest.mark.parametrize("number", [1, 3, 5])
def test_after_a_refused_call_publishing_continues_at_once(aws: Aws, number: int) -> None:
    block = make_block()
    key = aws.upload(block)
    aws.throttle(number)
    with pytest.raises(ClientError, match="Throttling"):
        aws.publish(key)
    outcome = aws.publish(key)
    assert (outcome.already_done, outcome.calls) == (number - 1, 6 - number)
    assert not outcome.may_repeat_a_call
    assert_all_counted_once(aws, block)


@SMALL_CALLS
def test_a_dead_invocations_file_waits_for_its_lease(aws: Aws) -> None:
    block = make_block()
    key = aws.upload(block)
    aws.kill_at_put(3, when="before-call")
    with pytest.raises(KilledError):
        aws.publish(key, seconds=60)
    aws.now += 60 + CLOCK_SKEW_SECONDS - 1
    with pytest.raises(ClaimedError, match="published 2 of 5 calls and holds it for 1 s more"):
        aws.publish(key)
    aws.now += 2
    outcome = aws.publish(key)
    assert (outcome.already_done, outcome.calls, outcome.may_repeat_a_call) == (2, 3, True)
    assert_all_counted_once(aws, block)


@SMALL_CALLS
def test_a_death_repeats_only_the_unrecorded_call(aws: Aws) -> None:
    block = make_block()
    key = aws.upload(block)
    aws.kill_at_put(2, when="after-call")
    with pytest.raises(KilledError):
        aws.publish(key, seconds=60)
    aws.now += 60 + CLOCK_SKEW_SECONDS + 1
    assert aws.publish(key).may_repeat_a_call
    repeated = {datum["MetricName"] for datum in aws.calls[1]["MetricData"]}
    assert aws.calls[1]["MetricData"] == aws.calls[2]["MetricData"]
    assert_all_counted_once(aws, block, twice=repeated)


@SMALL_CALLS
def test_an_unrecorded_success_is_recorded_at_the_end(
    aws: Aws,
) -> None:
    block = make_block()
    key = aws.upload(block)
    refusals = iter([None, ("SlowDown", 503)])  # the claim is created, its first update refused

    def refuse_once(**_: Any) -> Any:
        refusal = next(refusals, None)
        if refusal is None:
            return None
        code, status = refusal
        return SimpleNamespace(status_code=status), {"Error": {"Code": code}}

    aws.s3.meta.events.register("before-call.s3.PutObject", refuse_once)
    with pytest.raises(ClientError, match="SlowDown"):
        aws.publish(key)
    assert aws.publish(key).already_done == 1
    assert aws.count(block) == 3


@SMALL_CALLS
def test_no_call_begins_shortly_before_the_end(aws: Aws) -> None:
    block = make_block()
    key = aws.upload(block)

    def pass_time(_: int) -> None:
        aws.now += 20

    aws.on_put(pass_time)
    with pytest.raises(NotNowError, match="3 of 5 calls are done, the next delivery goes on"):
        aws.publish(key, seconds=60)
    assert aws.publish(key, seconds=60).calls == 2


@SMALL_CALLS
def test_another_grouping_continues_no_half_published_file(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = aws.upload(make_block())
    aws.throttle(2, 3)
    with pytest.raises(ClientError):
        aws.publish(key)
    monkeypatch.setattr("lambdas.metrics_publisher.metric_data_calls.MAX_DATA_PER_CALL", 3)
    with pytest.raises(UnusableError, match="1 of 5 calls were made by another version"):
        aws.publish(key)


@SMALL_CALLS
def test_another_grouping_may_publish_an_untouched_file(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = aws.upload(make_block())
    aws.throttle(1)
    with pytest.raises(ClientError):
        aws.publish(key)
    monkeypatch.setattr("lambdas.metrics_publisher.metric_data_calls.MAX_DATA_PER_CALL", 3)
    assert aws.publish(key).calls == 4
    assert (aws.claim(key)["calls"], aws.claim(key)["calls_done"]) == (4, 4)


def test_a_damaged_claim_is_not_guessed_at(aws: Aws) -> None:
    key = aws.upload(make_block())
    for text in (b"x", b'{"a": 1}', b"[]"):
        aws.upload_bytes(claim_key(key), text)
        with pytest.raises(UnusableError, match="is not a claim"):
            aws.publish(key)
    assert aws.calls == []


def test_timestamps_that_cloudwatch_refuses_fail_before_calls(aws: Aws) -> None:
    key = aws.upload(make_block())
    for days, reason in (
        (14.0, "are too old.*report` reads it without CloudWatch"),
        (-1 / 8, "lie in the future.*Set the clock"),
    ):
        aws.now = START_UNIX_S + days * 24 * 3600
        with pytest.raises(UnusableError, match=reason):
            aws.publish(key)
    assert aws.calls == []


def test_timestamps_just_within_the_window_are_published(aws: Aws) -> None:
    for number, days in enumerate((13.99, -1 / 13)):
        key = aws.upload(make_block(block=number))
        aws.now = START_UNIX_S + days * 24 * 3600
        assert aws.publish(key).calls == 1


def test_a_key_of_another_file_is_refused_unread(aws: Aws) -> None:
    for key in ("published/runs/a/blocks/b.result.json.json", "runs/a/run.json", "x.result.json"):
        with pytest.raises(UnusableError, match=r"allowed: runs/\*\.result\.json"):
            aws.publish(key)
