"""`draftworth preflight --find`: where this experiment's nodes can be bought now, cheapest first.

Reads only. Exit code 0: something can be bought; 1: nothing that was found can.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from datetime import UTC, datetime

from account.checks.identity import OPEN, home_region
from account.clients import QUICK, client
from account.market.find import SECONDS, Found, Unknown, find
from account.market.offer import Need
from account.market.prices import PRICE_LIST_REGION
from account.market.text import found_lines
from account.region import Clients, Region
from account.terminal import print_lines
from draftworth.planning.resolved import ResolvedNeuron


def quick_client(service: str, region: str) -> object:
    """A client that gives a region up sooner than the checks do."""
    return client(service, region, config=QUICK)


def run(
    experiment: ResolvedNeuron, wanted: Collection[str], *, clients: Clients = quick_client
) -> int:
    """Look through the account's regions, or through those that are wanted, and print."""
    need = Need.of(experiment)
    found = look(experiment, need, wanted, clients)
    print_lines(found_lines(found, need))
    return 0 if any(not offer.hindrance for offer in found.offers) else 1


def look(
    experiment: ResolvedNeuron, need: Need, wanted: Collection[str], clients: Clients
) -> Found:
    """What the regions offer; a wanted one that is not the account's is unknown.

    Raises:
        AwsError: the account's regions cannot be listed.
    """
    states = _region_states(experiment, clients)
    enabled = {name for name, state in states.items() if state in OPEN}
    names = sorted(enabled & set(wanted) if wanted else enabled)
    sys.stderr.write(f"asking {len(names)} regions, for {SECONDS} seconds at most\n")
    found = find(
        [Region(name=name, clients=clients) for name in names],
        Region(name=PRICE_LIST_REGION, clients=clients, answers_for_all=True),
        need,
        datetime.now(UTC),
    )
    if closed := sorted(set(wanted or states) - enabled):
        reason = (
            f"not enabled for this account: {', '.join(closed)}; next: aws account enable-region "
            "--region-name REGION, where a region is wanted"
        )
        found.unknown.append(Unknown(region="others", what="everything", reason=reason))
    return found


def _region_states(experiment: ResolvedNeuron, clients: Clients) -> dict[str, str]:
    """AWS's word for each region, whether or not this account has it switched on."""
    where = home_region(experiment.spec.aws.region)
    home = Region(name=where, clients=clients, answers_for_all=True)
    doing, every = "list the account's regions", "Regions[]"
    regions = home.list_all(doing, "ec2", "describe_regions", every, AllRegions=True)
    return {region["RegionName"]: region.get("OptInStatus", "") for region in regions}
