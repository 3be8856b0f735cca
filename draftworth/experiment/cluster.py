"""What every experiment's cluster has beside its accelerators: its second zone and CPU nodes.

Said once for the stacks, which build it, and for preflight, which asks whether it can be had.
"""

from __future__ import annotations

from draftworth.experiment.aws import Aws

# Four vCPUs: the load generator asks for two whole ones, which a two-vCPU node cannot give after
# what the system keeps. Two nodes: cluster services find room beside it and survive one's loss.
CPU_INSTANCE_TYPE = "m7i.xlarge"
CPU_INSTANCE_VCPUS = 4
CPU_INSTANCE_MEMORY_GIB = 16
# Of it, what kernel, kubelet and the cluster's own pods take.
CPU_NODE_SYSTEM_GIB = 4
CPU_NODES = 2


def second_zone(aws: Aws) -> str:
    """The other zone that EKS wants for its control plane; no node runs there.

    Left out of the file: `a`, or `b` beside accelerators in `a`. Letters stand for other data
    centres in each account, and some regions lack one of the two for some accounts.
    """
    if aws.second_zone:
        return aws.second_zone
    region, letter = aws.availability_zone[:-1], aws.availability_zone[-1]
    return f"{region}b" if letter == "a" else f"{region}a"
