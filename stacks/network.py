"""The network: nodes in a private subnet of one zone, a NAT gateway, and an endpoint for S3."""

from typing import cast

from aws_cdk import Stack, aws_ec2, aws_logs

from draftworth.experiment.aws import second_zone
from draftworth.planning.resolved import ResolvedNeuron
from stacks.base import StackPart
from stacks.constructs.functions import owned_log_group

VPC_CIDR = "10.0.0.0/16"
PUBLIC_SUBNET_PREFIX_LENGTH = 26
# An accelerator node needs an address for each pod and for each of up to sixteen interfaces.
PRIVATE_SUBNET_PREFIX_LENGTH = 20


class Network(StackPart):
    """A VPC in two zones: the accelerators' zone, and a second zone for the control plane."""

    def __init__(self, scope: Stack, id_: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(scope, id_, experiment=experiment)
        # The accelerators' zone is the first: CDK creates the only NAT gateway in it.
        self._zones = [experiment.spec.aws.availability_zone, second_zone(experiment.spec.aws)]
        self.vpc = self._build_vpc()
        self.vpc.add_gateway_endpoint("S3", service=aws_ec2.GatewayVpcEndpointAwsService.S3)
        self._build_flow_log()

    @property
    def node_subnets(self) -> aws_ec2.SubnetSelection:
        """Return the private subnet of the accelerators' zone.

        All nodes are in this subnet, so traffic from the measuring Job to servers stays in a zone.
        """
        return aws_ec2.SubnetSelection(
            subnet_type=aws_ec2.SubnetType.PRIVATE_WITH_EGRESS,
            availability_zones=self._zones[:1],
        )

    def _build_vpc(self) -> aws_ec2.Vpc:
        return aws_ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=aws_ec2.IpAddresses.cidr(VPC_CIDR),
            availability_zones=self._zones,
            nat_gateways=1,
            # Nothing uses the default security group. To remove its rules, CDK would add a Lambda
            # function to the stack.
            restrict_default_security_group=False,
            subnet_configuration=[
                aws_ec2.SubnetConfiguration(
                    name="Public",
                    subnet_type=aws_ec2.SubnetType.PUBLIC,
                    cidr_mask=PUBLIC_SUBNET_PREFIX_LENGTH,
                    map_public_ip_on_launch=False,
                ),
                aws_ec2.SubnetConfiguration(
                    name="Private",
                    subnet_type=aws_ec2.SubnetType.PRIVATE_WITH_EGRESS,
                    cidr_mask=PRIVATE_SUBNET_PREFIX_LENGTH,
                ),
            ],
        )

    def _build_flow_log(self) -> None:
        """Log only refused connections, which show a wrong rule; logging all would cost more."""
        group = cast(aws_logs.ILogGroup, owned_log_group(self, "FlowLogGroup"))
        self.vpc.add_flow_log(
            "FlowLog",
            destination=aws_ec2.FlowLogDestination.to_cloud_watch_logs(group),
            traffic_type=aws_ec2.FlowLogTrafficType.REJECT,
        )
