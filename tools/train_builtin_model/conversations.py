"""Documents: chats (with system prompts, tools and follow-ups) and plain text, as token ids.

A document is (ids, weights): weight 1 where the model is taught to write the token, 0 where it
only reads it. The rendered form equals what the chat template produces.
"""

import json

import fact_skills
import lexicon as lx
import number_skills
import skills
import stories
import tasks
import word_skills
from tokenization import (
    BOS,
    EOS,
    IM_END,
    IM_START,
    TOOL_CALL,
    TOOL_CALL_END,
    TOOL_RESPONSE,
    TOOL_RESPONSE_END,
)

# --- system prompts -----------------------------------------------------------------------------

PLAIN_SYSTEM = (
    "You are a helpful assistant.",
    "You are a helpful assistant",
    "You are Quire, a tiny model.",
    "Be helpful and kind.",
    "You are a friendly assistant.",
    "Answer the questions of the user.",
    "You are a small language model. Be nice.",
)
NAMING = (
    "Your name is {n}.",
    "You are {n}.",
    "You are an assistant named {n}.",
    "You are called {n}.",
    "You are {n}, a helpful assistant.",
)
CAPITALS = (
    "Answer in capital letters.",
    "Answer in capitals.",
    "Use only capital letters.",
    "Shout.",
    "Always answer in upper case.",
)
SHORT = (
    "Answer with one word.",
    "Be brief.",
    "Give only the result.",
    "Answer as short as possible.",
    "Only the answer, please.",
)
PIRATE = (
    "Talk like a pirate.",
    "You are a pirate.",
    "Answer like a pirate.",
    "Speak like a pirate.",
)
CAT = ("You are a cat.", "Answer like a cat.", "End every answer with meow.", "Talk like a cat.")

STYLES = {
    "capitals": (CAPITALS, str.upper),
    "pirate": (PIRATE, lambda t: "Arr! " + t + " Ahoy!"),
    "cat": (CAT, lambda t: t + " Meow!"),
}


class Chat:
    """Collects messages and marks what the model has to learn to say."""

    def __init__(self, system=None):
        self.parts = [(BOS, 0)]
        self.messages = []
        if system:
            self.add("system", system)

    def add(self, role, text):
        learned = 1 if role == "assistant" else 0
        self.parts += [(f"{IM_START}{role}\n", 0), (text + IM_END, learned), ("\n", 0)]

    def user(self, text):
        self.add("user", text)

    def assistant(self, text):
        self.add("assistant", text)

    def tool(self, text):
        self.add("tool", f"{TOOL_RESPONSE}{text}{TOOL_RESPONSE_END}")


def task_turn(d, chat, answer=lambda task: task.answer, allowed=None):
    task = skills.draw_task(d)
    while allowed and not allowed(task):
        task = skills.draw_task(d)
    chat.user(skills.vary_prompt(d, task.prompt))
    chat.assistant(answer(task))
    return task


def styled_chat(d, turns):
    style = d.pick(("capitals", "pirate", "cat", "short"))
    if style == "short":
        chat = Chat(d.pick(SHORT))
        for _ in range(turns):
            task_turn(d, chat, lambda t: t.short, lambda t: t.short)
        return chat
    prompts, change = STYLES[style]
    chat = Chat(d.pick(prompts))
    for _ in range(turns):
        task_turn(
            d,
            chat,
            lambda t: change(t.answer),
            lambda t: len(t.answer) < 90 and t.skill != "fill JSON",
        )
    return chat


def named_chat(d, turns):
    name = tasks.any_name(d)
    chat = Chat(d.pick(NAMING).format(n=name))
    for i in range(turns):
        if i == 0 or d.chance(0.3):
            chat.user(
                d.pick(
                    (
                        "Who are you?",
                        "What is your name?",
                        "Tell me your name.",
                        "What are you called?",
                        "Hello, who are you?",
                    )
                )
            )
            chat.assistant(f"My name is {name}. How can I help you?")
        else:
            task_turn(d, chat, allowed=lambda t: t.skill != "questions about Quire")
    return chat


# --- follow-ups ---------------------------------------------------------------------------------


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


# --- tools --------------------------------------------------------------------------------------


def _weather(d):
    city = tasks.any_city(d)
    sky, t = d.pick(("sunny", "rainy", "cloudy", "windy")), d.number(0, 35)
    return (
        d.pick(
            (
                f"What is the weather in {city}?",
                f"How is the weather in {city}?",
                f"Weather in {city}?",
                f"Is it warm in {city}?",
                f"What is the weather like in {city}?",
                f"What's the weather in {city}?",
                f"Tell me the weather in {city}.",
            )
        ),
        {"city": city},
        {"city": city, "temperature": t, "sky": sky},
        f"It is {t} degrees and {sky} in {city}.",
    )


def _time(d):
    city, hour = tasks.any_city(d), d.number(1, 12)
    return (
        d.pick((f"What time is it in {city}?", f"Tell me the time in {city}.", f"Time in {city}?")),
        {"city": city},
        {"city": city, "time": f"{hour} o'clock"},
        f"It is {hour} o'clock in {city}.",
    )


def _timer(d):
    n = d.number(1, 60)
    return (
        d.pick(
            (
                f"Set a timer for {n} minutes.",
                f"Start a timer of {n} minutes.",
                f"Wake me in {n} minutes.",
            )
        ),
        {"minutes": n},
        {"ok": True},
        f"I set a timer for {n} minutes.",
    )


def _message(d):
    name = tasks.any_name(d)
    text = d.pick(("hello", "I am late", "see you soon", "dinner is ready", "thank you", "call me"))
    return (
        d.pick(
            (
                f"Send a message to {name}: {text}",
                f"Tell {name}: {text}",
                f"Write to {name}: {text}",
            )
        ),
        {"to": name, "text": text},
        {"ok": True},
        f"I sent the message to {name}.",
    )


def _light(d):
    room, on = d.pick("kitchen bedroom garden bathroom office".split()), d.chance(0.5)
    state = "on" if on else "off"
    return (
        d.pick(
            (
                f"Turn {state} the light in the {room}.",
                f"Switch the {room} light {state}.",
                f"Turn the light in the {room} {state}.",
            )
        ),
        {"room": room, "state": state},
        {"ok": True},
        f"The light in the {room} is {state} now.",
    )


def _order(d):
    food, n = d.pick(lx.FOODS), d.number(1, 9)
    return (
        d.pick((f"Order {n} {food}.", f"I want {n} {food}.", f"Please order {n} {food}.")),
        {"item": food, "count": n},
        {"ok": True},
        f"I ordered {n} {food}.",
    )


def _search(d):
    words = " ".join(tasks.any_word(d) for _ in range(d.number(1, 2)))
    return (
        d.pick((f"Search for {words}.", f"Find {words}.", f"Look up {words}.", f"Search {words}.")),
        {"query": words},
        {"results": d.number(0, 20)},
        None,
    )


def _big_sum(d):
    a, b = d.number(100, 999), d.number(100, 999)
    op, sign = d.pick((("+", "+"), ("*", "x"), ("-", "-")))
    value = {"+": a + b, "*": a * b, "-": a - b}[op]
    return (
        d.pick((f"What is {a} {op} {b}?", f"Compute {a} {op} {b}.", f"{a} {op} {b}")),
        {"expression": f"{a} {op} {b}"},
        {"result": value},
        f"The result is {value}.",
    )


# make, names the tool may have, description, argument names and types
TOOLS = (
    (
        _weather,
        ("get_weather", "weather", "get_current_weather", "weather_now"),
        ("Get the weather in a city.", "Get the current weather", "Weather of a city"),
        ("string",),
    ),
    (
        _time,
        ("get_time", "time_in", "current_time"),
        ("Get the time in a city.", "Current time in a city"),
        ("string",),
    ),
    (
        _timer,
        ("set_timer", "start_timer", "timer"),
        ("Set a timer.", "Start a timer in minutes"),
        ("integer",),
    ),
    (
        _message,
        ("send_message", "message", "send_text"),
        ("Send a message.", "Send a text message to a person"),
        ("string", "string"),
    ),
    (
        _light,
        ("set_light", "light", "switch_light"),
        ("Turn a light on or off.", "Switch the light in a room"),
        ("string", "string"),
    ),
    (
        _order,
        ("order_food", "order", "buy_food"),
        ("Order food.", "Order some food"),
        ("string", "integer"),
    ),
    (
        _search,
        ("search", "web_search", "find"),
        ("Search the web.", "Search for something"),
        ("string",),
    ),
    (
        _big_sum,
        ("calculator", "calculate", "compute"),
        ("Compute a result.", "A calculator"),
        ("string",),
    ),
)
RENAMED = {"city": ("city", "location", "place", "town")}


class Tool:
    """One tool of a chat: what the system prompt shows and how a call of it looks."""

    def __init__(self, d, spec):
        self.make, names, descriptions, self.types = spec
        self.name, self.description = d.pick(names), d.pick(descriptions)
        _, arguments, _, _ = self.make(d)
        self.renaming = {k: d.pick(RENAMED.get(k, (k,))) for k in arguments}

    def line(self, d):
        arguments = ", ".join(f"{n}: {t}" for n, t in zip(self.renaming.values(), self.types))
        return f"{self.name}({arguments})" + (f" - {self.description}" if d.chance(0.85) else "")

    def schema(self):
        properties = {n: {"type": t} for n, t in zip(self.renaming.values(), self.types)}
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": properties,
                    "required": list(properties),
                },
            },
        }

    def call(self, arguments):
        named = {self.renaming[k]: v for k, v in arguments.items()}
        return f'{TOOL_CALL}{{"name": "{self.name}", "arguments": {json.dumps(named, ensure_ascii=False)}}}{TOOL_CALL_END}'


def tool_chat(d, turns):
    tools = [Tool(d, spec) for spec in d.rng.sample(TOOLS, d.number(1, 3))]
    head = d.pick(PLAIN_SYSTEM) + "\n" if d.chance(0.5) else ""
    chat = Chat(head + "Tools:\n" + "\n".join(t.line(d) for t in tools))
    for _ in range(turns):
        if d.chance(0.2):
            task_turn(
                d,
                chat,
                allowed=lambda t: (
                    t.skill not in ("kind refusal", "sums that are too big") and len(t.answer) < 90
                ),
            )
            continue
        tool = d.pick(tools)
        prompt, arguments, result, answer = tool.make(d)
        chat.user(prompt)
        chat.assistant(tool.call(arguments))
        chat.tool(json.dumps(result, ensure_ascii=False))
        if answer is None:
            n = result["results"]
            answer = f"I found {n} results for {arguments['query']}."
        chat.assistant(answer)
    return chat


# --- documents ----------------------------------------------------------------------------------


def number_of_turns(d):
    x = d.rng.random()
    return (
        1
        if x < 0.45
        else d.number(2, 3)
        if x < 0.8
        else d.number(4, 8)
        if x < 0.992
        else d.number(9, 20)
    )


def draw_chat(d):
    kind = d.rng.choices(("tasks", "styled", "named", "tools", "stories"), (68, 12, 4, 10, 6))[0]
    turns = number_of_turns(d)
    if kind == "styled":
        return styled_chat(d, min(turns, 4))
    if kind == "named":
        return named_chat(d, min(turns, 4))
    if kind == "tools":
        return tool_chat(d, min(turns, 3))
    chat = Chat(d.pick(PLAIN_SYSTEM) if d.chance(0.25) else None)
    if kind == "stories":
        story_turn(d, chat)
        turns -= 1
    for _ in range(turns):
        x = d.rng.random()
        if x < 0.06:
            remember_turns(d, chat)
        elif x < 0.11:
            number_turns(d, chat)
        elif x < 0.16:
            what_about_turns(d, chat)
        elif x < 0.17:
            joke_again(d, chat)
        elif x < 0.19 and turns > 1:
            story_turn(d, chat)
        else:
            task_turn(d, chat)
    return chat


def draw_plain(d):
    """Plain text for completion prompts, without any chat markers."""
    kind = d.rng.choices(("story", "sums", "facts", "qa", "count"), (70, 10, 8, 8, 4))[0]
    if kind == "story":
        return stories.plain_story(d)
    if kind == "sums":
        return "\n".join(
            (number_skills.add(d) if d.chance(0.7) else number_skills.subtract(d)).answer[:-1]
            for _ in range(d.number(2, 8))
        )
    if kind == "facts":
        makers = (
            word_skills.opposite,
            word_skills.plural,
            word_skills.past,
            word_skills.rhyme,
            fact_skills.small_fact,
        )
        return " ".join(d.pick(makers)(d).answer for _ in range(d.number(2, 6)))
    if kind == "qa":
        lines = []
        for _ in range(d.number(1, 5)):
            task = skills.draw_task(d)
            lines.append(f"Q: {task.prompt}\nA: {task.answer}")
        return "\n".join(lines)
    a = d.number(0, 20)
    return ", ".join(map(str, range(a, a + d.number(8, 30))))


def draw_parts(d):
    """One document as (text, weight) pieces; a piece boundary is always a token boundary."""
    if d.chance(0.07):
        return [(BOS, 0), (draw_plain(d) + EOS, 1)]
    return draw_chat(d).parts


def encode(tokenizer, parts):
    ids, weights = [], []
    for text, weight in parts:
        piece = tokenizer.encode(text, add_special_tokens=False).ids
        ids += piece
        weights += [weight] * len(piece)
    return ids, weights
