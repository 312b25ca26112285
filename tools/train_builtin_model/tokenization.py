"""The built-in model's tokenizer: byte-level BPE trained on our own text, and its chat template."""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

BOS, EOS, IM_START, IM_END = "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"
TOOL_CALL, TOOL_CALL_END = "<tool_call>", "</tool_call>"
TOOL_RESPONSE, TOOL_RESPONSE_END = "<tool_response>", "</tool_response>"
CONTROL_TOKENS = (BOS, EOS, IM_START, IM_END)
TOOL_TOKENS = (TOOL_CALL, TOOL_CALL_END, TOOL_RESPONSE, TOOL_RESPONSE_END)
VOCAB_SIZE = 2048

# Words with their leading space, single digits, runs of punctuation, white space.
SPLIT = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# A tool is shown as one line, name(argument: type, …) - description, because a small model reads that far better than a JSON
# Schema.
CHAT_TEMPLATE = """\
{{- bos_token }}
{%- set ns = namespace(system='') %}
{%- for message in messages %}
    {%- if message.role in ['system', 'developer'] %}
        {%- set ns.system = ns.system + ('\\n' if ns.system else '') + message.content %}
    {%- endif %}
{%- endfor %}
{%- if tools %}
    {%- set ns.system = ns.system + ('\\n' if ns.system else '') + 'Tools:' %}
    {%- for tool in tools %}
        {%- set f = tool.function if tool.function is defined else tool %}
        {%- set args = namespace(text='') %}
        {%- if f.parameters is defined and f.parameters and f.parameters.properties is defined %}
            {%- for name, spec in f.parameters.properties.items() %}
                {%- set kind = spec.type if spec.type is defined and spec.type is string else 'any' %}
                {%- set args.text = args.text + (', ' if args.text else '') + name + ': ' + kind %}
            {%- endfor %}
        {%- endif %}
        {%- set ns.system = ns.system + '\\n' + f.name + '(' + args.text + ')' %}
        {%- if f.description is defined and f.description %}
            {%- set ns.system = ns.system + ' - ' + f.description %}
        {%- endif %}
    {%- endfor %}
{%- endif %}
{%- if ns.system %}
    {{- '<|im_start|>system\\n' + ns.system + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message.content %}
            {{- message.content }}
        {%- endif %}
        {%- if message.tool_calls is defined and message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- set c = call.function if call.function is defined else call %}
                {{- '<tool_call>{"name": "' + c.name + '", "arguments": ' }}
                {{- c.arguments if c.arguments is string else c.arguments | tojson }}
                {{- '}</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>tool\\n<tool_response>' + message.content + '</tool_response><|im_end|>\\n' }}
    {%- elif message.role not in ['system', 'developer'] %}
        {{- raise_exception('unknown message role: ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def train_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(CONTROL_TOKENS + TOOL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    bos = tokenizer.token_to_id(BOS)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, bos)]
    )
    return tokenizer


def tokenizer_config():
    def entry(text, special):
        return {
            "content": text,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": special,
        }

    tokens = list(CONTROL_TOKENS + TOOL_TOKENS)
    return {
        "added_tokens_decoder": {
            str(i): entry(t, t in CONTROL_TOKENS) for i, t in enumerate(tokens)
        },
        "bos_token": BOS,
        "eos_token": IM_END,
        "pad_token": EOS,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": CHAT_TEMPLATE,
    }
