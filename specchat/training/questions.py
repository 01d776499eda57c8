"""Questions to train on, grouped by topic, and others to measure on.

A head that is measured on the topics it was trained on looks twice as good as it is in a chat, and one that is
measured on the same forms of questions about other topics still looks better than it is. So there are three sets.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from specchat.calibration.text import QUESTIONS

TOPICS: Final = {
    "music": "the violin, jazz, reading sheet music, singing in a choir, the drums, an orchestra",
    "money": "compound interest, a household budget, taxes, insurance, the stock market, saving for retirement",
    "gardens": "tomatoes, compost, pruning fruit trees, roses, a lawn, growing herbs indoors",
    "animals": "elephants, honey bees, penguins, octopuses, wolves, migrating birds",
    "sea": "tides, coral reefs, sailing, submarines, whales, the deep ocean",
    "health": "vitamins, the human heart, stretching, headaches, drinking enough water, a broken arm",
    "history": "ancient Rome, the printing press, the Silk Road, medieval castles, the Industrial Revolution, Egypt",
    "space": "black holes, the Moon, comets, a space station, Mars, telescopes",
    "code": "recursion, linked lists, a sorting function, dictionaries in Python, unit tests, regular expressions",
    "numbers": "percentages, the area of a circle, probability, negative numbers, averages, Pythagoras' theorem",
    "travel": "Japan, a train journey, lost luggage, camping, Italy, travelling with small children",
    "work": "a difficult colleague, working from home, a good meeting, asking for a raise, deadlines, teamwork",
    "school": "writing an essay, taking notes, exams, homework, school uniforms, reading aloud",
    "home": "painting a room, a leaking tap, tidying up, choosing a sofa, keeping a house warm, moving house",
    "physics": "gravity, magnets, friction, electricity, sound waves, light and mirrors",
    "chemistry": "acids, salt, rust, soap, the periodic table, crystals",
    "weather": "thunderstorms, snow, fog, tornadoes, droughts, weather forecasts",
    "arts": "watercolours, photography, the theatre, sculpture, Vincent van Gogh, film music",
    "sports": "swimming, football, yoga, tennis, the Olympic Games, mountain climbing",
    "people": "making friends, being shy, a family argument, apologising, grandparents, neighbours",
    "machines": "steam engines, clocks, lifts, washing machines, wind turbines, the telephone",
    "computers": "passwords, e-mail, the internet, databases, search engines, computer viruses",
    "language": "idioms, learning new words, grammar, translation, sign language, spelling",
    "food": "soup, rice, chocolate, cheese, coffee, pancakes",
    "law": "contracts, juries, copyright, human rights, elections, traffic rules",
    "plants": "photosynthesis, oak trees, mushrooms, seeds, cactuses, rain forests",
    "legends": "dragons, Greek gods, King Arthur, ghosts, pirates, mermaids",
    "cities": "London, bridges, public transport, parks, skyscrapers, markets",
    "mind": "memory, dreams, habits, stress, curiosity, concentration",
    "earth": "volcanoes, rivers, deserts, glaciers, maps, minerals",
}
"""Six subjects each."""
HELD_OUT: Final = ("gardens", "space", "work", "food", "legends", "machines")
"""Topics that nothing is ever trained on."""

FORMS: Final = (
    "Tell me about {}.",
    "Explain {} to a child.",
    "What should everybody know about {}?",
    "Write a short paragraph about {}.",
    "Give me three interesting facts about {}.",
    "Write a short story in which {} plays a part.",
    "What are common mistakes people make about {}?",
    "I need to give a talk about {}. What should I say?",
    "Write four lines of verse about {}.",
    "Why does {} matter?",
    "List the most important words one needs to talk about {}, with their meanings.",
    "How would you introduce {} to someone who has never heard of it?",
    "Write a dialogue between two friends about {}.",
    "What questions could a teacher ask about {}?",
    "Where can I learn more about {}, and how do I begin?",
    "Compare {} today with a hundred years ago.",
    "Describe {} in simple words.",
    "Give me five tips about {}.",
    "Write a letter to a newspaper about {}.",
    "What is difficult about {}, and what is easy?",
    "Summarise what is known about {}.",
    "Write a quiz with four questions and answers about {}.",
    "What would happen without {}?",
    "Give an example that shows what is special about {}.",
)


@dataclass(frozen=True, slots=True)
class QuestionSets:
    """What is asked; each set in a random but fixed order."""

    trained: tuple[str, ...]
    held_out: tuple[str, ...]
    """The same forms of question, about topics that are never trained on."""
    unlike: tuple[str, ...]
    """Questions of other forms, and most of them about other topics: the nearest to a chat."""


def question_sets(seed: int = 0) -> QuestionSets:
    """All questions; another seed puts them in another order, but the topics held out stay."""
    chance = random.Random(seed)

    def asked(held_out: bool) -> tuple[str, ...]:
        found = [
            form.format(subject)
            for topic, subjects in TOPICS.items()
            if (topic in HELD_OUT) is held_out
            for subject in subjects.split(", ")
            for form in FORMS
        ]
        chance.shuffle(found)
        return tuple(found)

    return QuestionSets(asked(False), asked(True), tuple(chance.sample(QUESTIONS, len(QUESTIONS))))
