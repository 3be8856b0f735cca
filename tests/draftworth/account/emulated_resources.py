"""Things of an experiment in an emulated account, made one by one as a test needs them."""

import functools
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import boto3

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
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


@functools.cache
def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)  # type: ignore[call-overload]


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def ec2_tags(kind: str, tags: Mapping[str, str] = TAGS) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": tag_list(tags)}]


def role(name: str, tags: Mapping[str, str] = TAGS) -> str:
    made = client("iam").create_role(
        RoleName=name, AssumeRolePolicyDocument=TRUST, Tags=tag_list(tags)
    )
    return str(made["Role"]["Arn"])


def vpc() -> str:
    return str(tagged("create_vpc", "vpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"])


def subnet(vpc_id: str) -> str:
    made = tagged("create_subnet", "subnet", VpcId=vpc_id, CidrBlock="10.0.0.0/20")
    return str(made["Subnet"]["SubnetId"])


def tagged(operation: str, kind: str, **asked: Any) -> Any:
    """Make a resource of EC2 with the experiment's tags."""
    return getattr(client("ec2"), operation)(**asked, TagSpecifications=ec2_tags(kind))


def instance() -> None:
    asked = {"ImageId": "ami-12c6146b", "InstanceType": "trn2.48xlarge"}
    tagged("run_instances", "instance", **asked, MinCount=1, MaxCount=1)


def volume() -> None:
    tagged("create_volume", "volume", AvailabilityZone="us-east-2c", Size=100)


def nat_gateway() -> None:
    asked = {"SubnetId": subnet(vpc()), "ConnectivityType": "private"}
    tagged("create_nat_gateway", "natgateway", **asked)


def classic_load_balancer() -> None:
    listener = {"Protocol": "tcp", "LoadBalancerPort": 80, "InstancePort": 80}
    client("elb").create_load_balancer(
        LoadBalancerName="a-service", Listeners=[listener], Subnets=[subnet(vpc())]
    )


def node_group() -> None:
    """Of the cluster, which is there by now."""
    client("eks").create_nodegroup(
        clusterName=STACK, nodegroupName="accelerator", subnets=[subnet(vpc())], nodeRole=NODE_ROLE
    )


def cluster() -> None:
    client("eks").create_cluster(
        name=STACK, roleArn=role("eks", {}), resourcesVpcConfig={"subnetIds": [subnet(vpc())]}
    )


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


def topic() -> None:
    client("sns").create_topic(Name=f"{STACK}-benchmarkTopic1-X", Tags=tag_list(TAGS))


def schedule_group() -> None:
    client("scheduler").create_schedule_group(Name=STACK, Tags=tag_list(TAGS))


def schedule(name: str, group: str) -> None:
    target = {"Arn": "arn:aws:sqs:us-east-2:1:q", "RoleArn": "arn:aws:iam::1:role/x"}
    client("scheduler").create_schedule(
        Name=name,
        GroupName=group,
        ScheduleExpression="rate(1 day)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target=target,
    )


def event_rule() -> None:
    rule = {"Name": f"{STACK}-benchmarkReady1-X", "EventPattern": '{"source": ["aws.s3"]}'}
    client("events").put_rule(**rule, Tags=tag_list(TAGS))


def alarm() -> None:
    client("cloudwatch").put_metric_alarm(
        AlarmName=f"{STACK}-benchmarkAlarm1-X",
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=1,
        MetricName="M",
        Namespace="N",
        Period=60,
        Statistic="Maximum",
        Threshold=0,
        Tags=tag_list(TAGS),
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


# Kind in the report, and what makes one.
EVERY_KIND: Mapping[str, Callable[[], object]] = {
    "stack": stack,
    # CloudFormation cuts the stack's name: only the tag says whose it is.
    "role": lambda: role("draftworth-qwen3-32b-clu-NodeRole1-X"),
    "function": function,
    "schedule group": schedule_group,
    "event rule": event_rule,
    "topic": topic,
    "alarm": alarm,
    "dashboard": lambda: client("cloudwatch").put_dashboard(
        DashboardName=STACK, DashboardBody='{"widgets": []}'
    ),
    "EKS cluster": cluster,
    "node group": node_group,
    "instance trn2.48xlarge": instance,
    "volume": volume,
    "load balancer": lambda: client("elbv2").create_load_balancer(
        Name="a-service", Subnets=[subnet(vpc())], Type="network"
    ),
    "classic load balancer": classic_load_balancer,
    "internet gateway": lambda: tagged("create_internet_gateway", "internet-gateway"),
    "route table": lambda: tagged("create_route_table", "route-table", VpcId=vpc()),
    "NAT gateway": nat_gateway,
    "elastic address": lambda: tagged("allocate_address", "elastic-ip", Domain="vpc"),
    # Untagged, as the network plugin makes them: known by the network it is in.
    "interface": lambda: client("ec2").create_network_interface(
        SubnetId=subnet(vpc()), Description="aws-K8S-i-1"
    ),
    "security group": lambda: client("ec2").create_security_group(
        GroupName=f"eks-cluster-sg-{STACK}-1", Description="EKS", VpcId=vpc()
    ),
    "launch template": lambda: tagged(
        "create_launch_template",
        "launch-template",
        LaunchTemplateName="made-up",
        LaunchTemplateData={"InstanceType": "trn2.48xlarge"},
    ),
    "bucket": bucket,
    "upload folder": upload_folder,
    "queue": lambda: client("sqs").create_queue(QueueName=f"{STACK}-storageQueue1-X", tags=TAGS),
}
