"""Loads a serving pod's compiled graphs from the bucket, or uploads those that vLLM compiled.

`start` is the parent process of vLLM in its container, which it tests first (`self_test`, with
`runtime` as a process of its own); `upload` runs in a second container. They use the Neuron image
with its interpreter and boto3; their code is a zip file in a volume.
"""
