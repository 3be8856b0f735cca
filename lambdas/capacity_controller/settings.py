"""The environment of the function; all else comes with the deployment's plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Names of AWS resources. The variable of a field is its name in capital letters.

    schedule_group: the EventBridge Scheduler group that holds the deadline's schedule.
    schedule_role_arn: the role with which that schedule invokes the function.
    """

    checkpoints_bucket: str
    results_bucket: str
    topic_arn: str
    schedule_group: str
    schedule_role_arn: str


def load_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings; RuntimeError names every variable that is missing or empty."""
    names = {field.name: field.name.upper() for field in fields(Settings)}
    missing = [variable for variable in names.values() if not environment.get(variable)]
    if missing:
        raise RuntimeError(f"environment variables not set on the function: {', '.join(missing)}")
    return Settings(**{name: environment[variable] for name, variable in names.items()})
