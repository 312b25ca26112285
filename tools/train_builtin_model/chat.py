"""A chat as it is learned: messages in the form of the chat template, and task turns."""

import skills
from tokenization import BOS, IM_END, IM_START, TOOL_RESPONSE, TOOL_RESPONSE_END

PLAIN_SYSTEM = (
    "You are a helpful assistant.",
    "You are a helpful assistant",
    "You are Quire, a tiny model.",
    "Be helpful and kind.",
    "You are a friendly assistant.",
    "Answer the questions of the user.",
    "You are a small language model. Be nice.",
)


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
