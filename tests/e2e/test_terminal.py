"""quire chat and quire generate as a person meets them: on a terminal, with keys, pastes and Ctrl-C."""
import json
import os
import re
import shutil
import subprocess
import tempfile

from command import GREEDY, MODEL, PROMPT, ROOT, ok, read, refused, run
from terminal import Terminal

CHAT = ("--temperature", "0", "--hardware", "none")
PROMPT_LINE = "> "


def chat(binary, *flags):
    terminal = Terminal(binary, "chat", *CHAT, *flags)
    terminal.expect(PROMPT_LINE)
    return terminal


def context_use(terminal):
    """Returns the tokens in the context after an answer, and the size of the context."""
    found = terminal.expect(r"\[context: (\d+) of (\d+) tokens, (\d+) %\]")
    used, most, percent = (int(group) for group in found.groups())
    assert percent == 100 * used // most, found.group(0)
    return used, most


def copy_of_model(folder, *left_out):
    path = os.path.join(folder, "model")
    shutil.copytree(MODEL, path)
    for name in left_out:
        os.remove(os.path.join(path, name))
    return path


def model_that_never_ends(folder):
    """Makes a model whose answers end only at --max-tokens or the context, so that tests have time to act."""
    path = copy_of_model(folder)
    name = os.path.join(path, "generation_config.json")
    config = {**json.loads(read(name)), "eos_token_id": 2047}
    with open(name, "w") as file:
        json.dump(config, file)
    return path


# chat


def test_chat_goes_on_when_the_context_is_full(binary):
    with chat(binary, "--max-model-len", "96", "--max-tokens", "24", "--system", "Be kind.") as terminal:
        dropped = 0
        for turn in range(8):
            terminal.send(f"Tell me a story about a fox, number {turn}.\r")
            used, most = context_use(terminal)
            assert most == 96 and used <= 96, (used, most)
            terminal.expect(PROMPT_LINE)
        dropped = len(re.findall(r"no longer fits the context of 96 tokens; its oldest (?:turn was|\d+ turns were) dropped",
                                 terminal.text()))
        assert dropped >= 4, terminal.text()
        assert "quire: " not in terminal.text(), terminal.text()
        terminal.send("/exit\r")
        assert terminal.wait() == 0


def test_chat_says_why_an_answer_was_cut(binary):
    with chat(binary, "--max-model-len", "64") as terminal:
        terminal.send("Tell me a story about a fox named Pip.\r")
        terminal.expect(r"\[the answer was cut: the context of 64 tokens \(--max-model-len\) is full\]")
        assert context_use(terminal) == (64, 64)
    with chat(binary, "--max-tokens", "5") as terminal:
        terminal.send("Tell me a story about a fox named Pip.\r")
        terminal.expect(r"\[the answer was cut after 5 tokens, the limit of one answer \(--max-tokens\)\]")


def test_chat_keeps_conversations_and_tells_its_speed(binary):
    with tempfile.TemporaryDirectory() as folder, chat(binary, "--max-tokens", "8") as terminal:
        saved = os.path.join(folder, "talk.json")
        terminal.send("Tell me a story about a fox.\r")
        terminal.expect(r"\[(\d+) tokens in [\d.]+ s, \d+ per second")
        used, _ = context_use(terminal)
        terminal.send(f"/save {saved}\r")
        terminal.expect(r"\[saved 1 turn to ")
        messages = json.loads(read(saved))["messages"]
        assert [m["role"] for m in messages] == ["user", "assistant"], messages
        assert messages[0]["content"] == "Tell me a story about a fox." and messages[1]["content"], messages
        terminal.send("/reset\r")
        terminal.send(f"/load {saved}\r")
        terminal.expect(r"\[loaded 1 turn from ")
        terminal.send("And then?\r")
        assert context_use(terminal)[0] > used
        terminal.send("/stats\r")
        terminal.expect(r"\[quire-builtin: 2 answers in [\d.]+ s, 2 turns in the conversation\]")
        terminal.expect(r"\[\d+ prompt tokens, \d+ % of them from the cache; \d+ tokens generated")
        terminal.send(f"/load {folder}/none.json\r")
        terminal.expect(r"none.json: cannot be read")
        with open(saved, "w") as file:
            file.write('{"messages": [{"role": "assistant", "content": "a"}]}')
        terminal.send(f"/load {saved}\r")
        terminal.expect(r"talk.json: messages.0.role: expected user, got assistant")
        terminal.send("/save\r")
        terminal.expect(r"\[/save: expected the name of a file, got none\]")
        terminal.send("/sav\r")
        terminal.expect(r"did you mean /save\?")
        terminal.send("/exit\r")
        assert terminal.wait() == 0


def test_chat_shows_a_picture_with_the_next_question(binary):
    vision = os.path.join(ROOT, "tests", "goldens", "vision")
    with tempfile.TemporaryDirectory() as folder, chat(
            binary, os.path.join(vision, "llava"), "--max-tokens", "4", "--max-images", "1") as terminal:
        terminal.send("what is it\r")
        alone, _ = context_use(terminal)
        terminal.send("/reset\r")
        terminal.send(f"/image {vision}/images/wide.png\r")
        terminal.expect(r"wide.png goes with the next question\]")
        terminal.send("what is it\r")
        assert context_use(terminal)[0] == alone + 25
        saved = os.path.join(folder, "talk.json")
        terminal.send(f"/save {saved}\r")
        terminal.expect(r"\[saved 1 turn to ")
        parts = json.loads(read(saved))["messages"][0]["content"]
        assert [part["type"] for part in parts] == ["image_url", "text"], parts
        assert parts[0]["image_url"]["url"].startswith("data:image/png;base64,"), parts[0]
        terminal.send(f"/image {saved}\r")
        terminal.expect(r"talk.json: ")
        terminal.send("/image\r")
        terminal.expect(r"\[/image: expected the name of a file, got none\]")
        terminal.send(f"/image {vision}/images/wide.png\r")
        terminal.expect(r"wide.png goes with the next question\]")
        terminal.send("and that\r")
        terminal.expect(r"expected at most 1 images \(--max-images\), got 2")
        terminal.send("/clear\r")
        terminal.send("/exit\r")
        assert terminal.wait() == 0
    with chat(binary) as terminal:
        terminal.send(f"/image {vision}/images/wide.png\r")
        terminal.expect(r"reads no images")


def test_chat_goes_on_with_another_model(binary):
    with tempfile.TemporaryDirectory() as folder, chat(binary, "--max-tokens", "8", "--max-model-len", "256") as terminal:
        other = copy_of_model(folder)
        terminal.send("Tell me a story about a fox.\r")
        used, _ = context_use(terminal)
        terminal.send("/model /nowhere\r")
        terminal.expect(r"quire: .*nowhere")
        terminal.send(f"/model {other}\r")
        terminal.expect(r"\[the model is now model, with a context of 256 tokens\]")
        terminal.send("And then?\r")
        assert context_use(terminal)[0] > used, "the conversation is gone"
        terminal.send("/exit\r")
        assert terminal.wait() == 0


def test_chat_forgets_a_message_that_never_fits(binary):
    with chat(binary, "--max-model-len", "64", "--max-tokens", "8") as terminal:
        terminal.send("word " * 200 + "\r")
        terminal.expect(r"quire: the message takes \d+ tokens with what surrounds it; expected fewer than the 64")
        terminal.expect(PROMPT_LINE)
        terminal.send("Hi.\r")
        used, _ = context_use(terminal)
        assert used < 40, used


def test_chat_takes_a_paste_of_three_lines_as_one_message(binary):
    with chat(binary, "--max-tokens", "4") as terminal:
        terminal.send("\x1b[200~Three lines:\rone\rtwo\x1b[201~\r")
        together, _ = context_use(terminal)
        terminal.expect(PROMPT_LINE)
        terminal.send("/reset\r")
        terminal.expect(PROMPT_LINE)
        terminal.send("Three lines:\r")
        alone, _ = context_use(terminal)
        assert together > alone, (together, alone)
        terminal.expect(PROMPT_LINE)
        terminal.send("/exit\r")
        assert terminal.wait() == 0
        assert terminal.text().count("[context:") == 2, terminal.text()


def test_chat_lines_are_edited_and_remembered(binary):
    with chat(binary, "--max-tokens", "4") as terminal:
        terminal.send("/exitt\x1b[D\x7fX\x1b[D\x1b[3~")  # left, backspace, X, left, delete: /exit
        terminal.send("\x01\x0b")                        # to the start, all away
        terminal.send("Hello there.\r")
        first, _ = context_use(terminal)
        terminal.expect(PROMPT_LINE)
        terminal.send("/reset\r")
        terminal.expect(PROMPT_LINE)
        terminal.send("\x1b[A\x1b[A\r")  # up, up: the greeting again
        again, _ = context_use(terminal)
        assert again == first, (again, first)


def test_chat_ctrl_c_stops_the_answer_and_not_the_program(binary):
    with tempfile.TemporaryDirectory() as folder, chat(binary, model_that_never_ends(folder)) as terminal:
        terminal.send("Tell me a very long story.\r")
        terminal.expect(r"story\.\s+\S+ \S+ \S+")  # a few words of the answer
        terminal.send("\x03")
        terminal.expect(r"\[stopped\]")
        used, most = context_use(terminal)
        assert used < most, (used, most)
        terminal.expect(PROMPT_LINE)
        terminal.send("a line that is given up\x03")
        terminal.expect(PROMPT_LINE)
        terminal.send("\x04")
        assert terminal.wait() == 0
        assert terminal.text().count("[context:") == 1, terminal.text()


def test_chat_ctrl_c_stops_a_long_prompt(binary):
    """Ctrl-C comes before the first text."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--max-num-batched-tokens", "1", "--max-num-seqs", "1", "--threads", "1")
        with chat(binary, model_that_never_ends(folder), *flags) as terminal:
            terminal.send("\x1b[200~" + "word " * 1500 + "\x1b[201~\r")
            terminal.until(lambda: terminal.raw.count("\x1b[?2004h") == 2)  # the editor's, then the answer's
            terminal.send("\x03")
            terminal.expect(r"\[stopped\]")
            terminal.expect(PROMPT_LINE)


def test_chat_typing_during_an_answer_waits_for_its_turn(binary):
    with tempfile.TemporaryDirectory() as folder:
        with chat(binary, model_that_never_ends(folder), "--max-tokens", "500") as terminal:
            terminal.send("Tell me a story.\r")
            terminal.expect(r"story\.\s+\S+ \S+")
            terminal.send("typed \x1b[200~and\rpasted\x1b[201~")
            context_use(terminal)
            assert "typed" not in terminal.text()[:terminal.seen], terminal.text()
            terminal.expect(r"> typed and\s+pasted")
            terminal.send("\r")
            context_use(terminal)
            terminal.expect(PROMPT_LINE)
            assert terminal.text().count("[context:") == 2, terminal.text()


def test_chat_names_the_demo_model_and_knows_its_commands(binary):
    with Terminal(binary, "chat", *CHAT) as terminal:
        terminal.expect(r"quire-builtin: a demo of 3\.5 million parameters")
        terminal.expect(PROMPT_LINE)
        terminal.send("/rest\r")
        terminal.expect(r"/rest: no such command; did you mean /reset\?")


def test_chat_of_a_pipe_answers_line_by_line(binary):
    piped = dict(capture_output=True, text=True, timeout=60)
    done = subprocess.run([binary, "chat", *CHAT, "--max-tokens", "8"], input="Hi.\nHow are you?\n", **piped)
    assert done.returncode == 0 and len(done.stdout.strip().splitlines()) >= 2, done
    done = subprocess.run([binary, "chat", *CHAT, "--max-model-len", "32"], input="word " * 100 + "\nHi.\n", **piped)
    assert done.returncode == 1 and "the message takes" in done.stderr and done.stdout.strip(), done


def test_chat_needs_a_tokenizer_and_a_template(binary):
    with tempfile.TemporaryDirectory() as folder:
        refused(binary, "the model has no tokenizer", "chat", copy_of_model(folder, "tokenizer.json"))
        shutil.rmtree(os.path.join(folder, "model"))
        model = copy_of_model(folder, "tokenizer_config.json")
        refused(binary, "the model has no chat template; give one with --chat-template", "chat", model)
        ok(binary, "chat", model, "--chat-template", "{{ messages[0].content }}", *CHAT)


# generate


def piped(binary, data, *flags):
    done = subprocess.run([binary, "generate", "--temperature", "0", "--max-tokens", "24", *flags], input=data,
                          capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_generate_reads_standard_input(binary):
    expected = ok(binary, "generate", *GREEDY).stdout
    data = (PROMPT + "\n").encode()
    for flags in ((), (MODEL,), ("-p", "-"), ("--prompt-file", "-")):
        code, out, err = piped(binary, data, *flags)
        assert (code, out) == (0, expected), (flags, code, out, err)
    for flag in ("--no-echo", "--quiet"):
        assert PROMPT + piped(binary, data, flag)[1] == expected, flag
    code, out, err = piped(binary, b"")
    assert code == 1 and out == "" and "standard input: expected a text, got nothing" in err, (code, out, err)
    with Terminal(binary, "generate") as terminal:  # a user could not see that it waits for input
        terminal.expect("expected a prompt: -p TEXT, --prompt-file FILE or text on standard input")
        assert terminal.wait() == 1


def test_generate_refuses_binary_prompts(binary):
    with tempfile.NamedTemporaryFile() as file:
        for data in (b"\x7fELF\x02\x01\x00\x00", b"caf\xe9 au lait", b"a\x00b"):
            file.seek(0)
            file.truncate()
            file.write(data)
            file.flush()
            refused(binary, f"--prompt-file {file.name}: expected UTF-8 text, got binary data", "generate",
                    "--prompt-file", file.name)
            code, out, err = piped(binary, data)
            assert code == 1 and out == "" and "expected UTF-8 text" in err, (data, code, out, err)


def test_generate_needs_a_tokenizer_before_it_prints(binary):
    with tempfile.TemporaryDirectory() as folder:
        done = run(binary, "generate", copy_of_model(folder, "tokenizer.json"), *GREEDY)
        assert done.returncode == 1 and done.stdout == "", done
        assert "model: the model has no tokenizer" in done.stderr, done.stderr


def test_generate_shows_its_loading_on_a_terminal_alone(binary):
    with Terminal(binary, "generate", *GREEDY) as terminal:
        terminal.expect(r"loading \[#+")
        terminal.expect(PROMPT + r"\S* \S+ \S+")
        assert terminal.wait() == 0
    with Terminal(binary, "generate", *GREEDY, "--quiet") as terminal:
        assert terminal.wait() == 0
        assert "loading" not in terminal.text() and PROMPT not in terminal.text(), terminal.text()


# tokenize


def test_tokenize_ids_and_decode_are_inverse(binary):
    for text in ("Once upon a time, a fox.", " two  spaces\tand a tab", "ünïcödé 漢字 🦊", "1\n2\n"):
        ids = ok(binary, "tokenize", "-p", text, "--ids").stdout.strip()
        for given in ((ids,), ids.split(), (ids.replace(" ", ","),), (ids.replace(" ", ", "),)):
            assert ok(binary, "tokenize", "--decode", *given).stdout == text + "\n", (text, given)
        done = subprocess.run([binary, "tokenize", MODEL, "--decode", "-"], input=ids + "\n", capture_output=True,
                              text=True, timeout=60)
        assert done.stdout == text + "\n", (text, done)
    refused(binary, "--decode: expected an integer in [0, 2047], got '2048'", "tokenize", "--decode", "1,2048")
    refused(binary, "--decode: expected an integer in [0, 2047], got 'x'", "tokenize", "--decode", "1 x")
