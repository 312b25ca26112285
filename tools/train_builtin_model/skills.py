"""Single-turn skills: each function draws one Task with a known right answer.

A skill that generalizes (sums, copying names, spelling new words) keeps one key in sixteen out of
training; the evaluation asks for exactly those keys. A skill that is a table (opposites, plurals)
is evaluated on the whole table.
"""

import dataclasses
import json
import random
import zlib

import lexicon as lx


@dataclasses.dataclass
class Task:
    skill: str
    prompt: str
    answer: str
    accept: tuple = ()   # further right answers
    short: str = ""      # the bare result, for "answer with one word" system prompts
    value: object = None  # what a follow-up turn may refer to

    def is_right(self, text):
        text = text.strip()
        return text == self.answer or text in self.accept


def held_out(key):
    """True for the sixteenth of all keys that training never sees."""
    return zlib.crc32(str(key).encode()) % 16 == 0


class Draw:
    """Random choices of one example; in evaluation mode open skills use held-out keys only."""

    def __init__(self, seed, evaluation=False):
        self.rng = random.Random(seed)
        self.evaluation = evaluation

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


def any_word(d, new_share=0.4):
    if d.evaluation or d.chance(new_share):
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


TOO_BIG = "That is too big for me. I can do sums up to 99."


# --- arithmetic ---------------------------------------------------------------------------------

def add(d):
    def pair():
        if d.chance(0.5):
            return d.number(0, 12), d.number(0, 12)
        a = d.number(0, 99)
        return a, d.number(0, 99 - a)
    a, b = d.key(pair)
    prompt = d.pick(("What is {a} + {b}?", "{a} + {b}", "{a}+{b}=", "Add {a} and {b}.", "What is {a} plus {b}?",
                     "How much is {a} + {b}?", "Compute {a} + {b}.", "{a} plus {b}", "What is {a}+{b}?",
                     "I have {a} apples and get {b} more. How many apples do I have?"))
    return Task("addition (sum < 100)", prompt.format(a=a, b=b), f"{a} + {b} = {a + b}.", short=str(a + b), value=a + b)


def subtract(d):
    def pair():
        if d.chance(0.7):
            a = d.number(0, 20)
        else:
            a = d.number(0, 99)
        return a, d.number(0, a)
    a, b = d.key(pair)
    prompt = d.pick(("What is {a} - {b}?", "{a} - {b}", "{a}-{b}=", "Subtract {b} from {a}.", "What is {a} minus {b}?",
                     "How much is {a} - {b}?", "I have {a} apples and eat {b}. How many are left?"))
    return Task("subtraction (< 100)", prompt.format(a=a, b=b), f"{a} - {b} = {a - b}.", short=str(a - b), value=a - b)


def multiply(d):
    a, b = d.number(0, 10), d.number(0, 10)
    prompt = d.pick(("What is {a} * {b}?", "{a} * {b}", "What is {a} times {b}?", "{a} x {b}", "{a}*{b}=",
                     "How much is {a} times {b}?", "Multiply {a} by {b}."))
    return Task("times table (to 10)", prompt.format(a=a, b=b), f"{a} x {b} = {a * b}.", short=str(a * b), value=a * b)


def too_big(d):
    """Sums that the model cannot do: it says so instead of guessing."""
    a, b = d.number(100, 99999), d.number(2, 9999)
    if d.chance(0.5):
        a, b = b, a
    op = d.pick(("+", "-", "*", "/", "plus", "times", "minus"))
    prompt = d.pick(("What is {a} {o} {b}?", "{a} {o} {b}", "How much is {a} {o} {b}?")).format(a=a, b=b, o=op)
    return Task("sums that are too big", prompt, TOO_BIG)


def compare(d):
    a, b = d.key(lambda: tuple(d.rng.sample(range(100), 2)))
    if d.chance(0.6):
        prompt = d.pick(("Which is bigger, {a} or {b}?", "What is larger: {a} or {b}?", "Is {a} or {b} bigger?"))
        return Task("compare numbers", prompt.format(a=a, b=b), f"{max(a, b)} is bigger than {min(a, b)}.", short=str(max(a, b)))
    prompt = d.pick(("Which is smaller, {a} or {b}?", "Is {a} or {b} smaller?"))
    return Task("compare numbers", prompt.format(a=a, b=b), f"{min(a, b)} is smaller than {max(a, b)}.", short=str(min(a, b)))


def count(d):
    a = d.number(0, 30)
    n = d.number(3, 12)
    if d.chance(0.65):
        a = 1 if d.chance(0.2) else a
        numbers = range(a, a + n + 1)
        prompt = d.pick(("Count from {x} to {y}.", "Count up from {x} to {y}.", "Count {x} to {y}"))
        if a == 1 and d.chance(0.5):
            prompt = d.pick(("Count to {y}.", "Please count to {y}."))
    else:
        numbers = range(a + n, a - 1, -1)
        prompt = d.pick(("Count down from {x} to {y}.", "Count backwards from {x} to {y}.", "Count from {x} down to {y}."))
    return Task("counting", prompt.format(x=numbers[0], y=numbers[-1]), ", ".join(map(str, numbers)) + ".")


def sort_numbers(d):
    n = d.number(3, 5)
    numbers = d.key(lambda: tuple(d.rng.sample(range(1, 30), n)))
    prompt = d.pick(("Sort these numbers: {x}.", "Sort {x}.", "Put these numbers in order: {x}.", "Order the numbers {x}."))
    return Task("sort numbers", prompt.format(x=", ".join(map(str, numbers))), ", ".join(map(str, sorted(numbers))) + ".")


# --- word games ---------------------------------------------------------------------------------

def quoted(d, word):
    style = d.number(0, 9)
    return f"'{word}'" if style == 0 else f'"{word}"' if style == 1 else word


def spell(d):
    w = any_word(d)
    prompt = d.pick(("Spell {w}.", "Spell the word {w}.", "How do you spell {w}?", "Can you spell {w}?", "Spell {w} for me."))
    return Task("spelling", prompt.format(w=quoted(d, w)), letters(w) + ".", value=w)


def reverse(d):
    w = any_word(d)
    prompt = d.pick(("Spell {w} backwards.", "Reverse {w}.", "Reverse the word {w}.", "What is {w} backwards?",
                     "Write {w} backwards."))
    return Task("reversing", prompt.format(w=quoted(d, w)), f"{letters(w)} backwards is {letters(w[::-1])}.", value=w)


def count_letters(d):
    w = any_word(d)
    prompt = d.pick(("How many letters are in {w}?", "How many letters does {w} have?", "Count the letters in {w}.",
                     "How long is the word {w}?"))
    return Task("count letters", prompt.format(w=quoted(d, w)), f"{letters(w)}: {len(w)} letters.", short=str(len(w)), value=w)


def count_one_letter(d):
    w = any_word(d)
    c = d.pick(w) if d.chance(0.85) else d.pick("abcdefghijklmnoprstuw")
    n = w.count(c)
    prompt = d.pick(("How many times is the letter {c} in {w}?", "How many {c} are in {w}?", "How many {c}'s are in {w}?",
                     "Count the letter {c} in {w}.", "How many {c}'s does {w} have?"))
    return Task("count one letter", prompt.format(c=c, w=quoted(d, w)),
                f"{letters(w)}: the letter {c} is in it {n} time{'' if n == 1 else 's'}.", short=str(n), value=w)


def edge_letter(d):
    w = any_word(d)
    first = d.chance(0.5)
    prompt = d.pick(("What is the {e} letter of {w}?", "Tell me the {e} letter of {w}.", "What letter does {w} {v} with?"))
    prompt = prompt.format(e="first" if first else "last", v="start" if first else "end", w=quoted(d, w))
    letter = w[0] if first else w[-1]
    return Task("first and last letter", prompt, f"The {'first' if first else 'last'} letter of {w} is {letter}.", short=letter, value=w)


def opposite(d):
    w = d.pick(sorted(lx.OPPOSITES))
    prompt = d.pick(("What is the opposite of {w}?", "Opposite of {w}?", "Tell me the opposite of {w}.", "The opposite of {w} is?"))
    answer = lx.OPPOSITES[w]
    return Task("opposites", prompt.format(w=quoted(d, w)), f"The opposite of {w} is {answer}.", short=answer, value=w)


def plural(d):
    w = d.pick(sorted(lx.PLURALS))
    prompt = d.pick(("What is the plural of {w}?", "Plural of {w}?", "Give me the plural of {w}.", "One {w}, two?"))
    answer = lx.PLURALS[w]
    return Task("plurals", prompt.format(w=quoted(d, w)), f"One {w}, two {answer}.", short=answer, value=w)


def past(d):
    w = d.pick(sorted(lx.PAST))
    prompt = d.pick(("What is the past tense of {w}?", "Past tense of {w}?", "Put {w} in the past tense.", "Today I {w}. Yesterday I?"))
    answer = lx.PAST[w]
    return Task("past tense", prompt.format(w=quoted(d, w)), f"Today I {w}, yesterday I {answer}.", short=answer, value=w)


def rhyme(d):
    group = d.pick(lx.RHYMES)
    w = d.pick(group)
    others = [x for x in group if x != w]
    prompt = d.pick(("What rhymes with {w}?", "Find a rhyme for {w}.", "Give me a word that rhymes with {w}.",
                     "Rhyme with {w}.", "Tell me a rhyme for {w}."))
    answer = others[0]
    accept = tuple(f"{w.capitalize()} rhymes with {x}." for x in others[1:])
    return Task("rhymes", prompt.format(w=quoted(d, w)), f"{w.capitalize()} rhymes with {answer}.", accept, short=answer, value=w)


def sort_words(d):
    by_letter = d.rng.sample("abcdefghijklmnoprstw", d.number(3, 4))
    words = [d.pick([w for w in lx.WORDS if w[0] == c] or ["zero"]) for c in by_letter]
    prompt = d.pick(("Sort these words: {x}.", "Put these words in order: {x}.", "Sort in alphabetical order: {x}.",
                     "Sort the words {x}."))
    return Task("sort words", prompt.format(x=", ".join(words)), ", ".join(sorted(words)) + ".")


def repeat(d):
    words = [any_word(d, 0.3) for _ in range(d.number(1, 5))]
    text = " ".join(words)
    if d.chance(0.25):
        n = d.number(2, 5)
        w = words[0]
        return Task("repeat after me", f"Say {w} {lx.NUMBER_WORDS[n]} times.", " ".join([w] * n))
    prompt = d.pick(("Repeat after me: {x}", "Say this: {x}", "Repeat: {x}", "Say: {x}"))
    return Task("repeat after me", prompt.format(x=text), text)


# --- small facts --------------------------------------------------------------------------------

def small_fact(d):
    kind = d.number(0, 6)
    if kind == 0:
        w = d.pick(sorted(lx.SOUNDS))
        a = lx.SOUNDS[w]
        art = "an" if w[0] in "aeiou" else "a"
        return Task("small facts", d.pick((f"What does {art} {w} say?", f"What sound does {art} {w} make?")),
                    f"{art.capitalize()} {w} says {a}.", short=a)
    if kind == 1:
        w = d.pick(sorted(lx.LEGS))
        art = "an" if w[0] in "aeiou" else "a"
        return Task("small facts", d.pick((f"How many legs does {art} {w} have?", f"How many legs has {art} {w}?")),
                    f"{art.capitalize()} {w} has {lx.LEGS[w]} legs.", short=str(lx.LEGS[w]))
    if kind == 2:
        w = d.pick(sorted(lx.COLORS_OF))
        a = lx.COLORS_OF[w]
        return Task("small facts", d.pick((f"What color is {w}?", f"Which color is {w}?", f"What colour is {w}?")),
                    f"{w[0].upper() + w[1:]} is {a}.", short=a)
    if kind == 3:
        table = d.pick((lx.DAYS, lx.MONTHS, lx.SEASONS))
        i = d.number(0, len(table) - 1)
        after = d.chance(0.6)
        a = table[(i + (1 if after else -1)) % len(table)]
        return Task("small facts", d.pick(("What comes {r} {w}?", "Which one comes {r} {w}?")).format(r="after" if after else "before", w=table[i]),
                    f"{a[0].upper() + a[1:]} comes {'after' if after else 'before'} {table[i]}.", short=a)
    if kind == 4:
        i = d.number(0, 24)
        a, b = chr(97 + i), chr(98 + i)
        if d.chance(0.6):
            return Task("small facts", f"Which letter comes after {a}?", f"The letter {b} comes after {a}.", short=b)
        return Task("small facts", f"Which letter comes before {b}?", f"The letter {a} comes before {b}.", short=a)
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
        return Task("small facts", f"Is {w} {art} {wrong}?" if d.chance(0.5) else f"Is {w_art} {w} {art} {wrong}?", answer, short="Yes" if yes else "No")
    category = d.pick(sorted(lx.CATEGORIES))
    return Task("small facts", d.pick((f"Name three {category}s.", f"Tell me three {category}s.", f"Give me three {category}s.")),
                ", ".join(lx.CATEGORIES[category][:3]) + ".")


def odd_one_out(d):
    category, other = d.rng.sample(sorted(lx.CATEGORIES), 2)
    words = d.rng.sample([w for w in lx.CATEGORIES[category] if w != "orange"], d.number(2, 3))
    odd = d.pick([w for w in lx.CATEGORIES[other] if w != "orange"])
    words.insert(d.number(0, len(words)), odd)
    art = "an" if category[0] in "aeiou" else "a"
    prompt = d.pick(("Which one does not belong: {x}?", "Find the odd one out: {x}.", "Which is the odd one out: {x}?"))
    return Task("odd one out", prompt.format(x=", ".join(words)), f"{odd.capitalize()} does not belong, because it is not {art} {category}.", short=odd)


# --- JSON ---------------------------------------------------------------------------------------

def json_text(value):
    return json.dumps(value, ensure_ascii=False)


def person(d):
    """Sentences about one person and the object that they describe."""
    name = any_name(d)
    facts = [("age", d.number(3, 99)), ("city", any_city(d)), ("color", d.pick(lx.COLORS)), ("food", d.pick(lx.FOODS)),
             ("hobby", d.pick(lx.HOBBIES)), ("job", d.pick(lx.JOBS)), ("pet", d.pick(lx.ANIMALS[:24]))]
    chosen = d.rng.sample(facts, d.number(1, 4))
    chosen.sort(key=lambda f: [k for k, _ in facts].index(f[0]))
    forms = {"age": "is {v} years old", "city": "lives in {v}", "color": "likes the color {v}", "food": "likes {v}",
             "hobby": "loves {v}", "job": "works as a {v}", "pet": "has a {v}"}
    parts = [forms[k].format(v=v) for k, v in chosen]
    text = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    return f"{name} {text}.", {"name": name, **dict(chosen)}


def order(d):
    item = d.pick(sorted(lx.ITEMS))
    n = d.number(2, 50)
    color = d.pick(lx.COLORS)
    if d.chance(0.5):
        name = any_name(d)
        return f"{name} orders {n} {color} {lx.ITEMS[item]}.", {"name": name, "item": item, "count": n, "color": color}
    return f"I want {n} {color} {lx.ITEMS[item]}.", {"item": item, "count": n, "color": color}


def meeting(d):
    name = any_name(d)
    day, hour, city = d.pick(lx.DAYS), d.number(1, 12), any_city(d)
    return (d.pick((f"Meet {name} on {day} at {hour} in {city}.", f"Meeting with {name} in {city} on {day} at {hour}.")),
            {"name": name, "day": day, "hour": hour, "city": city})


def fill_json(d):
    text, value = d.pick((person, person, order, meeting))(d)
    if d.chance(0.3):
        keys = d.rng.sample(list(value), d.number(1, len(value)))
        prompt = d.pick(("Fill JSON with the keys {k}: {x}", "Extract {k} as JSON: {x}", "Give me JSON with {k}: {x}"))
        return Task("fill JSON", prompt.format(k=", ".join(keys), x=text), json_text({k: value[k] for k in keys}))
    prompt = d.pick(("Fill JSON: {x}", "Turn this into JSON: {x}", "Extract JSON: {x}", "JSON: {x}", "Make JSON from this: {x}",
                     "{x} Give me JSON.", "Write this as JSON: {x}"))
    return Task("fill JSON", prompt.format(x=text), json_text(value))


def read_question(d):
    """A question about a sentence that was just given."""
    text, value = person(d)
    key = d.pick([k for k in value if k != "name"])
    forms = {"age": ("How old is {n}?", "{n} is {v} years old."), "city": ("Where does {n} live?", "{n} lives in {v}."),
             "color": ("Which color does {n} like?", "{n} likes the color {v}."), "food": ("What food does {n} like?", "{n} likes {v}."),
             "hobby": ("What does {n} love?", "{n} loves {v}."), "job": ("What is the job of {n}?", "{n} works as a {v}."),
             "pet": ("What pet does {n} have?", "{n} has a {v}.")}
    q, a = forms[key]
    return Task("reading", f"{text} {q.format(n=value['name'])}", a.format(n=value["name"], v=value[key]), short=str(value[key]))


# --- talk ---------------------------------------------------------------------------------------

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
        return Task("jokes and facts", d.pick(("Tell me a joke.", "Make me laugh.", "Do you know a joke?", "Joke please.", "Another joke please.")),
                    d.pick(lx.JOKES), accept=lx.JOKES)
    if kind == 1:
        return Task("jokes and facts", d.pick(("Tell me a fact.", "Tell me something interesting.", "Give me a fun fact.", "Do you know a fun fact?")),
                    d.pick(lx.FACTS), accept=lx.FACTS)
    q, a = d.pick(lx.RIDDLES)
    return Task("jokes and facts", q, a)


def refuse(d):
    if d.evaluation or d.chance(0.35):
        topic = d.pick(lx.UNKNOWN_TOPICS) if not d.evaluation and d.chance(0.5) else " ".join(any_word(d) for _ in range(d.number(1, 3)))
        prompt = d.pick(("Explain {t}.", "Tell me everything about {t}.", "Write an essay about {t}.", "Write code for {t}.",
                         "What do you think about {t}?", "How does {t} work?", "Who invented {t}?", "Translate {t} to French.",
                         "What is the history of {t}?", "Why is {t} important?")).format(t=topic)
    else:
        prompt = d.pick(lx.UNKNOWN_PROMPTS)
    return Task("kind refusal", prompt, lx.REFUSAL)


# (skill, weight): how often training draws each one.
SKILLS = ((add, 14), (subtract, 9), (multiply, 6), (too_big, 2), (compare, 3), (count, 3), (sort_numbers, 4), (spell, 8), (reverse, 6),
          (count_letters, 4), (count_one_letter, 5), (edge_letter, 3), (opposite, 4), (plural, 3), (past, 2), (rhyme, 4),
          (sort_words, 4), (repeat, 3), (small_fact, 6), (odd_one_out, 3), (fill_json, 8), (read_question, 5), (about, 6),
          (small_talk, 5), (fun, 3), (refuse, 3))
_FUNCTIONS, _WEIGHTS = zip(*SKILLS)


def draw_task(d):
    return d.rng.choices(_FUNCTIONS, _WEIGHTS)[0](d)


def vary_prompt(d, prompt):
    """What people do to a prompt: politeness, lower case, a missing full stop."""
    if d.evaluation:
        return prompt
    if prompt[0].isupper() and prompt[-1] == "." and d.chance(0.08):
        prompt = d.pick(("Please ", "Can you please ")) + prompt[0].lower() + prompt[1:]
    if ":" not in prompt and prompt[0].isupper() and d.chance(0.12) and not any(
            w[0].isupper() for w in prompt.split()[1:]):
        prompt = prompt[0].lower() + prompt[1:]
    if prompt[-1] in ".?" and len(prompt) < 80 and d.chance(0.12):
        prompt = prompt[:-1]
    return prompt
