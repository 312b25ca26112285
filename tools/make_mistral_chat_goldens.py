#!/usr/bin/env python3
"""Makes tests/goldens/chat/mistral.json: conversations as mistral-common writes them, for each version of tekken.json.

Run it in the oracle environment (./dev setup --oracles): build/oracle/bin/python tools/make_mistral_chat_goldens.py
"""

import base64
import json
import pathlib
import tempfile

from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPECIALS = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
            "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]",
            "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "[MODEL_SETTINGS]", "[/MODEL_SETTINGS]"]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds \"two\" numbers & more.",
          "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}}}]
CALL = {"id": "abc123XYZ", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1, \"b\": [2, \"x\"]}"}}
SECOND_CALL = {"id": "def456UVW", "type": "function", "function": {"name": "add", "arguments": "{}"}}
USER, REPLY = {"role": "user", "content": "How much is 1 + 2, für mich?"}, {"role": "assistant", "content": "Three."}
SYSTEM = {"role": "system", "content": "Be brief.\nAlways."}
AGAIN = {"role": "user", "content": "And 3 + 4?"}
CALLING = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "name": "add", "tool_call_id": "abc123XYZ", "content": "the sum is 3"}
NUMBER = {"role": "tool", "name": "add", "tool_call_id": "abc123XYZ", "content": "3"}
CONVERSATIONS = {
    "one": dict(messages=[USER]),
    "system": dict(messages=[SYSTEM, USER]),
    "turns": dict(messages=[SYSTEM, USER, REPLY, AGAIN]),
    "users": dict(messages=[USER, AGAIN, REPLY, AGAIN, USER]),
    "parts": dict(messages=[{"role": "user", "content": [{"type": "text", "text": "One text."}]}]),
    "tools": dict(messages=[SYSTEM, USER], tools=TOOLS),
    "tools_turns": dict(messages=[USER, REPLY, AGAIN], tools=TOOLS),
    "call": dict(messages=[SYSTEM, USER, CALLING, RESULT], tools=TOOLS),
    "number": dict(messages=[USER, CALLING, NUMBER], tools=TOOLS),
    "calls": dict(messages=[USER, {**CALLING, "tool_calls": [CALL, SECOND_CALL]}, RESULT, {**RESULT, "tool_call_id": "def456UVW"},
                            REPLY, AGAIN], tools=TOOLS),
    "call_with_text": dict(messages=[USER, {**CALLING, "content": "I add."}, RESULT], tools=TOOLS, since=7),
    "thoughts": dict(messages=[USER, {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "One and two.", "closed": True}, {"type": "text", "text": "Three."}]}, AGAIN], since=13),
}


def tokenizer(version):
    vocab = [dict(rank=b, token_bytes=base64.b64encode(bytes([b])).decode(), token_str=None) for b in range(256)]
    config = dict(pattern=r"[\s\S]", num_vocab_tokens=256, default_vocab_size=300, default_num_special_tokens=44, version=version)
    specials = [dict(rank=i, token_str=t, is_control=True) for i, t in enumerate(SPECIALS)]
    file = dict(config=config, vocab=vocab, special_tokens=specials)
    if version == "v15":
        file["model_settings_builder"] = dict(reasoning_effort=dict(
            type="enum", values=["none", "high"], accepts_none=True, default="none"))
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "tekken.json").write_text(json.dumps(file))
    return MistralTokenizer.from_file(folder / "tekken.json")


def main():
    goldens = []
    for version in ("v3", "v7", "v11", "v13", "v15"):
        tok = tokenizer(version)
        for name, conversation in CONVERSATIONS.items():
            given = {k: v for k, v in conversation.items() if k != "since"}
            if int(version[1:]) < conversation.get("since", 0):
                continue
            ids = tok.encode_chat_completion(ChatCompletionRequest(**given)).tokens
            text = tok.decode(ids, special_token_policy=SpecialTokenPolicy.KEEP)
            goldens.append(dict(version=version, name=name, expected=text, **given))
    out = ROOT / "tests/goldens/chat/mistral.json"
    out.write_text(json.dumps(goldens, ensure_ascii=False, indent=1) + "\n")
    print(f"{out}: {len(goldens)} conversations")


if __name__ == "__main__":
    main()
