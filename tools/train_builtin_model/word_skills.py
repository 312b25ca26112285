"""Word games: spelling, reversing, counting letters, opposites, plurals, rhymes, repeating."""

import lexicon as lx
from tasks import Task, any_word, letters


def quoted(d, word):
    style = d.number(0, 9)
    return f"'{word}'" if style == 0 else f'"{word}"' if style == 1 else word


def spell(d):
    w = any_word(d)
    prompt = d.pick(
        (
            "Spell {w}.",
            "Spell the word {w}.",
            "How do you spell {w}?",
            "Can you spell {w}?",
            "Spell {w} for me.",
        )
    )
    return Task("spelling", prompt.format(w=quoted(d, w)), letters(w) + ".", value=w)


def reverse(d):
    w = any_word(d)
    prompt = d.pick(
        (
            "Spell {w} backwards.",
            "Reverse {w}.",
            "Reverse the word {w}.",
            "What is {w} backwards?",
            "Write {w} backwards.",
        )
    )
    return Task(
        "reversing",
        prompt.format(w=quoted(d, w)),
        f"{letters(w)} backwards is {letters(w[::-1])}.",
        value=w,
    )


def count_letters(d):
    w = any_word(d)
    prompt = d.pick(
        (
            "How many letters are in {w}?",
            "How many letters does {w} have?",
            "Count the letters in {w}.",
            "How long is the word {w}?",
        )
    )
    return Task(
        "count letters",
        prompt.format(w=quoted(d, w)),
        f"{letters(w)}: {len(w)} letters.",
        short=str(len(w)),
        value=w,
    )


def count_one_letter(d):
    w = any_word(d)
    c = d.pick(w) if d.chance(0.85) else d.pick("abcdefghijklmnoprstuw")
    n = w.count(c)
    prompt = d.pick(
        (
            "How many times is the letter {c} in {w}?",
            "How many {c} are in {w}?",
            "How many {c}'s are in {w}?",
            "Count the letter {c} in {w}.",
            "How many {c}'s does {w} have?",
        )
    )
    return Task(
        "count one letter",
        prompt.format(c=c, w=quoted(d, w)),
        f"{letters(w)}: the letter {c} is in it {n} time{'' if n == 1 else 's'}.",
        short=str(n),
        value=w,
    )


def edge_letter(d):
    w = any_word(d)
    first = d.chance(0.5)
    prompt = d.pick(
        (
            "What is the {e} letter of {w}?",
            "Tell me the {e} letter of {w}.",
            "What letter does {w} {v} with?",
        )
    )
    prompt = prompt.format(
        e="first" if first else "last", v="start" if first else "end", w=quoted(d, w)
    )
    letter = w[0] if first else w[-1]
    return Task(
        "first and last letter",
        prompt,
        f"The {'first' if first else 'last'} letter of {w} is {letter}.",
        short=letter,
        value=w,
    )


def opposite(d):
    w = d.pick(sorted(lx.OPPOSITES))
    prompt = d.pick(
        (
            "What is the opposite of {w}?",
            "Opposite of {w}?",
            "Tell me the opposite of {w}.",
            "The opposite of {w} is?",
        )
    )
    answer = lx.OPPOSITES[w]
    return Task(
        "opposites",
        prompt.format(w=quoted(d, w)),
        f"The opposite of {w} is {answer}.",
        short=answer,
        value=w,
    )


def plural(d):
    w = d.pick(sorted(lx.PLURALS))
    prompt = d.pick(
        (
            "What is the plural of {w}?",
            "Plural of {w}?",
            "Give me the plural of {w}.",
            "One {w}, two?",
        )
    )
    answer = lx.PLURALS[w]
    return Task(
        "plurals", prompt.format(w=quoted(d, w)), f"One {w}, two {answer}.", short=answer, value=w
    )


def past(d):
    w = d.pick(sorted(lx.PAST))
    prompt = d.pick(
        (
            "What is the past tense of {w}?",
            "Past tense of {w}?",
            "Put {w} in the past tense.",
            "Today I {w}. Yesterday I?",
        )
    )
    answer = lx.PAST[w]
    return Task(
        "past tense",
        prompt.format(w=quoted(d, w)),
        f"Today I {w}, yesterday I {answer}.",
        short=answer,
        value=w,
    )


def rhyme(d):
    group = d.pick(lx.RHYMES)
    w = d.pick(group)
    others = [x for x in group if x != w]
    prompt = d.pick(
        (
            "What rhymes with {w}?",
            "Find a rhyme for {w}.",
            "Give me a word that rhymes with {w}.",
            "Rhyme with {w}.",
            "Tell me a rhyme for {w}.",
        )
    )
    answer = others[0]
    accept = tuple(f"{w.capitalize()} rhymes with {x}." for x in others[1:])
    return Task(
        "rhymes",
        prompt.format(w=quoted(d, w)),
        f"{w.capitalize()} rhymes with {answer}.",
        accept,
        short=answer,
        value=w,
    )


def repeat(d):
    words = [any_word(d, 0.3) for _ in range(d.number(1, 3))]
    text = " ".join(words)
    prompt = d.pick(("Repeat after me: {x}", "Say this: {x}", "Repeat: {x}", "Say: {x}"))
    return Task("repeat after me", prompt.format(x=text), text)
