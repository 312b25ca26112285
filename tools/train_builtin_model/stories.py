"""Tiny stories: one hero, one friend, one problem, one happy end, told in eight to twelve sentences.

Each story keeps its facts straight (names, animals, the lost thing, the place), so coherence can be
checked by string search, and one theme per plot keeps the world small enough to be learned.
"""

import lexicon as lx

HEROES = "fox bear rabbit mouse owl duck frog cat dog penguin squirrel hedgehog dragon lion turtle bird wolf pig".split()
TRAITS = "brave kind happy clever small funny shy gentle curious sleepy".split()
PLACES = ("forest", "garden", "village", "valley", "meadow", "mountain", "castle", "farm")
THINGS = ("kite", "ball", "hat", "book", "boat", "drum", "lamp", "bell", "map", "cup")
SPOTS = (
    "under a tree",
    "behind a rock",
    "in the tall grass",
    "near the river",
    "inside an old box",
    "on top of the hill",
)
TREATS = ("cake", "soup", "honey", "bread", "apples", "berries", "cookies", "pancakes")
WEATHER = ("sunny", "windy", "rainy", "snowy", "warm", "cold")


def _an(word):
    return ("an " if word[0] in "aeiou" else "a ") + word


def _lost(s):
    return [
        f"{s['N']} had a {s['color']} {s['thing']} and loved it very much.",
        f"One {s['weather']} day, the {s['thing']} was gone.",
        f"{s['N']} looked everywhere and felt sad.",
        f"Then {s['M']} the {s['friend']} came along.",
        f'"Why are you sad?" asked {s["M"]}.',
        f'"I lost my {s["thing"]}," said {s["N"]}.',
        f'"I will help you," said {s["M"]}.',
        f"They looked together and found the {s['thing']} {s['spot']}.",
        f'"Thank you!" said {s["N"]}.',
    ]


def _share(s):
    return [
        f"One {s['weather']} day, {s['N']} made some {s['treat']}.",
        f"{s['M']} the {s['friend']} came by and was very hungry.",
        f'"May I have some {s["treat"]}?" asked {s["M"]}.',
        f"At first, {s['N']} did not want to share.",
        f"But then {s['N']} saw how hungry {s['M']} was.",
        f'"Yes, let us eat together," said {s["N"]}.',
        f"The {s['treat']} tasted even better with a friend.",
    ]


def _fear(s):
    return [
        f"{s['N']} was afraid of the dark.",
        f"One night, {s['N']} heard a strange sound {s['spot']}.",
        f'"Who is there?" asked {s["N"]}.',
        f"It was only {s['M']} the {s['friend']}, who had lost the way home.",
        f'"I am afraid of the dark, too," said {s["M"]}.',
        f"So {s['N']} took a {s['color']} lamp, and they walked home together.",
        "The dark was not so scary anymore.",
    ]


def _river(s):
    return [
        f"One {s['weather']} day, {s['N']} wanted to cross the river.",
        "The water was deep, and there was no bridge.",
        f'"How can I get to the other side?" asked {s["N"]}.',
        f"{s['M']} the {s['friend']} had a little {s['color']} boat.",
        f'"Come with me," said {s["M"]}.',
        "They crossed the river slowly and laughed all the way.",
        f"On the other side, they ate {s['treat']} in the sun.",
    ]


def _gift(s):
    return [
        f"It was the birthday of {s['M']} the {s['friend']}.",
        f"{s['N']} wanted to give {s['M']} a gift, but had no money.",
        f"So {s['N']} made a {s['color']} {s['thing']} and hid it {s['spot']}.",
        f'"Close your eyes," said {s["N"]}.',
        f"{s['M']} opened the eyes and saw the {s['thing']}.",
        f'"This is the best gift of all!" said {s["M"]}.',
        f"Then they ate {s['treat']} and danced.",
    ]


PLOTS = {"lost": _lost, "share": _share, "fear": _fear, "river": _river, "gift": _gift}
ENDINGS = (
    "From that day on, {N} and {M} were best friends.",
    "{N} and {M} were happy, and they played until the sun went down.",
    "That night, {N} went to sleep with a smile.",
    "And they lived happily ever after.",
)


def cast(d, hero=None, name=None):
    """Draws who and what a story is about."""
    hero = hero or d.pick(HEROES)
    name = name or d.pick(lx.PET_NAMES)
    return {
        "hero": hero,
        "N": name,
        "friend": d.pick([h for h in HEROES if h != hero]),
        "M": d.pick([n for n in lx.PET_NAMES if n != name]),
        "trait": d.pick(TRAITS),
        "place": d.pick(PLACES),
        "thing": d.pick(THINGS),
        "spot": d.pick(SPOTS),
        "treat": d.pick(TREATS),
        "weather": d.pick(WEATHER),
        "color": d.pick(lx.COLORS),
    }


def opening(d, s):
    hero = _an(f"{s['trait']} {s['hero']}")
    where = d.pick(("in {p}", "near {p}")).format(p=_an(s["place"]))
    return d.pick(
        (
            f"Once upon a time, there was {hero} named {s['N']}.",
            f"Once upon a time, {hero} named {s['N']} lived {where}.",
            f"There once was {hero} named {s['N']}.",
            f"Once there was {hero} who lived {where}. The {s['hero']} was named {s['N']}.",
            f"{s['N']} was {hero} who lived {where}.",
        )
    )


def story(d, hero=None, name=None, start=None):
    """One story as a single paragraph; `start` replaces the drawn opening sentence."""
    s = cast(d, hero, name)
    sentences = [start.format(**s, a_hero=_an(s["hero"])) if start else opening(d, s)]
    sentences += PLOTS[d.pick(sorted(PLOTS))](s)
    sentences.append(d.pick(ENDINGS).format(**s))
    return " ".join(sentences)


PLAIN_STARTS = (
    "One day, a {hero} named {N} went for a walk.",
    "There was {a_hero} named {N}.",
    "The {hero} was named {N}.",
    "{N} was a little {hero}.",
    "A little {hero} named {N} lived near a river.",
    "Long ago, there was a {hero} named {N}.",
    "In a small house, there lived a {hero} named {N}.",
    "Once upon a time there was a little {hero}. The {hero} was named {N}.",
)


def plain_story(d):
    """A story as plain text for completion prompts."""
    return story(d, start=d.pick(PLAIN_STARTS) if d.chance(0.4) else None)


def poem(d, topic=None):
    """Four short lines in rhyming pairs."""
    pairs = (
        ("sun", "fun", "Today we play in the {c} {a},", "And every day is full of {b}."),
        ("moon", "soon", "I look up at the {c} {a},", "And hope to see a good friend {b}."),
        ("tree", "bee", "I sit below the old {a},", "And listen to a {c} {b}."),
        ("rain", "train", "I hear the song of {c} {a},", "It sounds like a little {b}."),
        ("night", "light", "The stars are out, it is {a},", "Each one is a {c} {b}."),
        ("day", "play", "It is a warm and {c} {a},", "So come outside with me and {b}."),
    )
    words = ("bright", "small", "happy", "gentle", "quiet", "sweet")
    first, second = d.rng.sample(pairs, 2)
    lines = []
    for a, b, one, two in (first, second):
        lines += [one.format(a=a, c=d.pick(words)), two.format(b=b, c=d.pick(words))]
    return "\n".join(lines)
