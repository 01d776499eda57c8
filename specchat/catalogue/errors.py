"""What can go wrong between a name and a file, as sentences for the user."""

from __future__ import annotations


class CatalogueError(Exception):
    """A catalogue that can't be read as written; the message names file, table and key."""


class ModelUnavailable(Exception):
    """A model that is not in the catalogue, or whose file is not here; the message says how to get it."""
