"""The metrics publisher: an SQS batch of S3 events in, CloudWatch metrics of the result files out.

What travels is named in `charts/shipped.py`; it needs the standard library and the boto3 of the
Lambda runtime. The handler string is `lambdas.metrics_publisher.handler.handler`.
"""
