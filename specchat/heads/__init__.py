"""Trained draft heads: published checkpoints in, GGUF files that llama.cpp or `specchat.llama.medusa` loads out."""
