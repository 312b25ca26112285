"""Ray Serve in front of Quire: each replica is a `quire serve` of its own and passes requests on to it unchanged.

    pip install -r tools/requirements-ray.txt
    serve run examples.ray_serve:app quire=/usr/bin/quire flags="MODEL --max-model-len 4096" replicas=2 cpus=4

runs it on a cluster of Ray. `python examples/ray_serve.py` with the same arguments, and `port=8000`, runs it on one machine
without a cluster. OpenAI's API is then at http://127.0.0.1:8000/v1. A replica gets as many CPUs as `cpus` says, and its server
has as many threads.

Ray gives its workers the niceness 15, which the servers inherit: beside other work they get almost no time. On a cluster that
shares its machines, start Ray with RAY_worker_niceness=0 in the environment, as main() does.
"""
import asyncio
import os
import re
import shlex
import subprocess
import sys
import tempfile

import aiohttp
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import StreamingResponse

# For machines that do other work, too. Ray restarts a proxy that does not answer in time, which is
# 5 s by default.
BESIDE_OTHER_WORK = {"RAY_worker_niceness": "0", "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60"}
# Headers that concern one connection only, and the length, which depends on how this server sends.
NOT_PASSED_ON = {"connection", "content-length", "date", "host", "keep-alive", "server", "transfer-encoding"}


def passed_on(headers):
    return {name: value for name, value in headers.items() if name.lower() not in NOT_PASSED_ON}


@serve.deployment(max_ongoing_requests=256, health_check_period_s=2, graceful_shutdown_timeout_s=60)
class Quire:
    def __init__(self, quire, flags, threads):
        self.log = tempfile.TemporaryFile("w+")
        command = [quire, "serve", "--port", "0", "--threads", str(threads), *shlex.split(flags)]
        self.server = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.session = None

    async def _url(self):
        """Returns the server's address, once it listens."""
        while True:
            self.log.seek(0)
            text = self.log.read()
            found = re.search(r"serving .* on (http://\S+:\d+)", text)
            if found:
                return found.group(1)
            if self.server.poll() is not None:
                raise RuntimeError(f"quire serve has ended: {text[-2000:]}")
            await asyncio.sleep(0.05)

    async def __call__(self, request: Request):
        if self.session is None:
            self.session = aiohttp.ClientSession(await self._url(), timeout=aiohttp.ClientTimeout(total=None))
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        answer = await self.session.request(request.method, path, data=await request.body(), headers=passed_on(request.headers))

        async def body():
            async with answer:  # if the client disconnects, the server stops working on the answer, too
                async for piece in answer.content.iter_any():
                    yield piece
        return StreamingResponse(body(), answer.status, passed_on(answer.headers))

    def check_health(self):
        """Is called by Ray, which replaces a replica whose server has ended."""
        if self.server.poll() is not None:
            raise RuntimeError(f"quire serve has ended with code {self.server.returncode}")

    def __del__(self):
        self.server.terminate()
        self.server.wait(60)


def app(args: dict):
    cpus = int(args.get("cpus", 1))
    options = Quire.options(num_replicas=int(args.get("replicas", 1)), ray_actor_options={"num_cpus": cpus})
    return options.bind(args.get("quire", "quire"), args.get("flags", ""), cpus)


def main():
    args = dict(word.split("=", 1) for word in sys.argv[1:])
    os.environ.update({name: value for name, value in BESIDE_OTHER_WORK.items() if name not in os.environ})
    ray.init(include_dashboard=False)
    serve.start(http_options={"port": int(args.get("port", 8000))})
    serve.run(app(args), blocking=True)


if __name__ == "__main__":
    main()
