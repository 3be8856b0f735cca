"""Makes Kubernetes objects as plain data from the charts' YAML templates; adds them to a chart.

A template (jinja2) reads as the object that the cluster gets. A text that may not be plain YAML is
written as JSON (`tojson`). Tests validate the objects with Kubernetes' schema.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import cdk8s
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from charts import names

# A Kubernetes object, or a part of one.
Object = dict[str, Any]


def objects_in(package: str, template: str, **values: Any) -> Any:
    """Return the data in a YAML template of a package, filled with values."""
    return yaml.load(filled(package, template, values), Loader=yaml.CSafeLoader)


def filled(package: str, template: str, values: Mapping[str, Any]) -> str:
    """Return the text of a package's template, filled with values; a missing value is an error."""
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package, "."),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {}  # the keys' order is kept
    environment.globals["names"] = names
    return environment


def add_objects(chart: cdk8s.Chart, objects: Sequence[Object]) -> None:
    """Add objects to a chart, which adds the chart's labels to them."""
    for item in objects:
        kind, metadata = item["kind"], item["metadata"]
        made = cdk8s.ApiObject(
            chart,
            f"{kind}-{metadata['name']}",
            api_version=item["apiVersion"],
            kind=kind,
            metadata=metadata,
        )
        # Python's `ApiObject` takes no other keys, and `Include` starts a Node.js process each time
        # (0.2 s). cdk8s sorts the keys of what it is given, but not those of a patch.
        others = {key: item[key] for key in item.keys() - {"apiVersion", "kind", "metadata"}}
        in_order = json.loads(json.dumps(others, sort_keys=True))
        patches = (cdk8s.JsonPatch.add(f"/{key}", value) for key, value in in_order.items())
        made.add_json_patch(*patches)
