"""Documents: chats and plain text, as pieces of text and as token ids with weights.

A document is (ids, weights): weight 1 where the model is taught to write the token, 0 where it
only reads it. The rendered form equals what the chat template produces.
"""

import fact_skills
import number_skills
import skills
import stories
import word_skills
from chat import PLAIN_SYSTEM, Chat, task_turn
from follow_ups import joke_again, number_turns, remember_turns, story_turn, what_about_turns
from styles import named_chat, styled_chat
from tokenization import BOS, EOS
from tool_chats import tool_chat


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
