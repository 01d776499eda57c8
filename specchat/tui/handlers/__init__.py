"""What the actions of the registry do: one function each, given the app and the words after the slash command."""
