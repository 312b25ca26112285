"""Ollama's API through the official ollama client, over a server that answers what the user says."""
import ollama
from test_tools import ARGUMENTS, JSON, REPLIES, TOOLS, echo_server


def client_of(server):
    return ollama.Client(host=server.url)


def test_ollama_thinking_text_and_calls(binary):
    call = REPLIES["hermes"].replace("%j", JSON)
    fields = {"model": "tiny", "messages": [{"role": "user", "content": f"<think>Let me see.</think>Looking.{call}"}]}
    with echo_server(binary, "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3") as server:
        client = client_of(server)
        whole = client.chat(**fields, tools=TOOLS)
        assert whole.message.content == "Looking." and whole.message.thinking == "Let me see.", whole
        (made,) = whole.message.tool_calls
        assert made.function.name == "get_weather" and made.function.arguments == ARGUMENTS, made
        content, thinking, calls = "", "", []
        for part in client.chat(**fields, tools=TOOLS, stream=True):
            content += part.message.content or ""
            thinking += part.message.thinking or ""
            calls += part.message.tool_calls or []
        assert (content, thinking) == ("Looking.", "Let me see.") and calls == [made], (content, thinking, calls)
        assert part.done and part.done_reason == "stop" and part.eval_count == whole.eval_count, part
        # What the client got goes back to the server as it is.
        messages = [*fields["messages"], whole.message, {"role": "tool", "content": "sunny", "tool_name": "get_weather"},
                    {"role": "user", "content": "It is sunny."}]
        assert client.chat(model="tiny:latest", messages=messages, tools=TOOLS).message.content == "It is sunny."


def test_ollama_prompts_models_and_refusals(binary):
    with echo_server(binary, "--tool-call-parser", "hermes") as server:
        client = client_of(server)
        name = client.list().models[0].model
        assert client.show(name).capabilities == ["completion", "tools"]
        assert client.ps().models[0].model == name
        whole = client.generate(model=name, prompt="Tell me a story.")
        parts = list(client.generate(model=name, prompt="Tell me a story.", stream=True))
        assert "".join(part.response for part in parts) == whole.response == "Tell me a story.", (parts, whole)
        assert parts[-1].done and parts[-1].eval_count == whole.eval_count == len("Tell me a story."), parts[-1]
        raw = client.generate(model=name, prompt="user: Hello\nassistant:", raw=True)
        assert raw.response == "Hello" and raw.prompt_eval_count == len("user: Hello\nassistant:"), raw
        for error_of, what in ((lambda: client.chat(model="nope", messages=[{"role": "user", "content": "a"}]), "nope"),
                               (lambda: client.generate(model=name, prompt="a", options={"top_p": 2}), "options.top_p")):
            try:
                error_of()
            except ollama.ResponseError as error:
                assert what in error.error, error
            else:
                raise AssertionError(f"not refused: {what}")
