"""What can go wrong with a datastore, as sentences for the user."""

from __future__ import annotations


class DatastoreError(Exception):
    """A datastore that can't be made, found or used; the message is a sentence for the user."""
