"""What all skills share: a Task with its known right answer, and seeded draws.

A skill that generalizes (sums, copying names, spelling new words) keeps one key in sixteen out of
training; the evaluation asks for exactly those keys.
"""

import dataclasses
import random
import zlib

import lexicon as lx


@dataclasses.dataclass
class Task:
    skill: str
    prompt: str
    answer: str
    accept: tuple = ()  # further right answers
    short: str = ""  # the bare result, for "answer with one word" system prompts
    value: object = None  # what a follow-up turn may refer to

    def is_right(self, text):
        text = text.strip()
        return text == self.answer or text in self.accept


def held_out(key):
    """True for the sixteenth of all keys that training never sees."""
    return zlib.crc32(str(key).encode()) % 16 == 0


class Draw:
    """Random choices of one example; in evaluation mode open skills use held-out keys only."""

    def __init__(self, seed, evaluation=False, only_known_words=False):
        self.rng = random.Random(seed)
        self.evaluation = evaluation
        self.only_known_words = only_known_words

    def pick(self, items):
        return self.rng.choice(items)

    def key(self, make):
        """Draws until the key is on this side of the train/evaluation split."""
        while True:
            value = make()
            if held_out(value) == self.evaluation:
                return value

    def chance(self, p):
        return self.rng.random() < p

    def number(self, low, high):
        return self.rng.randint(low, high)


def syllable_word(d):
    """A word that is in no table, such as "lomiran"."""
    consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
    word = ""
    for _ in range(d.number(2, 3)):
        word += d.pick(consonants) + d.pick(vowels)
        if d.chance(0.3):
            word += d.pick("nrlst")
    return word


def any_word(d, new_share=0.3):
    if not d.only_known_words and (d.evaluation or d.chance(new_share)):
        return d.key(lambda: syllable_word(d))
    return d.pick(lx.WORDS)


def any_name(d):
    if d.evaluation or d.chance(0.3):
        return d.key(lambda: syllable_word(d)).capitalize()
    return d.pick(lx.NAMES)


def any_city(d):
    if d.evaluation or d.chance(0.2):
        return d.key(lambda: syllable_word(d)).capitalize()
    return d.pick(lx.CITIES)


def letters(word):
    return "-".join(word)
