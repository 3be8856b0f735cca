"""An account whose node group and instances are moto's; other services are the fake's."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import boto3

from lambdas.capacity_controller.aws_clients import Clients
from tests.lambdas.capacity_controller import fakes, plans
from tests.lambdas.capacity_controller.conftest import Account


class EmulatedAccount(Account):
    """An account whose EKS, EC2 and Auto Scaling are moto's, through boto3.

    Its Auto Scaling group has one instance.
    protected: whether the instance is protected from scale-in.
    """

    def __init__(self, *, protected: bool = False) -> None:
        super().__init__()
        names = ("eks", "autoscaling", "ec2")
        self.clients: dict[str, Any] = {name: boto3.client(name) for name in names}  # type: ignore[call-overload]
        eks, scaling = self.clients["eks"], self.clients["autoscaling"]
        plan, role = plans.make_plan(), "arn:aws:iam::111122223333:role/nodes"
        eks.create_cluster(name=plan.cluster_name, roleArn=role, resourcesVpcConfig={})
        self.scaling_group = eks.create_nodegroup(
            clusterName=plan.cluster_name,
            nodegroupName=plan.nodegroup_name,
            nodeRole=role,
            subnets=["subnet-1"],
            scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 1},
            tags=dict(plan.nodegroup_tags),
        )["nodegroup"]["resources"]["autoScalingGroups"][0]["name"]
        scaling.create_launch_configuration(
            LaunchConfigurationName="x", ImageId="ami-12c6146b", InstanceType="trn2.48xlarge"
        )
        scaling.create_auto_scaling_group(
            AutoScalingGroupName=self.scaling_group,
            LaunchConfigurationName="x",
            MinSize=0,
            MaxSize=1,
            DesiredCapacity=1,
            AvailabilityZones=["us-east-2c"],
            NewInstancesProtectedFromScaleIn=protected,
        )
        clients: dict[str, Any] = {**dict.fromkeys(fakes.SERVICES, self), **self.clients}
        self.controller = replace(self.controller, clients=Clients(**clients))

    def scale_in(self) -> None:
        """Let EKS ask its Auto Scaling group for zero instances."""
        self.clients["autoscaling"].update_auto_scaling_group(
            AutoScalingGroupName=self.scaling_group, DesiredCapacity=0
        )

    def end(self, instance: str) -> None:
        """End an instance; moto then starts another one, which is ended too."""
        self.clients["autoscaling"].update_auto_scaling_group(
            AutoScalingGroupName=self.scaling_group, NewInstancesProtectedFromScaleIn=False
        )
        self.clients["ec2"].terminate_instances(InstanceIds=[instance])
        self.scale_in()

    def hang(self) -> None:
        """Let EKS refuse every change of the node group, as it does while it updates the group."""
        self.clients["eks"].meta.events.register(
            "before-call.eks.UpdateNodegroupConfig", _in_use, unique_id="update"
        )

    def end_update(self) -> None:
        self.clients["eks"].meta.events.unregister(
            "before-call.eks.UpdateNodegroupConfig", unique_id="update"
        )

    @property
    def paid_instances(self) -> int:
        groups = self.clients["autoscaling"].describe_auto_scaling_groups(
            AutoScalingGroupNames=[self.scaling_group]
        )
        return len(groups["AutoScalingGroups"][0]["Instances"])


def _in_use(**_: Any) -> tuple[SimpleNamespace, dict[str, Any]]:
    error = {"Code": "ResourceInUseException", "Message": "Nodegroup has an update in progress"}
    return SimpleNamespace(status_code=409), {"Error": error, "ResponseMetadata": {}}
