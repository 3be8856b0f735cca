"""An emulated account, and deploy and destroy of the synthesized templates in it.

moto's server answers every call. Its CloudFormation makes the resources that a scenario touches
(`DEPLOYED`) from the templates themselves, under the stacks' own names, and takes them away again;
what it cannot make is made here from the same templates: the EKS cluster and its node groups,
EventBridge's schedules, the queue's notifications. Networks, roles and policies are not made:
nothing here reads them, and the templates' own tests cover them.

The functions are the deployed ones, with the environment that the template gives them: the capacity
controller gets CloudFormation's requests, and the S3 events that the template's rules let through.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import boto3

from draftworth.experiment.naming import PARTS, Names
from lambdas.capacity_controller.aws_clients import Clients
from lambdas.capacity_controller.controller import Controller
from lambdas.capacity_controller.handler import handle
from lambdas.capacity_controller.settings import load_settings
from lambdas.metrics_publisher.handler import handle_batch
from lambdas.metrics_publisher.publisher import Publisher
from tests.lambdas.capacity_controller.conftest import CloudFormation
from tests.stacks import synthesis
from tests.stacks.synthesis import Resource, of_type, only
from tests.support.event_patterns import matches

ACCOUNT = "123456789012"
DEPLOYED = frozenset(
    {
        "AWS::Logs::LogGroup",
        "AWS::S3::Bucket",
        "AWS::SNS::Subscription",
        "AWS::SNS::Topic",
        "AWS::SQS::Queue",
    }
)

Template = synthesis.Template


@dataclass(kw_only=True)
class Cloud:
    """One experiment's stack in the emulated account; `templates`: its parts.

    now_unix_s: the controller's clock, moved by the tests.
    """

    names: Names
    region: str
    templates: Mapping[str, Template]
    cloudformation: CloudFormation
    now_unix_s: float
    _clients: dict[str, Any] = field(default_factory=dict)
    _physical: dict[str, str] = field(default_factory=dict)
    _seen: set[tuple[str, str, str]] = field(default_factory=set)
    _inbox: str = ""
    # Logical ids whose references CloudFormation itself resolves, while it makes them.
    _made_now: frozenset[str] = frozenset()

    @property
    def stack_id(self) -> str:
        return f"arn:aws:cloudformation:{self.region}:{ACCOUNT}:stack/{self.names.stack}/1"

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = boto3.client(service, region_name=self.region)  # type: ignore[call-overload]
        return self._clients[service]

    # Deploy and destroy

    def deploy(self) -> None:
        """Deploy the stack in an account that is bootstrapped for CDK."""
        self._bootstrap()
        self._create_stack()
        self._notify_queue()
        self._create_node_groups()
        self._create_schedules()
        self._inbox = self.client("sqs").create_queue(QueueName="inbox")["QueueUrl"]
        self.client("sns").subscribe(
            TopicArn=self.only("benchmark", "AWS::SNS::Topic"),
            Protocol="sqs",
            Endpoint=f"arn:aws:sqs:{self.region}:{ACCOUNT}:inbox",
        )
        self._request("Create")

    def _bootstrap(self) -> None:
        s3, bucket = self.client("s3"), self.asset_bucket
        if bucket in (b["Name"] for b in s3.list_buckets()["Buckets"]):
            return
        where = {"LocationConstraint": self.region}
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})

    def update(self, templates: Mapping[str, Template]) -> None:
        """Deploy again; only the controller's deployment can change here."""
        self.templates = templates
        self._request("Update")

    def destroy(self) -> None:
        """Destroy the stack; buckets are emptied first, as CDK's function does."""
        self._request("Delete")
        self.nodes_follow()
        self.client("sqs").delete_queue(QueueUrl=self._inbox)
        self.client("events").remove_targets(Rule=self._queue_rule, Ids=["ResultsQueue"])
        self.client("events").delete_rule(Name=self._queue_rule)
        self._delete_schedules()
        self._delete_node_groups()
        for logical in self._of_type("storage", "AWS::S3::Bucket"):
            if not self._is_kept("storage", logical):
                self._empty(self.physical("storage", logical))
        self.client("cloudformation").delete_stack(StackName=self.names.stack)

    def _request(self, kind: str) -> None:
        deployment = only(self.templates["benchmark"], "Custom::DraftworthDeployment")
        answered = len(self.cloudformation.answers)
        self.invoke_controller(
            {
                "RequestType": kind,
                "RequestId": f"request-{answered}",
                "ResponseURL": self.cloudformation.url,
                "StackId": self.stack_id,
                "LogicalResourceId": "Deployment",
                "ResourceType": deployment["Type"],
                "ResourceProperties": self.resolved("benchmark", deployment["Properties"]),
                **({} if kind == "Create" else {"PhysicalResourceId": "Deployment"}),
            }
        )
        (answer,) = self.cloudformation.answers[answered:]
        assert answer["Status"] == "SUCCESS", answer

    # The functions

    def invoke_controller(self, event: Mapping[str, Any]) -> None:
        """Invoke the controller as Lambda does, with the template's environment."""
        services = ("s3", "eks", "autoscaling", "ec2", "scheduler", "sns")
        clients = {name: self.client(name) for name in services}
        # Moto has no history of launches that failed.
        clients["autoscaling"].meta.events.register(
            "before-call.autoscaling.DescribeScalingActivities",
            lambda **_: (SimpleNamespace(status_code=200), {"Activities": []}),
            unique_id="no failed launches",
        )
        controller = Controller(
            clients=Clients(**clients),
            settings=load_settings(self._environment("capacity_controller")),
            log=lambda _: None,
            clock=lambda: self.now_unix_s,
            sleep=lambda _: None,
        )
        arn = f"arn:aws:lambda:{self.region}:{ACCOUNT}:function:capacity"
        handle(
            event,
            SimpleNamespace(invoked_function_arn=arn, get_remaining_time_in_millis=lambda: 300_000),
            controller=controller,
            opener=self.cloudformation.opener,
        )

    def heartbeat(self, *, after_minutes: float = 0.0) -> None:
        self.now_unix_s += 60 * after_minutes
        schedule = only(self.templates["benchmark"], "AWS::Scheduler::Schedule", "Heartbeat")
        self.invoke_controller(json.loads(schedule["Properties"]["Target"]["Input"]))

    def publish(self) -> list[Mapping[str, Any]]:
        """Have the publisher handle the results queue until it is empty; return its log."""
        log: list[Mapping[str, Any]] = []
        sqs, queue = self.client("sqs"), self._results_queue
        publisher = Publisher(
            s3=self.client("s3"),
            cloudwatch=self.client("cloudwatch"),
            bucket=self._environment("metrics_publisher")["RESULTS_BUCKET"],
        )
        while messages := sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=5, VisibilityTimeout=0
        ).get("Messages"):
            records = [
                {"messageId": m["MessageId"], "body": m["Body"], "eventSource": "aws:sqs"}
                for m in messages
            ]
            answer = handle_batch({"Records": records}, None, publisher=publisher, log=log.append)
            failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            for message in messages:
                if message["MessageId"] not in failed:
                    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return log

    def _environment(self, function: str) -> dict[str, str]:
        functions = of_type(self.templates["benchmark"], "AWS::Lambda::Function").values()
        (properties,) = (
            f["Properties"] for f in functions if function in f["Properties"]["Handler"]
        )
        variables: dict[str, str] = self.resolved(
            "benchmark", properties["Environment"]["Variables"]
        )
        return variables

    # The work of S3 and EventBridge

    def events(self) -> int:
        """Have EventBridge tell of every new object that a rule of the template lets through, the
        last ones first; how many there were."""
        events = [event for event in self._object_events() if self._is_let_through(event)]
        for event in reversed(events):
            self.invoke_controller(event)
        return len(events)

    def _object_events(self) -> Iterator[dict[str, Any]]:
        s3 = self.client("s3")
        for bucket in (b["Name"] for b in s3.list_buckets()["Buckets"]):
            for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
                version = (bucket, entry["Key"], entry["ETag"])
                if version not in self._seen:
                    self._seen.add(version)
                    yield {
                        "source": "aws.s3",
                        "detail-type": "Object Created",
                        "detail": {"bucket": {"name": bucket}, "object": {"key": entry["Key"]}},
                    }

    def _is_let_through(self, event: Mapping[str, Any]) -> bool:
        rules = of_type(self.templates["benchmark"], "AWS::Events::Rule").values()
        patterns = (self.resolved("benchmark", r["Properties"]["EventPattern"]) for r in rules)
        return any(matches(pattern, event) for pattern in patterns)

    @property
    def bucket(self) -> SimpleNamespace:
        names = ("checkpoints", "artifacts", "results")
        return SimpleNamespace(
            **{n: self.only("storage", "AWS::S3::Bucket", n.capitalize()) for n in names}
        )

    @property
    def asset_bucket(self) -> str:
        """The bucket of CDK's bootstrap, which is not deleted with a stack."""
        return f"cdk-hnb659fds-assets-{ACCOUNT}-{self.region}"

    @property
    def _results_queue(self) -> str:
        (name,) = (
            logical
            for logical in self._of_type("storage", "AWS::SQS::Queue")
            if "DeadLetters" not in logical
        )
        return self.physical("storage", name)

    def _notify_queue(self) -> None:
        """What EventBridge does with the results bucket's events: moto's CloudFormation leaves the
        bucket's notification out."""
        self.client("s3").put_bucket_notification_configuration(
            Bucket=self.bucket.results, NotificationConfiguration={"EventBridgeConfiguration": {}}
        )
        (logical,) = self._of_type("storage", "AWS::Events::Rule")
        rule = self.resolved("storage", self.templates["storage"]["Resources"][logical])
        events, name = self.client("events"), self._queue_rule
        events.put_rule(Name=name, EventPattern=json.dumps(rule["Properties"]["EventPattern"]))
        (target,) = rule["Properties"]["Targets"]
        events.put_targets(Rule=name, Targets=[target])

    @property
    def _queue_rule(self) -> str:
        return f"{self.names.stack}-storageResultFiles"

    def notifications(self) -> list[str]:
        sqs, mails = self.client("sqs"), []
        while messages := sqs.receive_message(QueueUrl=self._inbox, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for message in messages:
                notification = json.loads(message["Body"])
                mails.append(f"{notification.get('Subject', '')}: {notification['Message']}")
                sqs.delete_message(QueueUrl=self._inbox, ReceiptHandle=message["ReceiptHandle"])
        return mails

    # The nodes

    @property
    def objects(self) -> list[dict[str, Any]]:
        kind = "Custom::AWSCDK-EKS-KubernetesResource"
        manifests = of_type(self.templates["benchmark"], kind).values()
        texts = (self.resolved("benchmark", m["Properties"]["Manifest"]) for m in manifests)
        return [made for text in texts for made in json.loads(text)]

    @property
    def desired_nodes(self) -> int:
        """The accelerator node group's desired size in EKS."""
        return int(self._accelerators["scalingConfig"]["desiredSize"])

    @property
    def instances(self) -> int:
        description = self.client("autoscaling").describe_auto_scaling_groups(
            AutoScalingGroupNames=[self._scaling_group]
        )
        return len(description["AutoScalingGroups"][0]["Instances"])

    def nodes_follow(self) -> None:
        """Let Auto Scaling start or end instances until the desired number is there."""
        self.client("autoscaling").update_auto_scaling_group(
            AutoScalingGroupName=self._scaling_group,
            MinSize=0,
            MaxSize=max(1, self.desired_nodes),
            DesiredCapacity=self.desired_nodes,
        )

    @property
    def _accelerators(self) -> Mapping[str, Any]:
        names = self.client("eks").list_nodegroups(clusterName=self.names.cluster)["nodegroups"]
        (name,) = (name for name in names if "accelerator" in name)
        node_group: Mapping[str, Any] = self.client("eks").describe_nodegroup(
            clusterName=self.names.cluster, nodegroupName=name
        )["nodegroup"]
        return node_group

    @property
    def _scaling_group(self) -> str:
        (group,) = self._accelerators["resources"]["autoScalingGroups"]
        return str(group["name"])

    def _create_node_groups(self) -> None:
        eks = self.client("eks")
        role = f"arn:aws:iam::{ACCOUNT}:role/x"
        tags = self.names.tags("cluster")
        eks.create_cluster(name=self.names.cluster, roleArn=role, resourcesVpcConfig={}, tags=tags)
        for logical in self._of_type("cluster", "AWS::EKS::Nodegroup"):
            properties = self.templates["cluster"]["Resources"][logical]["Properties"]
            scaling = self.resolved("cluster", properties["ScalingConfig"])
            eks.create_nodegroup(
                clusterName=self.names.cluster,
                nodegroupName=self.resolved("cluster", properties.get("NodegroupName", logical)),
                scalingConfig={k[0].lower() + k[1:]: int(v) for k, v in scaling.items()},
                subnets=["subnet-1"],
                nodeRole=role,
                tags=self.resolved("cluster", properties["Tags"]),
            )
        scaling_client = self.client("autoscaling")
        scaling_client.create_launch_configuration(
            LaunchConfigurationName="x", ImageId="ami-12c6146b", InstanceType="trn2.48xlarge"
        )
        scaling_client.create_auto_scaling_group(
            AutoScalingGroupName=self._scaling_group,
            LaunchConfigurationName="x",
            MinSize=0,
            MaxSize=1,
            AvailabilityZones=[f"{self.region}c"],
            Tags=[{"Key": k, "Value": v, "PropagateAtLaunch": True} for k, v in tags.items()],
        )

    def _delete_node_groups(self) -> None:
        eks, scaling = self.client("eks"), self.client("autoscaling")
        scaling.delete_auto_scaling_group(AutoScalingGroupName=self._scaling_group)
        scaling.delete_launch_configuration(LaunchConfigurationName="x")
        for name in eks.list_nodegroups(clusterName=self.names.cluster)["nodegroups"]:
            eks.delete_nodegroup(clusterName=self.names.cluster, nodegroupName=name)
        eks.delete_cluster(name=self.names.cluster)

    def _create_schedules(self) -> None:
        scheduler, resources = self.client("scheduler"), self.templates["benchmark"]["Resources"]
        for logical in self._of_type("benchmark", "AWS::Scheduler::ScheduleGroup"):
            name = self.resolved("benchmark", resources[logical]["Properties"]["Name"])
            scheduler.create_schedule_group(Name=name)
            self._physical[logical] = name
        for logical in self._of_type("benchmark", "AWS::Scheduler::Schedule"):
            schedule = self.resolved("benchmark", resources[logical]["Properties"])
            scheduler.create_schedule(**{"Name": logical, **schedule})

    def _delete_schedules(self) -> None:
        """Delete the schedules of the group, as EventBridge does with it."""
        for logical in self._of_type("benchmark", "AWS::Scheduler::ScheduleGroup"):
            self.client("scheduler").delete_schedule_group(Name=self.physical("benchmark", logical))

    # Templates

    def _create_stack(self) -> None:
        cloudformation, stack = self.client("cloudformation"), self.names.stack
        wanted = {
            logical: (part, resource)
            for part in PARTS
            for logical, resource in self.templates[part]["Resources"].items()
            if resource["Type"] in DEPLOYED
        }
        self._made_now = frozenset(wanted)
        resources = {
            logical: self._reduced(*resource_and_ids)
            for logical, resource_and_ids in wanted.items()
        }
        outputs = {
            name: {"Value": self.resolved("benchmark", output["Value"])}
            for name, output in self.templates["benchmark"]["Outputs"].items()
        }
        self._made_now = frozenset()
        body = json.dumps({"Resources": resources, "Outputs": outputs})
        for logical, (part, _) in wanted.items():  # as in the real template; names depend on it
            body = body.replace(f'"{logical}"', f'"{part}{logical}"')
        cloudformation.create_stack(
            StackName=stack,
            TemplateBody=body,
            Tags=[{"Key": k, "Value": v} for k, v in self.names.stack_tags.items()],
        )
        made = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
        physical = {entry["LogicalResourceId"]: entry["PhysicalResourceId"] for entry in made}
        for logical, (part, _) in wanted.items():
            self._physical[logical] = physical[f"{part}{logical}"]

    def _reduced(self, part: str, resource: Resource) -> dict[str, Any]:
        """Return a resource without the attributes that moto's CloudFormation does not support."""
        policy = str(resource.get("DeletionPolicy", "Delete")).removesuffix("ExceptOnCreate")
        properties = self.resolved(part, resource.get("Properties", {}))
        return {"Type": resource["Type"], "DeletionPolicy": policy, "Properties": properties}

    def physical(self, part: str, logical: str) -> str:
        assert logical in self.templates[part]["Resources"]
        return self._physical[logical]

    def only(self, part: str, kind: str, fragment: str = "") -> str:
        """The physical id of the one resource of a type whose logical id has a fragment."""
        (logical,) = (k for k in self._of_type(part, kind) if fragment in k)
        return self.physical(part, logical)

    def _of_type(self, part: str, kind: str) -> list[str]:
        return list(of_type(self.templates[part], kind))

    def resolved(self, part: str, value: Any) -> Any:
        """Return a template's value as CloudFormation would; missing resources become names."""
        if isinstance(value, list):
            return [self.resolved(part, item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((key, argument),) = value.items()
            if key == "Ref" or key.startswith("Fn::"):
                return self._function(part, key, argument)
        return {k: self.resolved(part, v) for k, v in value.items()}

    def _function(self, part: str, name: str, argument: Any) -> Any:
        pseudo = {
            "AWS::AccountId": ACCOUNT,
            "AWS::Region": self.region,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": self.names.stack,
            "AWS::StackId": self.stack_id,
        }
        target = argument[0] if name == "Fn::GetAtt" else argument
        if name in ("Ref", "Fn::GetAtt") and target in self._made_now:
            return {name: argument}
        match name:
            case "Ref":
                return pseudo.get(argument) or self._physical.get(argument, argument)
            case "Fn::GetAtt":
                return self._attribute(*argument)
            case "Fn::Join":
                separator, pieces = argument[0], self.resolved(part, argument[1])
                if all(isinstance(piece, str) for piece in pieces):
                    return separator.join(pieces)
                return {name: [separator, pieces]}
            case "Fn::Sub":
                text = argument
                for key, replacement in pseudo.items():
                    text = text.replace(f"${{{key}}}", replacement)
                return text
        return f"{name} {json.dumps(argument)}"

    def _attribute(self, logical: str, attribute: str) -> str:
        (kind,) = (
            template["Resources"][logical]["Type"]
            for template in self.templates.values()
            if logical in template["Resources"]
        )
        physical = self._physical.get(logical, logical)
        service, resource = {
            "AWS::S3::Bucket": ("s3", physical),
            "AWS::SQS::Queue": ("sqs", physical.rpartition("/")[2]),
            "AWS::Lambda::Function": ("lambda", f"function:{logical}"),
            "AWS::IAM::Role": ("iam", f"role/{logical}"),
            "AWS::Scheduler::ScheduleGroup": ("scheduler", f"schedule-group/{physical}"),
        }.get(kind, ("other", logical))
        if attribute != "Arn":
            return resource
        if service == "s3":
            return f"arn:aws:s3:::{resource}"
        where = "" if service == "iam" else self.region
        return f"arn:aws:{service}:{where}:{ACCOUNT}:{resource}"

    def _is_kept(self, part: str, logical: str) -> bool:
        policy = self.templates[part]["Resources"][logical].get("DeletionPolicy", "")
        return str(policy).startswith("Retain")

    def _empty(self, bucket: str) -> None:
        s3 = self.client("s3")
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for version in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])
