#!/usr/bin/env python3
"""Writes work for `quire bench speculation --dataset` from a git repository: JSON lines.

code-edit: a file before a small change and the change's subject; the answer is the file after it.
agent:     the same file; the answer is the change as tool calls that replace texts.
turns:     several such changes of one file, one after the other: each turn of the assistant is an answer, and what
           was said before is its prompt.
summary, chat: prompts without answers, so that the model's own come out.

    tools/speculation_work.py REPOSITORY > work.jsonl
"""

import argparse
import difflib
import json
import pathlib
import subprocess

MAX_CHARS = 6000
MAX_TURN_CHARS = 2500  # limit for a file that several turns change
CHAT = [
    "Explain why the sky is blue to a curious child.",
    "Write a short story about a lighthouse keeper who finds a letter.",
    "What are the advantages and disadvantages of working from home?",
    "Give me advice for a first visit to a city that I do not know.",
]


def git(repository, *args):
    return subprocess.run(["git", "-C", repository, *args], check=True, capture_output=True, text=True).stdout


def small_changes(repository, most):
    """Yields (subject, path, before, after) for text files that a commit changes in a few lines."""
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
                yield subject, path, before, after
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


def files_that_change(repository, most, num_turns):
    """Yields (path, [(subject, before, after), …]) for files with several successive small changes."""
    by_path = {}
    for subject, path, before, after in small_changes(repository, 400):
        if max(len(before), len(after)) <= MAX_TURN_CHARS:
            by_path.setdefault(path, []).insert(0, (subject, before, after))  # the newest comes first
    found = [(path, changes[:num_turns]) for path, changes in by_path.items() if len(changes) >= num_turns]
    return found[:most]


def turns(path, changes):
    """Yields (prompt, answer) for each turn of an agent that makes the changes with tools."""
    def said(role, text):
        return f"<|im_start|>{role}\n{text}<|im_end|>\n"

    text = said("system", "Change files with the tools read_file, replace_text and run_tests.")
    for subject, before, after in changes:
        text += said("user", f"{subject} ({path})")
        for answer, result in ((json.dumps({"name": "read_file", "arguments": {"path": path}}), before),
                               (tool_calls(before, after), "replaced"),
                               (json.dumps({"name": "run_tests", "arguments": {"path": path}}), "passed")):
            prompt = text + "<|im_start|>assistant\n"
            yield prompt, answer
            text = prompt + answer + "<|im_end|>\n" + said("tool", result)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository")
    parser.add_argument("--num-changes", type=int, default=6)
    args = parser.parse_args()

    def say(name, prompt, answer=None):
        line = {"name": name, "prompt": prompt}
        print(json.dumps(line if answer is None else line | {"answer": answer}))

    changes = list(small_changes(args.repository, args.num_changes))
    for subject, _, before, after in changes:
        say("code-edit", f"{before}\n\nRewrite the file with this change: {subject}\n\n", after)
    for subject, _, before, after in changes:
        say("agent", f"{before}\n\nMake this change with replace_text: {subject}\n\n", tool_calls(before, after))
    for path, edits in files_that_change(args.repository, most=3, num_turns=2):
        for prompt, answer in turns(path, edits):
            say("turns", prompt, answer)
    for path in sorted(pathlib.Path(args.repository, "docs", "decisions").glob("*.md"))[:4]:
        say("summary", f"{path.read_text()[:3000]}\n\nSummary of the text above:\n\n")
    for prompt in CHAT:
        say("chat", f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n")


if __name__ == "__main__":
    main()
