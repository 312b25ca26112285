"""Chats whose system prompt asks for something: a name, one word, a pirate, a cat."""

import tasks
from chat import Chat, task_turn

NAMING = (
    "Your name is {n}.",
    "You are {n}.",
    "You are an assistant named {n}.",
    "You are called {n}.",
    "You are {n}, a helpful assistant.",
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

SHORT_SKILLS = (
    "addition (sum < 100)",
    "subtraction (< 100)",
    "times table (to 10)",
    "opposites",
    "plurals",
    "past tense",
)
STYLES = {
    "pirate": (PIRATE, lambda t: "Arr! " + t + " Ahoy!"),
    "cat": (CAT, lambda t: t + " Meow!"),
}


def styled_chat(d, turns):
    style = d.pick(("pirate", "cat", "short"))
    if style == "short":
        chat = Chat(d.pick(SHORT))
        for _ in range(turns):
            task_turn(d, chat, lambda t: t.short, lambda t: t.skill in SHORT_SKILLS)
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
