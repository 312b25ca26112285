"""Answers that follow a grammar, through the official openai client on a model that cannot write JSON by itself."""
import json
import re

import openai

MESSAGES = [{"role": "user", "content": "Describe a person as JSON."}]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "likes": {"type": "array", "items": {"enum": ["tea", "dogs", "rain"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer", "minimum": 0, "maximum": 9},
                                                        "next": {"$ref": "#/$defs/node"}},
                       "required": ["v"], "additionalProperties": False}},
}


def check_person(text):
    person = json.loads(text)
    assert list(person) == ["name", "age", "likes"], text
    assert 1 <= len(person["name"]) <= 20 and 0 <= person["age"] <= 130, text
    assert 1 <= len(person["likes"]) <= 3 and set(person["likes"]) <= {"tea", "dogs", "rain"}, text


def person_format(**more):
    return {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, **more}}


def ask(ctx, seed=0, **more):
    choice = ctx.client().chat.completions.create(model=ctx.model, messages=MESSAGES, max_tokens=500, temperature=1,
                                                  seed=seed, **more).choices[0]
    assert choice.finish_reason == "stop", choice
    return choice.message.content


def structured(ctx, seed=0, **rule):
    return ask(ctx, seed, extra_body={"structured_outputs": rule})


def refused(ctx, param, **more):
    try:
        ctx.client().chat.completions.create(model=ctx.model, messages=MESSAGES, max_tokens=20, **more)
    except openai.BadRequestError as error:
        assert error.param == param, (error.param, error.message)
        return error.message
    raise AssertionError(f"expected a 400 about {param}")


def test_json_schema(ctx):
    for seed in range(4):
        check_person(ask(ctx, seed, response_format=person_format(strict=True)))


def test_parse_with_pydantic(ctx):
    import pydantic

    class Person(pydantic.BaseModel):
        model_config = {"extra": "forbid"}
        alive: bool
        age: int = pydantic.Field(ge=0, le=130)
        mood: str = pydantic.Field(pattern="^(good|bad)$")

    for seed in range(3):
        message = ctx.client().chat.completions.parse(model=ctx.model, messages=MESSAGES, response_format=Person,
                                                      max_tokens=200, seed=seed).choices[0].message
        assert isinstance(message.parsed, Person), message


def test_json_object(ctx):
    for seed in range(3):
        answer = ctx.client().chat.completions.create(model=ctx.model, messages=MESSAGES, max_tokens=60, seed=seed,
                                                      response_format={"type": "json_object"}).choices[0]
        text = answer.message.content
        assert text.startswith("{"), text
        if answer.finish_reason == "stop":
            assert isinstance(json.loads(text), dict), text


def test_stream_equals_whole(ctx):
    arguments = dict(model=ctx.model, messages=MESSAGES, max_tokens=200, seed=5, response_format=person_format())
    whole = ctx.client().chat.completions.create(**arguments).choices[0].message.content
    chunks = ctx.client().chat.completions.create(**arguments, stream=True)
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    check_person(text)
    assert text == whole


def test_choices_share_a_grammar(ctx):
    answer = ctx.client().chat.completions.create(model=ctx.model, messages=MESSAGES, max_tokens=500, temperature=1, n=4,
                                                  seed=3, response_format=person_format())
    assert len(answer.choices) == 4
    for choice in answer.choices:
        check_person(choice.message.content)


def check_tree(ctx):
    """The schema refers to itself. The model may nest until max_tokens, so the test closes the text and parses it."""
    choice = ctx.client().chat.completions.create(
        model=ctx.model, messages=MESSAGES, max_tokens=60, temperature=1, seed=0,
        extra_body={"structured_outputs": {"json": TREE, "disable_any_whitespace": True}}).choices[0]
    text = choice.message.content
    if choice.finish_reason == "length":
        text = text[:text.rindex(',"next":')]
        text += "}" * text.count("{")
    tree = json.loads(text)
    assert tree
    while tree:
        assert set(tree) <= {"v", "next"}, choice
        tree = tree.get("next")


def test_every_rule(ctx):
    assert re.fullmatch(r"[a-c]{3}-\d", structured(ctx, regex=r"[a-c]{3}-\d"))
    assert structured(ctx, choice=["yes", "no", "yes and no"]) in ("yes", "no", "yes and no")
    assert re.fullmatch(r"\(*x\)*", structured(ctx, 1, grammar='root ::= "x" | "(" root ")"'))
    assert re.fullmatch(r"[0-9]+(\+[0-9]+){0,3}", structured(ctx, 2, grammar="start: N (\"+\" N)~0..3\nN: /[0-9]{1,3}/\n"))
    check_person(structured(ctx, json=PERSON))
    check_person(structured(ctx, json=json.dumps(PERSON), disable_any_whitespace=True))
    check_tree(ctx)
    text = structured(ctx, structural_tag={"format": {"type": "tag", "begin": "<p>", "end": "</p>", "content": {
        "type": "json_schema", "json_schema": PERSON}}})
    check_person(re.fullmatch(r"<p>(.*)</p>", text, re.S)[1])


def test_completions(ctx):
    answer = ctx.client().completions.create(model=ctx.model, prompt="A number: ", max_tokens=20, temperature=1, seed=1,
                                             extra_body={"structured_outputs": {"regex": "[1-9][0-9]{0,3}"}})
    assert re.fullmatch("[1-9][0-9]{0,3}", answer.choices[0].text), answer


def test_refusals_name_the_field(ctx):
    bad = {"type": "json_schema", "json_schema": {"name": "bad", "schema": {"properties": {"a": {"type": "strin"}}}}}
    assert "#/properties/a" in refused(ctx, "response_format.json_schema.schema", response_format=bad)
    refused(ctx, "response_format.json_schema.schema", response_format=bad, stream=True)
    for rule in ({"regex": "("}, {"grammar": "root ::= x"}, {"json": {"unevaluatedItems": False}},
                 {"structural_tag": {"format": {"type": "no"}}}):
        refused(ctx, "structured_outputs." + next(iter(rule)), extra_body={"structured_outputs": rule})
    refused(ctx, "structured_outputs", extra_body={"structured_outputs": {}})
    refused(ctx, "structured_outputs", extra_body={"structured_outputs": {"regex": "a"}}, response_format=person_format())


def test_attacks_are_refused_at_once(ctx):
    attacks = [
        {"regex": "((a{1,999}){1,999}){1,999}b" + "(" * 500},
        {"regex": "(" * 20000 + "a" + ")" * 20000},
        {"grammar": "root ::= " + "(" * 20000 + '"a"' + ")" * 20000},
        {"grammar": "root ::= root"},
        {"json": {"$ref": "#"}},
        {"json": {"$ref": "http://elsewhere.example/schema"}},
        {"json": {"pattern": "(a)\\1"}},
        {"json": {"type": "array", "uniqueItems": True}},
    ]
    for rule in attacks:
        refused(ctx, "structured_outputs." + next(iter(rule)), extra_body={"structured_outputs": rule})
    check_person(ask(ctx, response_format=person_format()))  # the server still works
