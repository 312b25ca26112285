#!/usr/bin/env python3
"""Measures every skill of the built-in model with exact checks, greedy, and prints a table.

  build/oracle/bin/python tools/train_builtin_model/evaluate.py assets/builtin_model

Open skills (sums, new words, new names) are asked only with keys that training never saw.
"""

import argparse
import collections
import json
import re

import torch
from transformers import AutoTokenizer, LlamaForCausalLM

import lexicon as lx
import number_skills
import skills
import stories
import styles
import tasks
import tool_chats
import word_skills

WORD_SKILLS = (
    word_skills.spell,
    word_skills.reverse,
    word_skills.count_letters,
    word_skills.count_one_letter,
    word_skills.edge_letter,
    word_skills.repeat,
)


def cases(per_skill, seed):
    """(skill, messages, tools, checker) for every skill."""
    d = tasks.Draw(seed, evaluation=True)
    for make, _ in skills.SKILLS:
        for _ in range(per_skill):
            task = make(d)
            name = f"{task.skill}, new words" if make in WORD_SKILLS else task.skill
            yield name, [{"role": "user", "content": task.prompt}], None, task.is_right
    known = tasks.Draw(seed, only_known_words=True)
    for make in WORD_SKILLS:
        for _ in range(per_skill):
            task = make(known)
            yield task.skill, [{"role": "user", "content": task.prompt}], None, task.is_right
    for make in (
        tool_case,
        result_case,
        name_case,
        recall_case,
        follow_case,
        style_case,
        short_case,
        story_case,
    ):
        for _ in range(per_skill):
            yield make(d)


def draw_tool(d):
    tools = [tool_chats.Tool(d, spec) for spec in d.rng.sample(tool_chats.TOOLS, d.number(1, 3))]
    tool = d.pick(tools)
    return tools, tool, tool.make(d)


def tool_case(d):
    tools, tool, (prompt, arguments, _, _) = draw_tool(d)
    want = tool.call(arguments)
    return (
        "tool call",
        [{"role": "user", "content": prompt}],
        [t.schema() for t in tools],
        lambda text: text.strip() == want,
    )


def result_case(d):
    while True:
        tools, tool, (prompt, arguments, result, answer) = draw_tool(d)
        if answer:
            break
    named = {tool.renaming[k]: v for k, v in arguments.items()}
    messages = [
        {"role": "user", "content": prompt},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"type": "function", "function": {"name": tool.name, "arguments": named}}
            ],
        },
        {"role": "tool", "content": json.dumps(result)},
    ]
    return (
        "answer from a tool result",
        messages,
        [t.schema() for t in tools],
        lambda text: text.strip() == answer,
    )


def name_case(d):
    name = tasks.any_name(d)
    messages = [
        {"role": "system", "content": d.pick(styles.NAMING).format(n=name)},
        {"role": "user", "content": "Who are you?"},
    ]
    return "system prompt: name", messages, None, lambda text: f"My name is {name}." in text


def recall_case(d):
    name, other = tasks.any_name(d), number_skills.add(d)
    messages = [
        {"role": "user", "content": f"My name is {name}."},
        {"role": "assistant", "content": f"Nice to meet you, {name}!"},
        {"role": "user", "content": other.prompt},
        {"role": "assistant", "content": other.answer},
        {"role": "user", "content": "What is my name?"},
    ]
    return "recall over turns", messages, None, lambda text: text.strip() == f"Your name is {name}."


def follow_case(d):
    task, step = number_skills.add(d), d.number(1, 10)
    while task.value + step > 99:
        task = number_skills.add(d)
    messages = [
        {"role": "user", "content": task.prompt},
        {"role": "assistant", "content": task.answer},
        {"role": "user", "content": f"Now add {step}."},
    ]
    want = f"{task.value} + {step} = {task.value + step}."
    return "follow-up sums", messages, None, lambda text: text.strip() == want


def style_case(d):
    task = word_skills.opposite(d)
    style = d.pick(sorted(styles.STYLES))
    prompts, change = styles.STYLES[style]
    messages = [
        {"role": "system", "content": d.pick(prompts)},
        {"role": "user", "content": task.prompt},
    ]
    want = change(task.answer)
    return "system prompt: pirate, cat", messages, None, lambda text: text.strip() == want


def short_case(d):
    task = d.pick((word_skills.opposite, word_skills.plural, number_skills.add))(d)
    messages = [
        {"role": "system", "content": d.pick(styles.SHORT)},
        {"role": "user", "content": task.prompt},
    ]
    return "system prompt: one word", messages, None, lambda text: text.strip() == task.short


def coherent_story(text, hero, name=None):
    """The hero is named as asked, a known ending closes it, and no third name appears."""
    names = {n for n in lx.PET_NAMES if re.search(rf"\b{n}\b", text)}
    ends = [e.split("{")[0] if not e.startswith("{") else e.split("}")[-1] for e in stories.ENDINGS]
    ended = any(e.strip() in text for e in ends)
    return (
        hero in text
        and (name is None or name in names)
        and len(names) == 2
        and ended
        and text.endswith(".")
    )


def story_case(d):
    hero, name = d.pick(stories.HEROES), d.pick(lx.PET_NAMES)
    an = ("an " if hero[0] in "aeiou" else "a ") + hero
    prompt = f"Tell me a story about {an} named {name}."
    return (
        "coherent story",
        [{"role": "user", "content": prompt}],
        None,
        lambda text: coherent_story(text.strip(), hero, name),
    )


@torch.no_grad()
def generate(model, tokenizer, prompts, limit=260):
    """Greedy continuations of prompts of equal length, batched, with a KV cache."""
    ids = torch.tensor(prompts)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    done = torch.zeros(len(prompts), dtype=torch.bool)
    out, past, step = [], None, ids
    for _ in range(limit):
        result = model(step, past_key_values=past, use_cache=True)
        past = result.past_key_values
        step = result.logits[:, -1].argmax(-1, keepdim=True)
        out.append(step)
        done |= step[:, 0] == end
        if done.all():
            break
    texts = []
    for row in torch.cat(out, 1).tolist():
        row = row[: row.index(end)] if end in row else row
        texts.append(tokenizer.decode(row, skip_special_tokens=False))
    return texts


def measure(path, per_skill, seed, show):
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = LlamaForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    by_length = collections.defaultdict(list)
    for skill, messages, tools, check in cases(per_skill, seed):
        ids = tokenizer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=True, return_dict=False
        )
        by_length[len(ids)].append((skill, messages, ids, check))
    right, total = collections.Counter(), collections.Counter()
    for group in by_length.values():
        for start in range(0, len(group), 32):
            part = group[start : start + 32]
            for (skill, messages, _, check), text in zip(
                part, generate(model, tokenizer, [p[2] for p in part])
            ):
                ok = check(text)
                total[skill] += 1
                right[skill] += ok
                if show and not ok:
                    print(f"[{skill}] {messages[-1]['content']!r} -> {text!r}")
    return {skill: (right[skill], total[skill]) for skill in total}


def table(results):
    lines = ["| skill | right | of | share |", "|---|---|---|---|"]
    for skill, (right, total) in sorted(
        results.items(), key=lambda kv: (-kv[1][0] / kv[1][1], kv[0])
    ):
        lines.append(f"| {skill} | {right} | {total} | {100 * right / total:.0f} % |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--per-skill", type=int, default=50)
    parser.add_argument("--seed", type=int, default=12345)
    parser.add_argument("--show", action="store_true", help="print wrong answers")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(table(measure(args.model, args.per_skill, args.seed, args.show)))


if __name__ == "__main__":
    main()
