"""The canary: what a variant's server will do first, done on a CPU node before any accelerator."""
