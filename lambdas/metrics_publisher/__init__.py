"""The metrics publisher: turns result files, named by S3 events in SQS, into CloudWatch metrics.

`charts/shipped.py` names the deployed files, which need only the standard library and the Lambda
runtime's boto3. The handler string is `lambdas.metrics_publisher.handler.handler`.
"""
