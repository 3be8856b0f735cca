"""The Kubernetes objects of an experiment, as cdk8s charts with a module for each chart.

The charts import nothing from `stacks`, and no module that defines a command of `draftworth`. Both
the CDK app and the command `draftworth manifests` call `charts.benchmark_charts.benchmark_charts`.
"""
