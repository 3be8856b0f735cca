"""The queue of result files that are not yet published as metrics.

The queue is in the same part of the stack as the results bucket, not in the part of the publisher
function: result files that arrive while the function is replaced or fails wait in the queue. No
deploy replaces the queue, which would lose the waiting files: CloudFormation replaces a queue only
if its name or its type (FIFO) changes, and the template sets neither. No property of the queue
depends on the experiment.
"""

from typing import Any, cast

from aws_cdk import Duration, aws_events, aws_iam, aws_s3, aws_sqs
from constructs import Construct

from draftworth.records.results import MAX_RECEIVE_COUNT, result_file_events

# The publisher's time-out. AWS recommends six times as long for the queue's visibility time-out.
PUBLISHER_TIMEOUT_SECONDS = 60
VISIBILITY_TIMEOUTS = 6
RETENTION_DAYS = 14


class ResultsQueue(Construct):
    """The queue, its dead-letter queue, and the EventBridge rule that fills the queue.

    The rule sends a message for each new result file in the bucket.
    """

    def __init__(self, scope: Construct, id_: str, *, bucket: aws_s3.IBucket) -> None:
        super().__init__(scope, id_)
        self.dead_letters = self._queue("DeadLetters")
        self.queue = self._queue(
            "Queue",
            visibility_timeout=Duration.seconds(VISIBILITY_TIMEOUTS * PUBLISHER_TIMEOUT_SECONDS),
            dead_letter_queue=aws_sqs.DeadLetterQueue(
                max_receive_count=MAX_RECEIVE_COUNT, queue=cast(aws_sqs.IQueue, self.dead_letters)
            ),
        )
        self._build_rule(bucket)

    def _queue(self, id_: str, **settings: Any) -> aws_sqs.Queue:
        return aws_sqs.Queue(
            self,
            id_,
            encryption=aws_sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(RETENTION_DAYS),
            **settings,
        )

    def _build_rule(self, bucket: aws_s3.IBucket) -> None:
        # The event is sent by EventBridge and not by an S3 notification: a bucket that outlives the
        # stack would keep a notification to a deleted queue, and S3 would refuse to add others.
        #
        # Not `Rule`, whose target for queues also grants to read the queue's attributes.
        rule = aws_events.CfnRule(
            self,
            "ResultFiles",
            description="Result files to the queue of the metrics publisher",
            event_pattern=result_file_events(bucket.bucket_name),
            targets=[
                aws_events.CfnRule.TargetProperty(arn=self.queue.queue_arn, id="ResultsQueue")
            ],
        )
        self.queue.add_to_resource_policy(
            aws_iam.PolicyStatement(
                principals=[aws_iam.ServicePrincipal("events.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[self.queue.queue_arn],
                conditions={"ArnEquals": {"aws:SourceArn": rule.attr_arn}},
            )
        )
