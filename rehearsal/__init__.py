"""The local rehearsal: a real vLLM engine on CPU, and the tiny pair of models that it serves."""
