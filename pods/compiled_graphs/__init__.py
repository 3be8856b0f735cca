"""Loads a serving pod's compiled graphs from the bucket, or uploads those that vLLM compiled.

`start` is the parent process of vLLM in vLLM's container. First it tests the node (`self_test`);
for that, the program `runtime` starts the Neuron runtime once. `upload` is the program of a second
container. These programs use Python and boto3 of the Neuron image; a volume has them as a zip file.
"""
