"""What comes from outside, at its worst: servers, experiment files, buckets, run folders.

Each test file has a table of named rows, every one a failure that was found once, and a fuzzer that
looks for new failures. A fuzzer tries hundreds of examples in `make test`, and thousands in
`make fuzz`. To keep a failure that it found, add a row: an `@example` of Hypothesis, or a line of
the file's table.
"""
