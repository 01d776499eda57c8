"""Prompts by kind: what drafting is worth depends on what is written."""

from __future__ import annotations

from specchat.chat.message import Message, Role

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


def _question(text: str) -> tuple[Message, ...]:
    return (Message(Role.USER, text),)


def _talk(*texts: str) -> tuple[Message, ...]:
    """A conversation in turns, the user's first and last."""
    return tuple(Message(Role.ASSISTANT if i % 2 else Role.USER, text) for i, text in enumerate(texts))


MINUTES = (
    "Minutes, 4 March. Present: Ada, Ben, Chloe. The roof of the boat house leaks above the door. Ben has three "
    "offers; the cheapest is 2,300 and the roofer can start in May. Chloe asks whether the wood below is still sound; "
    "Ben will look at it on Saturday. The summer party is moved to 14 June because the field is let on the 7th. Ada "
    "books the band and Chloe the tents. The fee for members stays at 40. Next meeting: 1 April."
)
BENCH_CLASSES: dict[str, tuple[tuple[Message, ...], ...]] = {
    "prose": tuple(map(_question, PROMPTS["prose"])),
    "code": tuple(map(_question, PROMPTS["code"])),
    "edit": (_question(PROMPTS["copy"][0]), _question(PROMPTS["copy"][2])),
    "summary": (_question(PROMPTS["copy"][1]), _question(f"Summarise these minutes in four sentences:\n\n{MINUTES}")),
    "list": tuple(map(_question, PROMPTS["list"])),
    "translation": (
        _question("Translate into French: The train to the coast leaves at nine. We have time for a cup of coffee."),
        _question(f"Translate this text into Spanish, sentence by sentence:\n\n{TEXT}"),
    ),
    "reasoning": (
        _question(
            "A tank holds 240 litres. One pipe fills 12 litres a minute, a leak loses 4 litres a minute. How long does "
            "it take to fill the tank? Think step by step."
        ),
        _question("Tom is older than Ann, and Ann is older than Sue. Who is the youngest? Explain each step."),
    ),
    "multi-turn": (
        _talk(
            "I want to grow tomatoes on a balcony. What do I need?",
            "You need a large pot, good soil, a sunny place and water every day. Choose a small kind of tomato.",
            "How often do I give them water, and what else should I do each week?",
        ),
        _talk(
            "Write a function that adds two numbers in Python.",
            "def add(a, b):\n    return a + b",
            "Now write the same for three numbers, with a docstring.",
            'def add(a, b, c):\n    """Add three numbers."""\n    return a + b + c',
            "Now write a version that takes any list of numbers, with a docstring and an example.",
        ),
    ),
}
"""The classes of `specchat bench`: conversations that end with the user's turn. `edit` copies most of its prompt."""
