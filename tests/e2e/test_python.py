"""The Python package, from its source and with the binary under test."""
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import harness
from command import ROOT, PROMPT, generate
from test_embeddings import GOLDENS, difference, golden

sys.path.insert(0, os.path.join(ROOT, "python"))

import quire  # noqa: E402
from quire import AsyncLLM, BeamSearchParams, LLM, SamplingParams, StructuredOutputsParams  # noqa: E402
from quire.sampling_params import RequestOutputKind  # noqa: E402

GREEDY = SamplingParams(temperature=0, max_tokens=24)
QUIET = {"use_tqdm": False}


def environment(binary):
    """Returns an environment with the package's source and the binary, which an installed wheel contains together."""
    folder = tempfile.mkdtemp()
    os.symlink(os.path.abspath(binary), os.path.join(folder, "quire"))
    return {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"], "PYTHONPATH": os.path.join(ROOT, "python")}


def run_script(binary, script, **kwargs):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120,
                          env=environment(binary), **kwargs)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


def fails(said, call, *arguments, **kwargs):
    try:
        call(*arguments, **kwargs)
    except ValueError as e:
        assert said in str(e), e
    else:
        raise AssertionError(f"expected a ValueError that says {said!r}")


def test_python_answers_are_those_of_the_terminal(binary):
    with LLM(binary=binary) as llm:
        output, = llm.generate(PROMPT, GREEDY, **QUIET)
        assert PROMPT + output.outputs[0].text == generate(binary).rstrip("\n"), output
        assert output.finished and output.prompt == PROMPT and len(output.outputs[0].token_ids) == 24
        assert output.prompt_token_ids == llm.get_tokenizer().encode(PROMPT)
        by_ids, = llm.generate({"prompt_token_ids": output.prompt_token_ids}, GREEDY, **QUIET)
        assert by_ids.outputs[0].token_ids == output.outputs[0].token_ids
        assert by_ids.prompt is None
        story = PROMPT + ", there was a fox named Pip who lived by the river with his friends"
        first, second = (llm.generate(story, GREEDY, **QUIET)[0] for _ in range(2))
        assert second.outputs[0].token_ids == first.outputs[0].token_ids and second.num_cached_tokens >= 16


def test_python_keeps_the_order_and_the_parameters_of_prompts(binary):
    with LLM(binary=binary, max_num_seqs=7) as llm:
        prompts = [f"Story {i}:" for i in range(40)]
        params = [SamplingParams(seed=i, max_tokens=1 + i % 9, n=1 + i % 2) for i in range(40)]
        together = llm.generate(prompts, params, **QUIET)
        for i in (0, 7, 39):
            alone, = llm.generate(prompts[i], params[i], **QUIET)
            assert [c.token_ids for c in alone.outputs] == [c.token_ids for c in together[i].outputs], i
        for i, output in enumerate(together):
            assert output.prompt == prompts[i] and len(output.outputs) == 1 + i % 2
        fails("expected one for all or 40, got 2", llm.generate, prompts, params[:2], **QUIET)


def test_python_logprobs(binary):
    with LLM(binary=binary) as llm:
        output, = llm.generate(PROMPT, SamplingParams(seed=1, max_tokens=9, logprobs=3, prompt_logprobs=1), **QUIET)
        choice = output.outputs[0]
        assert len(choice.logprobs) == 9 and choice.token_logprobs.shape == (9,)
        assert abs(choice.token_logprobs.sum() - choice.cumulative_logprob) < 1e-9
        for token_id, position in zip(choice.token_ids, choice.logprobs):
            ranks = [entry.rank for entry in position.values() if entry.rank]
            assert sorted(ranks) == [1, 2, 3] and len(position) in (3, 4)
            assert (position[token_id].rank is None) == (len(position) == 4)
        text = "".join(position[token].decoded_token for token, position in zip(choice.token_ids, choice.logprobs))
        assert text == choice.text
        assert output.prompt_logprobs[0] is None and len(output.prompt_logprobs) == len(output.prompt_token_ids)
        for token_id, position in list(zip(output.prompt_token_ids, output.prompt_logprobs))[1:]:
            assert position[token_id].rank >= 1


def test_python_conversations_and_structure(binary):
    with LLM(binary=binary) as llm:
        ask = [{"role": "user", "content": "Hi!"}]
        one, = llm.chat(ask, GREEDY, **QUIET)
        assert one.prompt_token_ids == llm.get_tokenizer().apply_chat_template(ask)
        several = llm.chat([ask, [*ask, {"role": "assistant", "content": "Hello!"}, *ask]], GREEDY, **QUIET)
        assert len(several) == 2 and several[0].outputs[0].text == one.outputs[0].text
        schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
        rule = SamplingParams(seed=3, max_tokens=60, structured_outputs=StructuredOutputsParams(json=schema))
        assert isinstance(json.loads(llm.chat(ask, rule, **QUIET)[0].outputs[0].text)["age"], int)
        chosen = SamplingParams(structured_outputs=StructuredOutputsParams(choice=["red", "green"]))
        assert llm.generate("A colour:", chosen, **QUIET)[0].outputs[0].text in ("red", "green")
    fails("exactly one of", StructuredOutputsParams, json="{}", regex="a")


def test_python_beam_search(binary):
    with LLM(binary=binary) as llm:
        found, = llm.beam_search(PROMPT, BeamSearchParams(beam_width=3, max_tokens=8))
        assert len(found.sequences) == 3 and len({sequence.text for sequence in found.sequences}) == 3
        logprobs = [sequence.cum_logprob / 8 for sequence in found.sequences]
        assert logprobs == sorted(logprobs, reverse=True), logprobs
        prompt = llm.get_tokenizer().encode(PROMPT)
        assert all(sequence.tokens[:len(prompt)] == prompt for sequence in found.sequences)
        greedy, = llm.generate(PROMPT, SamplingParams(temperature=0, max_tokens=8, logprobs=0), **QUIET)
        assert found.sequences[0].cum_logprob >= greedy.outputs[0].cumulative_logprob - 1e-6


def test_python_embeddings_scores_and_classes(binary):
    cases = golden("qwen3_last")
    with LLM(os.path.join(GOLDENS, "qwen3_last"), binary=binary) as llm:
        for case, output in zip(cases, llm.embed([{"prompt_token_ids": case["ids"]} for case in cases], **QUIET)):
            assert difference(output.outputs.embedding, case["rows"][0]) < 2e-4
    cases = golden("bert_classifier")
    with LLM(os.path.join(GOLDENS, "bert_classifier"), binary=binary) as llm:
        outputs = llm.classify([{"prompt_token_ids": case["ids"]} for case in cases], **QUIET)
        assert all(abs(sum(output.outputs.probs) - 1) < 1e-4 for output in outputs) and len(outputs) == len(cases)


def test_python_refusals_name_the_field(binary):
    with LLM(binary=binary) as llm:
        fails("temperature: expected a number in [0, 2], got", llm.generate, PROMPT, SamplingParams(temperature=3), **QUIET)
        fails("maximum context length", llm.generate, "many words " * 3000, GREEDY, **QUIET)
        fails("'prompt_token_ids'", llm.generate, {"text": "a"}, GREEDY, **QUIET)
        fails("makes no embeddings", llm.embed, "a", **QUIET)
        assert len(llm.generate(PROMPT, GREEDY, **QUIET)) == 1, "the engine goes on"
    fails("did not start", LLM, "/no/such/model", binary=binary)
    fails("--max-num-seqs", LLM, binary=binary, max_num_seqs="many")


def test_python_asyncio(binary):
    async def collect(engine, request_id, **fields):
        params = SamplingParams(seed=5, max_tokens=12, **fields)
        return [output async for output in engine.generate(PROMPT, params, request_id)]

    async def abort_early(engine):
        texts = []
        async for output in engine.generate(PROMPT, SamplingParams(max_tokens=1000, ignore_eos=True), "long"):
            texts.append(output.outputs[0].text)
            if len(texts) == 3:
                await engine.abort("long")
        assert output.finished and output.outputs[0].finish_reason == "abort" and len(texts) < 900

    async def run():
        engine = AsyncLLM(binary=binary)
        try:
            whole, last, parts = await asyncio.gather(
                collect(engine, "a"), collect(engine, "b", output_kind=RequestOutputKind.FINAL_ONLY),
                collect(engine, "c", output_kind=RequestOutputKind.DELTA, n=2))
            assert len(last) == 1 and last[0].outputs[0].text == whole[-1].outputs[0].text and last[0].finished
            assert [len(o.outputs[0].token_ids) for o in whole] == sorted(len(o.outputs[0].token_ids) for o in whole)
            ids = [sum((c.token_ids for o in parts for c in o.outputs if c.index == i), []) for i in (0, 1)]
            assert ids[0] == whole[-1].outputs[0].token_ids and len(ids[1]) == len(ids[0])
            await abort_early(engine)
            await engine.check_health()
        finally:
            engine.shutdown()

    asyncio.run(run())


def test_python_interrupts_leave_the_engine_ready(binary):
    with LLM(binary=binary, max_model_len=2048) as llm:
        interrupt = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        interrupt.start()
        try:
            llm.generate([PROMPT] * 64, SamplingParams(max_tokens=2000, ignore_eos=True), **QUIET)
        except KeyboardInterrupt:
            pass
        else:
            raise harness.Skip("64 answers of 2000 tokens came within half a second")
        assert llm.generate(PROMPT, GREEDY, **QUIET)[0].finished


def test_python_shutdown_ends_calls_of_other_threads(binary):
    llm, raised = LLM(binary=binary, max_model_len=2048), []

    def call():
        try:
            llm.generate([PROMPT] * 64, SamplingParams(max_tokens=2000, ignore_eos=True), **QUIET)
        except quire.EngineDeadError:
            raised.append(True)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    time.sleep(0.2)
    llm.shutdown()
    thread.join(20)
    assert not thread.is_alive() and raised == [True]
    call()
    assert raised == [True, True]


def test_python_engines_end_with_their_program(binary):
    done = run_script(binary, """
        import os, signal
        from quire import LLM
        llm = LLM()
        print(llm._engine.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """)
    pid = int(done.stdout)
    deadline = time.time() + 10
    while alive(pid) and time.time() < deadline:
        time.sleep(0.05)
    assert not alive(pid)
    with LLM(binary=binary) as llm:
        os.kill(llm._engine.pid, signal.SIGKILL)
        try:
            llm.generate(PROMPT, GREEDY, **QUIET)
        except quire.EngineDeadError:
            pass
        else:
            raise AssertionError("expected EngineDeadError")


def test_python_runs_scripts_written_for_vllm(binary):
    """The shape of vLLM's first offline example, with its import changed."""
    done = run_script(binary, """
        from quire import LLM, SamplingParams

        prompts = ["Hello, my name is", "The president of the United States is", "The future of AI is"]
        sampling_params = SamplingParams(temperature=0.8, top_p=0.95)

        def main():
            llm = LLM(model="", dtype="float32", trust_remote_code=True, gpu_memory_utilization=0.5,
                      tensor_parallel_size=1, seed=0, enforce_eager=True)
            for output in llm.generate(prompts, sampling_params):
                print(f"{output.prompt!r}: {output.outputs[0].text!r}")

        if __name__ == "__main__":
            main()
        """)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip().splitlines()) == 3 and "Processed prompts: 100%" in done.stderr, done
