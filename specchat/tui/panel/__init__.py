"""The side panel: how speculation is doing, as it happens."""
