"""The forms of logs and public data sets, one module for those of one maker."""
