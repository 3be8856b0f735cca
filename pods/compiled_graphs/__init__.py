"""Loads a serving pod's compiled graphs from a bucket, or uploads those that vLLM compiled.

`start` is the parent process of vLLM in vLLM's container. First it tests the node (`self_test`);
for that, the program `runtime` starts the Neuron runtime once. `upload` is the program of a second
container. The programs are a zip file on a volume and run with the Neuron image's Python and boto3.
"""
