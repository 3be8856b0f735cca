"""Things of an experiment in an emulated account, made one by one as a test needs them."""

import functools
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import boto3
import yaml

from draftworth.experiment.naming import HOLDS_TAG

REGION = "us-east-2"
OURS = "qwen3-32b"
STACK = f"draftworth-{OURS}"
TAGS = {"draftworth:experiment": OURS, "draftworth:part": "cluster"}
OTHERS_TAGS = {**TAGS, "draftworth:experiment": "qwen3-32b-x"}
# The last was made by Lambda, for a function whose name CloudFormation cut.
LOG_GROUPS = (
    f"/aws/eks/{STACK}/cluster",
    f"/aws/containerinsights/{STACK}/performance",
    f"{STACK}-networkFlowLogGroup1-X",
    "/aws/lambda/draftworth-qwen3-32b-clusterHandl-X",
)
NODE_ROLE = "arn:aws:iam::123456789012:role/nodes"
CALLS: Mapping[str, tuple[str, str, dict[str, Any]]] = yaml.load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
)
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


@functools.cache
def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)  # type: ignore[call-overload]


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def role(name: str, tags: Mapping[str, str] = TAGS) -> str:
    made = client("iam").create_role(
        RoleName=name, AssumeRolePolicyDocument=TRUST, Tags=tag_list(tags)
    )
    return str(made["Role"]["Arn"])


def log_groups() -> None:
    for name in LOG_GROUPS:
        client("logs").create_log_group(logGroupName=name)


def bucket(
    name: str = f"{STACK}-storageartifacts1-x",
    tags: Mapping[str, str] = TAGS,
    *,
    key: str = "a",
    **put: Any,
) -> None:
    """With one object of a KiB; `put`: more arguments of the call that puts it."""
    s3 = client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=name, Key=key, Body=b"x" * 1024, **put)
    if tags:
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": tag_list(tags)})


def holding(what: str, *, key: str = "a", number: int = 1, **put: Any) -> str:
    """One of the buckets that an experiment may keep."""
    name = f"{STACK}-storage{what}{number}-x"
    bucket(name, {**TAGS, HOLDS_TAG: what}, key=key, **put)
    return name


ASSETS = f"cdk-hnb659fds-assets-123456789012-{REGION}"


def asset_bucket(name: str = ASSETS, *, versioned: bool = True) -> None:
    """As `cdk bootstrap` makes it."""
    s3 = client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    if versioned:
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})


def upload_folder() -> None:
    """Two files, of one of them two versions, and one that was deleted the usual way."""
    asset_bucket()
    for key in ("prompts.json", "prompts.json", "function.zip", "old.json"):
        client("s3").put_object(Bucket=ASSETS, Key=f"{STACK}/{key}", Body=b"x" * 1024)
    client("s3").delete_object(Bucket=ASSETS, Key=f"{STACK}/old.json")


def schedule(name: str, group: str) -> None:
    target = {"Arn": "arn:aws:sqs:us-east-2:1:q", "RoleArn": "arn:aws:iam::1:role/x"}
    client("scheduler").create_schedule(
        Name=name,
        GroupName=group,
        ScheduleExpression="rate(1 day)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target=target,
    )


def stack(name: str = STACK, tags: Mapping[str, str] = TAGS) -> None:
    client("cloudformation").create_stack(
        StackName=name,
        TemplateBody='{"Resources": {"G": {"Type": "AWS::Logs::LogGroup"}}}',
        Tags=tag_list(tags),
    )


def function(name: str = f"{STACK}-benchmarkPublisher1-X") -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("handler.py", "def handler(event, context): pass\n")
    client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role=role("made-up-lambda-role", {}),
        Handler="handler.handler",
        Code={"ZipFile": archive.getvalue()},
        Tags=TAGS,
    )


def one(kind: str) -> None:
    """Make a resource of a kind that `emulated_resources.yaml` describes."""
    service, operation, parameters = CALLS[kind]
    getattr(client(service), operation)(
        **{key: _filled(key, parameters[key]) for key in parameters}
    )


def _filled(key: str, value: Any) -> Any:
    if key == "TagSpecifications":
        return [{"ResourceType": value, "Tags": tag_list(TAGS)}]
    if key in ("Tags", "tags"):
        return tag_list(TAGS) if value == "list" else TAGS
    if isinstance(value, list):
        return [_filled("", item) for item in value]
    if isinstance(value, dict):
        return {name: _filled("", item) for name, item in value.items()}
    return value.format_map(_Made()) if isinstance(value, str) else value


class _Made(dict[str, str]):
    """What the calls name: the stack, a role, and a network that is made for it."""

    def __missing__(self, name: str) -> str:
        if name in ("stack", "role"):
            return {"stack": STACK, "role": NODE_ROLE}[name]
        tags = [{"ResourceType": name, "Tags": tag_list(TAGS)}]
        if name == "vpc":
            made = client("ec2").create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tags)
            return str(made["Vpc"]["VpcId"])
        made = client("ec2").create_subnet(
            VpcId=self["vpc"], CidrBlock="10.0.0.0/20", TagSpecifications=tags
        )
        return str(made["Subnet"]["SubnetId"])


# Kind in the report, and what makes one.
EVERY_KIND: Mapping[str, Callable[[], object]] = {
    "stack": stack,
    # CloudFormation cuts the stack's name: only the tag says whose it is.
    "role": lambda: role("draftworth-qwen3-32b-clu-NodeRole1-X"),
    "function": function,
    "bucket": bucket,
    "upload folder": upload_folder,
    **{kind: functools.partial(one, kind) for kind in CALLS},
}
