"""The Kubernetes objects of an experiment, as cdk8s charts: one file a chart.

The charts know the domain (`draftworth`), never the stacks. `charts.app.benchmark_charts` is the
way in, for the CDK app as well as for `python -m draftworth manifests`.
"""
