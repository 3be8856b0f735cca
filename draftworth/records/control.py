"""Where programs leave word for the capacity controller. Standard library only."""

# A folder of the results bucket, beside the runs.
CONTROL_PREFIX = "control/"
