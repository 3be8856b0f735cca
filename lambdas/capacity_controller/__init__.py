"""The capacity controller: the desired size of one experiment's accelerator node group.

Up when every model is staged; to zero when the run is over, the deadline has passed, the budget is
spent, the Capacity Block ends, somebody asks for it, or the deployment goes. Events only say "look
now": each invocation reads the whole world and decides anew, so an event that is lost, late,
doubled or out of order changes nothing (decision record 5).

Deployable alone. The asset is this folder at its own path (with `lambdas/__init__.py`) and
`draftworth/{__init__,capacity,results,staging}.py`; it needs the standard library and the boto3 of
the Lambda runtime. The handler string is `lambdas.capacity_controller.handler.handler`.

settings     what the function is told by its environment
state        what it knows between invocations; one object in the results bucket
store        that object, with conditional writes
world        what it sees of AWS
problems     why nodes do not come, in words
gathering    how it sees it
decision     plan + world + time -> size and reason; pure
step         state + world + time -> next state and what to say; pure
notices      the texts of its notifications
acting       node group, lifecycle hooks, deadline schedule, notifications
controller   read, decide, write, act, until nothing changes any more
deployment   CloudFormation's custom resource: a deployment begins, changes, ends
handler      one event
"""
