#!/usr/bin/env python3
"""Looks at the web page in a real headless Chromium: against a running server, or against the mock.

  python3 tests/web/test_page.py                              # mock server
  python3 tests/web/test_page.py --url http://127.0.0.1:8000  # a running `quire serve`

Screenshots of every view in both colour schemes, and at the two sizes of SIZES, go to --out
(build/web). The accessibility checks need the Python package axe-core-python.
"""

import argparse
import base64
import importlib.util
import json
import pathlib
import struct
import sys
import time
import unittest
import zlib

import browser
import mock_server

OPTIONS = None
VIEWS = ("chat", "engine", "explore")
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}


def png(width, height):
    """Returns a picture in base64 whose colours change from corner to corner."""
    rows = b"".join(b"\0" + b"".join(bytes((x * 255 // width, y * 255 // height, 120)) for x in range(width)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


PNG = png(120, 80)


def axe_source():
    """Returns the text of axe-core's script, or None if the package is not installed."""
    spec = importlib.util.find_spec("axe_core_python")
    folders = spec.submodule_search_locations if spec else []
    return next((p.read_text() for f in folders if (p := pathlib.Path(f) / "axe.min.js").is_file()), None)


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
        self.page.eval("location.protocol === 'about:' || (localStorage.clear(), sessionStorage.clear())")
        mock_server.Handler.max_model_len, mock_server.Handler.api_key = 2048, None
        mock_server.Handler.state.num_owners = 8
        mock_server.Handler.has_views = True
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
        self.page.eval("document.getElementById('prompt').select()")
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

    def text(self, selector):
        return self.page.eval(f"document.querySelector('{selector}')?.textContent ?? null")

    def resize(self, size):
        width, height = SIZES[size]
        self.page.size(width, height, mobile=size == "phone")

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
        if self.mock:  # the mock's own clock gives fixed times
            self.assertIn("20.0 ms to first", meta)
            self.assertIn("80.0 tok/s", meta)
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

    def test_full_context_drops_the_oldest_turns(self):
        self.need_mock()
        mock_server.Handler.max_model_len = 100
        self.open()
        self.page.eval("""(() => { const s = document.getElementById('system'); s.value = 'Be brief.';
                                   s.dispatchEvent(new Event('input')); })()""")
        for i in range(5):
            self.ask(f"Tell me story number {i}.")
            self.page.wait(f"document.querySelectorAll('.turn.assistant').length === {i + 1}")
            self.settled()
            self.assertIsNone(self.text(".error"))
        messages = mock_server.Handler.bodies[-1]["messages"]
        self.assertEqual([m["role"] for m in messages], ["system", "user"])
        self.assertIn("number 4", messages[-1]["content"])
        self.assertIn("4 turns above are no longer sent", self.text(".dropped-note"))
        self.assertEqual(self.page.eval("document.querySelectorAll('.turn.user.dropped').length"), 4)
        self.assertRegex(self.text("#context-text"), r"Context \d+ / 100 tokens")
        self.assertEqual(
            self.page.eval("document.getElementById('context-meter').getAttribute('aria-valuemax')"), "100"
        )
        self.shot("context-full")

    def test_cut_answer_says_why(self):
        self.need_mock()
        mock_server.Handler.max_model_len = 60
        self.open()
        self.ask("Tell me a story.")
        self.settled()
        self.assertIn("the model's context of 60 tokens is full", self.text(".cut"))
        mock_server.Handler.max_model_len = 2048
        self.open("?max-tokens")
        self.page.eval("""(() => { const t = document.getElementById('set-max_tokens'); t.value = 7;
                                   t.dispatchEvent(new Event('input')); })()""")
        self.ask("Tell me a story.")
        self.settled()
        self.assertIn("the limit of 7 tokens", self.text(".cut"))

    def test_refused_message_leaves_the_conversation(self):
        self.need_mock()
        self.expects_errors = True
        mock_server.Handler.max_model_len = 100
        self.open()
        self.ask("first")
        self.settled()
        self.ask("much " * 150)
        self.page.wait("document.querySelector('.error')")
        self.settled()
        self.assertIn("maximum context length is 100 tokens", self.text(".error"))
        self.assertIn("Not part of the conversation", self.text(".turn.refused"))
        self.assertIn("much much", self.page.eval("document.getElementById('prompt').value"))
        self.shot("refused")
        self.ask("third")
        self.page.wait("document.querySelectorAll('.turn.assistant').length === 3")
        self.settled()
        self.assertNotIn("much", json.dumps(mock_server.Handler.bodies[-1]["messages"]))
        self.assertIn("first", json.dumps(mock_server.Handler.bodies[-1]["messages"]))
        self.assertIn("third", self.page.eval("[...document.querySelectorAll('.answer')].at(-1).textContent"))

    def test_key_is_asked_for_once_and_nothing_polled_before(self):
        self.need_mock()
        self.expects_errors = True
        mock_server.Handler.api_key = "sesame"
        before = mock_server.Handler.num_unauthorized
        self.page.open(f"{self.url}/#engine")
        self.page.wait("document.getElementById('key-dialog')?.open")
        time.sleep(2.5)
        self.assertEqual(mock_server.Handler.num_unauthorized, before + 1)
        self.assertNotIn("{", self.page.eval("document.body.innerText"))
        self.shot("key")
        self.page.type("wrong")
        self.page.key("Enter", 13)
        self.page.wait("document.getElementById('key-error').textContent.includes('did not accept')")
        self.assertEqual(mock_server.Handler.num_unauthorized, before + 2)
        self.page.eval("document.getElementById('key').select()")
        self.page.type("sesame")
        self.page.key("Enter", 13)
        self.page.wait("!document.getElementById('key-dialog').open")
        self.page.wait("document.getElementById('kv-grid').dataset.cells > 1")
        self.page.open(f"{self.url}/?again#chat")  # the session stores the key
        self.page.wait("document.getElementById('model-name').dataset.model")
        self.assertFalse(self.page.eval("document.getElementById('key-dialog').open"))
        self.assertIsNone(self.page.eval("localStorage.getItem('quire-api-key')"))
        self.assertEqual(mock_server.Handler.num_unauthorized, before + 2)

    def test_key_dialog_can_be_closed_and_opened_again(self):
        self.need_mock()
        self.expects_errors = True
        mock_server.Handler.api_key = "sesame"
        self.page.open(f"{self.url}/?closed")
        self.page.wait("document.getElementById('key-dialog')?.open")
        self.page.eval("document.getElementById('key-cancel').click()")
        self.page.wait("!document.getElementById('notice').hidden")
        self.page.eval("document.querySelector('#notice button').click()")
        self.assertTrue(self.page.eval("document.getElementById('key-dialog').open"))

    def test_views_that_are_switched_off_are_asked_for_once(self):
        self.need_mock()
        self.expects_errors = True  # the browser reports the one answer of 404 itself
        mock_server.Handler.has_views = False
        before = mock_server.Handler.num_views_asked
        self.open("?off#engine")
        self.page.wait("!document.getElementById('engine-off').hidden")
        time.sleep(2.5)
        self.assertEqual(mock_server.Handler.num_views_asked, before + 1)
        self.assertEqual(len(self.page.errors), 1)
        self.assertTrue(self.page.eval("document.getElementById('notice').hidden"))
        self.assertTrue(self.page.eval("document.getElementById('pulse').hidden"))
        headings = "[...document.querySelectorAll('h1')].filter(h => h.checkVisibility()).map(h => h.textContent)"
        self.assertEqual(self.page.eval(headings), ["The engine is not shown"])
        self.shot("views-off")
        self.page.eval("document.getElementById('tab-explore').click()")
        self.page.wait("document.getElementById('explore-status').textContent.includes('switched off')")
        self.assertEqual(mock_server.Handler.num_views_asked, before + 1)
        self.page.eval("document.getElementById('tab-chat').click()")
        self.ask("Hello")
        self.settled()
        self.assertIn("You said: Hello", self.text(".answer"))

    def test_demo_model_is_called_what_it_is(self):
        self.need_mock()
        self.open()
        self.assertIn("3.5M-parameter demo model", self.text("#model-name"))
        self.assertFalse(self.page.eval("document.getElementById('demo-note').hidden"))

    def test_probabilities_with_the_keyboard(self):
        self.open()
        self.ask("Tell me a story about a fox.")
        self.settled()
        self.page.key("Tab", 9)  # in the page's order, an answer's token is one of the stops
        for _ in range(40):
            if self.page.eval("document.activeElement.classList.contains('tok')"):
                break
            self.page.key("Tab", 9)
        else:
            self.fail("no Tab stop is a token")
        self.page.wait("!document.getElementById('tip').hidden")
        first = self.text("#tip")
        self.page.key("ArrowRight", 39)
        self.page.key("ArrowRight", 39)
        self.assertNotEqual(self.text("#tip"), first)
        self.assertEqual(self.page.eval("document.activeElement.getAttribute('aria-describedby')"), "tip")
        self.assertEqual(self.page.eval("document.querySelectorAll('.answer [tabindex=\"0\"]').length"), 1)
        self.page.key("Home", 36)
        self.assertEqual(self.text("#tip"), first)
        self.page.key("Tab", 9)
        self.page.wait("document.getElementById('tip').hidden")

    def test_block_grid_with_the_keyboard(self):
        self.need_mock()
        self.open("#engine")
        self.page.wait("document.getElementById('kv-grid').dataset.cells > 1")
        self.page.eval("document.getElementById('kv-grid').focus({focusVisible: true})")
        self.page.wait("document.getElementById('kv-block').textContent.startsWith('block 0, null block')")
        self.page.key("ArrowRight", 39)
        self.assertIn("block 1, shared, owner chatcmpl-", self.text("#kv-block"))
        self.page.key("ArrowDown", 40)
        below = int(self.text("#kv-block").split()[1].rstrip(","))
        self.assertGreater(below, 10)
        self.page.key("ArrowUp", 38)
        self.page.key("Enter", 13)
        self.assertRegex(self.text("#kv-block"), r"chatcmpl-\w+ holds \d+ block")
        self.shot("grid-keyboard")
        self.page.key("End", 35)
        self.assertIn("block 599", self.text("#kv-block"))
        self.page.key("ArrowRight", 39)
        self.assertIn("block 599", self.text("#kv-block"))
        self.page.key("Escape", 27)
        self.assertEqual(self.text("#kv-block"), "")
        self.assertEqual(self.page.eval("document.activeElement.id"), "tab-engine")

    def test_owners_that_are_not_shown_are_counted(self):
        self.need_mock()
        mock_server.Handler.state.num_owners = 40
        self.open("#engine")
        shown = "document.querySelectorAll('#kv-owners li').length"
        self.page.wait(f"{shown} === 24")
        self.assertEqual(self.text("#kv-more"), "and 16 more")
        self.page.eval("document.getElementById('kv-more').click()")
        self.assertEqual(self.page.eval(shown), 40)
        self.assertEqual(self.text("#kv-more"), "Show fewer")

    def test_roofline_labels_do_not_overlap(self):
        self.need_mock()
        for size in SIZES:
            self.resize(size)
            self.open(f"?{size}#engine")
            self.page.wait("document.querySelectorAll('.roof-dot').length === 41")
            overlaps = self.page.eval("""(() => {
                const boxes = [...document.querySelectorAll('.roof-text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
                return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([, q]) =>
                  p.left < q.right && q.left < p.right && p.top + 1 < q.bottom - 1 && q.top + 1 < p.bottom - 1).map(([b]) => `${a} on ${b}`)).join();
              })()""")
            self.assertEqual(overlaps, "", size)

    def test_nothing_scrolls_into_blank_paper(self):
        for size in SIZES:
            self.resize(size)
            for view in VIEWS:
                self.open(f"?{size}#{view}")
                if view == "engine":
                    self.page.wait("document.getElementById('kv-grid').dataset.cells > 1")
                # After scrolling down as far as possible, the last element of the document must be
                # visible.
                blank = self.page.eval("""(() => {
                    window.scrollTo(0, 1e6);
                    const ends = [...document.querySelectorAll('main *')].filter((e) => e.checkVisibility() && !e.closest('.sr')).map((e) => e.getBoundingClientRect().bottom);
                    return document.documentElement.scrollHeight > innerHeight ? innerHeight - Math.max(...ends) : 0;
                  })()""")
                self.assertLess(blank, 80, f"{view} on a {size}")
                if size == "desktop":
                    self.assertEqual(
                        self.page.eval("document.documentElement.scrollHeight"), SIZES[size][1], view
                    )

    def test_every_view_has_one_heading_of_the_first_level(self):
        for view in VIEWS:
            self.open(f"?h1#{view}")
            headings = "[...document.querySelectorAll('h1')].filter(h => h.checkVisibility()).length"
            self.assertEqual(self.page.eval(headings), 1, view)
        self.open("?h1-after-a-question")
        self.ask("Hello")
        self.settled()
        self.assertEqual(self.page.eval(headings), 1)

    def test_no_accessibility_violations(self):
        source = axe_source()
        if not source:
            self.skipTest("SKIPPED: axe-core-python is not installed (tools/requirements-clients.txt)")
        for size in SIZES:
            self.resize(size)
            for scheme in ("light", "dark"):
                self.page.scheme(scheme)
                for view in VIEWS:
                    self.open(f"?{size}-{scheme}#{view}")
                    if view == "chat":
                        self.ask("Tell me a story.")
                        self.settled()
                    elif view == "engine":
                        self.page.wait("document.getElementById('kv-grid').dataset.cells > 1")
                    else:
                        self.page.wait("document.querySelector('.blocks')")
                    time.sleep(0.3)  # transitions of colours end
                    self.page.eval(source + "; null")
                    found = self.page.eval("""axe.run(document).then((r) => r.violations.map((v) =>
                        `${v.impact} ${v.id}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`).join('\\n'))""")
                    with self.subTest(view=view, size=size, scheme=scheme):
                        self.assertEqual(found, "")

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
        if self.mock:
            self.assertEqual([m["role"] for m in mock_server.Handler.explored[-1]["a"]], ["user"])
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

    def test_explorer_reads_prompts_as_the_playground_sends_them(self):
        self.need_mock()
        self.open()
        self.page.eval("""(() => { const s = document.getElementById('system'); s.value = 'Be brief.';
                                   s.dispatchEvent(new Event('input')); })()""")
        self.page.eval("document.getElementById('tab-explore').click()")
        self.page.wait("document.querySelector('#explore-result').textContent.includes('<|turn|>')")
        sent = mock_server.Handler.explored[-1]["b"]
        self.assertEqual([m["role"] for m in sent], ["system", "user"])
        self.assertEqual(sent[0]["content"], "Be brief.")
        self.page.eval("document.querySelector('[name=explore-mode][value=raw]').click()")
        self.page.wait("!document.querySelector('#explore-result').textContent.includes('<|turn|>')")
        self.assertIsInstance(mock_server.Handler.explored[-1]["a"], str)

    def run_module_check(self, script):
        self.open()
        self.assertEqual(self.page.eval(f"(async () => {{ {script} }})()"), "ok")

    def test_markdown_is_shown_and_never_markup(self):
        self.need_mock()
        self.open()
        self.ask("MARKDOWN please")
        self.settled()
        shown = ".turn.assistant .markdown "
        for selector, text in (("h4", "A plan"), ("strong", "bold"), ("p code", "code"), ("em", "emphasis"),
                               ("a", "a link"), ("ol > li > ul > li", "inner <b>not markup</b>"), ("td", "1"),
                               ("blockquote p", "quoted"), (".code code", 'print("hi")  # **not bold**')):
            self.assertEqual(self.text(shown + selector), text, selector)
        self.assertEqual(self.page.eval(f"document.querySelectorAll('{shown} b, {shown} script').length"), 0)
        self.assertEqual(self.page.eval("getComputedStyle(document.querySelector('.answer')).display"), "none")
        self.shot("markdown")
        self.page.eval("document.getElementById('show-tokens').click()")
        self.assertEqual(self.page.eval("getComputedStyle(document.querySelector('.answer')).display"), "block")
        self.assertEqual(self.page.eval("getComputedStyle(document.querySelector('.markdown')).display"), "none")

    def test_markdown_of_odd_texts(self):
        self.open()
        cases = {
            "": "", "plain": "<p>plain</p>", "**a": "<p>**a</p>", "a * b * c": "<p>a * b * c</p>",
            "snake_case_name": "<p>snake_case_name</p>", "`` a`b ``": "<p><code> a`b </code></p>",
            "<img src=x onerror=alert(1)>": "<p>&lt;img src=x onerror=alert(1)&gt;</p>",
            "[x](javascript:alert(1))": "<p>[x](javascript:alert(1))</p>", "---": "<hr>",
            "- a\n- b\n\ntext": "<ul><li>a</li><li>b</li></ul><p>text</p>",
            "3. c": '<ol start="3"><li>c</li></ol>', "# T": "<h3>T</h3>", "#hash": "<p>#hash</p>",
            "```\nopen": '<pre class="code" tabindex="0" aria-label="Code"><code>open</code></pre>',
        }
        script = """import('/web/markdown.js').then(m => JSON.stringify(%s.map(t => {
            const d = document.createElement('div'); d.append(...m.blocks(t)); return d.innerHTML; })))"""
        self.assertEqual(json.loads(self.page.eval(script % json.dumps(list(cases)))), list(cases.values()))
        # The parser must end for any text, and must not lose any of it.
        script = """import('/web/markdown.js').then(m => { const parts = ['# ', '- ', '1. ', '> ', '```', '|', '---', '**', '_', '`',
            '\\n', '  ', 'a', '[', '](https://x.y)']; let state = 7, bad = [];
            for (let i = 0; i < 3000; ++i) { let t = ''; for (let k = 0; k < 12; ++k) {
                state = (state * 1103515245 + 12345) %% 2147483648; t += parts[state %% parts.length]; }
              const d = document.createElement('div'); d.append(...m.blocks(t));
              const letters = (s) => (s.match(/a/g) ?? []).length;
              // What stands behind an opening fence names a language, which is not shown.
              if (letters(d.textContent) !== letters(t) && !t.includes('```')) bad.push(t); }
            return JSON.stringify(bad.slice(0, 3)); })""".replace("%%", "%")
        self.assertEqual(json.loads(self.page.eval(script)), [])

    def test_edited_messages_begin_branches(self):
        self.need_mock()
        self.open()
        for i, text in enumerate(("first", "second")):
            self.ask(text)
            self.page.wait(f"document.querySelectorAll('.turn.assistant').length === {i + 1}")
            self.settled()
        self.page.eval("document.querySelector('.turn.user .actions button').click()")
        self.page.eval("document.querySelector('.edit textarea').value = 'changed'")
        self.page.eval("document.querySelector('.edit').requestSubmit()")
        self.page.wait("document.querySelector('.branch span')?.textContent === '2 / 2'")
        self.settled()
        self.assertEqual([m["content"] for m in mock_server.Handler.bodies[-1]["messages"]], ["changed"])
        self.shot("branches")
        self.ask("after the change")
        self.page.wait("document.querySelectorAll('.turn.assistant').length === 2")
        self.settled()
        self.page.eval("document.querySelector('.branch button').click()")
        self.page.wait("document.querySelector('.branch span').textContent === '1 / 2'")
        said = json.loads(self.page.eval("JSON.stringify([...document.querySelectorAll('.said')].map(s => s.textContent))"))
        self.assertEqual(said, ["first", "second"])
        self.ask("third")
        self.page.wait("document.querySelectorAll('.turn.assistant').length === 3")
        self.settled()
        users = [m["content"] for m in mock_server.Handler.bodies[-1]["messages"] if m["role"] == "user"]
        self.assertEqual(users, ["first", "second", "third"])
        self.page.eval("document.querySelectorAll('.branch button')[1].click()")
        said = json.loads(self.page.eval("JSON.stringify([...document.querySelectorAll('.said')].map(s => s.textContent))"))
        self.assertEqual(said, ["changed", "after the change"])

    def test_links_carry_prompt_and_settings(self):
        self.need_mock()
        self.open()
        link = self.page.eval("""import('/web/share.js').then(m => m.shareLink({prompt: 'Grüße 🦊', system: 'Be brief.',
            values: {temperature: 0.25, stop: ['\\n\\n', 'END'], nonsense: 'x'}}))""")
        self.page.open("about:blank")
        self.page.open(link)
        self.page.wait("document.getElementById('model-name').dataset.model")
        self.assertEqual(self.page.eval("document.getElementById('prompt').value"), "Grüße 🦊")
        self.assertEqual(self.page.eval("document.getElementById('system').value"), "Be brief.")
        self.assertNotIn("share", self.page.eval("location.href"))
        self.page.eval("document.getElementById('composer').requestSubmit()")
        self.settled()
        body = mock_server.Handler.bodies[-1]
        self.assertEqual((body["temperature"], body["stop"]), (0.25, ["\n\n", "END"]))
        self.assertEqual([m["content"] for m in body["messages"]], ["Be brief.", "Grüße 🦊"])
        long = self.page.eval("import('/web/share.js').then(m => m.shareLink({prompt: 'a'.repeat(1 << 20)}).length)")
        self.assertGreater(long, 1 << 20)
        for broken in ("#share=%%%", "#share=e30", "#share=bnVsbA"):
            self.page.open("about:blank")
            self.page.open(f"{self.url}/{broken}")
            self.page.wait("document.getElementById('model-name').dataset.model")

    def drop(self, *files):
        """Drops files on the conversation, each (name, type, base64)."""
        self.page.eval("""((files) => {
            const data = new DataTransfer();
            for (const [name, type, text] of files)
              data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name, {type}));
            document.getElementById('thread').dispatchEvent(
                new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
            })(%s)""" % json.dumps(files))

    def test_dropped_images_go_with_the_message(self):
        self.need_mock()
        self.open()
        self.drop(("fox.png", "image/png", PNG), ("notes.txt", "text/plain", "YQ=="))
        self.page.wait("document.querySelectorAll('#images canvas').length === 1")
        self.assertIn("notes.txt: expected a JPEG", self.text("#images-note"))
        self.drop(("owl.png", "image/png", PNG))
        self.page.wait("document.querySelectorAll('#images canvas').length === 2")
        self.resize("phone")
        self.assertTrue(self.page.eval("document.querySelector('.composer-row').offsetHeight < 64"), "one line")
        self.shot("images-phone")
        self.assertTrue(self.page.eval("document.documentElement.scrollWidth <= innerWidth"))
        self.resize("desktop")
        self.page.eval("document.querySelector('#images button[aria-label=\"Remove image fox.png\"]').click()")
        self.page.wait("document.querySelectorAll('#images canvas').length === 1")
        self.ask("What is this?")
        self.settled()
        content = mock_server.Handler.bodies[-1]["messages"][-1]["content"]
        self.assertEqual(content, [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + PNG}},
                                   {"type": "text", "text": "What is this?"}])
        self.assertEqual(self.page.eval("document.querySelectorAll('#images canvas').length"), 0)
        self.assertEqual(self.page.eval("document.querySelector('.turn.user canvas').getAttribute('aria-label')"), "Image owl.png")
        self.ask("And now?")
        self.page.wait("document.querySelectorAll('.turn.assistant').length === 2")
        self.settled()
        messages = mock_server.Handler.bodies[-1]["messages"]
        self.assertEqual((messages[0]["content"], messages[-1]["content"]), (content, "And now?"))
        self.drop(("owl.png", "image/png", PNG))
        self.page.wait("document.querySelectorAll('#images canvas').length === 1")
        self.expects_errors = True
        self.ask("REFUSE")
        self.page.wait("document.querySelector('.refused-note')")
        self.assertEqual(self.page.eval("document.querySelectorAll('#images canvas').length"), 1, "it came back")

    def test_results_of_tools_go_back_to_the_model(self):
        self.need_mock()
        self.open()
        self.page.eval("document.querySelector('.settings details').open = true")
        write = "(() => { const t = document.getElementById('tools'); t.value = %s; t.dispatchEvent(new Event('input')); })()"
        self.page.eval(write % json.dumps("[{"))
        self.assertIn("no list of functions", self.text("#tools-help"))
        self.page.eval(write % json.dumps('[{"name": "weather", "parameters": {"type": "object"}}]'))
        self.assertNotIn("no list", self.text("#tools-help"))
        self.ask("TOOL please")
        self.page.wait("document.querySelector('.results textarea')")
        self.assertEqual(self.text(".call"), 'weather({"city": "Paris"})')
        self.assertEqual(self.page.eval("document.activeElement.getAttribute('aria-label')"), "Result of weather")
        self.page.type("rain")
        self.shot("tools")
        self.page.eval("document.querySelector('.results').requestSubmit()")
        self.page.wait("document.querySelectorAll('.turn.assistant').length === 2")
        self.settled()
        body = mock_server.Handler.bodies[-1]
        self.assertEqual(body["tools"], [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}])
        call = {"id": "call_7", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
        want = [{"role": "user", "content": "TOOL please"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_7", "content": "rain"}]
        self.assertEqual(body["messages"], want)
        self.ask("And then?")
        self.page.wait("document.querySelectorAll('.turn.assistant').length === 3")
        self.settled()
        said = self.page.eval("document.querySelectorAll('.answer')[1].textContent")
        self.assertEqual(mock_server.Handler.bodies[-1]["messages"],
                         want + [{"role": "assistant", "content": said}, {"role": "user", "content": "And then?"}])

    def test_tables_of_drafts_grammars_and_keys(self):
        self.need_mock()
        self.open("#engine")
        self.page.wait("document.querySelectorAll('#tables table').length === 3", 30)
        rows = json.loads(self.page.eval(
            "JSON.stringify([...document.querySelectorAll('#tables tr')].map(r => [...r.children].map(c => c.textContent)))"))
        self.assertIn(["all", "3,600", "1,900", "53 %"], rows)
        self.assertIn(["4", "", "150", "15 %"], rows)
        self.assertIn(["Could not be compiled", "1"], rows)
        self.assertIn(["a team <b>", "2", "812", "3", "48.2 k", "91.2 k"], rows)
        self.assertIn("2.90 tokens a step", self.text("#tables .caption"))
        for size in SIZES:
            self.resize(size)
            self.page.eval("document.getElementById('tables').scrollIntoView()")
            self.assertTrue(self.page.eval("document.documentElement.scrollWidth <= innerWidth"))
            self.shot(f"tables-{size}")

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

    def test_fits_both_sizes(self):
        for size, (width, _) in SIZES.items():
            self.resize(size)
            for view in VIEWS:
                self.open(f"?{size}#{view}")
                time.sleep(0.6)
                self.assertLessEqual(self.page.eval("document.documentElement.scrollWidth"), width, view)
                self.page.screenshot(OPTIONS.out / f"{size}-{view}.png")

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
