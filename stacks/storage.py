"""Storage: checkpoints, compiled artifacts, results, and the queue of new results."""

from __future__ import annotations

from aws_cdk import CfnOutput
from constructs import Construct

from draftbench.experiment import NeuronExperiment
from draftbench.names import RUNS_PREFIX
from stacks.base import ExperimentStack
from stacks.constructs.buckets import private_bucket
from stacks.constructs.log_groups import own_auto_delete_logs
from stacks.constructs.results_queue import ResultsQueue


class StorageStack(ExperimentStack):
    """Results and artifacts go with the stack; checkpoints stay when the experiment says so."""

    def __init__(self, scope: Construct, *, experiment: NeuronExperiment) -> None:
        super().__init__(scope, "storage", experiment=experiment, description="buckets and queue")
        self.checkpoints = private_bucket(self, "Checkpoints", kept=experiment.aws.keep_checkpoints)
        self.artifacts = private_bucket(self, "Artifacts", kept=False)
        self.results = private_bucket(self, "Results", kept=False)
        self.results_queue = ResultsQueue(self, "ResultsQueue", bucket=self.results)
        own_auto_delete_logs(self)
        self._build_outputs()

    def _build_outputs(self) -> None:
        CfnOutput(
            self,
            "CheckpointsLocation",
            value=f"s3://{self.checkpoints.bucket_name}/",
            description="Where the checkpoints have to be before accelerator nodes start",
        )
        CfnOutput(
            self,
            "ResultsLocation",
            value=f"s3://{self.results.bucket_name}/{RUNS_PREFIX}",
            description="One folder a run: python -m draftbench report LOCATION/RUN",
        )
