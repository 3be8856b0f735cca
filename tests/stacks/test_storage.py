"""The stack's part `storage`: buckets and the results queue."""

import pytest

from tests.stacks.synthesis import Template, experiments, of_type, only, synthesis

pytestmark = [pytest.mark.synth]


def storage(name: str = "qwen3-32b") -> Template:
    return synthesis().template(name, "storage")


def kept_by(name: str) -> set[str]:
    """Return the names of the stack's buckets that an experiment keeps after a destroy."""
    aws = experiments()[name].spec.aws
    stays = {"Checkpoints": aws.keep_checkpoints, "Results": aws.keep_results}
    return {bucket for bucket, keeps in stays.items() if keeps}


def imports(name: str) -> bool:
    """Return whether the checkpoints are in a bucket that an earlier stack has left."""
    return experiments()[name].spec.aws.checkpoints_bucket is not None


@pytest.mark.parametrize("name", tuple(experiments()))
def test_a_bucket_that_is_kept_is_not_emptied(name: str) -> None:
    emptied = of_type(storage(name), "Custom::S3AutoDeleteObjects").values()
    assert not {r["Properties"]["BucketName"]["Ref"][:-8] for r in emptied} & kept_by(name)


def test_every_choice_of_kept_buckets_is_covered() -> None:
    assert {frozenset(kept_by(name)) for name in experiments()} >= {
        frozenset({"Results"}),
        frozenset({"Checkpoints"}),
        frozenset({"Checkpoints", "Results"}),
    }


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        (name, fragment)
        for name in experiments()
        for fragment in ("Checkpoints", "Results")
        if fragment == "Results" or not imports(name)
    ],
)
def test_a_kept_buckets_policy_names_no_deleted_role(name: str, fragment: str) -> None:
    """A deleted role leaves an id in a bucket's policy, and S3 refuses to write such a policy."""
    policy = only(storage(name), "AWS::S3::BucketPolicy", fragment)["Properties"]["PolicyDocument"]
    named = {str(s["Principal"]) for s in policy["Statement"]} - {"{'AWS': '*'}"}
    assert (named == set()) is (fragment in kept_by(name))


@pytest.mark.parametrize("name", tuple(experiments()))
def test_old_results_stay_for_thirty_days(name: str) -> None:
    for logical_id, bucket in of_type(storage(name), "AWS::S3::Bucket").items():
        properties = bucket["Properties"]
        rules = properties["LifecycleConfiguration"]["Rules"]
        days = [
            r["NoncurrentVersionExpiration"]["NoncurrentDays"]
            for r in rules
            if "NoncurrentVersionExpiration" in r
        ]
        versions = properties.get("VersioningConfiguration")
        if logical_id.startswith("Results"):
            assert (versions, days) == ({"Status": "Enabled"}, [30])
        else:
            assert (versions, days) == (None, [])


@pytest.mark.parametrize("name", tuple(experiments()))
def test_nothing_that_is_current_expires(name: str) -> None:
    for bucket in of_type(storage(name), "AWS::S3::Bucket").values():
        for rule in bucket["Properties"]["LifecycleConfiguration"]["Rules"]:
            assert not {"ExpirationInDays", "ExpirationDate"} & set(rule)


def test_a_kept_bucket_is_not_excused_as_deleted() -> None:
    for name in experiments():
        path_of = f"{experiments()[name].names.stack}/storage/"
        reasons = {
            path.rpartition("/")[2]: reason
            for (path, rule), reason in synthesis().acceptances().items()
            if rule == "AwsSolutions-S1" and path.startswith(path_of)
        }
        assert len(reasons) == (2 if imports(name) else 3)
        stays = {bucket for bucket, reason in reasons.items() if "outlives" in reason}
        assert stays == kept_by(name)


def test_a_bucket_of_an_earlier_stack_stays_untouched() -> None:
    name = "small-nodes"
    assert imports(name)
    assert not [k for k in storage(name)["Resources"] if "Checkpoints" in k]
    bucket = experiments()[name].spec.aws.checkpoints_bucket
    location = storage(name)["Outputs"]["CheckpointsLocation"]["Value"]
    assert location == f"s3://{bucket}/"
    functions = of_type(synthesis().template(name, "benchmark"), "AWS::Lambda::Function").values()
    variables = [f["Properties"]["Environment"]["Variables"] for f in functions]
    assert bucket in [v.get("CHECKPOINTS_BUCKET") for v in variables]


@pytest.mark.parametrize("name", tuple(experiments()))
def test_an_update_keeps_deployed_queues_and_their_source(name: str) -> None:
    """The queues' logical ids must not change: CloudFormation would replace a queue.

    The messages in the old queue would be deleted. A version of draftworth that must change an id
    has to be deployed while the queue is empty.
    """
    kept = {"ResultsQueue20F4ED43", "ResultsQueueDeadLettersBE7931F6"}
    assert set(of_type(storage(name), "AWS::SQS::Queue")) == kept
    assert "Results37EC7789" in of_type(storage(name), "AWS::S3::Bucket")
    # The logical id of the event source mapping may change: a new mapping reads the same queue.
    (mapping,) = of_type(
        synthesis().template(name, "benchmark"), "AWS::Lambda::EventSourceMapping"
    ).values()
    assert mapping["Properties"]["EventSourceArn"]["Fn::GetAtt"][0] in kept
