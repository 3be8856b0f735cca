"""Buckets and the results queue."""

from __future__ import annotations

from typing import Any

import pytest

from stacks.constructs.results_queue import PUBLISHER_TIMEOUT_SECONDS
from tests.stacks.synthesis import Resource, Template, experiments, of_type, only, synthesis

pytestmark = [pytest.mark.synth]
BUCKET = "AWS::S3::Bucket"


def storage(name: str = "qwen3-32b") -> Template:
    return synthesis().template(name, "storage")


def statements(policy: Resource) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = policy["Properties"]["PolicyDocument"]["Statement"]
    return found


@pytest.mark.parametrize("fragment", ["Checkpoints", "Artifacts", "Results"])
def test_buckets_are_private_encrypted_and_drop_abandoned_uploads(fragment: str) -> None:
    properties = only(storage(), BUCKET, fragment)["Properties"]
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(properties["PublicAccessBlockConfiguration"]) == 4
    (rule,) = properties["LifecycleConfiguration"]["Rules"]
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    (encryption,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


@pytest.mark.parametrize("fragment", ["Checkpoints", "Artifacts", "Results"])
def test_buckets_refuse_what_comes_without_tls(fragment: str) -> None:
    policy = only(storage(), "AWS::S3::BucketPolicy", fragment)
    denied = [s["Condition"] for s in statements(policy) if s["Effect"] == "Deny"]
    assert {"Bool": {"aws:SecureTransport": "false"}} in denied


@pytest.mark.parametrize("name", tuple(experiments()))
def test_the_experiment_says_whether_checkpoints_are_kept(name: str) -> None:
    template = storage(name)
    kept = experiments()[name].spec.aws.keep_checkpoints
    policies = {k: r["DeletionPolicy"] for k, r in of_type(template, BUCKET).items()}
    assert {"Checkpoints": "Retain" if kept else "Delete"}.items() <= _by_name(policies).items()
    assert _by_name(policies)["Results"] == _by_name(policies)["Artifacts"] == "Delete"
    emptied = of_type(template, "Custom::S3AutoDeleteObjects").values()
    names = {_name(r["Properties"]["BucketName"]["Ref"]) for r in emptied}
    assert names == {"Results", "Artifacts"} | (set() if kept else {"Checkpoints"})


@pytest.mark.parametrize("name", tuple(experiments()))
def test_a_bucket_that_stays_keeps_its_policy(name: str) -> None:
    template = storage(name)
    bucket = only(template, BUCKET, "Checkpoints")
    policy = only(template, "AWS::S3::BucketPolicy", "Checkpoints")
    stays = bucket["DeletionPolicy"] == "Retain"
    assert stays is experiments()[name].spec.aws.keep_checkpoints
    assert (policy.get("DeletionPolicy") == "Retain") is stays


def test_a_bucket_that_stays_is_not_excused_as_one_that_goes() -> None:
    reasons = {
        path: reason
        for (path, rule), reason in synthesis().acceptances().items()
        if rule == "AwsSolutions-S1" and path.startswith("draftworth-qwen3-32b/storage/")
    }
    assert len(reasons) == 3
    goes = {path.rpartition("/")[2] for path, reason in reasons.items() if "as long as" in reason}
    assert goes == {"Artifacts", "Results"}


def _by_name(values: dict[str, str]) -> dict[str, str]:
    return {_name(key): value for key, value in values.items()}


def _name(logical_id: str) -> str:
    return logical_id[:-8]


def test_new_result_files_are_announced_as_s3_events() -> None:
    bucket = only(storage(), BUCKET, "Results")
    (announced,) = bucket["Properties"]["NotificationConfiguration"]["QueueConfigurations"]
    rules = announced["Filter"]["S3Key"]["Rules"]
    assert announced["Event"] == "s3:ObjectCreated:*"
    assert rules == [
        {"Name": "prefix", "Value": "runs/"},
        {"Name": "suffix", "Value": ".result.json"},
    ]


def test_s3_may_send_before_the_bucket_announces() -> None:
    template = storage()
    (policy_id,) = (k for k in of_type(template, "AWS::SQS::QueuePolicy") if "DeadLetters" not in k)
    assert policy_id in only(template, BUCKET, "Results")["DependsOn"]
    sending = [
        s for s in statements(template["Resources"][policy_id]) if s["Action"] == "sqs:SendMessage"
    ]
    assert [s["Principal"] for s in sending] == [{"Service": "s3.amazonaws.com"}]
    assert sending[0]["Condition"] == {
        "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    }


def test_a_message_is_hidden_for_six_time_outs_and_then_becomes_a_dead_letter() -> None:
    queues = of_type(storage(), "AWS::SQS::Queue")
    (queue,) = (r["Properties"] for k, r in queues.items() if "DeadLetters" not in k)
    (dead_letters,) = (k for k in queues if "DeadLetters" in k)
    assert queue["VisibilityTimeout"] >= 6 * PUBLISHER_TIMEOUT_SECONDS
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": [dead_letters, "Arn"]}
    assert queue["RedrivePolicy"]["maxReceiveCount"] >= 3
    assert all(r["Properties"]["SqsManagedSseEnabled"] for r in queues.values())
