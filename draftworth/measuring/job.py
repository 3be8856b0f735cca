"""What the measuring Job and its program agree on: the run's identity, and what an exit means."""

from __future__ import annotations

from collections.abc import Mapping

from draftworth.errors import UserInputError

# Labels that the Job controller puts on its pods.
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
JOB_UID_LABEL = "batch.kubernetes.io/controller-uid"
# The variables that carry them into the program.
JOB_NAME_VARIABLE = "DRAFTWORTH_JOB_NAME"
JOB_UID_VARIABLE = "DRAFTWORTH_JOB_UID"
_UID_CHARACTERS = 8

# A pod that hangs is ended by then, for another to go on.
POD_DEADLINE_SECONDS = 24 * 3600

# After so many pods that ended and recorded no reason, the next one does not try what may have
# ended them: it records that the run has failed.
MAX_UNRECORDED_ENDS = 3
# Pods that the Job starts for those that ended by themselves: those above, the one that records it,
# and those that could not reach S3, which with Kubernetes' growing waits (10 s, 20 s, ... 6
# minutes) may be away for half an hour.
POD_RETRIES = 10

EXIT_COMPLETE = 0
EXIT_FAILED = 1
"""The run is over; its `run.json` says why."""
EXIT_WRONG_INPUT = UserInputError.exit_code
EXIT_NOT_RECORDED = 3
"""The specification or the results cannot be read or written: another pod may succeed."""
EXIT_INTERRUPTED = 75
"""Terminated before the run was over; another pod continues it. EX_TEMPFAIL of sysexits.h."""


def job_run_id(environment: Mapping[str, str]) -> str | None:
    """The run of this pod's Job, the same for each of its pods; None outside of a Job.

    `<job name>-<first characters of the Job's uid>`: a Job that is deleted and created again under
    its name is another run.
    """
    name, uid = environment.get(JOB_NAME_VARIABLE), environment.get(JOB_UID_VARIABLE)
    return f"{name}-{uid[:_UID_CHARACTERS]}" if name and uid else None
