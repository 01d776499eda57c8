"""A terminal chat for local models that types ahead of the model and stays exact."""

__version__ = "0.1.0"
