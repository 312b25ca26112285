"""Offline inference: many prompts at once."""
from __future__ import annotations

import asyncio
import base64
import functools
import itertools
import weakref
from typing import Any, Awaitable, Callable, Coroutine, Dict, Iterable, List, Optional, Sequence, TypeVar, Union

import numpy
from tqdm import tqdm

from quire.answers import Answer, to_body
from quire.async_llm import PromptType, prompt_of
from quire.client import Client
from quire.loop_thread import LoopThread
from quire.outputs import (BeamSearchOutput, BeamSearchSequence, ClassificationOutput, ClassificationRequestOutput,
                           EmbeddingOutput, EmbeddingRequestOutput, RequestOutput, ScoringOutput, ScoringRequestOutput)
from quire.process import EngineProcess
from quire.sampling_params import BeamSearchParams, PoolingParams, SamplingParams
from quire.token_texts import TokenTexts

T = TypeVar("T")
Message = Dict[str, Any]

# The limit of requests that the engine has at once. It batches them itself, and more would only
# wait there.
_MAX_REQUESTS = 512


class LLM:
    """A model with an engine of its own.

        llm = LLM(model="/models/llama", max_model_len=4096)
        for output in llm.generate(["Hello, my name is"], SamplingParams(temperature=0.8)):
            print(output.outputs[0].text)

    Keyword arguments are the flags of `quire serve` (see `quire serve --help`): `max_model_len=4096` is
    `--max-model-len 4096`. The model is a folder in Hugging Face's format or a GGUF file; the default is the small
    model that is built into Quire. Methods may be called from several threads. They raise ValueError with the engine's
    message if the engine refused a request. An interrupt (Ctrl-C) ends the running requests, and the engine can be used
    again.
    """

    def __init__(self, model: str = "", *, tokenizer: Optional[str] = None, binary: Optional[str] = None,
                 show_log: bool = False, **arguments: Any) -> None:
        if tokenizer is not None:
            arguments["tokenizer"] = tokenizer
        self._engine = EngineProcess(model, arguments, binary, show_log)
        self._client = Client(self._engine)
        self._decode = TokenTexts(self._engine.socket_path)
        self._counter = itertools.count()
        self._loop = LoopThread()
        # _end is called by shutdown, when nothing refers to this object any more, or at the
        # interpreter's exit while threads still run.
        self._end = weakref.finalize(self, _end, self._loop, self._client, self._engine)

    def generate(self, prompts: Union[PromptType, Sequence[PromptType]],
                 sampling_params: Union[None, SamplingParams, Sequence[SamplingParams]] = None, *,
                 use_tqdm: bool = True) -> List[RequestOutput]:
        """Returns the answers to each prompt, in order.

        A prompt is a text, {"prompt": text} or {"prompt_token_ids": ids}. Parameters apply to all prompts, or are a
        list with one element per prompt; without them the model's own defaults apply.
        """
        listed = _listed(prompts)
        return self._run(self._generate_one, _zipped(listed, sampling_params, "sampling_params"), use_tqdm)

    def chat(self, messages: Union[List[Message], Sequence[List[Message]]],
             sampling_params: Union[None, SamplingParams, Sequence[SamplingParams]] = None, *, use_tqdm: bool = True,
             chat_template: Optional[str] = None, add_generation_prompt: bool = True,
             continue_final_message: bool = False, tools: Optional[List[Dict[str, Any]]] = None,
             chat_template_kwargs: Optional[Dict[str, Any]] = None) -> List[RequestOutput]:
        """Returns the model's answers to one conversation, or to each of several."""
        conversations = [messages] if messages and isinstance(messages[0], dict) else list(messages)
        template = {"chat_template": chat_template, "tools": tools, "chat_template_kwargs": chat_template_kwargs,
                    "add_generation_prompt": add_generation_prompt, "continue_final_message": continue_final_message}
        fields = {name: value for name, value in template.items() if value is not None}
        jobs = [(*job, fields) for job in _zipped(conversations, sampling_params, "sampling_params")]
        return self._run(self._chat_one, jobs, use_tqdm)

    def beam_search(self, prompts: Union[PromptType, Sequence[PromptType]], params: BeamSearchParams, *,
                    use_tqdm: bool = False) -> List[BeamSearchOutput]:
        """Returns the most likely answers to each prompt, found by a search with beam_width beams, the best first."""
        return self._run(self._search_one, [(prompt, params) for prompt in _listed(prompts)], use_tqdm)

    def embed(self, prompts: Union[PromptType, Sequence[PromptType]], *, pooling_params: Optional[PoolingParams] = None,
              use_tqdm: bool = True) -> List[EmbeddingRequestOutput]:
        """Returns the vector of each text."""
        fields = (pooling_params or PoolingParams()).to_body()
        return self._run(self._embed_one, [(prompt, fields) for prompt in _listed(prompts)], use_tqdm)

    def classify(self, prompts: Union[PromptType, Sequence[PromptType]], *,
                 use_tqdm: bool = True) -> List[ClassificationRequestOutput]:
        """Returns the probabilities of a classifier's labels for each text."""
        return self._run(self._classify_one, [(prompt,) for prompt in _listed(prompts)], use_tqdm)

    def score(self, text_1: Union[str, Sequence[str]], text_2: Union[str, Sequence[str]], *,
              use_tqdm: bool = True) -> List[ScoringRequestOutput]:
        """Returns a score for each pair of texts: one text with each of the others, or two lists of the same length."""
        second = _listed(text_2)
        first = [text_1] * len(second) if isinstance(text_1, str) else list(text_1)
        if len(first) != len(second):
            raise ValueError(f"expected one text or {len(second)} texts to score against, got {len(first)}")
        return self._run(self._score_one, list(zip(first, second)), use_tqdm)

    def get_tokenizer(self) -> "EngineTokenizer":
        return EngineTokenizer(self)

    def reset_prefix_cache(self) -> None:
        """Empties the prefix cache."""
        self.post("/reset_prefix_cache", {})

    def post(self, path: str, body: Dict[str, Any]) -> Any:
        """Sends a request to any route of the engine; `quire serve` documents the routes."""
        return self._wait(self._client.post(path, body))

    def shutdown(self) -> None:
        """Ends the engine, which otherwise ends with this process. Calls that run in other threads raise
        EngineDeadError, and so do later calls."""
        self._end()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: Any) -> None:
        self.shutdown()

    # --- One request each, on the loop ---

    def _next_id(self) -> str:
        return str(next(self._counter))

    async def _generate_one(self, prompt: PromptType, params: Optional[SamplingParams]) -> RequestOutput:
        body = {**to_body(params), "prompt": prompt_of(prompt)}
        text = prompt if isinstance(prompt, str) else prompt.get("prompt") if isinstance(prompt, dict) else None
        return await self._answer("/v1/completions", text, params, body)

    async def _chat_one(self, messages: List[Message], params: Optional[SamplingParams],
                        fields: Dict[str, Any]) -> RequestOutput:
        body = {**to_body(params, chat=True), **fields, "messages": messages}
        return await self._answer("/v1/chat/completions", None, params, body)

    async def _answer(self, path: str, prompt: Optional[str], params: Optional[SamplingParams],
                      body: Dict[str, Any]) -> RequestOutput:
        answer = Answer(self._next_id(), prompt, params, self._decode)
        answer.add(await self._client.post(path, body))
        return answer.output()

    async def _search_one(self, prompt: PromptType, params: BeamSearchParams) -> BeamSearchOutput:
        answer = await self._client.post("/v1/completions", {
            "prompt": prompt_of(prompt), "use_beam_search": True, "n": params.beam_width, "logprobs": 0,
            "max_tokens": params.max_tokens, "ignore_eos": params.ignore_eos, "temperature": params.temperature,
            "length_penalty": params.length_penalty, "return_token_ids": True})
        return BeamSearchOutput([
            BeamSearchSequence(choice["prompt_token_ids"] + choice["token_ids"], choice["text"],
                               sum(choice["logprobs"]["token_logprobs"])) for choice in answer["choices"]])

    async def _embed_one(self, prompt: PromptType, fields: Dict[str, Any]) -> EmbeddingRequestOutput:
        answer = await self._client.post("/v1/embeddings", {**fields, "input": prompt_of(prompt),
                                                            "encoding_format": "base64"})
        vector = numpy.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), dtype="<f4")
        return EmbeddingRequestOutput(self._next_id(), EmbeddingOutput(vector.tolist()), [])

    async def _classify_one(self, prompt: PromptType) -> ClassificationRequestOutput:
        answer = await self._client.post("/classify", {"input": prompt_of(prompt)})
        return ClassificationRequestOutput(self._next_id(), ClassificationOutput(answer["data"][0]["probs"]), [])

    async def _score_one(self, first: str, second: str) -> ScoringRequestOutput:
        answer = await self._client.post("/score", {"text_1": first, "text_2": second})
        return ScoringRequestOutput(self._next_id(), ScoringOutput(answer["data"][0]["score"]), [])

    # --- Many of them ---

    def _run(self, one: Callable[..., Awaitable[T]], jobs: Sequence[Sequence[Any]], use_tqdm: bool) -> List[T]:
        with tqdm(total=len(jobs), desc="Processed prompts", disable=not use_tqdm, dynamic_ncols=True) as bar:
            return self._wait(_gather([functools.partial(one, *job) for job in jobs], bar))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)


class EngineTokenizer:
    """The model's tokenizer, which runs in the engine."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def encode(self, text: str, add_special_tokens: bool = True) -> List[int]:
        return self._llm.post("/tokenize", {"prompt": text, "add_special_tokens": add_special_tokens})["tokens"]

    def decode(self, token_ids: Iterable[int]) -> str:
        return self._llm.post("/detokenize", {"tokens": list(token_ids)})["prompt"]

    def apply_chat_template(self, messages: List[Message], add_generation_prompt: bool = True,
                            **chat_template_kwargs: Any) -> List[int]:
        """Returns the token ids of a conversation, rendered by the model's chat template."""
        body: Dict[str, Any] = {"messages": messages, "add_generation_prompt": add_generation_prompt}
        if chat_template_kwargs:
            body["chat_template_kwargs"] = chat_template_kwargs
        return self._llm.post("/tokenize", body)["tokens"]


async def _gather(jobs: List[Callable[[], Awaitable[T]]], bar: "tqdm[Any]") -> List[T]:
    """Runs all jobs, a number of them at a time. The first that fails ends the others."""
    room = asyncio.Semaphore(_MAX_REQUESTS)

    async def run(job: Callable[[], Awaitable[T]]) -> T:
        async with room:
            result = await job()
        bar.update()
        return result

    tasks = [asyncio.ensure_future(run(job)) for job in jobs]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _end(loop: LoopThread, client: Client, engine: EngineProcess) -> None:
    loop.end(client.close)
    engine.stop()


def _listed(prompts: Any) -> List[Any]:
    """Returns a list of prompts from one prompt or several. A list of ids is one prompt."""
    if isinstance(prompts, (str, dict)):
        return [prompts]
    listed = list(prompts)
    return [listed] if listed and all(isinstance(entry, int) for entry in listed) else listed


def _zipped(prompts: List[Any], params: Any, name: str) -> List[Any]:
    """Returns each prompt with its parameters."""
    if params is None or isinstance(params, SamplingParams):
        return [(prompt, params) for prompt in prompts]
    if len(params) != len(prompts):
        raise ValueError(f"{name}: expected one for all or {len(prompts)}, got {len(params)}")
    return list(zip(prompts, params))
