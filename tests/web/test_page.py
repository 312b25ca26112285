#!/usr/bin/env python3
"""Looks at the web page in a real headless Chromium: against a running server, or against the mock.

  python3 tests/web/test_page.py                              # mock server
  python3 tests/web/test_page.py --url http://127.0.0.1:8000  # a running `quire serve`

Screenshots of every view in both colour schemes go to --out (build/web).
"""

import argparse
import json
import pathlib
import sys
import time
import unittest

import browser
import mock_server

OPTIONS = None


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = browser.find_chromium()
        if not program:
            raise unittest.SkipTest(
                "SKIPPED: no Chromium here (apt-get install chromium), the web page was not looked at"
            )
        cls.mock = None if OPTIONS.url else mock_server.start()
        cls.url = OPTIONS.url or f"http://127.0.0.1:{cls.mock.server_address[1]}"
        cls.browser = browser.Browser(program)
        OPTIONS.out.mkdir(parents=True, exist_ok=True)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        if cls.mock:
            cls.mock.shutdown()
            cls.mock.server_close()

    def setUp(self):
        self.page = self.browser.page()
        self.page.size(1360, 860)
        self.page.scheme("light")
        self.expects_errors = False

    def tearDown(self):
        self.page.eval("location.protocol === 'about:' || localStorage.clear()")
        errors = self.page.errors
        self.page.close()
        if not self.expects_errors:
            self.assertEqual(errors, [])

    def open(self, view=""):
        self.page.open(f"{self.url}/{view}")
        self.page.wait(
            "document.readyState === 'complete' && document.getElementById('model-name').dataset.model"
        )

    def ask(self, text):
        self.page.eval("document.getElementById('prompt').focus()")
        self.page.type(text)
        self.page.key("Enter", 13)

    def settled(self):
        self.page.wait(
            "document.getElementById('send').textContent === 'Send' && document.querySelector('.turn.assistant')",
            60,
        )

    def shot(self, name):
        for scheme in ("light", "dark"):
            self.page.scheme(scheme)
            time.sleep(0.3)
            self.page.screenshot(OPTIONS.out / f"{name}-{scheme}.png")
        self.page.scheme("light")

    def need_mock(self):
        if not self.mock:
            self.skipTest("this case needs the mock server's faults")

    def test_streamed_answer_with_token_view(self):
        self.open()
        self.shot("welcome")
        self.ask("Tell me a story about a fox.")
        self.page.wait("document.querySelector('.answer').textContent.length > 5")
        self.settled()
        answer = self.page.eval("document.querySelector('.answer').textContent")
        self.assertGreater(len(answer), 20)
        self.assertNotIn("�", answer)
        tokens = self.page.eval("document.querySelectorAll('.tok[data-level]').length")
        self.assertGreater(tokens, 5, "every token should carry its probability")
        joined = self.page.eval(
            "[...document.querySelectorAll('.answer .tok')].map(t => t.textContent).join('')"
        )
        self.assertEqual(joined, answer)
        meta = self.page.eval("document.querySelector('.meta').textContent")
        for word in (" in", " out", "to first", "tok/s"):
            self.assertIn(word, meta)
        self.page.eval("document.getElementById('show-tokens').click()")
        box = json.loads(
            self.page.eval(
                "JSON.stringify(document.querySelectorAll('.tok[data-level]')[3].getBoundingClientRect())"
            )
        )
        self.page.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.page.wait("!document.getElementById('tip').hidden")
        self.assertGreaterEqual(self.page.eval("document.querySelectorAll('#tip .alt').length"), 2)
        self.shot("answer")

    def test_follow_up_sends_the_whole_conversation(self):
        self.need_mock()
        self.open()
        self.page.eval("""(() => { const t = document.getElementById('set-temperature'); t.value = 0.5; t.dispatchEvent(new Event('input'));
                                   const s = document.getElementById('system'); s.value = 'Be brief.'; s.dispatchEvent(new Event('input')); })()""")
        self.ask("first")
        self.settled()
        self.ask("second")
        self.page.wait("document.querySelectorAll('.turn.assistant').length === 2")
        self.settled()
        body = mock_server.Handler.bodies[-1]
        self.assertEqual(
            [m["role"] for m in body["messages"]], ["system", "user", "assistant", "user"]
        )
        self.assertEqual(body["temperature"], 0.5)
        self.assertNotIn("top_p", body, "a control on auto must not be sent")
        self.assertTrue(
            body["stream"] and body["logprobs"] and body["stream_options"]["include_usage"]
        )
        self.page.eval("document.getElementById('reset').click()")
        self.page.eval("[...document.querySelectorAll('.actions button')].at(-1).click()")
        self.page.wait("document.querySelector('.turn.assistant:last-child .meta span')")
        self.settled()
        self.assertNotIn("temperature", mock_server.Handler.bodies[-1])
        self.assertEqual(
            [m["role"] for m in mock_server.Handler.bodies[-1]["messages"]],
            ["user", "assistant", "user"],
        )

    def test_stop_ends_the_stream(self):
        self.open()
        before = mock_server.Handler.disconnects
        self.ask("Tell me a SLOW story.")
        self.page.wait("document.querySelector('.answer')?.textContent.length > 0")
        self.page.key("Escape", 27)
        self.settled()
        if self.mock:
            self.assertIn("stopped", self.page.eval("document.querySelector('.meta').textContent"))
            end = time.monotonic() + 5
            while mock_server.Handler.disconnects == before and time.monotonic() < end:
                time.sleep(0.05)
            self.assertGreater(
                mock_server.Handler.disconnects, before, "the server must see the page leave"
            )

    def test_errors_are_shown(self):
        self.need_mock()
        self.expects_errors = True
        self.open()
        for prompt, message in (
            ("REFUSE", "max_tokens must be at least 1, got -3"),
            ("FAIL", "the engine stopped this request"),
            ("CUT", "The answer was cut off"),
        ):
            self.page.eval("document.getElementById('clear').click()")
            self.ask(prompt)
            self.page.wait("document.querySelector('.error')")
            self.settled()
            self.assertIn(message, self.page.eval("document.querySelector('.error').textContent"))
        self.shot("error")

    def test_engine_view_draws(self):
        self.open("#engine")
        self.page.wait("document.querySelectorAll('#charts svg').length === 6")
        self.page.wait(
            "[...document.querySelectorAll('#charts svg')].slice(0, 2).every(s => s.dataset.points >= 6 && s.querySelector('.line'))",
            30,
        )
        self.page.wait("document.getElementById('kv-grid').dataset.cells > 1")
        colours = self.page.eval("""(() => { const c = document.getElementById('kv-grid'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; })()""")
        self.assertGreaterEqual(colours, 2)
        self.assertRegex(
            self.page.eval("document.getElementById('kv-caption').textContent"),
            r"\d+ blocks of \d+ tokens",
        )
        self.page.wait("document.querySelector('#roofline svg').dataset.points !== undefined || document.querySelector('#roofline .caption').textContent !== ''")
        if self.mock:
            self.page.wait("document.querySelectorAll('.roof-dot').length === 41")
            self.assertIn("of the bound", self.page.eval("document.querySelector('#roofline .chart-now').textContent"))
            self.assertIn("compute", self.page.eval("document.querySelector('#roofline .legend').textContent"))
            time.sleep(12)
        self.shot("engine")

    def test_explorer_shows_shared_blocks(self):
        self.open("#explore")
        self.page.wait("document.querySelectorAll('.block.shared').length >= 2")
        self.assertRegex(
            self.page.eval("document.querySelector('.summary').textContent"), r"same \d+ tokens"
        )
        self.shot("explore")
        self.page.eval(
            """(() => { const b = document.getElementById('explore-b'); b.value = 'Zebra.'; b.dispatchEvent(new Event('input')); })()"""
        )
        self.page.wait(
            "document.querySelectorAll('.block.shared').length === 0 && document.querySelector('.summary')"
        )

    def run_module_check(self, script):
        self.open()
        self.assertEqual(self.page.eval(f"(async () => {{ {script} }})()"), "ok")

    def test_event_stream_split_at_every_byte(self):
        self.run_module_check(r"""
            const {EventParser} = await import("/web/api.js");
            const text = 'data: {"a":1}\n\n: comment\r\ndata:x\r\ndata: y\r\n\r\ndata: [DONE]\n\n';
            const want = JSON.stringify(['{"a":1}', "x\ny", "[DONE]"]);
            for (let cut = 0; cut <= text.length; cut++) {
              const parser = new EventParser();
              const got = JSON.stringify([...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))]);
              if (got !== want) return `cut at ${cut}: ${got}`;
            }
            return "ok";""")

    def test_tokens_cover_the_text(self):
        self.run_module_check(r"""
            const {pieces} = await import("/web/tokens.js");
            const owl = [...new TextEncoder().encode("🦉")];
            const token = (bytes) => ({token: "?", bytes, logprob: -1, top_logprobs: []});
            const split = pieces("a🦉b", [token([97]), token(owl.slice(0, 1)), token(owl.slice(1)), token([98])]);
            if (split.map((p) => p.text).join("|") !== "a|🦉|b" || split[1].tokens.length !== 2) return JSON.stringify(split);
            const wrong = pieces("abc", [token([97]), token([120])]);
            if (wrong.map((p) => p.text).join("|") !== "a|bc" || wrong[1].tokens.length) return JSON.stringify(wrong);
            return "ok";""")

    def test_block_list_is_checked(self):
        self.run_module_check(r"""
            const {expand, layout} = await import("/web/kvgrid.js");
            const {state, owner, refs} = expand({num_blocks: 4, runs: [[1, 0, -1, 0], [2, 4, 0, 3], [1, 1, -1, 0]]});
            if (state.join() !== "0,4,4,1" || owner.join() !== "-1,0,0,-1" || refs.join() !== "0,3,3,0") return state.join();
            for (const runs of [[[3, 1, -1, 0]], [[5, 1, -1, 0]]]) {
              try { expand({num_blocks: 4, runs}); return "a wrong list was accepted"; } catch {}
            }
            for (const n of [1, 100, 10000, 1000000]) {
              const {cell, columns, perCell} = layout(n, 800);
              if (Math.ceil(Math.ceil(n / perCell) / columns) * cell > 320) return `${n} blocks do not fit`;
            }
            return "ok";""")

    def test_keyboard_moves_between_views(self):
        self.open()
        self.page.eval("document.getElementById('tab-chat').focus()")
        for view in ("engine", "explore", "chat"):
            self.page.key("ArrowRight", 39)
            self.assertFalse(self.page.eval(f"document.getElementById('view-{view}').hidden"))
            self.assertEqual(self.page.eval("document.activeElement.id"), f"tab-{view}")

    def test_fits_a_phone(self):
        self.page.size(390, 844, mobile=True)
        for view in ("chat", "engine", "explore"):
            self.open(f"?{view}#{view}")
            time.sleep(0.6)
            self.assertLessEqual(self.page.eval("document.documentElement.scrollWidth"), 390, view)
            self.page.screenshot(OPTIONS.out / f"phone-{view}.png")

    def test_theme_button_overrides_the_system(self):
        self.open()
        paper = "getComputedStyle(document.body).backgroundColor"
        light = self.page.eval(paper)
        self.page.eval("document.getElementById('theme').click()")
        dark = self.page.eval(paper)
        self.assertNotEqual(light, dark)
        self.page.scheme("dark")
        self.assertEqual(self.page.eval(paper), dark)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", help="address of a running server; the mock server when left out")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/web"))
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
