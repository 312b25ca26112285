"""Recordings through the official client: formats, windows, streams, what is refused, and that memory stays flat."""
import io
import json
import math
import os
import struct
import threading
import wave

import harness
from process import Server

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MODEL = os.path.join(ROOT, "tests", "goldens", "speech", "whisper")
RECORDING = os.path.join(MODEL, "recording.wav")
# A model of random weights is never certain, so these settings accept its first attempt.
STEADY = {"logprob_threshold": "-1000", "compression_ratio_threshold": "1000"}


def served(binary, *flags):
    server = Server(binary, MODEL, "--hardware", "none", "--dtype", "float32", *flags)
    return server, harness.Context(server.url, "none", server.process.pid)


def wav_of(samples, rate=16000, channels=1):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return file.getvalue()


def tone(seconds, rate=16000):
    return wav_of([int(8000 * math.sin(i * 0.1)) for i in range(int(seconds * rate))], rate)


def transcribe(context, file=None, **fields):
    with open(RECORDING, "rb") as recording:
        name = ("recording.wav", file if file is not None else recording.read())
    extra = dict(STEADY, **fields.pop("extra_body", {}))
    return context.client().audio.transcriptions.create(file=name, model=context.model, extra_body=extra, **fields)


def refused(context, status, part, **fields):
    import openai
    try:
        transcribe(context, **fields)
    except openai.APIStatusError as error:
        assert error.status_code == status, (error.status_code, str(error))
        assert part in str(error), (part, str(error))
        return
    raise AssertionError(f"expected {status}: {part}")


def test_windows_are_those_of_transformers(binary):
    """Compares whole windows; behind the end of a recording, transformers pads with another silence."""
    with open(os.path.join(MODEL, "golden.json")) as file:
        expected = [s for s in json.load(file)["segments"] if s["end"] <= 2.3]
    server, context = served(binary)
    with server:
        got = transcribe(context, language="en", response_format="verbose_json",
                         timestamp_granularities=["segment"], extra_body={"max_completion_tokens": "100"})
        assert got.language == "en" and abs(float(got.duration) - 3.3) < 0.01, got
        assert len(expected) >= 8
        for mine, theirs in zip(got.segments, expected):
            assert abs(mine.start - theirs["start"]) < 1e-6 and abs(mine.end - theirs["end"]) < 1e-6, (mine, theirs)
            text = [t for t in theirs["tokens"] if t < 256]
            assert [t for t in mine.tokens if t < 256] == text, (mine, theirs)
        assert got.text == "".join(s.text for s in got.segments).strip()


def test_words_are_those_of_transformers(binary):
    """Compares the words of whole windows, in the text of the segments and in order."""
    with open(os.path.join(MODEL, "golden.json")) as file:
        expected = [w for s in json.load(file)["segments"] if s["end"] <= 2.3 for w in s["words"]]
    server, context = served(binary)
    with server:
        got = transcribe(context, language="en", response_format="verbose_json",
                         timestamp_granularities=["word", "segment"], extra_body={"max_completion_tokens": "100"})
        assert len(expected) >= 8 and got.segments
        for mine, theirs in zip(got.words, expected):
            assert mine.word == theirs["word"].strip(), (mine, theirs)
            assert abs(mine.start - theirs["start"]) < 1e-6 and abs(mine.end - theirs["end"]) < 1e-6, (mine, theirs)
        words = transcribe(context, language="en", response_format="verbose_json", timestamp_granularities=["word"],
                           extra_body={"max_completion_tokens": "100"})
        assert words.segments is None and words.words == got.words
        english = context.client().audio.translations.with_raw_response.create(
            file=("a.wav", tone(1.0)), model=context.model, response_format="verbose_json",
            extra_body=dict(STEADY, **{"timestamp_granularities[]": "word"}))
        assert "words" in json.loads(english.text)


def test_formats_and_streams(binary):
    server, context = served(binary)
    with server:
        plain = transcribe(context, language="de")
        assert plain.text and plain.usage.type == "duration" and plain.usage.seconds == 4, plain
        text = transcribe(context, language="de", response_format="text")
        assert str(text).strip() == plain.text
        srt = str(transcribe(context, language="de", response_format="srt"))
        assert srt.startswith("1\n00:00:0") and " --> " in srt, srt[:80]
        assert str(transcribe(context, language="de", response_format="vtt")).startswith("WEBVTT\n\n")
        events = list(transcribe(context, language="de", stream=True))
        assert events[-1].type == "transcript.text.done" and events[-1].text == plain.text
        deltas = [e.delta for e in events[:-1]]
        assert "".join(deltas).strip() == plain.text and len(deltas) > 1
        heard = transcribe(context, response_format="verbose_json")
        assert heard.language in ("en", "de", "fr", "es", "ja")
        with open(RECORDING, "rb") as file:
            english = context.client().audio.translations.create(file=file, model=context.model, extra_body=STEADY)
        assert english.text
        prompted = transcribe(context, language="de", prompt="zuvor <|endoftext|> gesagt")
        assert prompted.text


def test_same_answer_in_a_crowd(binary):
    server, context = served(binary, "--max-num-seqs", "4")
    with server:
        alone = [transcribe(context, language=l, temperature=t, extra_body={"seed": "3"}).text
                 for l, t in (("en", 0.0), ("de", 0.7), ("fr", 0.0))]
        answers = [None] * 12

        def ask(i):
            language, temperature = (("en", 0.0), ("de", 0.7), ("fr", 0.0))[i % 3]
            answers[i] = transcribe(context, language=language, temperature=temperature, extra_body={"seed": "3"}).text

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(answers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [alone[i % 3] for i in range(len(answers))], (answers, alone)


def test_what_is_refused(binary):
    import openai
    server, context = served(binary, "--max-audio-seconds", "5", "--max-audio-size", "400KiB")
    with server:
        refused(context, 400, "WAV, FLAC, Ogg or MP3", file=b"no sound at all, only text")
        refused(context, 400, "MP4 or M4A", file=b"\0\0\0\x20ftypM4A " + bytes(40))
        refused(context, 400, "some sound", file=wav_of([]))
        refused(context, 413, "seconds", file=tone(6.0))
        refused(context, 413, "bytes", file=tone(20.0))
        refused(context, 400, "language", language="xx")
        refused(context, 400, "verbose_json", timestamp_granularities=["word"])
        lying = bytearray(tone(1.0))
        lying[22:24] = struct.pack("<H", 60000)
        refused(context, 400, "", file=bytes(lying))
        nan = bytearray(tone(0.5))
        nan[20:22] = struct.pack("<H", 3)  # the samples are floats
        nan[34:36] = struct.pack("<H", 32)
        nan[44:] = struct.pack("<f", float("nan")) * ((len(nan) - 44) // 4)
        refused(context, 400, "audio", file=bytes(nan))
        for call in (lambda: context.client().completions.create(model=context.model, prompt="a"),
                     lambda: context.client().chat.completions.create(
                         model=context.model, messages=[{"role": "user", "content": "a"}])):
            try:
                call()
                raise AssertionError("a model of speech answers text")
            except openai.APIStatusError as error:
                assert error.status_code == 404 and "/v1/audio/transcriptions" in str(error), error
        assert transcribe(context, file=tone(1.0), language="en") is not None


def test_memory_stays_flat(binary):
    server, context = served(binary)
    with server:
        files = [tone(2.0), tone(3.0, 44100)]
        for i in range(30):
            transcribe(context, file=files[i % 2], language="en")
        before = rss_mib(server.process.pid)
        for i in range(60):
            transcribe(context, file=files[i % 2], language="en")
        after = rss_mib(server.process.pid)
        assert after - before < 24, (before, after)


def rss_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def test_models_of_text_hear_nothing(binary):
    import openai
    server = Server(binary, "--hardware", "none")
    with server:
        context = harness.Context(server.url, "none", server.process.pid)
        try:
            transcribe(context)
            raise AssertionError("a model of text hears")
        except openai.APIStatusError as error:
            assert error.status_code == 404 and "hears nothing" in str(error), error
