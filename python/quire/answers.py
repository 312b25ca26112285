"""An Answer collects what the engine has sent for one request, and returns it as RequestOutput."""
from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional

from quire.outputs import CompletionOutput, Logprob, PositionLogprobs, RequestOutput
from quire.sampling_params import SamplingParams

# Returns the text of a token.
Decode = Callable[[int], str]


def to_body(params: Optional[SamplingParams], chat: bool = False) -> Dict[str, Any]:
    """Returns the fields of a request. Without parameters the model's own defaults apply."""
    body: Dict[str, Any] = {"return_token_ids": True, "return_tokens_as_token_ids": True}
    if params is None:
        return body
    body.update(params.to_body())
    if params.logprobs is not None:
        body.update({"logprobs": True, "top_logprobs": params.logprobs} if chat else {"logprobs": params.logprobs})
    return body


class Answer:
    """Collects the choices of one request, from a whole answer or from the events of a stream."""

    def __init__(self, request_id: str, prompt: Optional[str], params: Optional[SamplingParams],
                 decode: Decode) -> None:
        self._request_id = request_id
        self._num_choices = params.n if params else 1
        self._num_listed = (params.logprobs or 0) if params else 0
        self._prompt = prompt
        self._decode = decode
        self._prompt_token_ids: Optional[List[int]] = None
        self._prompt_logprobs: Optional[List[Optional[PositionLogprobs]]] = None
        self._num_cached_tokens: Optional[int] = None
        self._choices: Dict[int, CompletionOutput] = {}

    def add(self, event: Dict[str, Any]) -> None:
        for choice in event.get("choices", ()):
            self._add_choice(choice)
        source = event if event.get("prompt_token_ids") else next(iter(event.get("choices", ())), {})
        if source.get("prompt_token_ids"):
            self._prompt_token_ids = source["prompt_token_ids"]
        if source.get("prompt_logprobs"):
            self._prompt_logprobs = [position and self._listed(position) for position in source["prompt_logprobs"]]
        details = (event.get("usage") or {}).get("prompt_tokens_details") or {}
        self._num_cached_tokens = details.get("cached_tokens", self._num_cached_tokens)

    def finished(self) -> bool:
        return sum(choice.finished() for choice in self._choices.values()) == self._num_choices

    def output(self) -> RequestOutput:
        """Returns everything so far, with copies of the lists."""
        choices = [self._copy(choice) for _, choice in sorted(self._choices.items())]
        return RequestOutput(self._request_id, self._prompt, self._prompt_token_ids, self._prompt_logprobs, choices,
                             self.finished(), num_cached_tokens=self._num_cached_tokens)

    def take(self) -> RequestOutput:
        """Returns what was added since the last call."""
        output = self.output()
        for index, choice in self._choices.items():
            self._choices[index] = CompletionOutput(index, "", [], choice.cumulative_logprob,
                                                    None if choice.logprobs is None else [],
                                                    choice.finish_reason, choice.stop_reason)
        return output

    def abort(self) -> None:
        """Ends the choices that have not ended."""
        for choice in self._choices.values():
            choice.finish_reason = choice.finish_reason or "abort"

    @staticmethod
    def _copy(choice: CompletionOutput) -> CompletionOutput:
        logprobs = None if choice.logprobs is None else list(choice.logprobs)
        return CompletionOutput(choice.index, choice.text, list(choice.token_ids), choice.cumulative_logprob, logprobs,
                                choice.finish_reason, choice.stop_reason)

    def _add_choice(self, choice: Dict[str, Any]) -> None:
        index = choice["index"]
        held = self._choices.setdefault(index, CompletionOutput(index, "", []))
        message = choice.get("message") or choice.get("delta") or {}
        held.text += choice.get("text") or message.get("content") or ""
        held.token_ids += choice.get("token_ids") or []
        if choice.get("logprobs"):
            self._add_logprobs(held, choice["logprobs"])
        held.finish_reason = choice.get("finish_reason") or held.finish_reason
        held.stop_reason = choice.get("stop_reason") if choice.get("finish_reason") else held.stop_reason

    def _add_logprobs(self, held: CompletionOutput, logprobs: Dict[str, Any]) -> None:
        if "content" in logprobs:  # the answer to a conversation
            chosen = [(entry["token"], entry["logprob"]) for entry in logprobs["content"]]
            listed = [{top["token"]: top["logprob"] for top in entry["top_logprobs"]}
                      for entry in logprobs["content"]]
        else:
            chosen = list(zip(logprobs["tokens"], logprobs["token_logprobs"]))
            listed = logprobs["top_logprobs"] or [{} for _ in chosen]
        held.logprobs = held.logprobs or []
        for (token, logprob), tops in zip(chosen, listed):
            held.logprobs.append(self._position(token, logprob, tops))
            held.cumulative_logprob = (held.cumulative_logprob or 0.0) + logprob

    def _position(self, token: str, logprob: float, tops: Dict[str, float]) -> PositionLogprobs:
        """Returns the tokens of a position: the chosen one first, then the others from the most likely on."""
        position = {_id_of(token): self._logprob(_id_of(token), logprob, None)}
        for rank, (name, value) in enumerate(sorted(tops.items(), key=lambda entry: -entry[1]), start=1):
            # The token at the position is listed even if it is not among the most likely ones; its
            # rank is then unknown.
            known = rank if rank <= self._num_listed else None
            position[_id_of(name)] = self._logprob(_id_of(name), value, known)
        return position

    def _logprob(self, token_id: int, logprob: float, rank: Optional[int]) -> Logprob:
        return Logprob(logprob, rank, decode=functools.partial(self._decode, token_id))

    @staticmethod
    def _listed(position: Dict[str, Dict[str, Any]]) -> PositionLogprobs:
        return {int(token_id): Logprob(entry["logprob"], entry["rank"], entry["decoded_token"])
                for token_id, entry in position.items()}


def _id_of(token: str) -> int:
    return int(token[len("token_id:"):])
