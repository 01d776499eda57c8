"""Measurements on this machine that a drafting method needs once for a model: which layers, which map."""
