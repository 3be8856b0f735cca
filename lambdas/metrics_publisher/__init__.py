"""The metrics publisher: an SQS batch of S3 events in, CloudWatch metrics of the result files out.

What travels is named in `charts/shipped.py`; it needs the standard library and the boto3 of the
Lambda runtime. The handler string is `lambdas.metrics_publisher.handler.handler`.

events      SQS message -> the objects that it is about
datums      result file -> PutMetricData calls within CloudWatch's limits
claims      who publishes a file, and how far: one small object a file, in the same bucket
publisher   one file, counted once
handler     one batch: every message on its own, failures reported one by one
"""
