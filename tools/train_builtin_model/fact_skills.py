"""Small facts about the model's world, small talk, questions about Quire, and kind refusals."""

import lexicon as lx
from tasks import Task, any_word


def small_fact(d):
    kind = d.number(0, 6)
    if kind == 0:
        w = d.pick(sorted(lx.SOUNDS))
        a = lx.SOUNDS[w]
        art = "an" if w[0] in "aeiou" else "a"
        return Task(
            "small facts",
            d.pick((f"What does {art} {w} say?", f"What sound does {art} {w} make?")),
            f"{art.capitalize()} {w} says {a}.",
            short=a,
        )
    if kind == 1:
        w = d.pick(sorted(lx.LEGS))
        art = "an" if w[0] in "aeiou" else "a"
        return Task(
            "small facts",
            d.pick((f"How many legs does {art} {w} have?", f"How many legs has {art} {w}?")),
            f"{art.capitalize()} {w} has {lx.LEGS[w]} legs.",
            short=str(lx.LEGS[w]),
        )
    if kind == 2:
        w = d.pick(sorted(lx.COLORS_OF))
        a = lx.COLORS_OF[w]
        return Task(
            "small facts",
            d.pick((f"What color is {w}?", f"Which color is {w}?", f"What colour is {w}?")),
            f"{w[0].upper() + w[1:]} is {a}.",
            short=a,
        )
    if kind == 3:
        table = d.pick((lx.DAYS, lx.MONTHS, lx.SEASONS))
        i = d.number(0, len(table) - 1)
        after = d.chance(0.6)
        a = table[(i + (1 if after else -1)) % len(table)]
        return Task(
            "small facts",
            d.pick(("What comes {r} {w}?", "Which one comes {r} {w}?")).format(
                r="after" if after else "before", w=table[i]
            ),
            f"{a[0].upper() + a[1:]} comes {'after' if after else 'before'} {table[i]}.",
            short=a,
        )
    if kind == 4:
        i = d.number(0, 24)
        a, b = chr(97 + i), chr(98 + i)
        if d.chance(0.6):
            return Task(
                "small facts",
                f"Which letter comes after {a}?",
                f"The letter {b} comes after {a}.",
                short=b,
            )
        return Task(
            "small facts",
            f"Which letter comes before {b}?",
            f"The letter {a} comes before {b}.",
            short=a,
        )
    if kind == 5:
        category = d.pick(sorted(lx.CATEGORIES))
        w = d.pick(lx.CATEGORIES[category])
        wrong = d.pick(sorted(lx.CATEGORIES))
        art = "an" if wrong[0] in "aeiou" else "a"
        w_art = "an" if w[0] in "aeiou" else "a"
        if category == "orange" or w == "orange":
            w, category, w_art = "apple", "fruit", "an"
        yes = wrong == category
        cat_art = "an" if category[0] in "aeiou" else "a"
        answer = f"Yes, {w} is {art} {wrong}." if yes else f"No, {w} is {cat_art} {category}."
        return Task(
            "small facts",
            f"Is {w} {art} {wrong}?" if d.chance(0.5) else f"Is {w_art} {w} {art} {wrong}?",
            answer,
            short="Yes" if yes else "No",
        )
    category = d.pick(sorted(lx.CATEGORIES))
    return Task(
        "small facts",
        d.pick(
            (
                f"Name three {category}s.",
                f"Tell me three {category}s.",
                f"Give me three {category}s.",
            )
        ),
        ", ".join(lx.CATEGORIES[category][:3]) + ".",
    )


def about(d):
    questions, answer = d.pick(lx.ABOUT)
    return Task("questions about Quire", d.pick(questions), answer)


def small_talk(d):
    prompts, answer = d.pick(lx.SMALL_TALK)
    prompt = d.pick(prompts)
    question = prompt.split()[0] in ("How", "What", "Is", "Are")
    return Task("small talk", prompt + ("?" if question else d.pick((".", "!", ""))), answer)


def fun(d):
    kind = d.number(0, 2)
    if kind == 0:
        return Task(
            "jokes and facts",
            d.pick(
                (
                    "Tell me a joke.",
                    "Make me laugh.",
                    "Do you know a joke?",
                    "Joke please.",
                    "Another joke please.",
                )
            ),
            d.pick(lx.JOKES),
            accept=lx.JOKES,
        )
    if kind == 1:
        return Task(
            "jokes and facts",
            d.pick(
                (
                    "Tell me a fact.",
                    "Tell me something interesting.",
                    "Give me a fun fact.",
                    "Do you know a fun fact?",
                )
            ),
            d.pick(lx.FACTS),
            accept=lx.FACTS,
        )
    q, a = d.pick(lx.RIDDLES)
    return Task("jokes and facts", q, a)


def refuse(d):
    if d.evaluation or d.chance(0.35):
        topic = (
            d.pick(lx.UNKNOWN_TOPICS)
            if not d.evaluation and d.chance(0.5)
            else " ".join(any_word(d) for _ in range(d.number(1, 3)))
        )
        prompt = d.pick(
            (
                "Explain {t}.",
                "Tell me everything about {t}.",
                "Write an essay about {t}.",
                "Write code for {t}.",
                "What do you think about {t}?",
                "How does {t} work?",
                "Who invented {t}?",
                "Translate {t} to French.",
                "What is the history of {t}?",
                "Why is {t} important?",
            )
        ).format(t=topic)
    else:
        prompt = d.pick(lx.UNKNOWN_PROMPTS)
    return Task("kind refusal", prompt, lx.REFUSAL)
