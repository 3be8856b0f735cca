"""Buckets and the results queue."""

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
    rule = properties["LifecycleConfiguration"]["Rules"][0]
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    (encryption,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


@pytest.mark.parametrize("fragment", ["Checkpoints", "Artifacts", "Results"])
def test_buckets_have_generated_names_and_say_what_they_hold(fragment: str) -> None:
    """A name of ours would be taken by the bucket that an earlier deploy left."""
    properties = only(storage(), BUCKET, fragment)["Properties"]
    assert "BucketName" not in properties
    assert {"Key": "draftworth:holds", "Value": fragment.lower()} in properties["Tags"]
    assert {"Key": "draftworth:experiment", "Value": "qwen3-32b"} in properties["Tags"]


def test_runs_get_cheaper_to_keep_after_a_month_and_nothing_expires() -> None:
    rules = {
        (name, rule["Id"]): rule
        for name in ("Checkpoints", "Artifacts", "Results")
        for rule in only(storage(), BUCKET, name)["Properties"]["LifecycleConfiguration"]["Rules"]
    }
    assert [name for name, id_ in rules if id_ != "abandoned-uploads"] == ["Results"]
    cooler = rules["Results", "rarely-read"]
    assert cooler["Prefix"] == "runs/"
    assert cooler["Transitions"] == [{"StorageClass": "STANDARD_IA", "TransitionInDays": 30}]
    assert not [key for rule in rules.values() for key in rule if key.startswith("Expiration")]


@pytest.mark.parametrize("fragment", ["Checkpoints", "Artifacts", "Results"])
def test_buckets_refuse_what_comes_without_tls(fragment: str) -> None:
    policy = only(storage(), "AWS::S3::BucketPolicy", fragment)
    denied = [s["Condition"] for s in statements(policy) if s["Effect"] == "Deny"]
    assert {"Bool": {"aws:SecureTransport": "false"}} in denied


def kept_by(name: str) -> set[str]:
    """The buckets that an experiment keeps."""
    aws = experiments()[name].spec.aws
    stays = {"Checkpoints": aws.keep_checkpoints, "Results": aws.keep_results}
    return {bucket for bucket, keeps in stays.items() if keeps}


@pytest.mark.parametrize("name", tuple(experiments()))
def test_a_bucket_that_is_kept_is_not_emptied(name: str) -> None:
    emptied = of_type(storage(name), "Custom::S3AutoDeleteObjects").values()
    assert not {r["Properties"]["BucketName"]["Ref"][:-8] for r in emptied} & kept_by(name)


def test_every_choice_of_what_is_kept_is_looked_at() -> None:
    assert {frozenset(kept_by(name)) for name in experiments()} >= {
        frozenset({"Results"}),
        frozenset({"Checkpoints"}),
        frozenset({"Checkpoints", "Results"}),
    }


@pytest.mark.parametrize("name", tuple(experiments()))
@pytest.mark.parametrize("fragment", ["Checkpoints", "Results"])
def test_the_policy_of_a_bucket_that_stays_names_nothing_that_goes(
    name: str, fragment: str
) -> None:
    """A role that is gone leaves an id that S3 refuses whenever the policy is written again."""
    policy = only(storage(name), "AWS::S3::BucketPolicy", fragment)
    named = {str(s["Principal"]) for s in statements(policy)} - {"{'AWS': '*'}"}
    assert (named == set()) is (fragment in kept_by(name))


def test_a_bucket_that_stays_is_not_excused_as_one_that_goes() -> None:
    for name in experiments():
        path_of = f"{experiments()[name].names.stack}/storage/"
        reasons = {
            path.rpartition("/")[2]: reason
            for (path, rule), reason in synthesis().acceptances().items()
            if rule == "AwsSolutions-S1" and path.startswith(path_of)
        }
        assert len(reasons) == 3
        stays = {bucket for bucket, reason in reasons.items() if "outlives" in reason}
        assert stays == kept_by(name)


def test_new_result_files_come_into_the_queue_by_eventbridge() -> None:
    template = storage()
    (rule,) = of_type(template, "AWS::Events::Rule").values()
    (bucket,) = (k for k in of_type(template, BUCKET) if k.startswith("Results"))
    assert rule["Properties"]["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {
            "bucket": {"name": [{"Ref": bucket}]},
            "object": {
                "key": [
                    {"wildcard": "runs/*.result.json"},
                    {"wildcard": "runs/*/verdict.json"},
                ]
            },
        },
    }
    (target,) = rule["Properties"]["Targets"]
    (queue,) = (k for k in of_type(template, "AWS::SQS::Queue") if "DeadLetters" not in k)
    assert target["Arn"] == {"Fn::GetAtt": [queue, "Arn"]}


def test_the_rule_and_nothing_else_may_send_to_the_queue() -> None:
    template = storage()
    (rule,) = of_type(template, "AWS::Events::Rule")
    (policy,) = (
        r for k, r in of_type(template, "AWS::SQS::QueuePolicy").items() if "DeadLetters" not in k
    )
    (sending,) = (s for s in statements(policy) if s["Effect"] == "Allow")
    assert sending["Action"] == "sqs:SendMessage"
    assert sending["Principal"] == {"Service": "events.amazonaws.com"}
    assert sending["Condition"] == {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": [rule, "Arn"]}}}


def test_a_message_is_hidden_for_six_time_outs_and_then_becomes_a_dead_letter() -> None:
    queues = of_type(storage(), "AWS::SQS::Queue")
    (queue,) = (r["Properties"] for k, r in queues.items() if "DeadLetters" not in k)
    (dead_letters,) = (k for k in queues if "DeadLetters" in k)
    assert queue["VisibilityTimeout"] >= 6 * PUBLISHER_TIMEOUT_SECONDS
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": [dead_letters, "Arn"]}
    assert queue["RedrivePolicy"]["maxReceiveCount"] >= 3
    assert all(r["Properties"]["SqsManagedSseEnabled"] for r in queues.values())
