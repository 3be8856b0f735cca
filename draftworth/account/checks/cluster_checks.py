"""The checks of what the cluster needs: zones, CPU nodes, add-ons and node images."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from draftworth.account.checks import capacity_checks, check
from draftworth.account.clients import Region
from draftworth.experiment import aws
from draftworth.experiment.add_on_settings import ADD_ON_SETTINGS
from draftworth.experiment.node_images import FITS, DriverAndRuntime
from draftworth.records.codec import load_object

# Ids of the zones in which EKS accepts no control-plane subnet; the names of zones differ from
# account to account (Amazon EKS User Guide, VPC and subnet requirements).
REFUSED_ZONE_IDS = ("use1-az3", "usw1-az2", "cac1-az3")
# The first major version of the S3 driver that uses the pods' own credentials.
OLDEST_S3_DRIVER = 2
_RELEASE = re.compile(r"\d+\.\d+\.\d+-\d{8}")


def control_plane_zones(situation: check.Situation) -> check.CheckResult:
    """Check that the account has the experiment's two zones and that EKS accepts them."""
    settings, ids = situation.experiment.spec.aws, zone_ids(situation.here)
    problems = [*_zone_problems(settings, ids)]
    if problems:
        reasons, next_steps = zip(*problems, strict=True)
        return check.failed("; ".join(reasons), "; ".join(next_steps))
    words = (
        f"{zone} ({ids[zone]})" for zone in (settings.availability_zone, aws.second_zone(settings))
    )
    return check.passed(f"EKS accepts {' and '.join(words)}")


def zone_ids(region: Region) -> dict[str, str]:
    """Return the ids of the region's availability zones by name, without Local Zones."""
    zones = region.list_all(
        "list the zones", "ec2", "describe_availability_zones", "AvailabilityZones"
    )
    return {
        zone["ZoneName"]: zone["ZoneId"]
        for zone in zones
        if zone.get("ZoneType", "availability-zone") == "availability-zone"
    }


def _zone_problems(settings: aws.Aws, ids: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    fit = [name for name in sorted(ids) if ids[name] not in REFUSED_ZONE_IDS]
    for key, zone in (
        ("availability_zone", settings.availability_zone),
        ("second_zone", aws.second_zone(settings)),
    ):
        if zone in fit:
            continue
        alternatives = [name for name in fit if name != settings.availability_zone]
        next_step = f"set aws.{key} to {' or '.join(alternatives) or 'a zone of another region'}"
        if zone in ids:
            yield (
                f"EKS accepts no subnet in {zone}, which is {ids[zone]} for this account",
                next_step,
            )
        else:
            yield f"this account has no zone {zone}", next_step


def cpu_nodes(situation: check.Situation) -> check.CheckResult:
    """Check that the zone offers the CPU nodes' type and that the quota has room for them."""
    zones = capacity_checks.zones_that_offer(situation.here, aws.CPU_INSTANCE_TYPE)
    if situation.zone not in zones:
        return check.failed(
            f"{aws.CPU_INSTANCE_TYPE} of the CPU nodes is not offered in {situation.zone}, but in "
            f"{', '.join(zones) or 'no zone of the region'}",
            "choose another aws.availability_zone that offers it and the accelerators",
        )
    return capacity_checks.room(
        situation, capacity_checks.STANDARD, aws.CPU_NODES * aws.CPU_INSTANCE_VCPUS
    )


def add_ons(situation: check.Situation) -> check.CheckResult:
    """Check that EKS has all add-ons for this Kubernetes version, the S3 driver as v2 or later."""
    versions = {name: _versions(situation, name) for name in aws.ADD_ONS}
    pinned = situation.experiment.spec.aws.pins.add_ons
    offered = {
        (name, version["addonVersion"]) for name in aws.ADD_ONS for version in versions[name]
    }
    gone = [f"{name} {pin}" for name, pin in pinned.items() if (name, pin) not in offered]
    if gone:
        return check.failed(
            f"EKS no longer has {', '.join(gone)}", "leave these pins out, and see what there is"
        )
    defaults = {
        name: pinned.get(name) or _default(situation, versions[name]) for name in aws.ADD_ONS
    }
    missing = [name for name, default in defaults.items() if not default]
    if missing:
        return check.failed(
            f"EKS has no default version of {', '.join(missing)} in {situation.region}",
            "choose another region",
        )
    paste = {"pins": {"add_ons": defaults}}
    words = (
        f"{len(pinned)} pinned, the others by default; {aws.S3_ADD_ON} {defaults[aws.S3_ADD_ON]}"
    )
    if _major(defaults[aws.S3_ADD_ON]) >= OLDEST_S3_DRIVER:
        return check.passed(words, paste=paste)
    newer = max((v["addonVersion"] for v in versions[aws.S3_ADD_ON]), key=_numbers)
    if _major(newer) < OLDEST_S3_DRIVER:
        return check.failed(f"{words}; v{OLDEST_S3_DRIVER} is needed", "choose another region")
    defaults[aws.S3_ADD_ON] = newer
    return check.failed(
        f"{words}; v{OLDEST_S3_DRIVER} is needed, for pods that read S3 with their own credentials",
        f"set aws.pins.add_ons.{aws.S3_ADD_ON} to {newer}",
        paste=paste,
    )


def add_on_settings(situation: check.Situation) -> check.CheckResult:
    """Check that EKS has the settings that the stack gives to add-ons, in the versions to install.

    EKS refuses an add-on with a setting that is not in the JSON Schema of its version.
    """
    pinned, refused = situation.experiment.spec.aws.pins.add_ons, []
    for name, settings in ADD_ON_SETTINGS.items():
        version = pinned.get(name) or _default(situation, _versions(situation, name))
        doing, arguments = f"read the settings of {name}", {"addonName": name}
        answer = version and situation.here.ask(
            doing, "eks", "describe_addon_configuration", addonVersion=version, **arguments
        )
        if not answer:
            return check.skipped(f"EKS has no default version of {name}")
        schema = load_object(answer["configurationSchema"])
        refused += [f"{name} {version} has no {key}" for key in _missing_keys(settings, schema)]
    if refused:
        return check.failed(
            f"EKS would refuse settings: {'; '.join(refused)}",
            "pin another version in aws.pins.add_ons",
        )
    return check.passed(f"EKS has the settings of {' and '.join(ADD_ON_SETTINGS)}")


def _missing_keys(
    settings: Mapping[str, Any], schema: Mapping[str, Any], *parents: str
) -> Iterator[str]:
    """Yield the dotted names of settings that the JSON Schema of an add-on's settings refuses."""
    definitions = schema.get("$defs", {}) | schema.get("definitions", {})
    if reference := schema.get("$ref"):
        schema = definitions.get(reference.rpartition("/")[2], {})
    properties = schema.get("properties", {})
    for key, value in settings.items():
        if key in properties and isinstance(value, Mapping):
            inner = {"definitions": definitions, **properties[key]}
            yield from _missing_keys(value, inner, *parents, key)
        elif key not in properties and schema.get("additionalProperties", True) is False:
            yield ".".join((*parents, key))


def _versions(situation: check.Situation, name: str) -> list[Mapping[str, Any]]:
    return situation.here.list_all(
        f"list the versions of the add-on {name}",
        "eks",
        "describe_addon_versions",
        "addons[].addonVersions[]",
        addonName=name,
        kubernetesVersion=situation.experiment.spec.aws.kubernetes_version,
    )


def _default(situation: check.Situation, versions: list[Mapping[str, Any]]) -> str:
    kubernetes = situation.experiment.spec.aws.kubernetes_version
    for version in versions:
        for fits in version.get("compatibilities", ()):
            if fits.get("clusterVersion") == kubernetes and fits.get("defaultVersion"):
                return str(version["addonVersion"])
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers in a version such as `v2.7.0-eksbuild.1`, so that v10 sorts after v9."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _major(version: str) -> int:
    return next(iter(_numbers(version)), 0)


def node_image(situation: check.Situation) -> check.CheckResult:
    """Check that the Neuron driver of the node image fits the Neuron runtime of the servers' image.

    Also check that EKS has the pinned release of its Neuron image, or, if none is pinned, that it
    names today's. The CPU nodes' image has no Neuron driver, and any release of it does.
    """
    pinned = situation.experiment.spec.aws.pins.node_release
    newest = _parameter(situation, "neuron/recommended/release_version")
    todays = newest if _RELEASE.fullmatch(newest) else None
    pair = DriverAndRuntime.of(situation.experiment.spec, todays)
    reason = f" ({pair.why_unfit})" if pair.why_unfit else ""
    pair_words = f"{pair.words}{reason}; today's: {todays or 'unknown'}"
    doubt = _doubt(situation, pinned, todays)
    if pair.judgement == FITS and not doubt:
        how = "pinned to" if pinned else "a deploy today gets"
        return check.passed(f"{how} {pair_words}", paste={} if pinned else _pin(todays))
    releases = pair.fitting_releases(situation.experiment.spec.aws.kubernetes_version)
    fitting = next((r for r in releases if _is_there(situation, r)), None)
    if pair.why_unfit:
        return check.failed(
            pair_words,
            f"set aws.pins.node_release to {fitting}"
            if fitting
            else "choose a later `release`: EKS has no node image that is known to fit this one",
            paste=_pin(fitting),
        )
    next_step = f"nothing, or pin {fitting}" if fitting else "nothing: no other is known to fit"
    return check.warned(
        f"{doubt}: {pair_words}" if doubt else pair_words, next_step, paste=_pin(fitting)
    )


def _pin(release: str | None) -> dict[str, Any]:
    return {"pins": {"node_release": release}} if release else {}


def _doubt(situation: check.Situation, pinned: str | None, todays: str | None) -> str:
    if pinned:
        missing = "EKS names no image of the pinned release, and may refuse it"
        return "" if _is_there(situation, pinned) else missing
    return "" if todays else f"EKS does not name its newest release in {situation.region}"


def _is_there(situation: check.Situation, release: str) -> bool:
    """Return whether EKS has the Neuron image of a release.

    EKS names each image in a public SSM parameter, which Karpenter also reads for pinned images.
    """
    version, day = situation.experiment.spec.aws.kubernetes_version, release.rpartition("-")[2]
    name = f"amazon-eks-node-al2023-x86_64-neuron-{version}-v{day}"
    return bool(_parameter(situation, f"neuron/{name}/image_id"))


def _parameter(situation: check.Situation, path: str) -> str:
    """Return the value of the public SSM parameter `path` for EKS's node images; empty: missing."""
    version = situation.experiment.spec.aws.kubernetes_version
    name = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/x86_64/{path}"
    doing = f"read the SSM parameter {name}"
    answer = situation.here.ask(doing, "ssm", "get_parameter", "ParameterNotFound", Name=name)
    return str(answer["Parameter"]["Value"]) if answer else ""
