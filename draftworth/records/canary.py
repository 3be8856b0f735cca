"""What a canary found: ONE definition, for who writes and who reads it.

A canary is a Job on a CPU node that does, before any accelerator exists, what a variant's server
will do first: it mounts the same volumes with the same service account, reads a file of each and
reaches the results bucket. It reports there; each try writes over the one before. Standard library
only.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.records.control import CONTROL_PREFIX

CANARIES_FOLDER = f"{CONTROL_PREFIX}canary/"


@dataclass(frozen=True, kw_only=True)
class CanaryReport:
    """`control/canary/JOB/VARIANT.json`: the last try of one variant's canary.

    job_name: the measuring Job of the deploy that the canary belongs to.
    ok: everything was read and reached.
    text: what was done, or what failed and the next step.
    last_lines: of the canary's log, the newest last.
    """

    schema: str = "draftworth.canary/1"
    job_name: str
    variant: str
    ok: bool
    text: str
    last_lines: tuple[str, ...] = ()
    reported_at_unix_s: float


def canary_key(job_name: str, variant: str) -> str:
    """Object key of a canary's report."""
    return f"{CANARIES_FOLDER}{job_name}/{variant}.json"
