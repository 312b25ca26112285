"""Quire: inference and serving of open-weight language models.

`LLM` is for offline work, `AsyncLLM` for asyncio, and the program `quire` serves OpenAI's API. The names are those of
vLLM's offline API, so that a script written for it runs when its import is changed.
"""
from quire.async_llm import AsyncEngineArgs, AsyncLLM, AsyncLLMEngine
from quire.client import EngineDeadError
from quire.llm import LLM
from quire.outputs import (BeamSearchOutput, BeamSearchSequence, ClassificationOutput, ClassificationRequestOutput,
                           CompletionOutput, EmbeddingOutput, EmbeddingRequestOutput, Logprob, RequestOutput,
                           ScoringOutput, ScoringRequestOutput)
from quire.sampling_params import (BeamSearchParams, PoolingParams, RequestOutputKind, SamplingParams,
                                   StructuredOutputsParams)

__all__ = [
    "AsyncEngineArgs", "AsyncLLM", "AsyncLLMEngine", "BeamSearchOutput", "BeamSearchParams", "BeamSearchSequence",
    "ClassificationOutput", "ClassificationRequestOutput", "CompletionOutput", "EmbeddingOutput",
    "EmbeddingRequestOutput", "EngineDeadError", "LLM", "Logprob", "PoolingParams", "RequestOutput",
    "RequestOutputKind", "SamplingParams", "ScoringOutput", "ScoringRequestOutput", "StructuredOutputsParams"
]
