"""A batch, and the whole chain: bucket, EventBridge, queue, function, metrics, dead letters."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from charts.shipped import METRICS_PUBLISHER
from draftworth.records.codec import dump_record
from draftworth.records.results import MAX_RECEIVE_COUNT, OBJECT_CREATED, RESULT_LIMIT_BYTES
from lambdas.metrics_publisher import handler as handler_module
from lambdas.metrics_publisher.s3_events import created_object
from tests.lambdas.metrics_publisher.conftest import BUCKET, Aws, key_of
from tests.support.blocks import make_block
from tests.support.shipped import lay_out
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.emulator


def s3_event(key: str, bucket: str = BUCKET) -> dict[str, Any]:
    about = {"bucket": {"name": bucket}, "object": {"key": key}}
    return {"detail-type": OBJECT_CREATED, "detail": about}


def message(message_id: str, event: object) -> dict[str, str]:
    return {"messageId": message_id, "body": json.dumps(event)}


def failed_ids(answer: Any) -> list[str]:
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def test_an_upload_reaches_metrics_through_the_queue(chain: Aws) -> None:
    block = make_block(run_id="run 1+2=ä")  # its key has characters that S3 encodes
    key = chain.upload(block)
    chain.s3.put_object(Bucket=BUCKET, Key=key.replace(".result.json", "_summary.json"), Body=b"{}")
    assert failed_ids(chain.deliver()) == []
    assert chain.count(block) == 3
    assert chain.messages(chain.queue) == [], "neither the summary nor the claim raised an event"
    (line,) = chain.log
    assert (line["event"], line["level"]) == ("published", "INFO")
    assert (line["bucket"], line["key"], line["calls"]) == (BUCKET, key, 1)


def test_a_malformed_file_alone_becomes_a_dead_letter(
    chain: Aws,
) -> None:
    bad, good = make_block(block=1), make_block(block=2)
    bad_key = chain.upload_bytes(key_of(bad), b"{")
    chain.upload(good)
    for _ in range(MAX_RECEIVE_COUNT):
        chain.deliver()
    assert chain.messages(chain.queue) == []
    (dead,) = chain.messages(chain.dead_letters)
    assert created_object(dead["Body"]).key == bad_key
    assert chain.count(good) == 3
    failures = [entry for entry in chain.log if entry["level"] == "ERROR"]
    assert len(failures) == MAX_RECEIVE_COUNT
    assert failures[0]["message_id"] == dead["MessageId"]
    assert failures[0]["key"] == bad_key
    assert failures[0]["reason"].startswith("not a result file: not JSON")

    chain.upload(bad)  # the event of this upload is dropped: the dead letter is handled again below
    chain.handle({"Records": [{"messageId": dead["MessageId"], "body": dead["Body"]}]})
    assert chain.count(good) == 6, "both have the same dimensions"


def _changed(**overrides: Any) -> bytes:
    return json.dumps(json.loads(dump_record(make_block())) | overrides).encode()


MALFORMED = (
    (b"", "not a result file: not JSON"),
    (b" " * (RESULT_LIMIT_BYTES + 1), "not a result file: more than 11,796,480 bytes"),
    (_changed(schema="draftworth.result/999"), "schema: given 'draftworth.result/999'"),
)


def test_a_malformed_file_fails_alone_with_its_reason(aws: Aws) -> None:
    good = make_block(block=len(MALFORMED))
    bad_keys = [
        aws.upload_bytes(key_of(make_block(block=number)), data)
        for number, (data, _) in enumerate(MALFORMED)
    ]
    batch = [message(key, s3_event(key)) for key in (*bad_keys, aws.upload(good))]
    assert failed_ids(aws.handle({"Records": batch})) == bad_keys
    *failures, success = aws.log
    for key, failure, (_, reason) in zip(bad_keys, failures, MALFORMED, strict=True):
        assert (failure["message_id"], failure["bucket"], failure["key"]) == (key, BUCKET, key)
        assert reason in failure["reason"]
        assert (failure["error"], failure["retry_helps"]) == ("UnusableError", False)
    assert success["event"] == "published"
    assert aws.count(good) == 3


def test_an_event_without_a_file_fails_with_reason(aws: Aws) -> None:
    rows = (
        (s3_event("runs/a/blocks/gone.result.json"), "no object 'runs/a/blocks/gone.result.json'"),
        (s3_event("runs/a/blocks/b.result.json", bucket="other"), "bucket: given 'other'"),
        ({"detail-type": "x"}, "not an S3 event"),
    )
    batch = [message(str(number), event) for number, (event, _) in enumerate(rows)]
    assert failed_ids(aws.handle({"Records": batch})) == ["0", "1", "2"]
    for entry, (_, reason) in zip(aws.log, rows, strict=True):
        assert reason in entry["reason"]


def test_a_failure_of_aws_is_published_next_time(aws: Aws) -> None:
    block = make_block()
    batch = {"Records": [message("m", s3_event(aws.upload(block)))]}
    aws.throttle(1)
    assert failed_ids(aws.handle(batch)) == ["m"]
    assert aws.log[0]["error"] == "ClientError"
    assert "Throttling" in aws.log[0]["reason"]
    assert failed_ids(aws.handle(batch)) == []
    assert aws.count(block) == 3


def test_an_unforeseen_error_fails_its_message_alone(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = make_block(block=7)
    publish = aws.publisher.publish

    def broken(source: Any, **keywords: Any) -> Any:
        if source.key == "runs/broken":
            raise ZeroDivisionError("nobody foresaw this")
        return publish(source, **keywords)

    monkeypatch.setattr(aws.publisher, "publish", broken)
    batch = [message("bad", s3_event("runs/broken")), message("good", s3_event(aws.upload(good)))]
    assert failed_ids(aws.handle({"Records": [{"messageId": "none"}, *batch]})) == ["none", "bad"]
    without_body, failure, _ = aws.log
    assert without_body["error"] == "KeyError"
    assert (failure["error"], failure["reason"]) == ("ZeroDivisionError", "nobody foresaw this")
    assert "in broken" in failure["traceback"]
    assert failure["retry_helps"] is None
    assert aws.count(good) == 3


def test_what_does_not_fit_is_left_for_later(aws: Aws) -> None:
    keys = [aws.upload(make_block(block=number)) for number in (1, 2)]

    def pass_time(_: int) -> None:
        aws.now += 57

    aws.on_put(pass_time)
    batch = [message(key, s3_event(key)) for key in keys]
    assert failed_ids(aws.handle({"Records": batch}, seconds=60)) == [keys[1]]
    assert aws.log[1]["retry_helps"] is True
    assert aws.log[1]["level"] == "WARNING"


def test_the_entry_point_makes_its_clients_once(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = {"Records": [message("m", s3_event("runs/a/blocks/gone.result.json"))]}
    handler_module._publisher.cache_clear()
    try:
        with pytest.raises(RuntimeError, match="RESULTS_BUCKET is not set"):
            handler_module.handler(batch, None)
        monkeypatch.setenv("RESULTS_BUCKET", BUCKET)
        assert failed_ids(handler_module.handler(batch, None)) == ["m"]
        monkeypatch.delenv("RESULTS_BUCKET")
        handler_module.handler(batch, None)
    finally:
        handler_module._publisher.cache_clear()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["message_id"] for line in lines] == ["m", "m"]


def test_the_function_runs_from_its_own_files_alone(tmp_path: Path) -> None:
    lay_out(METRICS_PUBLISHER, tmp_path)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules)\n"
        "from lambdas.metrics_publisher.handler import handler\n"
        "body = '{}'\n"
        "print(handler({'Records': [{'messageId': 'm', 'body': body}]}, None))\n"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))\n"
    )
    environment = {"RESULTS_BUCKET": BUCKET, "AWS_DEFAULT_REGION": "us-east-2"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_AFTER_SECONDS,
    )
    log, answer, modules = done.stdout.splitlines()
    assert json.loads(log)["error"] == "UnusableError"
    assert answer == "{'batchItemFailures': [{'itemIdentifier': 'm'}]}"
    names = "boto3 botocore s3transfer jmespath dateutil urllib3 certifi six awscrt"
    boto3_and_what_it_needs = set(names.split())
    foreign = set(modules.split()) - sys.stdlib_module_names - boto3_and_what_it_needs
    assert {name for name in foreign if not name.startswith("_")} == {"draftworth", "lambdas"}
