"""All stacks of an experiment, in the order in which they need each other."""

from __future__ import annotations

from constructs import Construct

from draftworth.planning.resolved import ResolvedNeuron
from stacks.benchmark import BenchmarkStack
from stacks.cluster import ClusterStack
from stacks.network import NetworkStack
from stacks.storage import StorageStack


def build_application(scope: Construct, *, experiment: ResolvedNeuron) -> None:
    """Add the stacks to the CDK app."""
    network = NetworkStack(scope, experiment=experiment)
    storage = StorageStack(scope, experiment=experiment)
    cluster = ClusterStack(scope, experiment=experiment, network=network)
    BenchmarkStack(scope, experiment=experiment, cluster=cluster, storage=storage)
