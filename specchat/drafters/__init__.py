"""One module a drafting method, one protocol for all."""
