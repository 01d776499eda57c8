"""Measuring: prompts, contestants that take turns, ratios pair by pair."""
