"""Libraries that people build on: litellm, langchain and llama-index answer through the server as they are.

They want older clients than the newest, so they run in an environment of their own, build/client-libraries
(tools/requirements-client-libraries.txt); without it: SKIPPED. This file is also the program that runs there:
    python test_client_libraries.py LIBRARY URL MODEL EXPECTED
"""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = os.path.join(ROOT, "build", "client-libraries", "bin", "python")
QUESTION = "Tell me a story."
MESSAGES = [{"role": "user", "content": QUESTION}]
SHARED = {"temperature": 0, "max_tokens": 16}


def use_litellm(url, model, expected):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask the network for prices
    import litellm
    fields = dict(model=f"openai/{model}", api_base=url + "/v1", api_key="none", messages=MESSAGES, **SHARED)
    answer = litellm.completion(**fields)
    assert answer.choices[0].message.content == expected and answer.usage.completion_tokens == 16, answer
    parts = list(litellm.completion(**fields, stream=True))
    assert "".join(part.choices[0].delta.content or "" for part in parts) == expected
    text = litellm.text_completion(model=f"text-completion-openai/{model}", prompt="Once", api_base=url + "/v1",
                                   api_key="none", **SHARED)
    assert text.choices[0].text, text
    answer = litellm.completion(**{**fields, "model": f"anthropic/{model}", "api_base": url})
    assert answer.choices[0].message.content == expected, answer
    answer = litellm.completion(**{**fields, "model": f"ollama_chat/{model}", "api_base": url})
    assert answer.choices[0].message.content == expected, answer
    try:
        litellm.completion(**{**fields, "model": "openai/nope"})
    except litellm.NotFoundError as refusal:
        assert "does not exist" in str(refusal), refusal
    else:
        raise AssertionError("a model that is not there answered")


def use_langchain(url, model, expected):
    import langchain_openai
    common = dict(model=model, base_url=url + "/v1", api_key="none")
    chat = langchain_openai.ChatOpenAI(**common, **SHARED)
    answer = chat.invoke(QUESTION)
    assert answer.content == expected and answer.usage_metadata["output_tokens"] == 16, answer
    assert "".join(part.content for part in chat.stream(QUESTION)) == expected
    assert [a.content for a in chat.batch([QUESTION] * 3)] == [expected] * 3
    schema = {"title": "Fox", "type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
              "required": ["age"], "additionalProperties": False}
    shaped = langchain_openai.ChatOpenAI(**common, temperature=0, max_tokens=64)
    age = shaped.with_structured_output(schema, method="json_schema").invoke("How old is the fox?")["age"]
    assert 0 <= age <= 99, age


def use_llama_index(url, model, expected):
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike
    llm = OpenAILike(model=model, api_base=url + "/v1", api_key="none", is_chat_model=True, context_window=2048, **SHARED)
    messages = [ChatMessage(role="user", content=QUESTION)]
    assert llm.chat(messages).message.content == expected
    assert [part.message.content for part in llm.stream_chat(messages)][-1] == expected
    assert llm.complete(QUESTION).text == expected


def drive(binary, name):
    import harness
    from process import Server
    if not os.path.exists(PYTHON):
        raise harness.Skip(f"there is no {PYTHON} (./dev setup makes it)")
    with Server(binary, "--hardware", "none") as server:
        context = harness.Context(server.url, "none", None)
        answer = context.post("/v1/chat/completions", {"model": context.model, "messages": MESSAGES, **SHARED})
        expected = answer["choices"][0]["message"]["content"]
        assert expected
        done = subprocess.run([PYTHON, os.path.abspath(__file__), name, server.url, context.model, expected],
                              capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stdout + done.stderr


def test_litellm(binary):
    drive(binary, "litellm")


def test_langchain(binary):
    drive(binary, "langchain")


def test_llama_index(binary):
    drive(binary, "llama_index")


if __name__ == "__main__":
    {"litellm": use_litellm, "langchain": use_langchain, "llama_index": use_llama_index}[sys.argv[1]](*sys.argv[2:])
