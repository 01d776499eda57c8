"""Prompts by kind: what drafting is worth depends on what is written."""

from __future__ import annotations

CODE = """def average(numbers):
    total = 0
    for number in numbers:
        total = total + number
    return total / len(numbers)


def largest(numbers):
    best = numbers[0]
    for number in numbers:
        if number > best:
            best = number
    return best


def count_words(text):
    words = text.split()
    return len(words)
"""
TEXT = (
    "The lighthouse at Gull Point was built in 1874 from grey granite. For ninety years a keeper climbed its 142 steps "
    "every evening to light the lamp. In 1964 the lamp was replaced by an electric one, and the last keeper, a man who "
    "had lived there for thirty years, moved to the village below. Today the tower is a small museum. Visitors can see "
    "the old lamp, the keeper's logbook and a map of the wrecks along the coast."
)
MISSPELT = TEXT.replace("built", "bilt").replace("lamp", "lapm")
PROMPTS = {
    "prose": (
        "Explain photosynthesis to a ten year old.",
        "Write a short story about a robot who learns to paint.",
    ),
    "code": (
        "Write a Python class for a bank account with deposit and withdraw methods.",
        "Write a Python function that returns the prime numbers below n.",
    ),
    "list": (
        "List ten tips for better sleep.",
        "Give me a table of five countries with their capitals.",
    ),
    # Chosen for what a small model really copies: asked to repeat code, this one writes other code.
    "copy": (
        f"Correct the spelling of this text and write it again:\n\n{MISSPELT}",
        f"Summarise this text:\n\n{TEXT}",
        f"{CODE}\n\nRewrite the code above, with a docstring in each function.",
    ),
}
LONG = "Summarise this list of facts: " + " ".join(
    f"River number {i} is {i * 37 % 900 + 20} km long and crosses {i % 7 + 1} towns." for i in range(42)
)
"""A prompt of about 1,000 tokens."""
CHAT = (
    "Explain photosynthesis to a ten year old.",
    "List ten tips for better sleep.",
    "Write a short story about a robot who learns to paint.",
    "What are the main causes of the French Revolution?",
)
"""Short chat prompts of mixed kinds."""
