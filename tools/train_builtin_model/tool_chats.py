"""Chats with tools: which tool to call, with which arguments, and what its result means."""

import json

import lexicon as lx
import tasks
from chat import PLAIN_SYSTEM, Chat, task_turn
from tokenization import TOOL_CALL, TOOL_CALL_END


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


# Each is (make, possible names of the tool, description, argument names and types).
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
