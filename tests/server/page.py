#!/usr/bin/env python3
"""page: the chat page of `lathe serve` in headless Chromium, as a person uses it.

In: the program, a model with written answers (scripted.py). Out: the harness's lines; LATHE_PICTURES=FOLDER keeps pictures.
Invariant: what the page shows is compared with what the script or the server's own reply says.
"""
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness                                  # noqa: E402 pylint: disable=wrong-import-position
from harness import Skip                        # noqa: E402 pylint: disable=wrong-import-position
from browser import ALT, SHIFT, Browser, chromium   # noqa: E402 pylint: disable=wrong-import-position
from serving import Server                      # noqa: E402 pylint: disable=wrong-import-position

HOSTILE = ("<script>window.hit=1</script><img src=x onerror=\"window.hit=2\"><svg onload=window.hit=3> "
           "[a](javascript:window.hit=4) [b](data:text/html,x) ![c](javascript:window.hit=5) <javascript:window.hit=6> "
           "[d](JaVaScRiPt:window.hit=7) [e](&#106;avascript:window.hit=8)")
TABLE = "| Wood | Use |\n|:--|--:|\n| ash | bows \\| oars |\n| `oak|elm` | **ships** |\n"
SHOW = ("# On turning\n\nA lathe turns *wood* around a **fixed axis**, ***evenly***; the tool stays still. ~~It never slips.~~\n"
        "A new line, a [guide](https://example.org/turning?a=1&b=2 \"t\"), and https://example.org/x_(y).\n\n"
        "## What you need\n\n1. a spindle\n2. a *sharp* gouge:\n   - shallow\n   - deep\n     - fine\n3. patience\n\n"
        "- [x] centred\n- [ ] oiled\n\n> Measure twice,\n> cut once.\n\n" + TABLE +
        "\n```python\ndef turn(blank):\n    for pass_ in range(3):\n        blank -= 1 < 2 & 3\n    return blank\n```\n\n---\n\n"
        "snake_case_names stay, 2 * 3 * 4 too, and \\*this\\*; `<b>code</b>`.\n\n" + HOSTILE + "\n")
LONG = 600
SCRIPTS = {
    "default": ["Turning ", "is ", "calm."],
    "show": [SHOW[i:i + 7] for i in range(0, len(SHOW), 7)],
    "long": [f"word{i} \n\n" if i % 5 == 0 else f"word{i} " for i in range(LONG)],
    "merged": ["ab"],      # a vocabulary needs one merge
    "brief": ["So ", "it ", "is."],
    "thinks": ["<think>", "Let ", "me ", "weigh ", "it.", "</think>", "So ", "it ", "is."],
}
# The last message names the script; what else came is told by the default one.
TEMPLATE = ("{# </think> #}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% set last = messages[-1].content %}"
            "{% if enable_thinking is defined %}[thinking {{ enable_thinking }}]{% endif %}{% if add_generation_prompt %}"
            "{% if last == 'show' %}<|show|>{% elif last == 'long' %}<|long|>{% elif last == 'brief' %}<|brief|>{% elif last == 'thinks' %}<|thinks|>{% else %}"
            "<|default|>{% endif %}{% endif %}")
_folder = tempfile.TemporaryDirectory(prefix="lathe-test-")
_server, _browser = None, None
LAST = "#talk li:last-child article.assistant"


def model():
    path = os.path.join(_folder.name, "scripted.gguf")
    if not os.path.exists(path):
        import scripted     # pylint: disable=import-outside-toplevel
        pieces = {name: [p.encode() for p in script] for name, script in SCRIPTS.items()}
        scripted.write(path, pieces, context=4096, template=TEMPLATE)
    return path


def start(*flags):
    return Server("--slots", "2", *flags, model=model())


def page():
    """A fresh page: nothing kept, nothing reported."""
    global _server, _browser     # pylint: disable=global-statement
    if not chromium():
        raise Skip("no Chromium here (Debian: apt-get install chromium; or LATHE_CHROMIUM=path)")
    _server = _server or start()
    _browser = _browser or Browser()
    b = _browser
    b.look(1400)
    b.open(_server.url)
    b.js("localStorage.clear(), sessionStorage.clear()")
    b.reload()
    b.wait("props && isOnline && document.activeElement === $('ask')")
    b.errors.clear()
    return b


def send(b, text, is_waiting=True):
    b.js("$('ask').focus()")
    b.type(text)
    b.key("Enter")
    if is_waiting:
        b.wait("running.size === 0 && current.messages.length > 0")


def messages(b):
    return b.js("current.messages.map(m => [m.role, m.content, m.state || ''])")


def picture(b, name):
    folder = os.environ.get("LATHE_PICTURES")
    if folder:
        b.picture(os.path.join(folder, name + ".png"))


def fine(b):
    assert not b.errors, b.errors


# ---- answers

def test_send_and_stream():
    b = page()
    assert b.js("$('f-temperature').placeholder") == "0.8" or b.js("props.default_generation_settings.temperature") == \
        float(b.js("$('f-temperature').placeholder"))
    # How long the answer was at each change of the screen.
    b.js("window.grown = []; new MutationObserver(() => { const a = document.querySelector('.assistant .said');"
         "if (a) grown.push(a.innerText.length); }).observe($('talk'), {childList: true, subtree: true}); 0")
    send(b, "long", False)
    b.wait("document.querySelector('.assistant .said') && document.querySelector('.assistant .said').innerText.length > 200")
    assert b.js("document.querySelector('.assistant').getAttribute('aria-busy')") == "true"
    live = b.wait("document.querySelector('.assistant .figures').innerText")
    b.wait("running.size === 0")
    grown = b.js("grown.filter((n, i) => i === 0 || n !== grown[i - 1])")
    assert len(grown) > 5 and grown == sorted(grown), grown[:50]
    said = b.js("current.messages[1].content")
    assert said == "".join(SCRIPTS["long"]), said[-100:]
    assert "tok/s" in live or "waiting" in live, live
    figures = b.text(LAST + " .figures")
    assert "tok/s" in figures and f"{LONG + 1} tokens" in figures, figures
    assert b.js("$('say').textContent") == "Answer: " + said, "the finished answer is read out"
    assert b.js("document.activeElement === $('ask')")
    assert "of 4,096 tokens used" in b.text("#meter"), b.text("#meter")
    fine(b)


def test_stop_by_key_and_by_button():
    b = page()
    for way in ("key", "button"):
        b.js("conversationFresh()")
        send(b, "long", False)
        b.wait("current.messages[1] && current.messages[1].content.length > 60")
        assert b.js("$('send').getAttribute('aria-label')") == "Stop"
        if way == "key":
            b.key("Escape")
        else:
            b.click("#send")
        b.wait("running.size === 0")
        said, whole = b.js("current.messages[1].content"), "".join(SCRIPTS["long"])
        assert said and len(said) < len(whole) and whole.startswith(said), said[-80:]
        assert b.js("current.messages[1].state") == "stopped" and "stopped" in b.text(LAST + " .figures")
        assert b.js("$('send').getAttribute('aria-label')") == "Send"
        _server.wait_for("slots_busy", 0)
    fine(b)


def test_regenerate_and_edit():
    b = page()
    send(b, "first")
    send(b, "second")
    assert messages(b) == [["user", "first", ""], ["assistant", "Turning is calm.", "done"], ["user", "second", ""],
                           ["assistant", "Turning is calm.", "done"]]
    b.js("window.before = current.messages[3]")
    b.click(LAST + " [data-act=again]")
    b.wait("running.size === 0 && current.messages[3] && current.messages[3] !== window.before")
    assert messages(b)[3] == ["assistant", "Turning is calm.", "done"] and len(messages(b)) == 4
    assert b.js("document.querySelectorAll('[data-act=again]').length") == 1, "only the last answer is made again"
    # An earlier message: what follows it goes, Esc leaves all as it was.
    b.click("#talk li:first-child [data-act=edit]")
    assert b.js("document.activeElement.value") == "first"
    b.key("Escape")
    assert len(messages(b)) == 4 and b.js("document.activeElement.dataset.act") == "edit"
    b.click("#talk li:first-child [data-act=edit]")
    b.js("document.activeElement.select()")
    b.type("brief")
    b.key("Enter")
    b.wait("running.size === 0 && current.messages.length === 2")
    assert messages(b) == [["user", "brief", ""], ["assistant", "So it is.", "done"]], messages(b)
    assert b.js("document.querySelectorAll('#talk > li').length") == 2
    fine(b)


def reply_with(b, *chunks):
    """The next request gets these events, whatever the server would say: what no model here makes."""
    lines = "".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + "data: [DONE]\n\n"
    # In pieces that cut lines and characters.
    b.js(f"""(() => {{ const bytes = new TextEncoder().encode({json.dumps(lines)}), plain = window.fetch;
        window.fetch = async (address, ...more) => {{
            if (address !== 'v1/chat/completions') return plain(address, ...more);
            window.fetch = plain;
            let at = 0;
            return new Response(new ReadableStream({{pull(c) {{
                if (at >= bytes.length) c.close(); else c.enqueue(bytes.slice(at, at += 7)); }}}}), {{status: 200}}); }}; }})()""")


def delta(**what):
    return {"choices": [{"index": 0, "delta": what, "finish_reason": None}]}


def test_thinking_is_folded():
    b = page()
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 9, "total_tokens": 30, "prompt_tokens": 21},
           "timings": {"predicted_per_second": 41.26, "prompt_ms": 120.0, "queue_ms": 30.0, "cache_n": 7, "roof_share": 0.634}}
    reply_with(b, delta(role="assistant", content=""), delta(reasoning_content="First I *wei"), delta(reasoning_content="gh* it – ünd."),
               delta(content="So "), delta(content="it is."), end)
    send(b, "hello")
    assert b.js("current.messages[1].reasoning") == "First I *weigh* it – ünd."
    assert b.text(LAST + " .said") == "So it is."
    assert b.js("document.querySelector('details.thinking').open") is False
    b.click("details.thinking summary")
    b.wait("document.querySelector('details.thinking .md').innerText === 'First I weigh it – ünd.'")
    assert b.text("details.thinking summary").startswith("Thought for ")
    assert b.text(LAST + " .figures") == "41.3 tok/s · 63 % of the memory roof · 9 tokens · first after 0.15 s · 7 of 21 prompt tokens cached"
    # The template decides what becomes of thoughts.
    assert b.js("requestOf(current, 2).messages") == [{"role": "user", "content": "hello"},
                                                      {"role": "assistant", "content": "So it is.", "reasoning_content": "First I *weigh* it – ünd."}]
    fine(b)


def test_thinking_of_the_server():
    b = page()
    send(b, "thinks")
    assert b.js("current.messages[1].reasoning") == "Let me weigh it." and b.text(LAST + " .said") == "So it is."
    b.js("document.querySelector('details.thinking summary').focus()")
    b.key("Enter")
    b.wait("document.querySelector('details.thinking .md').innerText === 'Let me weigh it.'")
    fine(b)


def test_a_stream_that_fails():
    b = page()
    reply_with(b, delta(content="Half an "), {"error": {"message": "the model gave NaN in layer 3"}})
    send(b, "hello")
    assert messages(b)[1] == ["assistant", "Half an ", "failed"]
    assert b.text(LAST + " .trouble").startswith("the model gave NaN in layer 3")
    assert b.js("$('offline').hidden")
    b.click(LAST + " [data-act=retry]")
    b.wait("running.size === 0 && current.messages.at(-1).state === 'done'")
    assert messages(b)[1][1] == "Turning is calm."
    fine(b)


def test_what_is_sent():
    b = page()
    b.js("window.sent = []; window.plainFetch = fetch; window.fetch = (...a) => { if (a[1] && a[1].body) sent.push(JSON.parse(a[1].body)); return plainFetch(...a); }; 0")
    send(b, "a")
    b.key("p", ALT, "KeyP")
    b.wait("$('settings').open")
    values = {"temperature": "0.5", "top_k": "7", "top_p": "0.9", "min_p": "0.05", "max_tokens": "2", "seed": "11",
              "repeat_penalty": "1.1", "presence_penalty": "0.2", "frequency_penalty": "-0.3"}
    for name, value in values.items():
        b.js(f"$('f-{name}').focus()")
        b.type(value)
    b.js("$('system').focus()")
    b.type("Be brief.")
    b.js("$('thinking').value = 'off'; $('thinking').dispatchEvent(new Event('change'))")
    b.key("Escape")
    assert b.js("$('settings').open") is False
    send(b, "b")
    first, second = b.js("sent")
    assert first["messages"] == [{"role": "user", "content": "a"}] and first["stream"] is True
    assert not set(first) & set(values), first
    assert {k: second[k] for k in values} == {k: float(v) for k, v in values.items()}, second
    assert second["messages"][0] == {"role": "system", "content": "Be brief."} and len(second["messages"]) == 4
    assert second["chat_template_kwargs"] == {"enable_thinking": False}
    assert "cut at the limit" in b.text(LAST + " .figures") and messages(b)[3][1] == "Turning is "
    # What the server would refuse is said beside the field, and not sent.
    b.click("#b-settings")
    for name, wrong in (("temperature", "3"), ("top_k", "1.5"), ("seed", "x"), ("min_p", "-1")):
        b.js(f"$('f-{name}').select()")
        b.type(wrong)
        assert b.js(f"$('f-{name}').getAttribute('aria-invalid')") == "true" and "number from" in b.text(f"#w-{name}"), name
    b.click("#reset")
    assert b.js("Object.keys(sampling).length") == 0
    b.click("#settings [data-close]")
    fine(b)


# ---- markdown

def test_markdown():
    b = page()
    send(b, "show")
    assert b.js("current.messages[1].content") == SHOW
    root = "document.querySelector('.assistant .said')"
    # What was built piece by piece is what the whole text gives.
    assert b.js(f"(() => {{ const d = el('div'); new Markdown(d).update(current.messages[1].content); return d.innerHTML === {root}.innerHTML; }})()")
    for selector, text in ((".h1", "On turning"), ("em", "wood"), ("strong", "fixed axis"), ("del", "It never slips."),
                           ("em > strong", "evenly"), ("ol > li:nth-child(2) > em", "sharp"), ("ol ul ul li", "fine"),
                           ("th:nth-child(2)", "Use"), ("td:nth-child(2)", "bows | oars"), ("td code", "oak|elm"),
                           ("td strong", "ships"), (".code span", "python"), ("p > code", "<b>code</b>")):
        assert b.text(f".assistant .said {selector}") == text, (selector, b.text(f".assistant .said {selector}"))
    assert b.text(".assistant .said pre").rstrip() == SHOW.split("```python\n")[1].split("\n```")[0]
    assert b.js(f"{root}.querySelector('blockquote').innerText.replace(/\\s+/g, ' ')") == "Measure twice, cut once."
    assert b.js(f"[...{root}.querySelectorAll('li.task input')].map(x => x.checked)") == [True, False]
    links = b.js(f"[...{root}.querySelectorAll('a')].map(a => [a.href, a.rel, a.target])")
    safe = ["noopener noreferrer nofollow", "_blank"]
    assert links == [["https://example.org/turning?a=1&b=2", *safe], ["https://example.org/x_(y)", *safe]], links
    shown = b.text(".assistant .said")
    assert "snake_case_names stay, 2 * 3 * 4 too, and *this*" in shown
    # The code is copied as it is.
    b.js("window.copied = null; Object.defineProperty(navigator, 'clipboard', {value: {writeText: async t => { copied = t; }}}); 0")
    b.click(".assistant .code button")
    assert b.wait("copied") == SHOW.split("```python\n")[1].split("\n```")[0]
    b.wait("document.querySelector('.assistant .code button').innerText === 'Copied'")
    fine(b)


def test_hostile_texts_stay_texts():
    b = page()
    send(b, "show")
    send(b, HOSTILE)
    b.js("current.system = ''")
    b.js("$('model').textContent && propsShow(Object.assign(props, {model: '<img src=x onerror=window.hit=9>'}))")
    time.sleep(0.3)
    for root in (".assistant .said", "article.user:last-of-type .said", "#list", "#model"):
        assert b.js(f"[...document.querySelectorAll({root!r})].every(r => !r.querySelector('script, img, svg:not(.i), iframe, [onerror], [onload]'))"), root
    assert b.js("[...document.querySelectorAll('#talk a')].every(a => /^(https?|mailto):/.test(a.href))")
    shown = b.text(".assistant .said")
    assert "<script>window.hit=1</script><img src=x" in shown and "javascript:window.hit=4" in shown
    assert b.js("[...document.querySelectorAll('article.user .said')].at(-1).textContent") == HOSTILE
    assert b.js("window.hit === undefined")
    # Texts made to be slow or deep.
    for text in ("> " * 5000 + "x", "- " * 3000 + "x", "[" * 20000, "*a " * 5000, "`" * 3001 + "a" + "``b" * 3000, "| a " * 3000 + "\n" + "|-" * 3000,
                 "a*" * 4000, "_" * 20000, "![" * 8000, "<" * 20000, "\\" * 20001, "https://" * 3000):
        took = b.js(f"(() => {{ const t = performance.now(), d = el('div'); new Markdown(d).update({text!r}); return performance.now() - t; }})()")
        assert took < 3000, (text[:10], took)
    fine(b)


# ---- what is kept

def test_reload_keeps_history():
    b = page()
    send(b, "first talk")
    b.key("n", ALT, "KeyN")
    send(b, "second talk")
    before = messages(b)
    b.reload()
    b.wait("props")
    assert messages(b) == before
    assert b.js("[...document.querySelectorAll('#list .open')].map(x => x.innerText)") == ["second talk", "first talk"]
    assert b.text(LAST + " .said") == "Turning is calm." and "tok/s" in b.text(LAST + " .figures")
    b.js("[...document.querySelectorAll('#list .open')][1].click()")
    assert messages(b)[0][1] == "first talk"
    # Deleted, and back; deleted for good.
    b.click("#list li.current button.icon")
    assert b.js("conversations.size") == 2 and b.js("document.querySelectorAll('#list li').length") == 1
    b.click("#note button")
    assert messages(b)[0][1] == "first talk" and b.js("document.querySelectorAll('#list li').length") == 2
    b.click("#list li.current button.icon")
    b.reload()
    assert b.js("[...document.querySelectorAll('#list .open')].map(x => x.innerText)") == ["second talk"]
    # An answer that was cut by the reload is kept as far as it came.
    b.js("conversationFresh()")
    send(b, "long", False)
    b.wait("current.messages[1] && current.messages[1].content.length > 60")
    b.reload()
    kept = messages(b)
    assert kept[1][2] == "stopped" and "".join(SCRIPTS["long"]).startswith(kept[1][1]) and len(kept[1][1]) > 60, kept
    _server.wait_for("slots_busy", 0)
    # What is no conversation is passed over.
    b.js("localStorage.setItem('lathe.chat.bad', '{\"messages\": 3}'); localStorage.setItem('lathe.sampling', '[')")
    b.reload()
    assert b.js("document.querySelectorAll('#list li').length") == 2
    fine(b)


# ---- when the server refuses or dies

def test_server_dies_and_returns():
    global _server     # pylint: disable=global-statement
    b = page()
    port = _server.port
    send(b, "long", False)
    b.wait("current.messages[1] && current.messages[1].content.length > 60")
    _server.process.kill()
    _server.process.wait()
    b.wait("running.size === 0")
    assert b.text(LAST + " .trouble").startswith("The connection broke before the answer was complete."), b.text(LAST)
    b.wait("!$('offline').hidden")
    assert f"127.0.0.1:{port} does not answer" in b.text("#offline") and b.js("$('lamp').className") == "off"
    picture(b, "dead")
    send(b, "into the dark")
    assert "could not be reached" in b.text(LAST + " .trouble")
    _server = start("--port", str(port))
    assert _server.port == port
    b.wait("$('offline').hidden && $('lamp').className === 'on'")
    b.click(LAST + " [data-act=retry]")
    b.wait("running.size === 0 && current.messages.at(-1).state === 'done'")
    assert [m[1] for m in messages(b)[2:]] == ["into the dark", "Turning is calm."]
    assert b.js("document.querySelectorAll('.trouble:not([hidden])').length") == 1
    fine(b)


def test_refusals_are_shown():
    b = page()
    send(b, "x" * 9000)
    reply = _server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 9000}]})
    assert reply[0] == 400 and b.text(LAST + " .trouble").startswith(reply[2]["error"]["message"]), (reply, b.text(LAST))
    assert b.js("$('offline').hidden")
    fine(b)


def test_api_key():
    b = page()
    with start("--api-key", "right") as locked:
        b.open(locked.url)
        b.wait("$('keyask').open")
        b.type("wrong")
        b.key("Enter")
        b.wait("$('keyask').open && !$('key-wrong').hidden")
        assert "API key is missing or wrong" in b.text("#key-wrong")
        b.type("right")
        b.key("Enter")
        b.wait("props && !$('keyask').open")
        send(b, "hello")
        assert messages(b)[1][1] == "Turning is calm."
        assert b.js("Object.values(localStorage).every(v => !v.includes('right'))"), "a key outlives no tab"
    b.open(_server.url)
    fine(b)


# ---- how it looks and is reached

def test_keys():
    b = page()
    b.type("one")
    b.key("Enter", SHIFT)
    b.type("two")
    b.key("Enter")
    b.wait("running.size === 0 && current.messages.length === 2")
    assert messages(b)[0][1] == "one\ntwo"
    b.js("document.activeElement.blur()")
    b.key("?")
    assert b.js("$('keys').open") and "Alt" in b.text("#keylist") and "Stop the answer" in b.text("#keylist")
    b.key("Escape")
    b.key("/")
    assert b.js("document.activeElement === $('ask') && $('ask').value === ''")
    b.key("e", ALT, "KeyE")
    assert b.js("document.activeElement.value") == "one\ntwo"
    b.key("Escape")
    b.js("window.before = current.messages[1]")
    b.key("r", ALT, "KeyR")
    b.wait("running.size === 0 && current.messages.length === 2 && current.messages[1] !== before")
    fine(b)


def test_scroll_follows_only_who_is_at_the_end():
    b = page()
    send(b, "long", False)
    b.wait("$('scroll').scrollHeight > $('scroll').clientHeight + 600")
    gap = "$('scroll').scrollHeight - $('scroll').clientHeight - $('scroll').scrollTop"
    b.wait(f"{gap} < 60")
    b.js("$('scroll').scrollTop = 100")
    b.wait("!$('down').hidden")
    b.wait("running.size === 0")
    assert b.js("$('scroll').scrollTop") == 100
    b.click("#down")
    assert b.js(gap) < 2 and b.js("$('down').hidden")
    fine(b)


# Every text that shows, and the grey ones of empty fields, against what lies behind it (WCAG 2's ratio).
CONTRAST = """(() => {
    const rgba = c => { const m = c.match(/[\\d.]+/g).map(Number); return [m[0], m[1], m[2], m[3] === undefined ? 1 : m[3]]; };
    const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
    const light = c => { const [r, g, b] = c.map(x => { x /= 255; return x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
    const ground = e => { const stack = []; for (; e; e = e.parentElement) stack.push(rgba(getComputedStyle(e).backgroundColor)); return stack.reverse().reduce((b, a) => over(a, b), [255, 255, 255, 1]); };
    const out = [];
    const look = (e, color, text) => { const b = ground(e), f = over(rgba(color), b), x = light(f), y = light(b); out.push([(Math.max(x, y) + .05) / (Math.min(x, y) + .05), text.trim().slice(0, 40), e.tagName + '.' + e.className]); };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let n; (n = walker.nextNode());) { const e = n.parentElement; if (n.data.trim() && !e.closest('script, style, :disabled') && e.checkVisibility()) look(e, getComputedStyle(e).color, n.data); }
    for (const e of document.querySelectorAll('input, textarea')) if (e.checkVisibility()) { look(e, getComputedStyle(e, '::placeholder').color, 'placeholder ' + e.id); look(e, getComputedStyle(e).color, 'value ' + e.id); }
    for (const e of document.querySelectorAll('button svg')) if (e.checkVisibility() && !e.closest(':disabled')) look(e.parentElement, getComputedStyle(e).color, 'icon');
    return out.sort((a, b) => a[0] - b[0]); })()"""
# Every control has a name, every id is there once, and what a name refers to is there.
NAMES = """(() => { const out = [], ids = [...document.querySelectorAll('[id]')].map(e => e.id);
    for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) out.push('twice: ' + id);
    for (const e of document.querySelectorAll('[aria-labelledby], [aria-describedby], [aria-controls]')) for (const a of ['aria-labelledby', 'aria-describedby', 'aria-controls']) for (const id of (e.getAttribute(a) || '').split(' ').filter(Boolean)) if (!document.getElementById(id)) out.push('nowhere: ' + id);
    for (const e of document.querySelectorAll('button, input, textarea, select, dialog')) if (!(e.tagName === 'BUTTON' && !e.checkVisibility()) && !((e.textContent.trim() && e.tagName === 'BUTTON') || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || (e.labels && e.labels.length))) out.push('no name: ' + e.outerHTML.slice(0, 80));
    return out; })()"""
WIDE = """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.closest('.unseen, .skip, pre, .table, #list, symbol') &&
    e.getBoundingClientRect().width && (e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < -1)).map(e => e.outerHTML.slice(0, 90))"""


def looks_right(b, name):
    picture(b, name)
    assert b.js("document.documentElement.scrollWidth <= innerWidth && document.body.scrollWidth <= innerWidth && $('scroll').scrollWidth <= $('scroll').clientWidth"), name
    assert not b.js(WIDE), (name, b.js(WIDE))
    worst = b.js(CONTRAST)
    assert len(worst) > 5 and worst[0][0] >= 4.5, (name, worst[:5])
    assert not b.js(NAMES), (name, b.js(NAMES))


def test_looks_at_both_widths_and_schemes():
    b = page()
    for width in (1400, 400):
        for scheme in ("light", "dark"):
            at = f"{width}-{scheme}"
            b.look(width, 900, scheme)
            b.js("localStorage.clear()")
            b.reload()
            b.wait("props")
            looks_right(b, at + "-empty")
            send(b, "thinks")
            send(b, "show")
            b.js("$('scroll').scrollTop = 0")
            looks_right(b, at + "-top")
            b.js("$('scroll').scrollTop = 1e6")
            looks_right(b, at + "-end")
            b.click("#talk li:first-child [data-act=edit]")
            looks_right(b, at + "-edit")
            b.key("Escape")
            send(b, "y" * 9000)
            b.js("$('scroll').scrollTop = 1e6; online(false)")
            looks_right(b, at + "-trouble")
            b.js("online(true)")
            for dialog in ("settings", "keys", "keyask"):
                b.js(f"$('{dialog}').showModal()")
                if dialog == "settings":
                    b.js("$('f-temperature').select()")
                    b.type("9")
                looks_right(b, f"{at}-{dialog}")
                b.js("reset.click()")
                b.key("Escape")
            if width == 400:
                assert b.js("document.body.classList.contains('side-closed')")
                b.click("#b-side")
                assert b.js("$('room').inert && document.activeElement === $('new')")
                looks_right(b, at + "-side")
                b.key("Escape")
                assert b.js("!$('room').inert && document.activeElement === $('b-side')")
    # The switch wins over the system.
    b.look(1400, 900, "light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = b.js(ground)
    for theme in ("light", "dark"):
        b.click("#b-theme")
        assert b.js("document.documentElement.dataset.theme") == theme
    dark = b.js(ground)
    assert dark != light
    b.reload()
    assert b.js(ground) == dark
    fine(b)


def test_axe():
    """What axe-core says, where it is at hand (PyPI: axe-playwright-python has it, or LATHE_AXE=axe.min.js)."""
    found = [os.environ.get("LATHE_AXE") or ""] + [os.path.join(p, "axe_playwright_python", "axe.min.js") for p in sys.path]
    path = next((p for p in found if os.path.isfile(p)), None)
    if not path:
        raise Skip("no axe-core here (pip install --no-deps axe-playwright-python, or LATHE_AXE=axe.min.js)")
    b = page()
    with open(path, encoding="utf-8") as file:
        source = file.read()

    def check(where):
        bad = b.js("axe.run(document).then(r => r.violations.map(v => [v.id, v.help, v.nodes.map(n => n.html.slice(0, 120)).slice(0, 3)]))")
        assert not bad, (where, bad)

    for width, scheme in ((1400, "light"), (400, "dark")):
        b.look(width, 900, scheme)
        b.js("localStorage.clear()")
        b.reload()
        b.wait("props")
        b.js(source + "; 0")
        check("empty")
        send(b, "show")
        send(b, "y" * 9000)
        b.js("online(false)")
        check("talk")
        for dialog in ("settings", "keys", "keyask"):
            b.js(f"$('{dialog}').showModal()")
            check(dialog)
            b.key("Escape")


def test_zz_end():
    """Last: the server ends as it should."""
    if _server is not None:
        assert _server.end() == 0, _server.said()


if __name__ == "__main__":
    try:
        harness.main(sys.modules[__name__])
    finally:
        if _browser is not None:
            _browser.__exit__()
        if _server is not None and _server.process.poll() is None:
            _server.process.kill()
        _folder.cleanup()
