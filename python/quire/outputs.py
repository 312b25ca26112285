"""The results, with the names of vLLM's offline API."""
from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Union

import numpy


class Logprob:
    """The log-probability of a token at one position."""

    __slots__ = ("logprob", "rank", "_decoded_token", "_decode")

    def __init__(self, logprob: float, rank: Optional[int], decoded_token: Optional[str] = None,
                 decode: Optional[Callable[[], str]] = None) -> None:
        self.logprob = logprob
        self.rank = rank  # 1: the most likely token; None: not among the listed tokens
        self._decoded_token = decoded_token
        self._decode = decode

    @property
    def decoded_token(self) -> Optional[str]:
        if self._decoded_token is None and self._decode is not None:
            self._decoded_token = self._decode()
        return self._decoded_token

    def __repr__(self) -> str:
        return f"Logprob(logprob={self.logprob}, rank={self.rank}, decoded_token={self.decoded_token!r})"


# The token at a position, and the most likely ones, by token id.
PositionLogprobs = Dict[int, Logprob]


@dataclasses.dataclass
class CompletionOutput:
    """One answer."""

    index: int
    text: str
    token_ids: List[int]
    cumulative_logprob: Optional[float] = None
    logprobs: Optional[List[PositionLogprobs]] = None
    finish_reason: Optional[str] = None  # stop, length or abort; None: not finished
    stop_reason: Union[int, str, None] = None  # the stop string or token id that ended it
    lora_request: Any = None

    def finished(self) -> bool:
        return self.finish_reason is not None

    @property
    def token_logprobs(self) -> Optional[numpy.ndarray]:
        """The log-probabilities of the answer's tokens. float64 [tokens]"""
        if self.logprobs is None:
            return None
        return numpy.array([position[token_id].logprob for token_id, position in zip(self.token_ids, self.logprobs)])


@dataclasses.dataclass
class RequestOutput:
    """The answers to one prompt."""

    request_id: str
    prompt: Optional[str]
    prompt_token_ids: Optional[List[int]]
    prompt_logprobs: Optional[List[Optional[PositionLogprobs]]]
    outputs: List[CompletionOutput]
    finished: bool
    metrics: Any = None
    lora_request: Any = None
    num_cached_tokens: Optional[int] = None


@dataclasses.dataclass
class BeamSearchSequence:
    tokens: List[int]  # those of prompt and answer
    text: Optional[str]
    cum_logprob: float


@dataclasses.dataclass
class BeamSearchOutput:
    """The best answers to one prompt, the best one first."""

    sequences: List[BeamSearchSequence]


@dataclasses.dataclass
class EmbeddingOutput:
    embedding: List[float]

    @property
    def hidden_size(self) -> int:
        return len(self.embedding)


@dataclasses.dataclass
class ClassificationOutput:
    probs: List[float]

    @property
    def num_classes(self) -> int:
        return len(self.probs)


@dataclasses.dataclass
class ScoringOutput:
    score: float


@dataclasses.dataclass

@dataclasses.dataclass
class PoolingRequestOutput:
    """The result of a pooling model for one text or one pair."""

    request_id: str
    outputs: Any
    prompt_token_ids: List[int]
    finished: bool = True


class EmbeddingRequestOutput(PoolingRequestOutput):
    pass


class ClassificationRequestOutput(PoolingRequestOutput):
    pass


class ScoringRequestOutput(PoolingRequestOutput):
    pass
