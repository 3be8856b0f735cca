"""The capacity controller: reconciles the size of one experiment's accelerator node group.

Nodes start when every model is staged (copied into S3) and every canary (a Job that tests a
server's mounts and permissions) has succeeded. They go to zero when the run or the Capacity Block
ends, the deadline passes, the budget is spent, somebody asks for it, or the deployment is deleted.
An event only triggers a reconciliation, which observes all and decides anew, so an event that is
lost, late, repeated or out of order changes nothing (decision record 5).

`controller` observes AWS, calls `transition`, which has no side effects, and acts. The
package needs only the standard library and the boto3 of the Lambda runtime.
"""
