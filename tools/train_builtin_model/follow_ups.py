"""Turns that refer to earlier ones: remembering, going on with a sum, "and mouse?", another joke."""

import lexicon as lx
import number_skills
import stories
import tasks
import word_skills
from chat import task_turn


def remember_turns(d, chat):
    """The user tells something; later turns ask for it."""
    name, city, color, pet = (
        tasks.any_name(d),
        tasks.any_city(d),
        d.pick(lx.COLORS),
        d.pick(lx.ANIMALS[:24]),
    )
    kind = d.pick(("name", "color", "pet", "city"))
    tell, reply, ask, answer = {
        "name": (
            (
                f"My name is {name}.",
                f"I am {name}.",
                f"Hi, I am {name}.",
                f"Call me {name}.",
                f"Hello, my name is {name}.",
            ),
            f"Nice to meet you, {name}!",
            ("What is my name?", "Who am I?", "Do you know my name?"),
            f"Your name is {name}.",
        ),
        "color": (
            (f"My favorite color is {color}.", f"I like the color {color}."),
            f"{color.capitalize()} is a lovely color!",
            ("What is my favorite color?", "Which color do I like?"),
            f"Your favorite color is {color}.",
        ),
        "pet": (
            (f"I have a {pet}.", f"My pet is a {pet}."),
            f"A {pet}! How nice.",
            ("What pet do I have?", "What is my pet?"),
            f"You have a {pet}.",
        ),
        "city": (
            (f"I live in {city}.", f"I am from {city}."),
            f"{city} sounds like a fine place!",
            ("Where do I live?", "Where am I from?"),
            f"You live in {city}.",
        ),
    }[kind]
    chat.user(d.pick(tell))
    chat.assistant(reply)
    for _ in range(d.number(0, 2)):
        task_turn(d, chat, allowed=lambda t: len(t.answer) < 60)
    chat.user(d.pick(ask))
    chat.assistant(answer)


def number_turns(d, chat):
    task = number_skills.add(d) if d.chance(0.6) else number_skills.subtract(d)
    chat.user(task.prompt)
    chat.assistant(task.answer)
    value = task.value
    for _ in range(d.number(1, 3)):
        step = d.number(1, 10)
        if value + step < 100 and (value < step or d.chance(0.6)):
            chat.user(
                d.pick(("Now add {s}.", "And plus {s}?", "Add {s} to that.", "Plus {s}?")).format(
                    s=step
                )
            )
            chat.assistant(f"{value} + {step} = {value + step}.")
            value += step
        elif value >= step:
            chat.user(
                d.pick(
                    ("Now subtract {s}.", "And minus {s}?", "Take away {s}.", "Minus {s}?")
                ).format(s=step)
            )
            chat.assistant(f"{value} - {step} = {value - step}.")
            value -= step


def what_about_turns(d, chat):
    """ "And mouse?" repeats the last question for another word."""
    table, first, then = d.pick(
        (
            (
                lx.OPPOSITES,
                word_skills.opposite,
                lambda w: f"The opposite of {w} is {lx.OPPOSITES[w]}.",
            ),
            (lx.PLURALS, word_skills.plural, lambda w: f"One {w}, two {lx.PLURALS[w]}."),
            (lx.PAST, word_skills.past, lambda w: f"Today I {w}, yesterday I {lx.PAST[w]}."),
            (None, word_skills.spell, lambda w: tasks.letters(w) + "."),
            (None, word_skills.count_letters, lambda w: f"{tasks.letters(w)}: {len(w)} letters."),
        )
    )
    task = first(d)
    chat.user(task.prompt)
    chat.assistant(task.answer)
    for _ in range(d.number(1, 2)):
        w = d.pick(sorted(table)) if table else tasks.any_word(d)
        chat.user(d.pick(("And {w}?", "What about {w}?", "Now {w}.", "{w}?")).format(w=w))
        chat.assistant(then(w))


def joke_again(d, chat):
    jokes = d.rng.sample(lx.JOKES, 3)
    chat.user("Tell me a joke.")
    chat.assistant(jokes[0])
    for joke in jokes[1 : d.number(2, 3)]:
        chat.user(d.pick(("Another one.", "One more.", "Another one, please!", "More!", "Again!")))
        chat.assistant(joke)


def story_turn(d, chat):
    kind = d.number(0, 4)
    hero = d.pick(stories.HEROES)
    name = d.pick(lx.PET_NAMES)
    an = ("an " if hero[0] in "aeiou" else "a ") + hero
    if kind == 0:
        chat.user(
            d.pick(
                (
                    "Tell me a story.",
                    "Tell me a short story.",
                    "Write a story.",
                    "A story please!",
                    "Once more, a story.",
                )
            )
        )
        chat.assistant(stories.story(d))
    elif kind == 1 or kind == 2:
        chat.user(
            d.pick(
                (
                    "Tell me a story about {a}.",
                    "Write a story about {a}.",
                    "A story about {a}, please.",
                    "Tell a short story about {a}.",
                    "Please tell me a story about {a}.",
                    "tell me a story about {a}",
                )
            ).format(a=an)
        )
        chat.assistant(stories.story(d, hero))
    elif kind == 3:
        chat.user(
            d.pick(
                (
                    "Tell me a story about {a} named {n}.",
                    "Write a story about {a} called {n}.",
                    "A story about {n} the {h}.",
                    "Tell me about {n} the {h}.",
                )
            ).format(a=an, n=name, h=hero)
        )
        chat.assistant(stories.story(d, hero, name))
    else:
        chat.user(
            d.pick(
                (
                    "Write a poem.",
                    "Tell me a poem.",
                    "Write a short poem.",
                    "A poem please.",
                    "Make a poem.",
                )
            )
        )
        chat.assistant(stories.poem(d))
