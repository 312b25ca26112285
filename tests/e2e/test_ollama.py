"""Ollama's API through the official ollama client, over a server that answers what the user says."""
import json
import os
import shutil
import tempfile

import harness
import ollama
import test_embeddings
import test_vision
from process import Server
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
        # Sends the client's parsed message back to the server unchanged.
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


def test_ollama_stream_is_the_answer_in_one_piece(binary):
    with Server(binary, "--hardware", "none") as server:
        client = client_of(server)
        name = client.list().models[0].model
        fields = {"model": name, "messages": [{"role": "user", "content": "Hello"}]}
        for options in ({"num_predict": 12, "temperature": 0}, {"num_predict": 9, "temperature": 1, "seed": 5}):
            whole = client.chat(**fields, options=options)
            parts = list(client.chat(**fields, options=options, stream=True))
            assert "".join(part.message.content for part in parts) == whole.message.content, (parts, whole)
            assert (parts[-1].done_reason, parts[-1].eval_count) == (whole.done_reason, whole.eval_count), parts[-1]


def test_ollama_embeds(binary):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(test_embeddings.GOLDENS, "qwen3_last"), folder, dirs_exist_ok=True)
        vocabulary = {chr(ord("!") + i): i for i in range(94)}
        with open(os.path.join(folder, "tokenizer.json"), "w") as file:
            json.dump({"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": vocabulary, "merges": []}},
                      file)
        with Server(binary, folder, "--hardware", "none") as server:
            client = client_of(server)
            name = client.list().models[0].model
            assert client.show(name).capabilities == ["embedding"]
            answer = client.embed(model=name, input=["Hello", "ab"])
            assert answer.prompt_eval_count == len("Hello") + len("ab"), answer
            context = harness.Context(server.url, "none", server.process.pid)
            ids = [[vocabulary[c] for c in text] for text in ("Hello", "ab")]
            vectors = context.client().embeddings.create(model=name, input=ids).data
            for mine, theirs in zip(answer.embeddings, vectors):
                assert test_embeddings.difference(mine, theirs.embedding) < 1e-6, (mine, theirs)


def test_ollama_images(binary):
    with Server(binary, os.path.join(test_vision.MODELS, "llava"), "--hardware", "none") as server:
        client = client_of(server)
        name = client.list().models[0].model
        assert "vision" in client.show(name).capabilities
        options = {"num_predict": 12, "temperature": 0}

        def prompt_tokens(images):
            message = {"role": "user", "content": "what is it", "images": images}
            chat = client.chat(model=name, messages=[message], options=options)
            generated = client.generate(model=name, prompt="what is it", images=images, options=options)
            assert generated.response == chat.message.content, (generated, chat)
            return chat.prompt_eval_count

        names = [os.path.join(test_vision.IMAGES, image) for image in ("wide.png", "baseline.jpg")]
        assert prompt_tokens(names) == prompt_tokens([]) + 2 * test_vision.TOKENS_PER_IMAGE
