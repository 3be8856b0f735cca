"""The fake AWS answers as moto does to the same calls."""

import re
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

import boto3
import pytest
import yaml
from botocore.exceptions import ClientError, ParamValidationError
from botocore.validate import ParamValidator
from moto import mock_aws

from tests.lambdas.capacity_controller import fakes, plans
from tests.lambdas.capacity_controller.conftest import failed_launch

PLAN = plans.make_plan()
FILLED_IN = {
    "results": fakes.RESULTS,
    "cluster": PLAN.cluster_name,
    "nodegroup": PLAN.nodegroup_name,
    "schedules": fakes.SETTINGS.schedule_group,
    "topic": fakes.SETTINGS.topic_arn,
    "hundred": "x" * 100,
    "scaling_group": fakes.AUTO_SCALING_GROUP,
    "block": plans.BLOCK_ID,
}
TEXT = Template(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
CALLS, NOT_IN_MOTO = yaml.load(TEXT.substitute(FILLED_IN), Loader=yaml.CSafeLoader).values()
STATE: dict[str, Any] = CALLS[0][2]
# Fields that are not compared: AWS sets their values, some of them only later.
OF_AWS = {"LastModified", "modifiedAt", "MessageId", "ScheduleArn", "name", "status"}


def answers_of(clients: dict[str, Any]) -> Iterator[Any]:
    """Yield the error code or the answer of each call of the table.

    The text ETAG in a call stands for the ETag that an earlier call returned.
    """
    etag = ""
    for service, method, request in CALLS:
        arguments = {key: etag if value == "ETAG" else value for key, value in request.items()}
        try:
            answer = getattr(clients[service], method)(**arguments)
        except ClientError as error:
            yield error.response["Error"]["Code"], error.operation_name
            continue
        if "Body" in answer:
            etag = answer["ETag"]
            answer["Body"] = answer["Body"].read()
        yield answer


def agrees(fake: Any, real: Any, key: str = "") -> bool:
    """Return whether the real answer has everything that the fake answer has."""
    if type(fake) is not type(real):
        return False
    if isinstance(fake, dict):
        return all(name in real and agrees(fake[name], real[name], name) for name in fake)
    if isinstance(fake, list):
        return len(fake) == len(real) and all(map(agrees, fake, real))
    return key in OF_AWS or bool(fake == real)


@pytest.mark.emulator
def test_moto_answers_the_same_calls_alike() -> None:
    with mock_aws():
        made: dict[str, Any] = {name: boto3.client(name) for name in fakes.SERVICES}  # type: ignore[call-overload]
        where = {"LocationConstraint": "us-east-2"}
        made["s3"].create_bucket(Bucket=fakes.RESULTS, CreateBucketConfiguration=where)
        made["scheduler"].create_schedule_group(Name=fakes.SETTINGS.schedule_group)
        made["sns"].create_topic(Name=fakes.SETTINGS.topic_arn.split(":")[-1])
        role = "arn:aws:iam::111122223333:role/nodes"
        made["eks"].create_cluster(name=PLAN.cluster_name, roleArn=role, resourcesVpcConfig={})
        made["eks"].create_nodegroup(
            clusterName=PLAN.cluster_name,
            nodegroupName=PLAN.nodegroup_name,
            nodeRole=role,
            subnets=["subnet-1"],
            scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
            tags=dict(PLAN.nodegroup_tags),
        )
        real = list(answers_of(made))
    fake = list(answers_of(dict.fromkeys(fakes.SERVICES, fakes.FakeAws())))
    for call, faked, expected in zip(CALLS, fake, real, strict=True):
        assert agrees(faked, expected), (call, faked, expected)


@pytest.mark.parametrize(
    ("fake", "real"),
    [
        ({"ETag": "1"}, {"ETag": "2"}),
        ({"Contents": []}, {}),
        ({"Activities": [{}]}, {"Activities": []}),
        ({"modifiedAt": 1.0}, {"modifiedAt": "2026-11-20"}),
        (("NoSuchKey", "GetObject"), ("404", "GetObject")),
    ],
)
def test_an_answer_that_differs_is_noticed(fake: Any, real: Any) -> None:
    assert agrees(fake, fake)
    assert not agrees(fake, real)


def wrong_fields(answer: Any, shape: Any) -> str:
    """Return what boto3 would not answer; fields that the controller does not read may be missing.

    shape: boto3's description of the answer; None: the operation answers nothing.
    """
    if shape is None:
        return "" if answer == {} else f"{answer} instead of nothing"
    report = ParamValidator().validate(answer, shape).generate_report()
    return re.sub(r"^Missing required .*\n?", "", report, flags=re.MULTILINE)


def test_every_fake_call_fits_boto3s_description() -> None:
    aws = fakes.FakeAws()
    aws.instances, aws.activities = [("i-0", "InService")], [failed_launch("x", at=plans.NOW)]
    aws.reserve(starts=plans.NOW, ends=plans.NOW + plans.HOUR)
    aws.write(fakes.RESULTS, STATE["Key"], b"")
    aws.create_schedule(
        **next(schedule for _, name, schedule in CALLS if name == "create_schedule")
    )
    done = set()
    for service, method, request in (*CALLS, *NOT_IN_MOTO):
        try:
            answer = getattr(aws, method)(**request)
        except ClientError:
            continue
        name, _ = aws.calls[-1]
        assert wrong_fields(answer, fakes.model_of(service, name).output_shape) == ""
        done.add(method)
    assert done == {
        name for name, value in vars(fakes.FakeAws).items() if hasattr(value, "__wrapped__")
    }


@pytest.mark.parametrize("wrong", [{"bucket": fakes.RESULTS}, {"Key": 7}])
def test_what_boto3_refuses_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        fakes.FakeAws().get_object(**{**STATE, **wrong})
