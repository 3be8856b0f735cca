"""The queue of result files: what has been measured and not yet published.

It lives with the bucket that fills it, not with the function that empties it: results that arrive
while the function is replaced or broken wait here.
"""

from __future__ import annotations

from typing import Any, cast

from aws_cdk import Duration, Stack, aws_iam, aws_s3, aws_sqs
from constructs import Construct

from draftworth.experiment.naming import RUNS_PREFIX
from draftworth.records.results import MAX_RECEIVE_COUNT, RESULT_SUFFIX

# Of the function that empties the queue. AWS asks for a visibility time-out of six times that.
PUBLISHER_TIMEOUT_SECONDS = 60
VISIBILITY_TIMEOUTS = 6
RETENTION_DAYS = 14


class ResultsQueue(Construct):
    """Queue and dead-letter queue of a bucket's result files, as classic S3 events."""

    def __init__(self, scope: Construct, id_: str, *, bucket: aws_s3.Bucket) -> None:
        super().__init__(scope, id_)
        self.dead_letters = self._queue("DeadLetters")
        self.queue = self._queue(
            "Queue",
            visibility_timeout=Duration.seconds(VISIBILITY_TIMEOUTS * PUBLISHER_TIMEOUT_SECONDS),
            dead_letter_queue=aws_sqs.DeadLetterQueue(
                max_receive_count=MAX_RECEIVE_COUNT, queue=cast(aws_sqs.IQueue, self.dead_letters)
            ),
        )
        self._let_s3_send()
        self._notify(bucket)

    def _queue(self, id_: str, **settings: Any) -> aws_sqs.Queue:
        return aws_sqs.Queue(
            self,
            id_,
            encryption=aws_sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(RETENTION_DAYS),
            **settings,
        )

    def _let_s3_send(self) -> None:
        """S3, on behalf of this account's buckets.

        The one bucket cannot be named: S3 checks the permission when the bucket is created, before
        it has a name. A message about another bucket changes nothing, the publisher can read none.
        """
        self.queue.add_to_resource_policy(
            aws_iam.PolicyStatement(
                principals=[aws_iam.ServicePrincipal("s3.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[self.queue.queue_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )

    def _notify(self, bucket: aws_s3.Bucket) -> None:
        """Written on the bucket itself: `add_event_notification` would bring a function that may
        change the notifications of every bucket in the account."""
        resource = cast(aws_s3.CfnBucket, bucket.node.default_child)
        rules = [
            aws_s3.CfnBucket.FilterRuleProperty(name="prefix", value=RUNS_PREFIX),
            aws_s3.CfnBucket.FilterRuleProperty(name="suffix", value=RESULT_SUFFIX),
        ]
        resource.notification_configuration = aws_s3.CfnBucket.NotificationConfigurationProperty(
            queue_configurations=[
                aws_s3.CfnBucket.QueueConfigurationProperty(
                    event="s3:ObjectCreated:*",
                    queue=self.queue.queue_arn,
                    filter=aws_s3.CfnBucket.NotificationFilterProperty(
                        s3_key=aws_s3.CfnBucket.S3KeyFilterProperty(rules=rules)
                    ),
                )
            ]
        )
        resource.node.add_dependency(self.queue.node.find_child("Policy"))
