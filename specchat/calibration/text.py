"""Text to calibrate on: what every machine has, and questions that the model answers itself."""

from __future__ import annotations

import random
from typing import Final

QUESTIONS: Final = (
    "What is the difference between a virus and a bacterium?",
    "Write a short story about a lighthouse keeper.",
    "Give me five ideas for a healthy breakfast.",
    "How do I reverse a list in Python?",
    "Explain how a refrigerator works.",
    "What should I pack for a week in the mountains?",
    "Write an email asking for a day off.",
    "Why is the sky blue?",
    "Summarise the plot of Romeo and Juliet.",
    "What are the advantages of learning a second language?",
    "How can I save money on groceries?",
    "Write a poem about autumn.",
    "Explain what inflation is.",
    "What is a prime number? Give examples.",
    "Write a Python function that counts the vowels in a string.",
    "Describe the water cycle.",
    "What are good questions to ask in a job interview?",
    "How do vaccines work?",
    "Tell me about the history of the bicycle.",
    "Plan a birthday party for a six year old.",
    "What causes earthquakes?",
    "Compare cats and dogs as pets.",
    "How do I start running?",
    "Explain the rules of chess to a beginner.",
    "What is machine learning?",
    "Write a product description for a wooden chair.",
    "How does a bank make money?",
    "List the planets and say one thing about each.",
    "Give me advice on how to sleep better.",
    "Write a dialogue between a teacher and a student about fractions.",
    "What is democracy?",
    "How do I bake bread?",
    "Explain the theory of evolution in simple words.",
    "What are the steps to change a flat tyre?",
    "Write a letter to a friend who moved away.",
    "What is the purpose of a constitution?",
)
"""Answered by the model; the answers to every fourth are measured on and never fitted to."""


def documentation(characters: int, seed: int = 0) -> list[str]:
    """Pages of Python's own documentation, in a random but fixed order: at least `characters`, or all there are."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        # Some systems leave it out of Python; the model's own answers are there everywhere.
        return []
    pages = sorted(topics.values())
    random.Random(seed).shuffle(pages)
    chosen: list[str] = []
    while pages and sum(map(len, chosen)) < characters:
        chosen.append(pages.pop())
    return chosen
