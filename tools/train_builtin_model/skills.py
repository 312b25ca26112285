"""The list of single-turn skills, how often training draws each, and how people vary a prompt.

Each skill is a function that draws one Task. A skill that is a table (opposites, plurals) is
evaluated on the whole table; an open one only with keys that training never saw (tasks.py).
"""

from fact_skills import about, fun, refuse, small_fact, small_talk
from json_skills import fill_json, read_question
from number_skills import add, compare, count, multiply, subtract, too_big
from word_skills import (
    count_letters,
    count_one_letter,
    edge_letter,
    opposite,
    past,
    plural,
    repeat,
    reverse,
    rhyme,
    spell,
)

# (skill, weight): how often training draws each one.
SKILLS = (
    (add, 11),
    (subtract, 10),
    (multiply, 7),
    (too_big, 2),
    (compare, 4),
    (count, 5),
    (spell, 9),
    (reverse, 6),
    (count_letters, 4),
    (count_one_letter, 5),
    (edge_letter, 4),
    (opposite, 4),
    (plural, 3),
    (past, 2),
    (rhyme, 4),
    (repeat, 3),
    (small_fact, 6),
    (fill_json, 9),
    (read_question, 5),
    (about, 6),
    (small_talk, 5),
    (fun, 3),
    (refuse, 3),
)
_FUNCTIONS, _WEIGHTS = zip(*SKILLS)


def draw_task(d):
    return d.rng.choices(_FUNCTIONS, _WEIGHTS)[0](d)


def vary_prompt(d, prompt):
    """What people do to a prompt: politeness, lower case, a missing full stop."""
    if d.evaluation:
        return prompt
    if prompt[0].isupper() and prompt[-1] == "." and d.chance(0.08):
        prompt = d.pick(("Please ", "Can you please ")) + prompt[0].lower() + prompt[1:]
    if (
        ":" not in prompt
        and prompt[0].isupper()
        and d.chance(0.12)
        and not any(w[0].isupper() for w in prompt.split()[1:])
    ):
        prompt = prompt[0].lower() + prompt[1:]
    if prompt[-1] in ".?" and len(prompt) < 80 and d.chance(0.12):
        prompt = prompt[:-1]
    return prompt
