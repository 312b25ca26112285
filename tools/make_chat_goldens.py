#!/usr/bin/env python3
"""Makes the expected outputs of chat templates with Python's own jinja2, as transformers sets it up.

Run it in the oracle environment (./dev setup --oracles):

  build/oracle/bin/python tools/make_chat_goldens.py
      tests/goldens/chat/cases.json -> tests/goldens/chat/expected.json (committed)
  build/oracle/bin/python tools/make_chat_goldens.py --shared FOLDER
      every template in it x every conversation below -> build/chat_goldens/shared.json (local only)

The clock of strftime_now stands at 2025-07-10 12:00:00.
"""

import argparse
import datetime
import json
import pathlib

import transformers.utils.chat_template_utils as utils

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 7, 10, 12, 0, 0)


utils.datetime = Clock

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather, \"now\" & <here>.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City, e.g. Zürich"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": ["integer", "null"], "minimum": 0, "maximum": 7.5},
                "places": {"type": "array", "items": {"type": "object", "properties": {
                    "lat": {"type": "number"}, "lon": {"type": "number"}}, "required": ["lat"]}},
            },
            "required": ["city"],
        },
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                       "required": ["a", "b"]},
        "return": {"type": "integer", "description": "the sum"},
    },
}


def call(name, arguments, id_="call_00001"):
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations():
    """Yields name, messages, tools."""
    user = {"role": "user", "content": "What's \"2 + 2\"?\n  <b>& 'so on'</b>"}
    system = {"role": "system", "content": "You are helpful. Être bref — 简短."}
    answer = {"role": "assistant", "content": "4"}
    yield "user", [user], None
    yield "system", [system, user], None
    yield "turns", [system, user, answer, {"role": "user", "content": " And 3? "}], None
    yield "open", [user, answer], None
    yield "empty", [{"role": "user", "content": ""}], None
    yield "order", [user, user, answer, answer], None
    yield "late_system", [user, system, user], None
    yield "tools", [system, user], [WEATHER, ADD]
    yield "tools_only", [user], [ADD]
    yield "tools_empty", [system, user], []
    calls = [user,
             {"role": "assistant", "content": "", "tool_calls": [call("add", {"a": 2, "b": 2})]},
             {"role": "tool", "name": "add", "tool_call_id": "call_00001", "content": "4"},
             {"role": "assistant", "content": "It is 4."},
             {"role": "user", "content": "Thanks!"}]
    yield "calls", [system] + calls, [WEATHER, ADD]
    yield "calls_no_content", [user,
                               {"role": "assistant", "tool_calls": [
                                   call("get_weather", {"city": "Zürich", "days": None, "x": [1, 2.5, True]}, "aaaaaaaa1"),
                                   call("add", {"a": -1, "b": 1e20}, "aaaaaaaa2")]},
                               {"role": "tool", "name": "get_weather", "tool_call_id": "aaaaaaaa1",
                                "content": "{\"t\": 21.5}"},
                               {"role": "tool", "name": "add", "tool_call_id": "aaaaaaaa2", "content": "0"}], [WEATHER, ADD]
    yield "calls_text", [user,
                         {"role": "assistant", "content": None, "tool_calls": [call("add", "{\"a\": 2, \"b\": 2}", "abcdefghi")]},
                         {"role": "tool", "tool_call_id": "abcdefghi", "content": "4"}], [ADD]
    yield "thinking", [user,
                       {"role": "assistant", "content": "<think>\nhm, 4\n</think>\n\n4"},
                       {"role": "user", "content": "Why?"},
                       {"role": "assistant", "content": "Because.", "reasoning_content": "Let me see.",
                        "thinking": "Let me see."},
                       {"role": "user", "content": "Ok"}], None
    yield "thinking_calls", [user,
                             {"role": "assistant", "content": "", "reasoning_content": "I must add.",
                              "thinking": "I must add.", "tool_calls": [call("add", {"a": 2, "b": 2}, "abcdefgh1")]},
                             {"role": "tool", "name": "add", "tool_call_id": "abcdefgh1", "content": "4"}], [ADD]
    parts = [{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": "what is it?"}]
    yield "parts", [{"role": "system", "content": [{"type": "text", "text": "See well."}]},
                    {"role": "user", "content": parts}], None
    yield "text_parts", [{"role": "user", "content": [{"type": "text", "text": "Hello"}]},
                         {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
                         {"role": "user", "content": [{"type": "text", "text": "You?"}]}], None
    yield "developer", [{"role": "developer", "content": "Be kind."}, user], [ADD]
    yield "unknown_role", [{"role": "wizard", "content": "?"}], None


def variants():
    yield {}
    yield {"add_generation_prompt": True}
    yield {"add_generation_prompt": True, "enable_thinking": True, "reasoning_effort": "high"}
    yield {"add_generation_prompt": True, "enable_thinking": False, "thinking": False}


def render(source, context):
    """{"expected": text} or {"error": message}."""
    try:
        return {"expected": utils._compile_jinja_template(source).render(**context)}
    except Exception as error:  # whatever Python raises, the template cannot be rendered
        return {"error": f"{type(error).__name__}: {error}"}


def shared(folder):
    folder = pathlib.Path(folder)
    out = []
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".json")
    for path in files:
        source = path.read_text(encoding="utf-8")
        for name, messages, tools in conversations():
            for variant in variants():
                context = {"messages": messages, "tools": tools, "documents": None, "bos_token": "<s>",
                           "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>",
                           "add_generation_prompt": False, **variant}
                out.append({"template": str(path.relative_to(folder)), "name": name, "context": context,
                            **render(source, context)})
    return out


def own(cases):
    """cases.json: {"context": the variables, "templates": [text]}."""
    cases = json.loads(cases.read_text(encoding="utf-8"))
    return [{"template": text, **render(text, cases["context"])} for text in cases["templates"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", help="the folder of chat templates")
    arguments = parser.parse_args()
    if arguments.shared:
        target = ROOT / "build/chat_goldens/shared.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        result = shared(arguments.shared)
    else:
        target = ROOT / "tests/goldens/chat/expected.json"
        result = own(ROOT / "tests/goldens/chat/cases.json")
    target.write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in result) + "\n]\n",
                      encoding="utf-8")
    failed = sum("error" in case for case in result)
    print(f"{target}: {len(result)} cases, {failed} of them errors")


if __name__ == "__main__":
    main()
