from __future__ import annotations

from specchat.training.questions import FORMS, HELD_OUT, TOPICS, question_sets


def test_no_question_that_is_measured_on_is_about_a_topic_that_was_trained_on() -> None:
    sets = question_sets()
    held = [subject for topic in HELD_OUT for subject in TOPICS[topic].split(", ")]
    assert len(sets.held_out) == len(held) * len(FORMS) == len(set(sets.held_out))
    assert not set(sets.trained) & {form.format(subject) for subject in held for form in FORMS}
    assert not set(sets.unlike) & {*sets.trained, *sets.held_out}
    subjects = [subject for subjects in TOPICS.values() for subject in subjects.split(", ")]
    assert len(subjects) == len(set(subjects)), "a subject under two topics would be in both sets"


def test_a_seed_orders_the_questions_and_moves_none_to_another_set() -> None:
    one, other = question_sets(1), question_sets(2)
    assert one == question_sets(1)
    assert one.trained != other.trained
    assert set(one.trained) == set(other.trained)
    assert set(one.held_out) == set(other.held_out)
