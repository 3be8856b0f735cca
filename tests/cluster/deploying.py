"""Applies a template's Kubernetes objects as CloudFormation does, with CDK's own kubectl handler.

The handler is the Lambda function's code that CDK writes beside the templates. It logs in with `aws
eks update-kubeconfig`; in tests a stand-in for `aws` gives it the control plane's kubeconfig.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from tests.cluster.control_plane import ControlPlane
from tests.stacks.graph import needs_in
from tests.stacks.synthesis import Template, of_type
from tests.support.waiting import HANGS_AFTER_SECONDS

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
# The program that runs CDK's handler. Its process waits for the next event, as Lambda's does. Each
# line of its input is an event; each line of its output has the handler's error and log.
HANDLER = """
import contextlib, io, json, logging, signal, sys, traceback
import index
said = io.StringIO()
logging.basicConfig(stream=said)  # as Lambda does
for line in sys.stdin:
    said.seek(0)
    said.truncate()
    signal.alarm(int(sys.argv[1]))
    try:
        with contextlib.redirect_stdout(said):
            index.handler(json.loads(line), None)
        error = ""
    except Exception:
        error = traceback.format_exc()
    signal.alarm(0)
    print(json.dumps([error, said.getvalue()]), flush=True)
"""

Properties = Mapping[str, Any]
# Takes an event; returns the handler's error and the handler's log.
Handler = Callable[[Mapping[str, Any]], tuple[str, str]]


@contextmanager
def handler(plane: ControlPlane, assembly: Path, folder: Path) -> Iterator[Handler]:
    """Start CDK's kubectl handler of an assembly, and yield a function that sends it an event.

    folder: for the handler's files. The process ends with the `with` block.
    """
    aws = folder / "bin" / "aws"
    aws.parent.mkdir(parents=True)
    # Stands in for `aws eks update-kubeconfig --name CLUSTER --kubeconfig FILE`, and writes FILE.
    aws.write_text(f'#!/bin/sh\nexec cp {plane.kubeconfig} "$6"\n')
    aws.chmod(0o755)
    (code,) = (path.parent.parent for path in assembly.glob("asset.*/apply/__init__.py"))
    path = (aws.parent, plane.binaries, os.environ["PATH"])
    with subprocess.Popen(
        [sys.executable, "-c", HANDLER, str(int(HANGS_AFTER_SECONDS))],
        cwd=code,
        env={
            "PATH": os.pathsep.join(map(str, path)),
            "TEST_OUTDIR": str(folder),
            "HOME": str(folder),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        requests, answers = process.stdin, process.stdout
        assert requests
        assert answers

        def handle(event: Mapping[str, Any]) -> tuple[str, str]:
            print(json.dumps(event), file=requests, flush=True)
            line = answers.readline()
            assert line, f"the handler's process ended at {event}"
            error, output = json.loads(line)
            return error, output

        yield handle


@dataclass(kw_only=True)
class Deployment:
    """The Kubernetes resources of one stack, as they were last deployed.

    resolve: returns a template's value as CloudFormation gives it to a handler, with real names.
    edit: changes an object in place before it is applied, for tests with a wrong object.
    """

    handler: Handler
    resolve: Callable[[Any], Any]
    edit: Callable[[dict[str, Any]], object] | None = None
    deployed: dict[str, Properties] = field(default_factory=dict)

    def deploy(self, template: Template) -> list[str]:
        """Create and update the objects of a template, and then delete those that are not in it.

        Return what was done, in order, as `REQUEST LOGICAL_ID`.

        Raises:
            AssertionError: the handler failed; its error is in the message.
        """
        wanted = dict(self._wanted(template))
        done = []
        for logical, properties in wanted.items():
            if logical not in self.deployed:
                done.append(self._call("Create", logical, properties))
            elif self.deployed[logical] != properties:
                done.append(self._call("Update", logical, properties))
        gone = [logical for logical in self.deployed if logical not in wanted]
        done += [self._call("Delete", k, self.deployed[k]) for k in reversed(gone)]
        self.deployed = wanted
        return done

    def destroy(self) -> None:
        """Delete all objects in reverse order.

        No error is raised for an object that cannot be deleted: the handler only logs it.
        """
        while self.deployed:
            self._call("Delete", *self.deployed.popitem())

    def objects(self) -> list[dict[str, Any]]:
        """Return all Kubernetes objects as they were last deployed."""
        manifests = (json.loads(p["Manifest"]) for p in self.deployed.values())
        return [item for manifest in manifests for item in manifest]

    def _wanted(self, template: Template) -> Iterator[tuple[str, Properties]]:
        manifests = of_type(template, MANIFEST)
        for logical in TopologicalSorter(needs_in(template)).static_order():
            if logical in manifests:
                properties = self._edited(self.resolve(manifests[logical]["Properties"]))
                # CloudFormation gives a custom resource each number and boolean as text.
                yield (
                    logical,
                    {k: v if isinstance(v, str) else json.dumps(v) for k, v in properties.items()},
                )

    def _edited(self, properties: Properties) -> Properties:
        if self.edit is None:
            return properties
        items = json.loads(properties["Manifest"])
        for item in items:
            self.edit(item)
        return {**properties, "Manifest": json.dumps(items)}

    def _call(self, request: str, logical: str, properties: Properties) -> str:
        event = {
            "RequestType": request,
            "ResourceType": MANIFEST,
            "LogicalResourceId": logical,
            "ResourceProperties": properties,
        }
        error, output = self.handler(event)
        assert not error, f"{request} {logical}: {error}"
        assert "delete error" not in output, f"{request} {logical}: {output}"
        return f"{request} {logical}"
