"""Reading a sentence: filling a JSON object from it, answering a question about it."""

import json

import lexicon as lx
from tasks import Task, any_city, any_name


def json_text(value):
    return json.dumps(value, ensure_ascii=False)


def person(d):
    """Sentences about one person and the object that they describe."""
    name = any_name(d)
    facts = [
        ("age", d.number(3, 99)),
        ("city", any_city(d)),
        ("color", d.pick(lx.COLORS)),
        ("food", d.pick(lx.FOODS)),
        ("hobby", d.pick(lx.HOBBIES)),
        ("job", d.pick(lx.JOBS)),
        ("pet", d.pick(lx.ANIMALS[:24])),
    ]
    chosen = d.rng.sample(facts, d.number(1, 4))
    chosen.sort(key=lambda f: [k for k, _ in facts].index(f[0]))
    forms = {
        "age": "is {v} years old",
        "city": "lives in {v}",
        "color": "likes the color {v}",
        "food": "likes {v}",
        "hobby": "loves {v}",
        "job": "works as a {v}",
        "pet": "has a {v}",
    }
    parts = [forms[k].format(v=v) for k, v in chosen]
    text = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    return f"{name} {text}.", {"name": name, **dict(chosen)}


def order(d):
    item = d.pick(sorted(lx.ITEMS))
    n = d.number(2, 50)
    color = d.pick(lx.COLORS)
    if d.chance(0.5):
        name = any_name(d)
        return f"{name} orders {n} {color} {lx.ITEMS[item]}.", {
            "name": name,
            "item": item,
            "count": n,
            "color": color,
        }
    return f"I want {n} {color} {lx.ITEMS[item]}.", {"item": item, "count": n, "color": color}


def meeting(d):
    name = any_name(d)
    day, hour, city = d.pick(lx.DAYS), d.number(1, 12), any_city(d)
    return (
        d.pick(
            (
                f"Meet {name} on {day} at {hour} in {city}.",
                f"Meeting with {name} in {city} on {day} at {hour}.",
            )
        ),
        {"name": name, "day": day, "hour": hour, "city": city},
    )


def fill_json(d):
    text, value = d.pick((person, person, order, meeting))(d)
    prompt = d.pick(
        (
            "Fill JSON: {x}",
            "Turn this into JSON: {x}",
            "Extract JSON: {x}",
            "JSON: {x}",
            "Make JSON from this: {x}",
            "{x} Give me JSON.",
            "Write this as JSON: {x}",
        )
    )
    return Task("fill JSON", prompt.format(x=text), json_text(value))


def read_question(d):
    """A question about a sentence that was just given."""
    text, value = person(d)
    key = d.pick([k for k in value if k != "name"])
    forms = {
        "age": ("How old is {n}?", "{n} is {v} years old."),
        "city": ("Where does {n} live?", "{n} lives in {v}."),
        "color": ("Which color does {n} like?", "{n} likes the color {v}."),
        "food": ("What food does {n} like?", "{n} likes {v}."),
        "hobby": ("What does {n} love?", "{n} loves {v}."),
        "job": ("What is the job of {n}?", "{n} works as a {v}."),
        "pet": ("What pet does {n} have?", "{n} has a {v}."),
    }
    q, a = forms[key]
    return Task(
        "reading",
        f"{text} {q.format(n=value['name'])}",
        a.format(n=value["name"], v=value[key]),
        short=str(value[key]),
    )
