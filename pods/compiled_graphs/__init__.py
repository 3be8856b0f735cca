"""Compiled graphs of a serving pod: loaded from the bucket, or compiled and uploaded.

`start` runs before vLLM in its container, `upload` beside it. Both run in the Neuron image, from
a zip file in a read-only volume, with the interpreter and the boto3 that the image has.
"""
