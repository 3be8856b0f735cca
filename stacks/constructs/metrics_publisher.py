"""The metrics publisher: a function that writes the queued result files to CloudWatch metrics."""

from aws_cdk import Duration, aws_iam, aws_s3
from constructs import Construct

from charts.shipped import METRICS_PUBLISHER
from draftworth.metrics import definitions
from draftworth.records.results import PUBLISHED_FILES, claim_key
from stacks.assets import function_code
from stacks.constructs import functions
from stacks.constructs.results_queue import PUBLISHER_TIMEOUT_SECONDS, ResultsQueue
from stacks.constructs.roles import accept, accept_folders, allow, grant

# A run writes a result file every few minutes. Several files are in the queue at the same time only
# after an operator has moved messages back from the dead-letter queue.
BATCH_SIZE = 5
CLAIM_FILES = tuple(map(claim_key, PUBLISHED_FILES))


class MetricsPublisher(Construct):
    """The Lambda function that publishes result files as metrics, its role, and an alarm.

    The alarm fires if the function could not publish a file.
    """

    def __init__(
        self, scope: Construct, id_: str, *, results: aws_s3.IBucket, queue: ResultsQueue
    ) -> None:
        super().__init__(scope, id_)
        self.log_group = functions.owned_log_group(self, "LogGroup")
        role = functions.function_role(
            self, log_group=self.log_group, description="draftworth metrics publisher"
        )
        _grant_rights(role, results)
        self.function = functions.python_function(
            self,
            description="Result files of draftworth into CloudWatch metrics",
            handler="lambdas.metrics_publisher.handler.handler",
            code=function_code(METRICS_PUBLISHER),
            role=role,
            log_group=self.log_group,
            timeout=Duration.seconds(PUBLISHER_TIMEOUT_SECONDS),
            environment={"RESULTS_BUCKET": results.bucket_name},
        )
        # Not `SqsEventSource`, whose mapping has another logical id than in deployed stacks:
        # CloudFormation would create it before it deletes the first, and Lambda allows one mapping
        # of a queue to a function (aws-cdk #18706).
        self.function.add_event_source_mapping(
            "ResultsQueue",
            event_source_arn=queue.queue.queue_arn,
            batch_size=BATCH_SIZE,
            report_batch_item_failures=True,
        )
        queue.queue.grant_consume_messages(self.function)
        self.alarm = functions.failure_alarm(
            self,
            "DeadLetterAlarm",
            "Result files are in the dead-letter queue: they are safe in the bucket, but not in "
            "the metrics. The function's log has the reason of each.",
            queue.dead_letters.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(1), statistic="Maximum"
            ),
        )


def _grant_rights(role: aws_iam.Role, results: aws_s3.IBucket) -> None:
    grant(
        role,
        allow("ReadResults", ["s3:GetObject"], [*map(results.arn_for_objects, PUBLISHED_FILES)]),
        allow(
            "KeepClaims",
            ["s3:GetObject", "s3:PutObject"],
            [*map(results.arn_for_objects, CLAIM_FILES)],
        ),
        # The publisher notes in an object, the claim, how much of a result file is in CloudWatch.
        # Without this right S3 answers 403 instead of 404 for a claim that does not exist yet.
        allow("TellMissingFromDenied", ["s3:ListBucket"], [results.bucket_arn]),
        allow(
            "PublishMetrics",
            ["cloudwatch:PutMetricData"],
            ["*"],
            {"StringEquals": {"cloudwatch:namespace": definitions.NAMESPACE}},
        ),
    )
    accept(
        role,
        "AwsSolutions-IAM5[Resource::*]",
        reason="cloudwatch:PutMetricData knows no resources; the namespace is a condition.",
    )
    accept_folders(role, results, *PUBLISHED_FILES, *CLAIM_FILES)
