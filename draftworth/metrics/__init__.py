"""Metrics: names, units and dimensions of all figures of results, reports and CloudWatch."""
