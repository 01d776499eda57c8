"""The chat on a terminal: Textual widgets and screens. Nothing here is imported before the chat is opened."""
