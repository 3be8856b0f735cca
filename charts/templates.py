"""Kubernetes objects as plain data: made by the YAML templates beside the charts, added to a chart.

A template (jinja2) reads as the object that the cluster gets. A text in it that is not known to be
plain YAML stands as JSON (`tojson`). Tests validate the objects with Kubernetes' schema.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from tempfile import NamedTemporaryFile
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
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        # JSON, because cdk8s reads a later version of YAML than Python does, and JSON is both.
        file.write("\n---\n".join(map(json.dumps, objects)))
        file.flush()
        first = objects[0]
        cdk8s.Include(chart, f"{first['kind']}-{first['metadata']['name']}", url=file.name)
