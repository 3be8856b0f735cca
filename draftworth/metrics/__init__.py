"""Defines the name, unit and CloudWatch dimensions of each figure in results and reports."""
