"""The engine for asyncio."""
from __future__ import annotations

import asyncio
import dataclasses
import itertools
from typing import Any, AsyncIterator, Dict, List, Optional, Union

from quire.answers import Answer, to_body
from quire.client import Client
from quire.outputs import RequestOutput
from quire.process import EngineProcess
from quire.token_texts import TokenTexts
from quire.sampling_params import RequestOutputKind, SamplingParams

# A prompt is text, {"prompt": text} or {"prompt_token_ids": ids}.
PromptType = Union[str, Dict[str, Any], List[int]]


def prompt_of(prompt: PromptType) -> Union[str, List[int]]:
    """Returns a prompt in the form of HTTP requests."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, dict):
        if "prompt_token_ids" in prompt:
            return list(prompt["prompt_token_ids"])
        if isinstance(prompt.get("prompt"), str):
            return prompt["prompt"]
        raise ValueError(f"prompt: expected a text under 'prompt' or ids under 'prompt_token_ids', got {sorted(prompt)}")
    if isinstance(prompt, list) and all(isinstance(token_id, int) for token_id in prompt):
        return list(prompt)
    raise ValueError(f"prompt: expected a text, a dict or token ids, got {type(prompt).__name__}")


@dataclasses.dataclass
class AsyncEngineArgs:
    """A model, and the options that `quire serve --help` lists: max_model_len=4096 is --max-model-len 4096."""

    model: str = ""
    arguments: Dict[str, Any] = dataclasses.field(default_factory=dict)

    def __init__(self, model: str = "", **arguments: Any) -> None:
        self.model = model
        self.arguments = arguments


class AsyncLLM:
    """A model with an engine of its own, used on one event loop.

        engine = AsyncLLM("/models/llama")
        async for output in engine.generate("Once", SamplingParams(max_tokens=8), "request-1"):
            print(output.outputs[0].text)
    """

    def __init__(self, model: str = "", *, binary: Optional[str] = None, show_log: bool = False,
                 **arguments: Any) -> None:
        self._engine = EngineProcess(model, arguments, binary, show_log)
        self._client = Client(self._engine)
        self._decode = TokenTexts(self._engine.socket_path)
        self._aborted: Dict[str, asyncio.Event] = {}
        self._counter = itertools.count()

    @classmethod
    def from_engine_args(cls, engine_args: AsyncEngineArgs) -> "AsyncLLM":
        return cls(engine_args.model, **engine_args.arguments)

    async def generate(self, prompt: PromptType, sampling_params: Optional[SamplingParams] = None,
                       request_id: Optional[str] = None) -> AsyncIterator[RequestOutput]:
        """Yields the answer so far, repeatedly, until it is complete.

        Raises ValueError if the request is invalid. Leaving the loop early ends the request in the engine.
        """
        kind = sampling_params.output_kind if sampling_params else RequestOutputKind.CUMULATIVE
        request_id = request_id or f"request-{next(self._counter)}"
        if request_id in self._aborted:
            raise ValueError(f"request_id: {request_id!r} is in use")
        answer = Answer(request_id, prompt if isinstance(prompt, str) else None, sampling_params, self._decode)
        body = {**to_body(sampling_params), "prompt": prompt_of(prompt), "stream": True,
                "stream_options": {"include_usage": True}}
        aborted = self._aborted[request_id] = asyncio.Event()
        try:
            async for event in _until(self._client.stream("/v1/completions", body), aborted):
                answer.add(event)
                if kind != RequestOutputKind.FINAL_ONLY and event.get("choices") and not answer.finished():
                    yield answer.take() if kind == RequestOutputKind.DELTA else answer.output()
            if aborted.is_set():
                answer.abort()
            yield answer.take() if kind == RequestOutputKind.DELTA else answer.output()
        finally:
            del self._aborted[request_id]

    async def abort(self, request_id: str) -> None:
        """Ends a request; its generator yields once more, with finish_reason abort."""
        if request_id in self._aborted:
            self._aborted[request_id].set()

    async def check_health(self) -> None:
        """Raises RuntimeError if the engine has ended."""
        await self._client.get("/health")

    def shutdown(self) -> None:
        """Ends the engine. Running requests fail."""
        self._client.close()
        self._engine.stop()


async def _until(events: AsyncIterator[Any], stopped: asyncio.Event) -> AsyncIterator[Any]:
    """Yields events until there are no more, or until the request is stopped."""
    stop = asyncio.ensure_future(stopped.wait())
    event = None
    try:
        while True:
            event = asyncio.ensure_future(events.__anext__())
            await asyncio.wait((event, stop), return_when=asyncio.FIRST_COMPLETED)
            if not event.done():
                return
            try:
                yield event.result()
            except StopAsyncIteration:
                return
    finally:
        # The generator can be closed when nothing waits for it any more.
        waits = [task for task in (stop, event) if task is not None and not task.done()]
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await events.aclose()  # type: ignore[attr-defined]


AsyncLLMEngine = AsyncLLM
