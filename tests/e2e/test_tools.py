"""Tool calls and reasoning through the official openai client, over a server that answers what the user says."""
import gzip
import json
import os

import jsonschema
import openai
from process import Server

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["city"]}}}]
ARGUMENTS = {"city": "Zürich \"old town\"\n", "days": 3, "tags": ["a", 2]}
JSON = json.dumps(ARGUMENTS, ensure_ascii=False)
PYTHON = "city='Zürich \"old town\"\\n', days=3, tags=['a', 2]"

# For each dialect, a reply with one call; %j stands for its arguments as JSON.
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
    """Returns the message of a streamed answer, its calls by index, and the finish reason."""
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


def check_weather(call):
    arguments = json.loads(call.function.arguments)
    assert call.function.name == "get_weather" and call.type == "function" and call.id, call
    assert isinstance(arguments["city"], str) and set(arguments) <= {"city", "days", "tags"}, arguments
    assert isinstance(arguments.get("days", 0), int) and isinstance(arguments.get("tags", []), list), arguments


FORCED_TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "maximum": 99},
                       "tags": {"type": "array", "items": {"enum": ["rain", "wind"]}, "maxItems": 2}},
        "required": ["city"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "stop", "parameters": {
        "type": "object", "properties": {}, "additionalProperties": False}}},
]


def forced(client, seed=0, tools=FORCED_TOOLS, **fields):
    return client.chat.completions.create(model=client.models.list().data[0].id, tools=tools, temperature=1, seed=seed,
                                          messages=[{"role": "user", "content": "Weather?"}], max_tokens=400, **fields)


def test_calls_that_must_come_are_valid_in_every_style(binary):
    """The built-in model cannot write calls by itself, so only the grammar can make them valid."""
    for dialect in REPLIES:
        with Server(binary, "--tool-call-parser", dialect) as server:
            client = client_of(server)
            for seed in range(3):
                choice = forced(client, seed, tool_choice="required", parallel_tool_calls=False).choices[0]
                if choice.finish_reason == "length" and dialect in ("qwen3_coder", "glm45", "pythonic", "gemma4"):
                    continue  # their grammars restrict the types of values, not their lengths
                assert choice.finish_reason == "tool_calls" and not choice.message.content, (dialect, choice)
                (call,) = choice.message.tool_calls
                if call.function.name == "stop":
                    assert json.loads(call.function.arguments) == {}, (dialect, call)
                else:
                    check_weather(call)
            named = {"type": "function", "function": {"name": "stop"}}
            choice = forced(client, tool_choice=named).choices[0]
            (call,) = choice.message.tool_calls
            assert choice.finish_reason == "stop" and call.function.name == "stop", (dialect, choice)
            content, _, calls, finish = folded(forced(client, tool_choice=named, stream=True))
            assert (content, finish, len(calls), calls[0]["name"]) == ("", "stop", 1, "stop"), (dialect, calls)


def test_what_forced_calls_are_refused_for(binary):
    with Server(binary, "--tool-call-parser", "none") as server:
        try:
            forced(client_of(server), tool_choice="required")
            raise AssertionError("a model without a dialect was made to call")
        except openai.BadRequestError as error:
            assert error.param == "tool_choice" and "--tool-call-parser" in error.message, error.message
    with Server(binary, "--tool-call-parser", "hermes") as server:
        client = client_of(server)
        for fields, param in (({"extra_body": {"structured_outputs": {"regex": "a"}}}, "structured_outputs"),
                              ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools")):
            try:
                forced(client, tool_choice="required", **fields)
                raise AssertionError(f"expected a refusal of {fields}")
            except openai.BadRequestError as error:
                assert error.param == param, (error.param, error.message)
        # A response_format restricts the content, and there is none.
        choice = forced(client, tool_choice="required", response_format={"type": "json_object"}).choices[0]
        assert choice.message.tool_calls, choice


def bfcl_questions():
    """Returns every function of the benchmark's files as tools of the API, if the data is available."""
    root = os.environ.get("QUIRE_TEST_DATA") or os.path.join(os.path.dirname(__file__), "../../../shared/data")
    folder = os.path.join(root, "api/bfcl")
    if not os.path.isdir(folder):
        return None
    questions = []
    for name in sorted(os.listdir(folder)):
        with gzip.open(os.path.join(folder, name), "rt", encoding="utf-8") as file:
            questions += [json.loads(line)["function"] for line in file]
    return questions


# Limits that end values of a type, because a model that writes at random would not end them.
LIMITS = {"string": {"maxLength": 12}, "array": {"maxItems": 2}, "integer": {"minimum": -999, "maximum": 999},
          "number": {"minimum": -999, "maximum": 999}, "object": {"additionalProperties": False}}


def bounded(schema):
    """Converts a function of the benchmark, which has Python's names of types and no limits."""
    if isinstance(schema, list):
        return [bounded(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: bounded(value) for key, value in schema.items()}
    kind = schema.get("type")
    if isinstance(kind, str):
        out["type"] = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}.get(kind, kind)
        if "enum" not in out and (out["type"] != "object" or "properties" in out):
            out.update(LIMITS.get(out["type"], {}))
    return out


def test_functions_of_bfcl_are_called_validly(binary):
    questions = bfcl_questions()
    if questions is None:
        print("SKIPPED: no api/bfcl under QUIRE_TEST_DATA")
        return
    with Server(binary, "--tool-call-parser", "hermes") as server:
        client = client_of(server)
        cut = 0
        for seed, functions in enumerate(questions):
            tools = [{"type": "function", "function": {
                "name": f["name"], "parameters": bounded(f["parameters"])}} for f in functions]
            choice = forced(client, seed, tools=tools, tool_choice="required", parallel_tool_calls=False).choices[0]
            if choice.finish_reason == "length":
                cut += 1
                continue
            (call,) = choice.message.tool_calls
            schema = next(t["function"]["parameters"] for t in tools if t["function"]["name"] == call.function.name)
            jsonschema.validate(json.loads(call.function.arguments), schema)
        assert cut < len(questions) / 5, f"{cut} of {len(questions)} answers were cut"
