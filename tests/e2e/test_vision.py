"""Images in chat: through the official client, what is refused, and that memory stays flat."""
import base64
import concurrent.futures
import json
import os
import shutil
import struct
import tempfile
import zlib

import harness
from process import Server
from test_ranks import Ranks

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MODELS = os.path.join(ROOT, "tests", "goldens", "vision")
IMAGES = os.path.join(MODELS, "images")
TOKENS_PER_IMAGE = 25


def served(binary, *flags, model="llava"):
    server = Server(binary, os.path.join(MODELS, model), "--hardware", "none", *flags)
    return server, harness.Context(server.url, "none", server.process.pid)


def data_url(name):
    kind = name.rsplit(".", 1)[1].replace("jpg", "jpeg")
    with open(os.path.join(IMAGES, name), "rb") as file:
        return f"data:image/{kind};base64,{base64.b64encode(file.read()).decode()}"


def question(*urls, text="what is it"):
    return [{"role": "user", "content": [{"type": "text", "text": text}] +
             [{"type": "image_url", "image_url": {"url": url}} for url in urls]}]


def ask(context, messages, **more):
    return context.client().chat.completions.create(model=context.model, messages=messages, max_tokens=12,
                                                    temperature=0, extra_body={"ignore_eos": True}, **more)


def refused(context, messages, status, part):
    import openai
    try:
        ask(context, messages)
    except openai.APIStatusError as error:
        assert error.status_code == status, (error.status_code, str(error))
        assert part in str(error), (part, str(error))
        return error
    raise AssertionError(f"expected {status}: {part}")


def test_images_of_every_format(binary):
    server, context = served(binary)
    with server:
        text = ask(context, question(text="what is it"))
        seen = {text.choices[0].message.content}
        for name in ("wide.png", "tall.png", "baseline.jpg", "progressive.jpg", "lossy.webp", "lossless.webp"):
            answer = ask(context, question(data_url(name)))
            seen.add(answer.choices[0].message.content)
            assert answer.usage.prompt_tokens == text.usage.prompt_tokens + TOKENS_PER_IMAGE, answer.usage
        assert len(seen) > 3, f"the images make no difference: {seen}"
        two = ask(context, question(data_url("wide.png"), data_url("tall.png")))
        assert two.usage.prompt_tokens == text.usage.prompt_tokens + 2 * TOKENS_PER_IMAGE
        plain = ask(context, [{"role": "user", "content": "what is it"}])  # the content is text, not a list of parts
        assert plain.choices[0].message.content == text.choices[0].message.content


def test_same_image_again_and_streamed(binary):
    server, context = served(binary)
    with server:
        first = ask(context, question(data_url("wide.png")))
        again = ask(context, question(data_url("wide.png")))
        assert again.choices[0].message.content == first.choices[0].message.content
        assert again.usage.prompt_tokens_details is None or again.usage.prompt_tokens_details.cached_tokens > 0
        other = ask(context, question(data_url("tall.png")))
        assert other.choices[0].message.content != first.choices[0].message.content
        chunks = ask(context, question(data_url("wide.png")), stream=True)
        streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert streamed == first.choices[0].message.content
        # Each image is encoded once, and the time of that is measured.
        assert context.metric("quire:media_encode_seconds_count") == 2
        assert context.metric("quire:media_encode_seconds_sum") > 0


def test_beams_keep_their_picture(binary):
    """The blocks of beams about a picture must not be found by requests without that picture."""
    for index in range(3):
        server, context = served(binary, "--enable-prompt-tokens-details")
        with server:
            reply = context.post("/v1/chat/completions", {
                "model": context.model, "messages": question(data_url("tall.png"), text=""), "max_tokens": 40, "n": 3,
                "temperature": 0, "use_beam_search": True, "ignore_eos": True, "return_token_ids": True})
            prompt = reply["prompt_token_ids"] + reply["choices"][index]["token_ids"]
            usage = context.post("/v1/completions", {"model": context.model, "prompt": prompt, "max_tokens": 1})["usage"]
            assert (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0) == 0, (index, usage)


def test_pictures_of_their_own_size(binary):
    """Qwen's towers make one embedding for each cell of 8 pixels, for pictures of 67 x 41 and of 17 x 23."""
    for model in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5"):
        server, context = served(binary, model=model)
        with server:
            text = ask(context, question(text="what is it")).usage.prompt_tokens
            seen = set()
            for name, cells in (("wide.png", 8 * 5), ("small.png", 2 * 3), ("lossy.webp", 8 * 5)):
                answer = ask(context, question(data_url(name)))
                assert answer.usage.prompt_tokens == text + cells, (model, name, answer.usage)
                seen.add(answer.choices[0].message.content)
            assert len(seen) > 1, f"{model}: the images make no difference: {seen}"
            again = ask(context, question(data_url("wide.png"), data_url("small.png")))
            assert again.usage.prompt_tokens == text + 8 * 5 + 2 * 3
            chunks = ask(context, question(data_url("wide.png"), data_url("small.png")), stream=True)
            streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert streamed == again.choices[0].message.content
            video = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}
            refused(context, [{"role": "user", "content": [video]}], 400, "reads no videos")


def test_pictures_with_a_budget(binary):
    """Gemma 4 makes as many cells of 12 pixels as a limit of 12 allows, with a token before and one behind them."""
    for model in ("gemma4", "gemma4_moe"):
        server, context = served(binary, model=model)
        with server:
            text = ask(context, question(text="what is it")).usage.prompt_tokens
            seen = set()
            for name, cells in (("wide.png", 4 * 2), ("tall.png", 2 * 5), ("small.png", 2 * 4)):
                answer = ask(context, question(data_url(name)))
                assert answer.usage.prompt_tokens == text + cells + 2, (model, name, answer.usage)
                seen.add(answer.choices[0].message.content)
            assert len(seen) > 1, f"{model}: the images make no difference: {seen}"
        server, context = served(binary, "--max-image-tokens", "4", model=model)
        with server:
            answer = ask(context, question(data_url("wide.png")))
            assert answer.usage.prompt_tokens <= text + 4 + 2, (model, answer.usage)


def test_pictures_that_take_no_tokens(binary):
    """Llama 3.2 Vision attends to a picture beside its prompt; it takes one picture or none."""
    server, context = served(binary, model="mllama")
    with server:
        text = ask(context, question(text="what is it"))
        seen = {text.choices[0].message.content}
        for name in ("wide.png", "tall.png", "small.png"):
            answer = ask(context, question(data_url(name)))
            assert answer.usage.prompt_tokens == text.usage.prompt_tokens + 1, (name, answer.usage)
            seen.add(answer.choices[0].message.content)
        assert len(seen) > 2, f"the images make no difference: {seen}"
        again = ask(context, question(data_url("small.png")))
        assert again.choices[0].message.content == answer.choices[0].message.content
        chunks = ask(context, question(data_url("small.png")), stream=True)
        streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert streamed == answer.choices[0].message.content
        refused(context, question(data_url("wide.png"), data_url("tall.png")), 400, "expected one of a prompt")


def test_rows_are_written_out(binary):
    """Mistral 3 and Pixtral write a token behind each row of embeddings, here for 17 x 23 pixels in cells of 8 or 4."""
    for model, tokens in (("mistral3", 3 * (3 + 1)), ("pixtral", 6 * (5 + 1))):
        server, context = served(binary, model=model)
        with server:
            text = ask(context, question(text="what is it")).usage.prompt_tokens
            one = ask(context, question(data_url("small.png")))
            assert one.usage.prompt_tokens == text + tokens, (model, one.usage)
            other = ask(context, question(data_url("wide.png"), data_url("small.png")))
            assert other.choices[0].message.content != one.choices[0].message.content
            refused(context, question(text="see [IMG]"), 400, "places for images")


def test_responses_read_images(binary):
    import openai
    server, context = served(binary)
    with server:
        chat = ask(context, question(data_url("wide.png")))

        def respond(*parts, **more):
            return context.client().responses.create(
                model=context.model, max_output_tokens=12, temperature=0, extra_body={"ignore_eos": True},
                input=[{"role": "user", "content": [{"type": "input_text", "text": "what is it"}, *parts]}], **more)

        wide, tall = ({"type": "input_image", "image_url": data_url(name)} for name in ("wide.png", "tall.png"))
        first = respond(wide)
        assert first.output_text == chat.choices[0].message.content
        assert first.usage.input_tokens == chat.usage.prompt_tokens
        second = respond(tall, previous_response_id=first.id)  # the conversation keeps its picture
        assert second.usage.input_tokens > first.usage.input_tokens + 2 * TOKENS_PER_IMAGE
        for part, field in (({"type": "input_image", "image_url": "http://localhost/a.png"}, "input"),
                            ({"type": "input_image", "file_id": "file-1"}, "input.0.content.1.image_url")):
            try:
                respond(part)
            except openai.BadRequestError as error:
                assert error.body["param"] == field, error.body
            else:
                raise AssertionError(f"expected 400: {part}")


def test_tiles_and_squares(binary):
    """Checks the tokens of pictures of 67 x 41 and 40 x 90 in families whose pictures are squares. Gemma 3 has 9, and start,
    end and four line breaks around them; LLaVA-NeXT has the whole picture and grids of 2 x 2 and 3 x 1 tiles; SmolVLM and
    InternVL have 4 per tile."""
    for model, wide, tall in (("gemma3", 9 + 6, 9 + 6), ("llava_next", 52, 66), ("smolvlm", None, None),
                              ("internvl", 7 * 4 + 2, 3 * 4 + 2)):
        server, context = served(binary, model=model)
        with server:
            text = ask(context, question(text="what is it")).usage.prompt_tokens
            answers = [ask(context, question(data_url(name))) for name in ("wide.png", "tall.png")]
            tokens = [answer.usage.prompt_tokens - text for answer in answers]
            if wide is not None:
                assert tokens == [wide, tall], (model, tokens)
            assert answers[0].choices[0].message.content != answers[1].choices[0].message.content, model
            again = ask(context, question(data_url("wide.png")))
            assert again.choices[0].message.content == answers[0].choices[0].message.content, model
            chunks = ask(context, question(data_url("wide.png")), stream=True)
            streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert streamed == again.choices[0].message.content, model


def test_crops_of_long_pictures(binary):
    """Gemma 3's pan and scan makes the whole picture of 67 x 41 and two crops, with 9 tokens each and 6 around them, and text
    about them. A picture that is not long stays whole."""
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        shutil.copytree(os.path.join(MODELS, "gemma3"), model)
        path = os.path.join(model, "preprocessor_config.json")
        with open(path) as file:
            stated = json.load(file)
        stated.update(do_pan_and_scan=True, pan_and_scan_min_crop_size=20, pan_and_scan_max_num_crops=4,
                      pan_and_scan_min_ratio_to_activate=1.5)
        with open(path, "w") as file:
            json.dump(stated, file)
        server = Server(binary, model, "--hardware", "none")
        context = harness.Context(server.url, "none", server.process.pid)
        with server:
            text = ask(context, question(text="what is it")).usage.prompt_tokens
            small = ask(context, question(data_url("small.png"))).usage.prompt_tokens
            assert small == text + 9 + 6, (text, small)
            said = "Here is the original image  and here are some crops to help you see better  "
            words = context.post("/tokenize", {"prompt": said, "add_special_tokens": False})["count"]
            for name in ("wide.png", "tall.png"):
                answer = ask(context, question(data_url(name)))
                beside = answer.usage.prompt_tokens - text - 3 * (9 + 6)
                assert abs(beside - words) <= 4, (name, answer.usage, words)  # tokens may join where texts meet
                again = ask(context, question(data_url(name)))
                assert again.choices[0].message.content == answer.choices[0].message.content
        server = Server(binary, model, "--hardware", "none", "--max-image-tokens", "9")
        context = harness.Context(server.url, "none", server.process.pid)
        with server:
            assert ask(context, question(data_url("wide.png"))).usage.prompt_tokens == text + 9 + 6


def test_images_on_ranks(binary):
    """On two ranks, answers about pictures have the same bits as on one, beside answers to texts."""
    def answers(server):
        context = harness.Context(server.url, "none", server.process.pid)
        context.wait_ready(60)

        def one(names):
            choice = ask(context, question(*map(data_url, names)), logprobs=True, top_logprobs=2).choices[0]
            return choice.message.content, [token.logprob for token in choice.logprobs.content]

        asked = [(), ("wide.png",), ("tall.png",), ("small.png", "wide.png"), ("wide.png",), ()]
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            return list(pool.map(one, asked))

    for model in ("qwen2_vl", "gemma3"):
        flags = (os.path.join(MODELS, model), "--hardware", "none")
        with Server(binary, *flags, "--threads", "1") as server:
            alone = answers(server)
        assert len({content for content, _ in alone}) > 2, alone
        with Server(binary, *flags, "--tensor-parallel-size", "2") as server:
            assert answers(server) == alone, model
        with Ranks(binary, 2, *flags) as ranks:
            assert answers(ranks.server) == alone, model


def test_fewer_tokens_of_an_image(binary):
    for model, limit, tokens in (("qwen2_vl", 12, range(6, 13)), ("internvl", 12, [3 * 4 + 2]), ("llava_next", 52, range(20, 53))):
        server, context = served(binary, "--max-image-tokens", str(limit), model=model)
        with server:
            text = ask(context, question(text="what is it")).usage.prompt_tokens
            for name in ("wide.png", "tall.png"):
                got = ask(context, question(data_url(name))).usage.prompt_tokens - text
                assert got in tokens, (model, name, got)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, *chunks):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunks)
    return "data:image/png;base64," + base64.b64encode(body).decode()


def test_hostile_images(binary):
    zeros = zlib.compress(bytes(60_000_000), 9)
    cases = [
        (png(65535, 65535, chunk(b"IDAT", zlib.compress(b"x"))), 413, "sides of at most"),
        (png(16000, 16000, chunk(b"IDAT", zeros)), 413, "pixels"),
        (png(20, 20, struct.pack(">I", 0x7fffffff) + b"IDATxx"), 400, "PNG"),
        (png(20, 20, chunk(b"zTXt", b"C\0\0" + zeros), chunk(b"IDAT", zlib.compress(b"x"))), 400, "PNG"),
        ("data:image/gif;base64," + base64.b64encode(b"GIF89a" + bytes(40)).decode(), 400, "got GIF"),
        ("data:image/png;base64,%%%", 400, "base64"),
        ("http://169.254.169.254/latest/meta-data", 400, "fetches nothing"),
        ("https://localhost:1/a.png", 400, "fetches nothing"),
        ("file:///etc/passwd", 400, "reads no files"),
        ("ftp://a/b", 400, "data: URL"),
    ]
    server, context = served(binary)
    with server:
        ask(context, question(data_url("wide.png")))
        before = context.rss_mib()
        for url, status, part in cases * 3:
            error = refused(context, question(url), status, part)
            assert error.body["param"] == "messages.0.content.1.image_url", error.body
        assert context.rss_mib() < before + 64, (before, context.rss_mib())
        refused(context, question(*[data_url("small.png")] * 17), 400, "at most 16 images")
        refused(context, question(text="see <image>"), 400, "places for images")
        refused(context, [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], 400, "no such media")
        ask(context, question(data_url("wide.png")))


def test_files_below_a_directory(binary):
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(IMAGES, "wide.png"), os.path.join(folder, "link.png"))
        server, context = served(binary, "--allowed-local-media-path", IMAGES)
        with server:
            by_file = ask(context, question("file://" + os.path.join(os.path.realpath(IMAGES), "wide.png")))
            by_data = ask(context, question(data_url("wide.png")))
            assert by_file.choices[0].message.content == by_data.choices[0].message.content
            for path in ("/etc/passwd", os.path.realpath(IMAGES) + "/../llava/config.json"):
                refused(context, question("file://" + path), 400, "below the directory")
        server, context = served(binary, "--allowed-local-media-path", folder)
        with server:
            refused(context, question(f"file://{folder}/link.png"), 400, "below the directory")


def test_models_without_eyes(binary):
    server = Server(binary, "--hardware", "none")
    context = harness.Context(server.url, "none", server.process.pid)
    with server:
        refused(context, question(data_url("small.png")), 400, "this model reads no images")


def test_mmproj_answers_as_the_folder_does(binary):
    """llama.cpp's two files give the same answers: the second file found beside the first, named, or left out."""
    import subprocess
    folder = os.path.join(ROOT, "tests", "goldens", "mmproj", "gemma3")
    model, tower = (os.path.join(folder, name) for name in ("model.gguf", "mmproj-model.gguf"))
    messages = question(data_url("wide.png"))
    server, context = served(binary, "--dtype", "float32", model="gemma3")
    with server:
        expected = ask(context, messages).choices[0].message.content
    for path, flags in ((model, ()), (folder, ()), (model, ("--mmproj", tower))):
        server = Server(binary, path, "--hardware", "none", "--dtype", "float32", *flags)
        with server:
            answer = ask(harness.Context(server.url, "none", server.process.pid), messages)
            assert answer.choices[0].message.content == expected, (path, flags)
    server = Server(binary, model, "--hardware", "none", "--no-mmproj")
    with server:
        refused(harness.Context(server.url, "none", server.process.pid), messages, 400, "image")
    other = os.path.join(ROOT, "tests", "goldens", "mmproj", "qwen2_vl", "mmproj-model.gguf")
    for path, part in ((other, "<|image_pad|>"), (model, "another name"), ("/none.gguf", "expected a .gguf file")):
        done = subprocess.run([binary, "serve", model, "--mmproj", path, "--port", "0"], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode != 0 and part in done.stderr + done.stdout, (path, done.stderr)
    told = subprocess.run([binary, "inspect", model], capture_output=True, text=True, timeout=60).stdout
    assert "images           up to 9 tokens each; vision encoder of 3 layers" in told and "mmproj-model.gguf" in told, told
