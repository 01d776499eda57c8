"""The one-shot command: it translates between a terminal and the rooms below."""
