"""Tokens in, tokens out: the speculative loop and the contexts it owns."""
