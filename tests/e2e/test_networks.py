"""Prefill, decode, files of KV, ranks and the gateway on hosts of their own (network.py)."""
import concurrent.futures
import tempfile
import time

from network import HostRanks, Network
from process import Server
from rank_faults import KINDS, soak
from test_kv_files import FLAGS, PLAIN, PROMPT, ask, metric, wait_for
from test_prefill_decode import complete, context_of, said, transfer

# No test waits this long, even on a slow machine: a call that takes longer hangs.
HANGS_S = 300


def wait_for_backends(gateway, healthy):
    """Waits until the backends' health is that of `healthy`, in its order."""
    end = time.time() + HANGS_S
    while [b["healthy"] for b in context_of(gateway).get("/quire/backends")["backends"]] != healthy:
        assert time.time() < end, context_of(gateway).get("/quire/backends")
        time.sleep(0.05)


def wait_for_no_blocks(server):
    end = time.time() + HANGS_S
    complete(server, "x", 1)
    while metric(server.url, "vllm:kv_cache_usage_perc") != 0:
        assert time.time() < end, "blocks are still held"
        time.sleep(0.1)


def ask_until_answered(gateway, prompt):
    """Asks until an answer is complete: when a link goes down, an answer that has begun is cut off."""
    end = time.time() + HANGS_S
    while time.time() < end:
        try:
            status, answer = complete(gateway, prompt, temperature=0)
        except (OSError, ValueError):
            continue
        if status == 200:
            return said(answer)
        assert status in (502, 503), answer
        time.sleep(0.1)
    raise AssertionError("no answer")


def test_prefill_and_decode_over_bad_links(binary):
    """Host 0 has the gateways, host 1 prefills, hosts 2 and 3 decode."""
    prompts = [f"{i}: " + PROMPT[:200 + 60 * i] for i in range(8)]
    with Server(binary, *PLAIN) as plain:
        want = [said(complete(plain, prompt, temperature=0)[1]) for prompt in prompts]
    with Network(4) as network, tempfile.TemporaryDirectory() as folder:
        def role(i, kv_role):
            return network.serve(i, binary, *FLAGS, "--kv-cache-dir", folder, *transfer(kv_role, kv_load_failure_policy="recompute"))

        with role(1, "kv_producer") as producer, role(2, "kv_consumer") as second, role(3, "kv_consumer") as third, \
                concurrent.futures.ThreadPoolExecutor(4) as pool:
            def gateway(timeout_ms):
                return network.serve(0, binary, "--prefill-backend", producer.url, "--backend", second.url, "--backend", third.url,
                                     "--health-interval-ms", "100", "--health-timeout-ms", str(timeout_ms), "--connect-timeout-ms",
                                     str(timeout_ms), "--prefill-timeout-ms", str(2 * timeout_ms), verb="route")

            print(f"    links: {[network.spoil(i) for i in (1, 2, 3)][0]}", flush=True)
            # The timeout is so long that no host is given up, so all requests are handed over.
            with gateway(60_000) as patient:
                wait_for_backends(patient, [True, True, True])
                assert list(pool.map(lambda prompt: ask_until_answered(patient, prompt), prompts)) == want
            handed = metric(producer.url, "quire:kv_handovers_total")
            taken = sum(metric(server.url, "quire:kv_takeovers_total") for server in (second, third))
            assert handed >= len(prompts) and taken >= len(prompts), (handed, taken)
            # When a host becomes silent, other hosts compute the prompts that a prefill host does
            # not hand over, and the answers that a decode host does not send. The connections to
            # the decode host stay open without any more data.
            with gateway(1000) as hasty:
                for silent in (1, 2):
                    wait_for_backends(hasty, [True, True, True])
                    asked = [pool.submit(ask_until_answered, hasty, prompt) for prompt in prompts]
                    network.set_link(silent, "down")
                    assert [answer.result() for answer in asked] == want
                    network.set_link(silent, "up")
            for server in (producer, second, third):
                wait_for_no_blocks(server)


def test_a_tier_that_two_hosts_share(binary):
    """A host reads the KV that another one computed, although the client's link to it is bad."""
    with Server(binary, *PLAIN) as plain:
        want = said(complete(plain, temperature=0)[1])
    with Network(2) as network, tempfile.TemporaryDirectory() as folder, \
            network.serve(0, binary, *FLAGS, "--kv-cache-dir", folder) as first, \
            network.serve(1, binary, *FLAGS, "--kv-cache-dir", folder) as second:
        network.spoil(1)
        assert said(complete(first, temperature=0)[1]) == want
        wait_for(second.url, "quire:kv_file_blocks", 6)
        status, answer = complete(second, temperature=0)
        assert status == 200 and said(answer) == want
        assert metric(second.url, "quire:kv_file_blocks_loaded_total") > 5


def test_ranks_of_two_hosts_keep_kv_in_files(binary):
    """The first rank writes and reads the files; the other rank's part goes over the network."""
    with Server(binary, *PLAIN) as plain:
        want, _ = ask(plain.url)
    with Network(2) as network, tempfile.TemporaryDirectory() as folder:
        flags = ("--enable-prompt-tokens-details", "--kv-offload-memory", "16MiB", "--kv-cache-dir", folder)
        with HostRanks(network, binary, *flags) as ranks:
            answer, cached = ask(ranks.url)
            assert answer == want and cached == 0, cached
            wait_for(ranks.url, "quire:kv_file_blocks_stored_total", 6)
            assert ranks.stop() == [0, 0]
            assert "shares no memory" in ranks.first.server.output(), ranks.first.server.output()
        with HostRanks(network, binary, *flags) as ranks, \
                Server(binary, *FLAGS, "--kv-cache-dir", folder) as one:
            for url in (ranks.url, one.url):
                wait_for(url, "quire:kv_files", 1)
                answer, cached = ask(url)
                assert answer == want and cached > 100, cached


def test_harmed_ranks_over_a_bad_link(binary):
    """Sends a few requests in the way of tests/soak/rank_faults.py, which sends ten thousand. test_ranks.py kills ranks."""
    run = soak(binary, 96, [kind for kind in KINDS if kind in ("rank 1 stopped", "link down")], num_clients=48, num_distinct=48)
    assert (run.num_right, run.num_wrong, run.num_hung) == (96, 0, 0), run.summary()
