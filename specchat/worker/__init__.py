"""The engine in a child process, so that a native crash costs an answer and never a conversation."""
