"""Anthropic's Messages API through the official anthropic client: over a server that answers what the user says, and
over the built-in model."""
import json

import anthropic
from process import Server
from test_tools import ARGUMENTS, JSON, REPLIES, echo_server

TOOLS = [{"name": "get_weather", "description": "The weather.", "input_schema": {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["city"]}}]


def client_of(server, key="none"):
    return anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0)


def asking(reply, **fields):
    return {"model": "tiny", "max_tokens": 4096, "messages": [{"role": "user", "content": reply}], **fields}


def both(client, **fields):
    """Returns the message from a plain answer and the one that the client puts together from a stream."""
    whole = client.messages.create(**fields)
    with client.messages.stream(**fields) as stream:
        types = [event.type for event in stream]
        streamed = stream.get_final_message()
    assert types[0] == "message_start" and types[-2:] == ["message_delta", "message_stop"], types
    assert types.count("content_block_start") == types.count("content_block_stop") == len(streamed.content), types
    assert "content_block_delta" in types, types
    return whole, streamed


def without_ids(message):
    """Returns the parts of a message that are the same for each request."""
    dump = message.to_dict(exclude_none=True)
    dump.pop("id")
    for block in dump["content"]:
        for name in ("id", "signature", "parsed_output", "citations"):
            block.pop(name, None)
    return dump


def test_thinking_text_and_calls(binary):
    call = REPLIES["hermes"].replace("%j", JSON)
    reply = f"<think>Let me see.</think>Looking.{call}\n{call}"
    with echo_server(binary, "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3") as server:
        whole, streamed = both(client_of(server), **asking(reply, tools=TOOLS, thinking={
            "type": "enabled", "budget_tokens": 1024}))
        assert without_ids(whole) == without_ids(streamed), (whole, streamed)
        assert [block.type for block in whole.content] == ["thinking", "text", "tool_use", "tool_use"], whole
        thinking, text, first, second = whole.content
        assert thinking.thinking == "Let me see." and thinking.signature and text.text == "Looking.", whole
        assert first.input == second.input == ARGUMENTS and first.id != second.id, whole
        assert whole.stop_reason == "tool_use" and whole.stop_sequence is None, whole
        assert whole.usage.output_tokens == len(reply.encode()), whole.usage
        assert whole.usage.output_tokens_details.thinking_tokens == len("Let me see."), whole.usage
        one = client_of(server).messages.create(**asking(reply, tools=TOOLS, tool_choice={
            "type": "auto", "disable_parallel_tool_use": True}))
        assert [block.type for block in one.content].count("tool_use") == 1, one


def test_a_turn_with_results_of_tools(binary):
    """The client's parsed message is sent back to the server unchanged."""
    call = REPLIES["hermes"].replace("%j", JSON)
    with echo_server(binary, "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3") as server:
        client = client_of(server)
        messages = [{"role": "user", "content": f"<think>So.</think>{call}"}]
        asked = client.messages.create(model="tiny", max_tokens=4096, messages=messages, tools=TOOLS)
        (use,) = [block for block in asked.content if block.type == "tool_use"]
        messages += [{"role": "assistant", "content": asked.content},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": [
                         {"type": "text", "text": "sunny"}]}, {"type": "text", "text": "It is sunny."}]}]
        counted = client.messages.count_tokens(model="tiny", messages=messages, tools=TOOLS)
        answer = client.messages.create(model="tiny", max_tokens=4096, messages=messages, tools=TOOLS)
        assert answer.content[0].text == "It is sunny." and answer.stop_reason == "end_turn", answer
        assert answer.usage.input_tokens == counted.input_tokens, (answer.usage, counted)


def test_refusals_are_the_clients_own(binary):
    with Server(binary, "--api-key", "secret") as server:
        client = client_of(server, "secret")
        fields = asking("hi", model="")
        assert client.messages.create(**(fields | {"max_tokens": 2})).usage.output_tokens == 2

        def refused(kind, type_name, what, **other):
            try:
                client.messages.create(**(fields | other))
            except kind as error:
                assert error.body["type"] == "error" and error.body["error"]["type"] == type_name, error.body
                assert what in error.body["error"]["message"], error.body
            else:
                raise AssertionError(f"not refused: {other}")

        refused(anthropic.BadRequestError, "invalid_request_error", "max_tokens: ", max_tokens=0)
        refused(anthropic.BadRequestError, "invalid_request_error", "messages.0.content.0.type: ", messages=[
            {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://a.example/b"}}]}])
        refused(anthropic.NotFoundError, "not_found_error", "claude", model="claude")
        client = client_of(server, "wrong")
        refused(anthropic.AuthenticationError, "authentication_error", "x-api-key")


def test_a_real_model_streams_stops_and_caches(binary):
    with Server(binary) as server:
        client = client_of(server)
        fields = asking("Tell me a story about a lighthouse and a storm.", model="", max_tokens=40,
                        system="You are a storyteller.", extra_body={"temperature": 0})
        whole, streamed = both(client, **fields)
        assert without_ids(whole)["content"] == without_ids(streamed)["content"], (whole, streamed)
        text = whole.content[0].text
        assert whole.stop_reason in ("end_turn", "max_tokens") and text, whole
        counted = client.messages.count_tokens(model="", messages=fields["messages"], system=fields["system"])
        for usage in (whole.usage, streamed.usage):
            assert usage.input_tokens + usage.cache_read_input_tokens == counted.input_tokens, (usage, counted)
        assert streamed.usage.cache_read_input_tokens > 0, streamed.usage
        stop = text[len(text) // 2:len(text) // 2 + 3]
        cut = client.messages.create(**fields, stop_sequences=["\u0000never", stop])
        assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", stop), cut
        assert cut.content == [] or cut.content[0].text == text[:text.index(stop)], (cut, text)
        schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}}, "required": ["n"],
                  "additionalProperties": False}
        shaped = client.messages.create(**fields, output_config={"format": {"type": "json_schema", "schema": schema}})
        assert isinstance(json.loads(shaped.content[0].text)["n"], int), shaped
