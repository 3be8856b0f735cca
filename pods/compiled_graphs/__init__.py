"""Loads a serving pod's compiled graphs from the bucket, or uploads those that vLLM compiled.

`start` is the parent process of vLLM in vLLM's container. First it tests the node (`self_test`,
which runs `runtime` as another process). `upload` runs in a second container. All use Python and
boto3 of the Neuron image; their code is a zip file in a volume.
"""
