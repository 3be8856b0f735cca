"""The canary tries a server's mounts and rights on a CPU node before any accelerator."""
