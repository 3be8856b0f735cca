"""The metrics publisher: an SQS batch of S3 events in, CloudWatch metrics of the result files out.

Deployable alone. The asset is this folder at its own path (`lambdas/metrics_publisher`, with
`lambdas/__init__.py`) and `draftworth/{__init__,results,metrics}.py`; it needs the standard library
and the boto3 of the Lambda runtime. The handler string is
`lambdas.metrics_publisher.handler.handler`.

events      SQS message -> the objects that it is about
datums      result file -> PutMetricData calls within CloudWatch's limits
claims      who publishes a file, and how far they got: one small object a file, in the same bucket
publisher   one file, counted once
handler     one batch: every message on its own, failures reported one by one
"""
