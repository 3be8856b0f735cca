"""The drift alarm: a winner that serves meets other traffic than the one that it won with."""

from __future__ import annotations

import math
from typing import cast

from aws_cdk import Duration, aws_cloudwatch, aws_cloudwatch_actions, aws_sns
from constructs import Construct

from draftworth.analysis.live_metrics import ALARM_DIMENSIONS, MARGIN
from draftworth.analysis.metrics import NAMESPACE
from draftworth.experiment.afterwards import ServeOnDevices
from draftworth.records.live import DRIFT_LOOKS

DESCRIPTION = (
    "The traffic has drifted away from what was measured: {looks} looks in a row at the winner "
    "that serves found fewer output tokens per step than its break-even, below which speculation "
    "costs more than it saves. Next: look at the dashboard's live section; measure again with "
    "prompts of today (`python -m draftworth prompts import FILE`, raise `rerun`, deploy), serve "
    "the baseline meanwhile, or end it with `make stop`."
)


class DriftAlarm(Construct):
    """Tells the notifications topic, whose policy lets CloudWatch publish already."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: str,
        after: ServeOnDevices,
        topic: aws_sns.Topic,
    ) -> None:
        super().__init__(scope, id_)
        self.alarm = aws_cloudwatch.Alarm(
            self,
            "Alarm",
            alarm_description=DESCRIPTION.format(looks=DRIFT_LOOKS),
            metric=aws_cloudwatch.Metric(
                namespace=NAMESPACE,
                metric_name=MARGIN.name,
                dimensions_map=dict.fromkeys(ALARM_DIMENSIONS, experiment),
                # Whole minutes, as an alarm has them. One without a look is passed over where
                # enough others have one.
                period=Duration.minutes(math.ceil(after.probe_seconds / 60)),
                statistic="Average",
            ),
            threshold=1,
            comparison_operator=aws_cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=DRIFT_LOOKS,
            # A winner that serves no more, or that has no draft, has not drifted.
            treat_missing_data=aws_cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        self.alarm.add_alarm_action(
            cast(
                aws_cloudwatch.IAlarmAction,
                aws_cloudwatch_actions.SnsAction(cast(aws_sns.ITopic, topic)),
            )
        )
