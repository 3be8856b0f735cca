"""The capacity controller: reconciles the size of one experiment's accelerator node group.

Up when every model is staged; to zero when the run is over, the deadline has passed, the budget is
spent, the Capacity Block ends, somebody asks for it, or the deployment is deleted. An event only
triggers a reconciliation, which observes everything and decides anew, so an event that is lost,
late, doubled or out of order changes nothing (decision record 5).

What travels is named in `charts/shipped.py`; it needs the standard library and the boto3 of the
Lambda runtime. The handler string is `lambdas.capacity_controller.handler.handler`.

settings       environment of the function
state          what it remembers between invocations; one object in the results bucket
observation    what it observes of AWS
observing      how it observes it
problems       why nodes are missing, in words
decision       plan + observation + time -> desired size and reason; pure
transition     state + observation + time -> next state and notifications; pure
notifications  the texts of its notifications
actions        changes of the node group, lifecycle hooks, deadline schedule, topic
controller     reconcile: read, observe, decide, write, act, until no other invocation interferes
deployment     CloudFormation's custom resource: a deployment is created, updated, deleted
handler        one event
"""
