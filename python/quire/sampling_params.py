"""The parameters of requests, with the names of vLLM's offline API."""
from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, List, Optional, Union


@dataclasses.dataclass
class StructuredOutputsParams:
    """The format that the whole text of an answer must have. Exactly one of the first six fields is set."""

    json: Union[str, Dict[str, Any], None] = None  # a JSON Schema
    regex: Optional[str] = None
    choice: Optional[List[str]] = None
    grammar: Optional[str] = None  # EBNF (GBNF) or Lark
    json_object: Optional[bool] = None
    structural_tag: Optional[str] = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: Optional[str] = None

    def __post_init__(self) -> None:
        rules = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
        given = [name for name in rules if getattr(self, name) not in (None, False)]
        if len(given) != 1:
            raise ValueError(f"expected exactly one of {', '.join(rules)}, got {', '.join(given) or 'none'}")

    def to_body(self) -> Dict[str, Any]:
        body = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if isinstance(self.json, str):
            body["json"] = json.loads(self.json)
        return {name: value for name, value in body.items() if value not in (None, False)}


class RequestOutputKind:
    """Says what each output of a streamed request contains."""

    CUMULATIVE = 0  # everything so far
    DELTA = 1  # only what was added
    FINAL_ONLY = 2  # one output, the last


@dataclasses.dataclass
class SamplingParams:
    """How tokens are chosen and when an answer ends.

    The fields are vLLM's, with the same meanings and defaults. The engine checks them; a wrong value raises a
    ValueError that names the field.
    """

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0  # 0: always the most likely token
    top_p: float = 1.0
    top_k: int = 0  # 0 or -1: off
    min_p: float = 0.0
    seed: Optional[int] = None  # equal seeds give equal tokens, in any batch
    stop: Union[None, str, List[str]] = None
    stop_token_ids: Optional[List[int]] = None
    bad_words: Optional[List[str]] = None
    ignore_eos: bool = False
    max_tokens: Optional[int] = 16  # None: as many as the context allows
    min_tokens: int = 0
    logprobs: Optional[int] = None
    prompt_logprobs: Optional[int] = None
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    truncate_prompt_tokens: Optional[int] = None
    logit_bias: Optional[Dict[int, float]] = None
    allowed_token_ids: Optional[List[int]] = None
    structured_outputs: Optional[StructuredOutputsParams] = None
    output_kind: int = RequestOutputKind.CUMULATIVE
    extra_args: Optional[Dict[str, Any]] = None  # further fields of the HTTP request

    def to_body(self) -> Dict[str, Any]:
        """Returns the fields of an HTTP request, except those for log-probabilities, which the caller adds."""
        apart = ("logprobs", "prompt_logprobs", "structured_outputs", "output_kind", "extra_args", "logit_bias")
        body = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)
                if field.name not in apart and getattr(self, field.name) is not None}
        if self.prompt_logprobs is not None:
            body["prompt_logprobs"] = self.prompt_logprobs
        if self.logit_bias:
            body["logit_bias"] = {str(token_id): bias for token_id, bias in self.logit_bias.items()}
        if self.structured_outputs is not None:
            body["structured_outputs"] = self.structured_outputs.to_body()
        body.update(self.extra_args or {})
        return body


@dataclasses.dataclass
class BeamSearchParams:
    """The parameters of a beam search, which finds the most likely answers instead of sampling."""

    beam_width: int = 1
    max_tokens: int = 16
    ignore_eos: bool = False
    temperature: float = 0.0
    length_penalty: float = 1.0


@dataclasses.dataclass
class PoolingParams:
    """The parameters of embeddings and scores."""

    dimensions: Optional[int] = None  # the number of columns to return; None: all
    use_activation: Optional[bool] = None  # None: the model's default
    truncate_prompt_tokens: Optional[int] = None

    def to_body(self) -> Dict[str, Any]:
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
