"""OpenAI's Responses API through the official openai client: over a server that answers what the user says, and over the
built-in model."""
import json
import time

import openai
import pydantic
from process import Server
from test_tools import ARGUMENTS, JSON, REPLIES, client_of, echo_server

TOOLS = [{"type": "function", "name": "get_weather", "description": "The weather.", "strict": False, "parameters": {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["city"]}}]
CALL = REPLIES["hermes"].replace("%j", JSON)
FLAGS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")


def without_ids(response):
    """Returns the parts of the output that are the same for each response."""
    items = [item.to_dict() for item in response.output]
    for item in items:
        for name in ("id", "call_id", "parsed", "parsed_arguments"):
            item.pop(name, None)
        for part in item.get("content") or []:
            part.pop("parsed", None)
    return items


def streamed(client, **fields):
    """Returns the events of a stream as the client parses them, and the response that it puts together from them."""
    with client.responses.stream(**fields) as stream:
        events = list(stream)
        return events, stream.get_final_response()


def test_every_kind_of_item(binary):
    reply = f"<think>Let me see.</think>Looking.{CALL}\n{CALL}"
    with echo_server(binary, *FLAGS) as server:
        client = client_of(server)
        fields = {"model": "tiny", "input": reply, "tools": TOOLS}
        whole = client.responses.create(**fields)
        events, final = streamed(client, **fields)
        assert [item.type for item in whole.output] == ["reasoning", "message", "function_call", "function_call"], whole
        assert without_ids(whole) == without_ids(final), (whole, final)
        assert whole.output_text == "Looking." and whole.status == "completed", whole
        assert whole.output[0].content[0].text == "Let me see.", whole
        assert json.loads(whole.output[2].arguments) == ARGUMENTS, whole
        assert whole.usage.output_tokens == len(reply.encode()), whole.usage
        assert whole.usage.output_tokens_details.reasoning_tokens == len("Let me see."), whole.usage
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert events[0].type == "response.created" and events[-1].type == "response.completed", events
        ids = [event.item.id for event in events if event.type == "response.output_item.added"]
        assert ids == [item.id for item in final.output], (ids, final)
        kept = client.responses.retrieve(final.id)
        assert kept.to_dict() == events[-1].response.to_dict() or without_ids(kept) == without_ids(final)
        listed = client.responses.input_items.list(final.id)
        assert [item.content[0].text for item in listed] == [reply], listed


def test_a_conversation_with_tools(binary):
    with echo_server(binary, *FLAGS) as server:
        client = client_of(server)
        asked = client.responses.create(model="tiny", input=f"<think>So.</think>{CALL}", tools=TOOLS)
        (call,) = [item for item in asked.output if item.type == "function_call"]
        result = [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"},
                  {"role": "user", "content": "It is sunny."}]
        answer = client.responses.create(model="tiny", previous_response_id=asked.id, input=result, tools=TOOLS)
        assert answer.output_text == "It is sunny." and answer.previous_response_id == asked.id, answer
        # Asks the same without the server's stored responses.
        items = [{"role": "user", "content": f"<think>So.</think>{CALL}"}, *asked.output, *result]
        alone = client.responses.create(model="tiny", input=items, tools=TOOLS, store=False)
        assert without_ids(alone) == without_ids(answer), (alone, answer)
        assert alone.usage.input_tokens == answer.usage.input_tokens, (alone.usage, answer.usage)
        counted = client.responses.input_tokens.count(model="tiny", input=items, tools=TOOLS)
        assert counted.input_tokens == alone.usage.input_tokens, (counted, alone.usage)
        for gone in (alone.id, "resp_unknown"):
            try:
                client.responses.retrieve(gone)
            except openai.NotFoundError:
                continue
            raise AssertionError(f"{gone} was found")
        client.responses.delete(asked.id)
        try:
            client.responses.create(model="tiny", previous_response_id=asked.id, input=result)
        except openai.NotFoundError as error:
            assert error.param == "previous_response_id", error.body
        else:
            raise AssertionError("a forgotten response was found")


def until_ended(client, response):
    end = time.time() + 60
    while response.status in ("queued", "in_progress") and time.time() < end:
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    return response


def test_background(binary):
    with Server(binary) as server:
        client = client_of(server)
        fields = {"model": "", "input": "Tell me a story about a fox.", "temperature": 0, "max_output_tokens": 40}
        waited = client.responses.create(**fields)
        begun = client.responses.create(**fields, background=True)
        assert begun.status == "queued" and begun.background, begun
        ended = until_ended(client, begun)
        assert ended.output_text == waited.output_text and ended.status == waited.status, (ended, waited)
        stream = client.responses.create(**fields, background=True, stream=True)
        first = []
        for event in stream:
            first.append(event)
            if event.sequence_number == 7:
                break
        stream.close()
        name = first[0].response.id
        rest = list(client.responses.retrieve(name, stream=True, starting_after=7))
        assert [event.sequence_number for event in first + rest] == list(range(len(first + rest)))
        assert rest[-1].response.output_text == waited.output_text, rest[-1]
        long = client.responses.create(model="", input="Count.", background=True, max_output_tokens=2000, extra_body={
            "ignore_eos": True})
        cancelled = client.responses.cancel(long.id)
        assert cancelled.status in ("cancelled",), cancelled
        assert client.responses.retrieve(long.id).status == "cancelled"


class Place(pydantic.BaseModel):
    name: str
    size: int


def test_a_real_model_is_held_to_a_schema_and_cut(binary):
    with Server(binary) as server:
        client = client_of(server)
        fields = {"model": "", "input": "Tell me about a harbour.", "temperature": 0}
        cut = client.responses.create(**fields, max_output_tokens=5, instructions="You are a storyteller.")
        assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens", cut
        assert cut.usage.output_tokens == 5 and cut.output[-1].status == "incomplete", cut
        *_, last = client.responses.create(**fields, max_output_tokens=5, stream=True)
        assert last.type == "response.incomplete" and last.response.status == "incomplete", last
        parsed = client.responses.parse(**fields, text_format=Place, max_output_tokens=400)
        if parsed.status == "completed":
            assert isinstance(parsed.output_parsed, Place), parsed
        probable = client.responses.create(**fields, max_output_tokens=5, top_logprobs=2,
                                           include=["message.output_text.logprobs"])
        tokens = probable.output[0].content[0].logprobs
        assert len(tokens) == 5 and all(len(token.top_logprobs) == 2 for token in tokens), probable
        for wrong in ({"input": []}, {"max_output_tokens": 0}, {"tools": [{"type": "web_search"}]}):
            try:
                client.responses.create(**{**fields, **wrong})
            except openai.BadRequestError as error:
                assert error.param.startswith(next(iter(wrong))), error.body
            else:
                raise AssertionError(f"not refused: {wrong}")
