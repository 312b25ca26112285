#!/usr/bin/env python3
"""Writes work for `quire bench speculation --dataset` from a git repository: JSON lines.

code-edit: a file before a small change and the change's subject; the answer is the file after it.
agent:     the same file; the answer is the change as tool calls that replace texts.
summary, chat: prompts without answers, so that the model's own come out.

    tools/speculation_work.py REPOSITORY > work.jsonl
"""

import argparse
import difflib
import json
import pathlib
import subprocess

MAX_CHARS = 6000
CHAT = [
    "Explain why the sky is blue to a curious child.",
    "Write a short story about a lighthouse keeper who finds a letter.",
    "What are the advantages and disadvantages of working from home?",
    "Give me advice for a first visit to a city that I do not know.",
]


def git(repository, *args):
    return subprocess.run(["git", "-C", repository, *args], check=True, capture_output=True, text=True).stdout


def small_changes(repository, most):
    """(subject, before, after) of text files that a commit changes in a few lines."""
    found = 0
    for line in git(repository, "log", "--no-merges", "--format=%H %s", "-n", "400").splitlines():
        commit, subject = line.split(" ", 1)
        for row in git(repository, "show", "--numstat", "--format=", commit).splitlines():
            added, deleted, path = row.split("\t", 2)
            if not path.endswith((".cc", ".h", ".py", ".md")) or "=>" in path:
                continue
            if added == "-" or not 2 <= int(added) + int(deleted) <= 24 or deleted == "0":
                continue
            try:
                before = git(repository, "show", f"{commit}~1:{path}")
                after = git(repository, "show", f"{commit}:{path}")
            except subprocess.CalledProcessError:
                continue
            if 800 <= len(before) <= MAX_CHARS and len(after) <= MAX_CHARS:
                yield subject, before, after
                found += 1
                if found == most:
                    return
                break


def tool_calls(before, after):
    old, new = before.splitlines(), after.splitlines()
    calls = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(2):
        _, i, _, j, _ = group[0]
        _, _, i_end, _, j_end = group[-1]
        arguments = {"old_text": "\n".join(old[i:i_end]), "new_text": "\n".join(new[j:j_end])}
        calls.append(json.dumps({"name": "replace_text", "arguments": arguments}))
    return "\n".join(calls)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository")
    parser.add_argument("--num-changes", type=int, default=6)
    args = parser.parse_args()

    def say(name, prompt, answer=None):
        line = {"name": name, "prompt": prompt}
        print(json.dumps(line if answer is None else line | {"answer": answer}))

    changes = list(small_changes(args.repository, args.num_changes))
    for subject, before, after in changes:
        say("code-edit", f"{before}\n\nRewrite the file with this change: {subject}\n\n", after)
    for subject, before, after in changes:
        say("agent", f"{before}\n\nMake this change with replace_text: {subject}\n\n", tool_calls(before, after))
    for path in sorted(pathlib.Path(args.repository, "docs", "decisions").glob("*.md"))[:4]:
        say("summary", f"{path.read_text()[:3000]}\n\nSummary of the text above:\n\n")
    for prompt in CHAT:
        say("chat", f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n")


if __name__ == "__main__":
    main()
