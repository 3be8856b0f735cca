"""The Kubernetes objects of an experiment, as cdk8s charts with a module for each chart.

The charts import `draftworth` without its commands, and never `stacks`. Both the CDK app and
`draftworth manifests` call `charts.benchmark_charts.benchmark_charts`.
"""
