"""Training a head for a target, offline: answers of its own in, an `eagle3` GGUF and an honest report out."""
