"""The capacity controller: reconciles the size of one experiment's accelerator node group.

Up when every model is staged; to zero when the run is over, the deadline has passed, the budget is
spent, the Capacity Block ends, somebody asks for it, or the deployment is deleted. An event only
triggers a reconciliation, which observes everything and decides anew, so an event that is lost,
late, doubled or out of order changes nothing (decision record 5).

`controller` observes, asks `transition` (pure, as `decision` is), and acts. It needs the standard
library and the boto3 of the Lambda runtime.
"""
