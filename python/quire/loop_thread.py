"""An event loop on a thread of its own, for callers without one."""
from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any, Callable, Coroutine, TypeVar

from quire.client import EngineDeadError

T = TypeVar("T")


class LoopThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()  # guards _ended
        self._ended = False
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` and returns its result. Any thread but the loop's may call it. Raises EngineDeadError if
        end() is called meanwhile, or was called before."""
        with self._lock:
            future = None if self._ended else asyncio.run_coroutine_threadsafe(work, self._loop)
        if future is None:
            work.close()
            raise EngineDeadError("the engine was shut down")
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise EngineDeadError("the engine was shut down") from None
        except BaseException:  # only this thread receives an interrupt
            future.cancel()
            raise

    def end(self, last: Callable[[], None]) -> None:
        """Cancels all work, calls `last` on the loop and ends the thread."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        # All work was given to the loop before this.
        asyncio.run_coroutine_threadsafe(self._cancel_all(last), self._loop)
        if self._thread is not threading.current_thread():
            self._thread.join()

    async def _cancel_all(self, last: Callable[[], None]) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        last()
        self._loop.stop()
