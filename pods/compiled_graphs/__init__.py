"""Loads a serving pod's compiled graphs from a bucket, or uploads those that vLLM compiled.

`start` is the parent process of vLLM in vLLM's container. First it tests the node (`self_test`);
for that, the program `runtime` starts the Neuron runtime once. `upload` is the program of a second
container. A volume has these programs as a zip file; Python and boto3 come with the Neuron image.
"""
