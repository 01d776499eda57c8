"""Screens over the chat, each loaded when it is first opened."""
