#!/usr/bin/env python3
"""Checks of the generated text: repeatable, split from the evaluation, and equal to the chat template.

build/oracle/bin/python tools/train_builtin_model/text_test.py
"""

import json
import re
import unittest

import jinja2

import conversations
import evaluate
import number_skills
import stories
import tasks
import tool_chats
from tokenization import BOS, CHAT_TEMPLATE, EOS, IM_END, IM_START


def render(messages, tools=None, generate=False):
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(CHAT_TEMPLATE).render(
        messages=messages,
        tools=tools,
        add_generation_prompt=generate,
        bos_token=BOS,
        raise_exception=None,
    )


def messages_of(text):
    """The messages of a rendered chat, with tool calls taken apart again."""
    out = []
    for role, content in re.findall(
        rf"{re.escape(IM_START)}(\w+)\n(.*?){re.escape(IM_END)}\n", text, re.S
    ):
        call = re.fullmatch(r"<tool_call>(.*)</tool_call>", content, re.S)
        if call:
            value = json.loads(call[1])
            out.append(
                {
                    "role": role,
                    "content": None,
                    "tool_calls": [{"type": "function", "function": value}],
                }
            )
        elif role == "tool":
            out.append(
                {
                    "role": role,
                    "content": re.fullmatch(r"<tool_response>(.*)</tool_response>", content, re.S)[
                        1
                    ],
                }
            )
        else:
            out.append({"role": role, "content": content})
    return out


class TextTest(unittest.TestCase):
    def test_documents_depend_only_on_the_seed(self):
        draw = lambda: [conversations.draw_parts(d) for d in [tasks.Draw("7:3")] for _ in range(50)]
        self.assertEqual(draw(), draw())

    def test_chats_equal_the_template(self):
        d, chats = tasks.Draw(3), 0
        for _ in range(500):
            text = "".join(t for t, _ in conversations.draw_parts(d))
            if text.endswith(EOS):
                continue
            chats += 1
            self.assertEqual(render(messages_of(text)), text)
        self.assertGreater(chats, 300)

    def test_tools_are_shown_as_trained(self):
        d = tasks.Draw(5)
        for _ in range(50):
            tool = tool_chats.Tool(d, d.pick(tool_chats.TOOLS))
            line = f"{tool.name}({', '.join(f'{n}: {t}' for n, t in zip(tool.renaming.values(), tool.types))}) - {tool.description}"
            want = f"{BOS}{IM_START}system\nBe kind.\nTools:\n{line}{IM_END}\n{IM_START}user\nHi{IM_END}\n{IM_START}assistant\n"
            got = render(
                [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
                [tool.schema()],
                True,
            )
            self.assertEqual(got, want)

    def test_evaluation_asks_only_unseen_keys(self):
        train, test = tasks.Draw(1), tasks.Draw(1, evaluation=True)
        seen = {number_skills.add(train).answer for _ in range(3000)}
        self.assertFalse(seen & {number_skills.add(test).answer for _ in range(200)})

    def test_every_generated_story_is_coherent(self):
        d = tasks.Draw(9)
        for _ in range(300):
            self.assertTrue(evaluate.coherent_story(stories.story(d, "fox", "Pip"), "fox", "Pip"))

    def test_answers_are_right(self):
        d = tasks.Draw(11)
        for _ in range(300):
            a, op, b, c = re.fullmatch(
                r"(\d+) ([+x-]) (\d+) = (\d+)\.",
                d.pick((number_skills.add, number_skills.subtract, number_skills.multiply))(
                    d
                ).answer,
            ).groups()
            self.assertEqual(
                {"+": int(a) + int(b), "-": int(a) - int(b), "x": int(a) * int(b)}[op], int(c)
            )


if __name__ == "__main__":
    unittest.main()
