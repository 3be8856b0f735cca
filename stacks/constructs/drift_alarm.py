"""The drift alarm: a winner that serves meets other traffic than the one that it won with."""

from __future__ import annotations

import math
from typing import cast

from aws_cdk import Duration, aws_cloudwatch, aws_cloudwatch_actions, aws_sns
from constructs import Construct

from draftworth.analysis.drift import LOOKS_TOGETHER, TIMES_IN_A_ROW
from draftworth.analysis.live_metrics import ALARM_DIMENSIONS, DRIFTED
from draftworth.analysis.metrics import NAMESPACE
from draftworth.experiment.afterwards import ServeOnDevices

DESCRIPTION = (
    "The traffic has drifted away from what was measured: {looks} looks together, {times} times in "
    "a row, found the winner that serves below its break-even of output tokens per step, where "
    "speculation costs more than it saves. Next: look at the dashboard's live section; measure "
    "again with prompts of today (`python -m draftworth prompts import FILE`, raise `rerun`, "
    "deploy), or end it with `make stop`."
)


class DriftAlarm(Construct):
    """Tells the notifications topic, whose policy lets CloudWatch publish already.

    What a drift is the probe itself decides (`draftworth/analysis/drift.py`), by more looks than an
    alarm could weigh together.
    """

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
            alarm_description=DESCRIPTION.format(looks=LOOKS_TOGETHER, times=TIMES_IN_A_ROW),
            metric=aws_cloudwatch.Metric(
                namespace=NAMESPACE,
                metric_name=DRIFTED.name,
                dimensions_map=dict.fromkeys(ALARM_DIMENSIONS, experiment),
                # Whole minutes, as an alarm has them.
                period=Duration.minutes(math.ceil(after.probe_seconds / 60)),
                statistic="Maximum",
            ),
            threshold=1,
            comparison_operator=(
                aws_cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
            ),
            evaluation_periods=1,
            # A winner that serves no more, or that has no draft, has not drifted.
            treat_missing_data=aws_cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        self.alarm.add_alarm_action(
            cast(
                aws_cloudwatch.IAlarmAction,
                aws_cloudwatch_actions.SnsAction(cast(aws_sns.ITopic, topic)),
            )
        )
