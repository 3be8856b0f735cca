"""`draftworth price` asks AWS for a node's price if the experiment leaves it out.

The price is kept in `cdk.context.json` for every deploy, until `--again` asks for it again.
Exit code 1: AWS has no price, or cannot be asked.
"""

import argparse
import json
from datetime import UTC, datetime

from draftworth.account.clients import AwsError, Clients, Region, client
from draftworth.account.market import offers
from draftworth.account.printing import print_lines
from draftworth.errors import DraftworthError
from draftworth.experiment.aws import Price
from draftworth.planning import prices
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.safe_writing import write_file


def run(arguments: argparse.Namespace) -> int:
    """Print a node's price: the experiment file's, else the kept one, else AWS's current one."""
    experiment = load_neuron(arguments.experiment)
    price, where = experiment.spec.aws.price, f"aws.price of {arguments.experiment}"
    if price is None:
        price, where = kept_price(experiment, again=arguments.again), str(prices.CONTEXT_FILE)
    price_words = f"{price.usd_per_hour:.2f} USD per node and hour of {price.as_of.isoformat()}"
    print_lines([f"{price_words} ({price.source}), by {where}"])
    if arguments.again and experiment.spec.aws.price is not None:
        next_step = f"next: delete aws.price from {arguments.experiment} and repeat the command"
        print_lines([f"AWS was not asked: the price that the file states is used; {next_step}"])
    return 0


def kept_price(experiment: ResolvedNeuron, *, again: bool, clients: Clients = client) -> Price:
    """Return a node's price that `cdk.context.json` keeps from an earlier call to AWS.

    If it has none, or `again` is true, AWS is asked and its price is written into that file.
    DraftworthError is raised if AWS has no price, or if the file cannot be written.
    """
    values = prices.context_values()
    kept = prices.with_looked_up_price(experiment, values.get).spec.aws.price
    if kept is not None and not again:
        return kept
    price = current_price(experiment, clients, datetime.now(UTC))
    values = {**values, prices.price_key(experiment): price.model_dump(mode="json")}
    text = json.dumps(values, indent=2, sort_keys=True) + "\n"
    try:
        write_file(prices.CONTEXT_FILE, text.encode())
    except OSError as error:
        reason = f"{prices.CONTEXT_FILE}: cannot be written: {error.strerror}"
        raise DraftworthError(reason) from error
    return price


def current_price(experiment: ResolvedNeuron, clients: Clients, now: datetime) -> Price:
    """Return AWS's current price of a node: its Spot price in the zone, or the on-demand price.

    AwsError is raised if AWS has no price of the instance type there, or cannot be asked.
    """
    aws, kind = experiment.spec.aws, experiment.spec.instance_type
    if aws.capacity.kind == "spot":
        place, here = aws.availability_zone, Region(name=aws.region, clients=clients)
        by_place = offers.spot_prices(here, kind, now, AvailabilityZone=place)
        next_step = f"try `draftworth preflight {experiment.path} --find`"
        reason = f"EC2 has no Spot price of {kind} in {place}: there may be none"
    else:
        price_list = Region(name=offers.PRICE_LIST_REGION, clients=clients, answers_for_all=True)
        place, next_step = aws.region, "state aws.price: usd_per_hour, as_of and source"
        by_place = offers.on_demand_prices(price_list, kind, now.date(), regionCode=place)
        reason = f"the Price List has no on-demand price of {kind} in {place}"
    if place not in by_place:
        raise AwsError(reason, next_step=next_step)
    return by_place[place]
