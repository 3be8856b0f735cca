"""The canary tests a server's mounts and permissions on a CPU node before an accelerator starts."""
