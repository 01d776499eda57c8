"""Templates, text and reasoning: what lies between a conversation and its token ids."""
