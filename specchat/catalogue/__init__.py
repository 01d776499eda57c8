"""Which models there are and where their files lie."""
