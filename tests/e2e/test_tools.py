"""Tool calls and reasoning through the official openai client, over a server that answers what the user says."""
import json
import os

import openai
from process import Server

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["city"]}}}]
ARGUMENTS = {"city": "Zürich \"old town\"\n", "days": 3, "tags": ["a", 2]}
JSON = json.dumps(ARGUMENTS, ensure_ascii=False)
PYTHON = "city='Zürich \"old town\"\\n', days=3, tags=['a', 2]"

# Dialect to a reply with one call; %j stands for its arguments as JSON.
REPLIES = {
    "hermes": '<tool_call>\n{"name": "get_weather", "arguments": %j}\n</tool_call>',
    "llama3_json": '{"name": "get_weather", "parameters": %j}',
    "mistral": "[TOOL_CALLS]get_weather[ARGS]%j",
    "qwen3_coder": "<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich \"old town\"\n\n</parameter>\n"
                   "<parameter=days>\n3\n</parameter>\n<parameter=tags>\n[\"a\", 2]\n</parameter>\n</function>\n</tool_call>",
    "glm45": "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Zürich \"old town\"\n</arg_value>\n"
             "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n<arg_key>tags</arg_key>\n<arg_value>[\"a\", 2]"
             "</arg_value>\n</tool_call>",
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>%j<｜tool▁call▁end｜>"
                    "<｜tool▁calls▁end｜>",
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>%j"
               "<|tool_call_end|><|tool_calls_section_end|>",
    "pythonic": f"[get_weather({PYTHON})]",
    "gemma4": "<|tool_call>call:get_weather{city:<|\"|>Zürich \"old town\"\n<|\"|>,days:3,tags:[<|\"|>a<|\"|>,2]}"
              "<tool_call|>",
    "openai": "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>%j<|call|>",
}


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def ask(client, reply, **fields):
    return client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": reply}], **fields)


def folded(stream):
    """The streamed answer's message, its calls by index, and the finish reason."""
    content, reasoning, calls, finish = "", "", {}, None
    for chunk in stream:
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning", None) or ""
            finish = choice.finish_reason or finish
            for call in choice.delta.tool_calls or []:
                entry = calls.setdefault(call.index, {"id": None, "name": None, "arguments": "", "pieces": 0})
                entry["id"] = call.id or entry["id"]
                entry["name"] = call.function.name or entry["name"]
                entry["arguments"] += call.function.arguments or ""
                entry["pieces"] += 1
    return content, reasoning, calls, finish


def echo_server(binary, *flags):
    program = os.path.join(os.path.dirname(binary), "tests", "e2e", "quire_echo_server")
    return Server(program, *flags, verb=None)


def check_dialect(binary, dialect, reply):
    reply = reply.replace("%j", JSON)
    with echo_server(binary, "--tool-call-parser", dialect) as server:
        client = client_of(server)
        choice = ask(client, reply, tools=TOOLS).choices[0]
        assert choice.finish_reason == "tool_calls" and choice.message.content is None, choice
        (call,) = choice.message.tool_calls
        assert call.type == "function" and call.function.name == "get_weather", call
        assert json.loads(call.function.arguments) == ARGUMENTS, call
        content, _, calls, finish = folded(ask(client, reply, tools=TOOLS, stream=True))
        assert (content, finish) == ("", "tool_calls") and list(calls) == [0], (content, calls)
        assert calls[0]["name"] == "get_weather" and calls[0]["id"], calls
        assert calls[0]["arguments"] == call.function.arguments, calls
        assert calls[0]["pieces"] > 3, "the arguments came in one piece"
        plain = ask(client, reply, tools=TOOLS, tool_choice="none").choices[0]
        assert plain.finish_reason == "stop" and not plain.message.tool_calls, plain


def test_every_style_of_dialects(binary):
    for dialect, reply in REPLIES.items():
        check_dialect(binary, dialect, reply)


def test_reasoning_then_content_and_parallel_calls(binary):
    call = REPLIES["hermes"].replace("%j", JSON)
    reply = f"<think>Let me see.</think>Looking.{call}\n{call}"
    with echo_server(binary, "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3") as server:
        client = client_of(server)
        answer = ask(client, reply, tools=TOOLS)
        message = answer.choices[0].message
        assert message.content == "Looking." and message.reasoning == "Let me see.", message
        assert len(message.tool_calls) == 2 and len({c.id for c in message.tool_calls}) == 2, message
        assert answer.usage.completion_tokens_details.reasoning_tokens == len("Let me see."), answer.usage
        content, reasoning, calls, _ = folded(ask(client, reply, tools=TOOLS, stream=True))
        assert (content, reasoning, sorted(calls)) == ("Looking.", "Let me see.", [0, 1])
        one = ask(client, reply, tools=TOOLS, parallel_tool_calls=False).choices[0].message
        assert len(one.tool_calls) == 1, one
        hidden = ask(client, reply, tools=TOOLS, extra_body={"include_reasoning": False}).choices[0].message
        assert getattr(hidden, "reasoning", None) is None and hidden.content == "Looking.", hidden


def test_a_broken_call_is_content(binary):
    with echo_server(binary, "--tool-call-parser", "hermes") as server:
        for reply in ("<tool_call>not json</tool_call>", '<tool_call>{"name": "get_weather", "arguments": {x}}'):
            choice = ask(client_of(server), reply, tools=TOOLS).choices[0]
            assert choice.finish_reason == "stop" and choice.message.content == reply, choice
            assert not choice.message.tool_calls, choice
