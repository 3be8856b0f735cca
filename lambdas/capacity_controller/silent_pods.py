"""Decides when a canary, a stager or the measuring Job has been silent for too long: none started.

`now` is a Unix time in seconds everywhere.
"""

from draftworth.records.controller_state import Deployment
from lambdas.capacity_controller.observation import Observation
from lambdas.capacity_controller.unknown import Unknown

# A canary, a stager and the measuring Job report within a minute after their image is pulled. If a
# mount or the pull fails, no container starts, and nothing is reported.
SILENT_AFTER_SECONDS = 10 * 60


def canary_is_silent(deployment: Deployment, observation: Observation, now: float) -> bool:
    """Return whether a canary has not reported SILENT_AFTER_SECONDS after deploy and staging."""
    canaries, models = observation.canaries, observation.models
    if isinstance(canaries, Unknown) or isinstance(models, Unknown):
        return False
    if canaries.state != "missing" or models.staging != "ready":
        return False
    # Another program writes `staged_at_unix_s`, so a time in the future is ignored.
    times = (deployment.deployed_at_unix_s, models.staged_at_unix_s)
    since = max((at for at in times if at <= now), default=now)
    return now - since >= SILENT_AFTER_SECONDS


def staging_is_silent(deployment: Deployment, observation: Observation, now: float) -> bool:
    """Return whether a stager has not reported SILENT_AFTER_SECONDS after the deploy."""
    models = observation.models
    if isinstance(models, Unknown) or not models.silent:
        return False
    return now - deployment.deployed_at_unix_s >= SILENT_AFTER_SECONDS


def job_is_silent(observation: Observation, now: float) -> bool:
    """Return whether no run has begun SILENT_AFTER_SECONDS after a server's container started.

    The Job's pod is pending until a server's pod is on a node (`charts/measuring_job.py`).
    """
    run, servers = observation.run, observation.servers
    if isinstance(run, Unknown) or isinstance(servers, Unknown) or run.state != "none":
        return False
    first_at = servers.first_report_at_unix_s
    return first_at is not None and now - first_at >= SILENT_AFTER_SECONDS
