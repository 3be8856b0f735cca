"""Storage: buckets for checkpoints, compiled artifacts and results, and the queue of results."""

from aws_cdk import Stack

from draftworth.experiment import naming
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.deployment import STOP_KEY
from stacks.base import StackPart
from stacks.constructs.buckets import announced, kept_bucket, private_bucket
from stacks.constructs.results_queue import ResultsQueue

# Time to notice that a wrong command has deleted results, which cost tens of dollars to measure.
# Checkpoints can be staged and graphs compiled again: their buckets have no versions.
OLD_RESULT_DAYS = 30


class Storage(StackPart):
    """Three buckets; the experiment decides whether checkpoints and results outlive the stack.

    The checkpoints bucket may also be one that an earlier stack has left (`kept_bucket`).
    """

    def __init__(self, scope: Stack, id_: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(scope, id_, experiment=experiment)
        aws = experiment.spec.aws
        holds, earlier = naming.CHECKPOINTS, aws.checkpoints_bucket
        if earlier is not None:
            self.checkpoints = kept_bucket(self, holds=holds, name=earlier)
        else:
            bucket = private_bucket(self, holds=holds, kept=aws.keep_checkpoints)
            self.checkpoints = announced(bucket)
        self.artifacts = private_bucket(self, holds=naming.ARTIFACTS, kept=False)
        self.results = private_bucket(
            self,
            holds=naming.RESULTS,
            kept=aws.keep_results,
            rarely_read=naming.RUNS_PREFIX,
            old_version_days=OLD_RESULT_DAYS,
        )
        announced(self.results)
        self.results_queue = ResultsQueue(self, "ResultsQueue", bucket=self.results)
        self._build_outputs()

    def _build_outputs(self) -> None:
        self.output(
            naming.CHECKPOINTS_OUTPUT,
            f"s3://{self.checkpoints.bucket_name}/",
            "Checkpoints as the staging Jobs put them; whole ones have a _READY.json",
        )
        self.output(
            naming.ARTIFACTS_OUTPUT,
            f"s3://{self.artifacts.bucket_name}/",
            "Compiled graphs, one folder per key: draftworth artifacts FILE",
        )
        self.output(
            naming.RESULTS_OUTPUT,
            f"s3://{self.results.bucket_name}/{naming.RUNS_PREFIX}",
            "One folder per run: draftworth report LOCATION/RUN",
        )
        stop = f"--region {self.region} --bucket {self.results.bucket_name} --key {STOP_KEY}"
        self.output(
            "StopNodesCommand",
            f"aws s3api put-object {stop}",
            "Takes the accelerator nodes to zero and keeps them there, as `make stop` does",
        )
        self.output(
            "ResumeNodesCommand",
            f"aws s3api delete-object {stop}",
            "Lets them come up again, if there is something to measure",
        )
