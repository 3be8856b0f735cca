"""The controller's settings: AWS resources, from the environment of the function."""

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Settings:
    """AWS resources; each field is read from the environment variable of its name in capitals.

    schedule_group: the EventBridge Scheduler group that holds the deadline's schedule.
    schedule_role_arn: the role with which that schedule invokes the function.
    """

    checkpoints_bucket: str
    results_bucket: str
    topic_arn: str
    schedule_group: str
    schedule_role_arn: str


def load_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings; raise RuntimeError with every variable that is missing or empty."""
    names = {field.name: field.name.upper() for field in fields(Settings)}
    missing = [variable for variable in names.values() if not environment.get(variable)]
    if missing:
        raise RuntimeError(f"environment variables not set on the function: {', '.join(missing)}")
    return Settings(**{name: environment[variable] for name, variable in names.items()})
