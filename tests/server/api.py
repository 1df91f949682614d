#!/usr/bin/env python3
"""api: what the server answers, request by request, on the model inside the program.

Figures and texts come from the same requests asked another way: streamed or whole, alone or beside others.
"""
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness                              # noqa: E402 pylint: disable=wrong-import-position
from harness import PROGRAM, lathe, refused, temporary     # noqa: E402 pylint: disable=wrong-import-position
from serving import Server                  # noqa: E402 pylint: disable=wrong-import-position

STORY = {"messages": [{"role": "user", "content": "Tell me a story about a rabbit."}]}
TEXT = {"prompt": "Once upon a time"}
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_server = None


def server():
    """One for all tests that want nothing special."""
    global _server     # pylint: disable=global-statement
    if _server is None:
        _server = Server("--slots", "4", "--keep-alive", "0.2", "--queue", "8")
    return _server


def answer(reply):
    return reply["choices"][0]["message"]["content"]


def streamed(chunks, index=0):
    """The text of one choice of a stream, chat or text."""
    out = ""
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] == index:
                out += choice["delta"].get("content") or "" if "delta" in choice else choice["text"]
    return out


# ---- small things

def test_health_models_props():
    s = server()
    assert s.get("/health")[2] == {"status": "ok"}
    models = s.get("/v1/models")[2]
    assert models["object"] == "list" and models["data"][0]["id"] == "storyteller", models
    assert s.get("/v1/models/storyteller")[2]["id"] == "storyteller"
    assert s.get("/v1/models/other")[0] == 404
    props = s.get("/props")[2]
    assert props["total_slots"] == 4 and props["n_ctx"] == 1024, props
    settings = props["default_generation_settings"]
    assert settings["temperature"] == 0.8 and settings["top_p"] == 0.95 and settings["min_p"] == 0.05, settings   # as they were given
    assert s.get("/v1/nothing")[0] == 404 and s.get("/etc/passwd")[0] == 404 and s.get("/../../etc/passwd")[0] == 404
    status, headers, _ = s.ask("POST", "/health", b"{}")
    assert status == 405 and headers["Allow"] == "GET"


def test_metrics_are_prometheus_text():
    try:
        from prometheus_client.parser import text_string_to_metric_families     # pylint: disable=import-outside-toplevel
    except ImportError:
        raise harness.Skip("prometheus_client is not here") from None
    s = server()
    before = s.metric("generated_tokens_total")
    s.fine(COMPLETIONS, {**TEXT, "max_tokens": 3, "ignore_eos": True})
    status, headers, data = s.get("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers
    families = {family.name: family for family in text_string_to_metric_families(data.decode())}
    assert families["lathe_generated_tokens"].samples[0].value == before + 3, families
    assert families["lathe_slots_busy"].type == "gauge" and families["lathe_prompt_tokens"].type == "counter", families
    assert {sample.labels["end"] for sample in families["lathe_answers"].samples} >= {"length", "cancelled"}, families
    assert all(family.documentation and family.type in ("counter", "gauge") for family in families.values()), families


def test_tokens_there_and_back():
    s = server()
    for text in ("Once upon a time", "", "naïve 😸 <|user|>\n", "a" * 5000):
        ids = s.fine("/tokenize", {"content": text})["tokens"]
        assert s.fine("/detokenize", {"tokens": ids})["content"] == text, text
        plain = s.fine("/tokenize", {"content": text, "parse_special": False})["tokens"]
        want = lathe("tokenize", "--ids", "--", text).text().split() if text else []
        assert [str(i) for i in plain] == want, text
    pieces = s.fine("/tokenize", {"content": "Once upon", "with_pieces": True})["tokens"]
    assert "".join(p["piece"] for p in pieces) == "Once upon"
    s.refused("/detokenize", {"tokens": [4096]}, 400, "tokens[0]")
    s.refused("/detokenize", {"tokens": [1.5]}, 400, "tokens[0]")
    s.refused("/tokenize", {}, 400, "content")


def test_apply_template_is_the_prompt_of_a_chat():
    s = server()
    prompt = s.fine("/apply-template", STORY)["prompt"]
    with temporary() as folder:
        path = os.path.join(folder, "m.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(STORY["messages"], file)
        assert prompt == lathe("template", "--messages", path).text()
    chat = s.fine(CHAT, {**STORY, "max_tokens": 24, "temperature": 0})
    text = s.fine(COMPLETIONS, {"prompt": prompt, "max_tokens": 24, "temperature": 0})
    assert answer(chat) == text["choices"][0]["text"] != ""
    opened = s.fine("/apply-template", {**STORY, "add_generation_prompt": False})["prompt"]
    assert prompt.startswith(opened) and len(prompt) > len(opened)


def test_every_reply_says_what_it_took():
    s = server()
    for path, ask, prompt, made in ((CHAT, STORY, "prompt_tokens", "completion_tokens"), (COMPLETIONS, TEXT, "prompt_tokens", "completion_tokens"),
                                    ("/v1/messages", STORY, "input_tokens", "output_tokens"),
                                    ("/v1/responses", {"input": "Hi"}, "input_tokens", "output_tokens")):
        ask = {**ask, "max_output_tokens" if "input" in ask else "max_tokens": 3}
        reply = s.fine(path, ask)
        data = s.post(path, {**ask, "stream": True})[2].decode()
        events = [json.loads(line[6:]) for line in data.split("\n") if line.startswith("data: {")]
        of_stream = next(e.get("response", e) for e in reversed(events) if "timings" in e.get("response", e))
        for got in (reply, of_stream):
            usage, timings = got["usage"], got["timings"]
            assert timings["predicted_n"] == usage[made] == 3, (path, got)
            cached = usage.get("cache_read_input_tokens")
            assert timings["prompt_n"] + timings["cache_n"] == usage[prompt] + (cached or 0), (path, got)
            assert cached is None or timings["cache_n"] == cached, (path, got)
            assert min(timings[phase] for phase in ("queue_ms", "prompt_ms", "predicted_ms")) >= 0, (path, got)


def test_long_prompts_give_signs_of_life():
    with Server("--slots", "1", "--keep-alive", "0.05") as s:
        ask = {"prompt": s.fine("/tokenize", {"content": " a red ball" * 400})["tokens"][:1000], "max_tokens": 1}
        status, _, data = s.post(COMPLETIONS, {**ask, "stream": True})
        assert status == 200 and data.count(b": keep-alive\n\n") >= 1 and data.endswith(b"data: [DONE]\n\n"), data[:200]
        data = s.post("/v1/messages", {"messages": [{"role": "user", "content": " small dog" * 450}], "max_tokens": 1, "stream": True})[2]
        assert data.count(b"event: ping\n") >= 1 and b"event: message_stop" in data, data[:300]


def test_an_answer_is_what_run_says():
    said = lathe("run", "-p", STORY["messages"][0]["content"], "-n", "24", "--temp", "0").text()[:-1]
    assert answer(server().fine(CHAT, {**STORY, "max_tokens": 24, "temperature": 0})) == said


# ---- streams

def test_streams_are_the_whole_in_parts():
    s = server()
    for path, ask in ((CHAT, STORY), (COMPLETIONS, TEXT)):
        ask = {**ask, "max_tokens": 40, "temperature": 0.9, "seed": 11}
        whole = s.fine(path, ask)
        chunks = s.events(path, ask)
        text = answer(whole) if path == CHAT else whole["choices"][0]["text"]
        assert streamed(chunks) == text != ""
        assert whole["usage"]["completion_tokens"] == chunks[-1]["usage"]["completion_tokens"] == 40
        assert len({c["id"] for c in chunks}) == 1


def test_every_chunk_has_its_finish_reason():                       # B36
    s = server()
    for path, ask in ((CHAT, STORY), (COMPLETIONS, TEXT)):
        chunks = s.events(path, {**ask, "max_tokens": 5, "temperature": 0, "n": 2, "stream_options": {"include_usage": True}})
        assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 10, chunks[-1]
        for index in (0, 1):
            of_choice = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
            assert [c["finish_reason"] for c in of_choice] == [None] * (len(of_choice) - 1) + ["length"], of_choice
            if path == CHAT:
                assert of_choice[0]["delta"]["role"] == "assistant" and of_choice[-1]["delta"] == {}


def test_quiet_streams_give_signs_of_life():
    s = server()
    stop = threading.Event()
    busy = [threading.Thread(target=lambda: stop.is_set() or s.fine(COMPLETIONS, {**TEXT, "max_tokens": 400, "ignore_eos": True}))
            for _ in range(5)]
    for thread in busy:
        thread.start()
    s.wait_for("slots_busy", 4)
    status, _, data = s.post(COMPLETIONS, {**TEXT, "max_tokens": 2, "stream": True})
    for thread in busy:
        thread.join()
    assert status == 200 and data.count(b": keep-alive\n\n") >= 1 and data.endswith(b"data: [DONE]\n\n"), data[:200]


# ---- sampling fields

def test_seeds_repeat_and_n_counts_them_up():
    s = server()
    ask = {**TEXT, "max_tokens": 16, "temperature": 1.5, "top_k": 0, "top_p": 1, "min_p": 0}
    three = [c["text"] for c in s.fine(COMPLETIONS, {**ask, "n": 3, "seed": 5})["choices"]]
    alone = [s.fine(COMPLETIONS, {**ask, "seed": 5 + i})["choices"][0]["text"] for i in range(3)]
    assert three == alone and len(set(three)) == 3, (three, alone)
    drawn = {s.fine(COMPLETIONS, ask)["choices"][0]["text"] for _ in range(3)}
    assert len(drawn) == 3, drawn


def test_prompts_of_every_kind():
    s = server()
    ids = s.fine("/tokenize", {"content": TEXT["prompt"]})["tokens"]
    ask = {"max_tokens": 8, "temperature": 0}
    text = s.fine(COMPLETIONS, {**ask, **TEXT})["choices"][0]["text"]
    for prompt in (ids, [TEXT["prompt"]], [ids]):
        assert s.fine(COMPLETIONS, {**ask, "prompt": prompt})["choices"][0]["text"] == text, prompt
    two = s.fine(COMPLETIONS, {**ask, "prompt": [TEXT["prompt"], "The cat"], "n": 2})["choices"]
    assert [c["index"] for c in two] == [0, 1, 2, 3] and two[0]["text"] == two[1]["text"] == text != two[2]["text"]
    echoed = s.fine(COMPLETIONS, {**ask, **TEXT, "echo": True})["choices"][0]["text"]
    assert echoed == TEXT["prompt"] + text
    assert streamed(s.events(COMPLETIONS, {**ask, **TEXT, "echo": True})) == echoed


def test_logit_bias_forces_and_forbids():
    s = server()
    cat = s.fine("/tokenize", {"content": " cat"})["tokens"]
    assert len(cat) == 1
    ask = {**TEXT, "max_tokens": 3, "temperature": 0}
    forced = s.fine(COMPLETIONS, {**ask, "logit_bias": {str(cat[0]): 100}})["choices"][0]["text"]
    assert forced == " cat cat cat", forced
    plain = s.fine(COMPLETIONS, ask)["choices"][0]["text"]
    first = s.fine("/tokenize", {"content": plain})["tokens"][0]
    without = s.fine(COMPLETIONS, {**ask, "logit_bias": [[first, -100]]})["choices"][0]["text"]
    assert s.fine("/tokenize", {"content": without})["tokens"][0] != first
    assert s.fine(COMPLETIONS, ask)["choices"][0]["text"] == plain           # nothing of it stays in the slot


def test_penalties_change_answers_and_leave_nothing():
    s = server()
    ask = {**TEXT, "max_tokens": 40, "temperature": 0}
    plain = s.fine(COMPLETIONS, ask)["choices"][0]["text"]
    for field, value in (("repeat_penalty", 1.8), ("presence_penalty", 2), ("frequency_penalty", 2)):
        other = [s.fine(COMPLETIONS, {**ask, field: value})["choices"][0]["text"] for _ in range(2)]   # cold and warm: B102
        assert other[0] == other[1] != plain, field
    assert s.fine(COMPLETIONS, ask)["choices"][0]["text"] == plain


def test_dry_keeps_stretches_from_coming_again():
    s = server()
    ask = {**TEXT, "max_tokens": 200, "temperature": 0, "ignore_eos": True, "logprobs": 0}
    dry = {"dry_multiplier": 100, "dry_base": 1.75, "dry_allowed_length": 3, "dry_sequence_breakers": []}

    def go(**more):
        choice = s.fine(COMPLETIONS, {**ask, **more})["choices"][0]
        return choice["text"], choice["logprobs"]["tokens"]

    def repeats(tokens, n):
        stretches = [tuple(tokens[i:i + n]) for i in range(len(tokens) - n + 1)]
        return len(stretches) - len(set(stretches))

    plain, tokens = go()
    assert repeats(tokens, 4) > 0                        # else this shows nothing
    text, tokens = go(**dry)
    assert text != plain and repeats(tokens, 4) == 0 and repeats(tokens, 3) > 0, tokens
    assert go(**dry) == (text, tokens)                   # cold and warm
    assert go(**dry, dry_penalty_last_n=0) == go() == (plain, go(dry_multiplier=0)[1])     # and nothing of it stays in the slot
    broken = go(**{**dry, "dry_sequence_breakers": ["."]})
    assert broken[0] != plain and broken[0] != text
    with_bias = {**dry, "logit_bias": {str(s.fine("/tokenize", {"content": " cat"})["tokens"][0]): 30}}
    cats = go(**with_bias)[1]
    assert cats.count(" cat") > 20 and repeats(cats, 4) == 0, cats
    said = lathe("run", "--raw", "-p", TEXT["prompt"], "-n", "60", "--temp", "0", "--dry-multiplier", "2", "--dry-allowed-length", "1",
                 "--dry-base", "2", "--dry-penalty-last-n", "50").text()[:-1]
    same = s.fine(COMPLETIONS, {**TEXT, "max_tokens": 60, "temperature": 0, "dry_multiplier": 2, "dry_allowed_length": 1, "dry_base": 2,
                                "dry_penalty_last_n": 50})["choices"][0]["text"]
    assert said == same


def test_logprobs_in_both_shapes():                                  # B39, B41, B62
    s = server()
    old = s.fine(COMPLETIONS, {**TEXT, "max_tokens": 6, "temperature": 0, "logprobs": 3})["choices"][0]
    shape = old["logprobs"]
    assert "".join(shape["tokens"]) == old["text"] and len(shape["token_logprobs"]) == 6, shape
    for token, value, tops, offset in zip(shape["tokens"], shape["token_logprobs"], shape["top_logprobs"], shape["text_offset"]):
        assert value <= 0 and len(tops) == 3 and max(tops.values()) == value == tops[token], (token, value, tops)
        assert old["text"][offset:].startswith(token)
    one = s.fine(COMPLETIONS, {"prompt": "x", "logprobs": 1, "max_tokens": 1})["choices"][0]["logprobs"]
    assert len(one["tokens"]) == len(one["token_logprobs"]) == len(one["top_logprobs"]) == 1
    ask = {**STORY, "max_tokens": 6, "temperature": 0, "logprobs": True, "top_logprobs": 2}
    new = s.fine(CHAT, ask)["choices"][0]
    content = new["logprobs"]["content"]
    assert b"".join(bytes(t["bytes"]) for t in content).decode() == new["message"]["content"]
    for entry in content:
        values = [top["logprob"] for top in entry["top_logprobs"]]
        assert values == sorted(values, reverse=True) and values[0] == entry["logprob"], entry
        assert set(entry) >= {"token", "logprob", "bytes", "top_logprobs"}
    parts = [e for c in s.events(CHAT, ask) for k in c["choices"] for e in (k["logprobs"] or {}).get("content", [])]
    assert parts == content
    hot = s.fine(CHAT, {**ask, "temperature": 1.7, "seed": 3})["choices"][0]["logprobs"]["content"][0]
    assert hot["top_logprobs"] == content[0]["top_logprobs"], "log-probabilities are those of the model, whatever the temperature"


def test_stop_texts_end_answers():                                   # B32, B35
    s = server()
    ask = {**TEXT, "max_tokens": 60, "temperature": 0}
    full = s.fine(COMPLETIONS, ask)["choices"][0]["text"]
    stop = full[20:33]                                               # lies across token borders
    for body in ({"stop": stop}, {"stop": ["zzzz", stop]}):
        whole = s.fine(COMPLETIONS, {**ask, **body})["choices"][0]
        assert whole["text"] == full[:full.index(stop)] and whole["finish_reason"] == "stop", whole
        chunks = s.events(COMPLETIONS, {**ask, **body})
        assert streamed(chunks) == whole["text"] and chunks[-1]["choices"][0]["finish_reason"] == "stop"
    s.refused(COMPLETIONS, {**ask, "stop": ["a", ""]}, 400, "stop[1]")
    s.refused(COMPLETIONS, {**ask, "stop": ["a"] * 17}, 400, "stop")


# ---- nulls, zeros, what is not known

def test_zero_null_and_missing():                                    # B53
    s = server()
    none = s.fine(CHAT, {**STORY, "max_tokens": 0})
    assert answer(none) == "" and none["choices"][0]["finish_reason"] == "length" and none["usage"]["completion_tokens"] == 0
    chunks = s.events(CHAT, {**STORY, "max_tokens": 0})
    assert streamed(chunks) == "" and chunks[-1]["choices"][0]["finish_reason"] == "length"
    nulls = dict.fromkeys(("temperature", "top_p", "top_k", "seed", "stop", "n", "logit_bias", "stream", "tools", "logprobs",
                           "model", "user", "stream_options", "frequency_penalty"))
    assert answer(s.fine(CHAT, {**STORY, **nulls, "max_tokens": 4})) != ""
    both = s.fine(CHAT, {**STORY, "max_tokens": 9, "max_completion_tokens": 3})
    assert both["usage"]["completion_tokens"] == 3


def test_unknown_fields_are_named():                                 # B53
    s = server()
    status, headers, _ = s.post(CHAT, {**STORY, "max_tokens": 1, "mirostat": 2, "a\r\nb: c": 1})
    assert status == 200 and headers["X-Lathe-Warning"].split(": ")[1] == "mirostat a??b??c", headers
    assert s.post(CHAT, {**STORY, "max_tokens": 1, "user": "me", "seed": 3})[1]["X-Lathe-Warning"] is None


def test_histories_with_null_content():                              # B37
    s = server()
    with temporary() as folder:
        path = os.path.join(folder, "t.jinja")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}"
                       "<{{ c.function.name }}>{% endfor %}{% endfor %}")
        history = {"messages": [{"role": "user", "content": "a"},
                                {"role": "assistant", "content": None, "tool_calls": [
                                    {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
                                {"role": "tool", "tool_call_id": "1", "content": "42"},
                                {"role": "assistant", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}]}
        with Server("--template-file", path, "--slots", "1") as own:
            assert own.fine("/apply-template", history)["prompt"] == "[user]a[assistant]<f>[tool]42[assistant]bc"
            assert own.fine(CHAT, {**history, "max_tokens": 2})["usage"]["completion_tokens"] == 2
    developer = {"messages": [{"role": "developer", "content": "Be brief."}, *STORY["messages"]]}
    system = {"messages": [{"role": "system", "content": "Be brief."}, *STORY["messages"]]}
    assert s.fine("/apply-template", developer) == s.fine("/apply-template", system)


# ---- refusals

WRONG = [
    # field, value, param where it is not the field's name
    ("temperature", "hot", None), ("temperature", -0.1, None), ("temperature", 2.1, None), ("temperature", True, None),
    ("temperature", [], None), ("top_p", 1.5, None), ("top_p", -1, None), ("top_k", 1.5, None), ("top_k", "40", None),
    ("min_p", 2, None), ("n", 0, None), ("n", 129, None), ("n", 1.5, None), ("max_tokens", -1, None), ("max_tokens", "4", None),
    ("max_tokens", 2 ** 31, None), ("max_tokens", 2 ** 70, None), ("seed", "x", None), ("seed", 1.5, None),
    ("seed", 2 ** 64, None), ("stop", 5, None), ("stop", [5], "stop[0]"), ("stream", "yes", None), ("stream", 1, None),
    ("presence_penalty", 3, None), ("frequency_penalty", -3, None), ("repeat_penalty", 0, None),
    ("dry_multiplier", -1, None), ("dry_base", 0.5, None), ("dry_allowed_length", -1, None), ("dry_penalty_last_n", -2, None),
    ("dry_sequence_breakers", [5], "dry_sequence_breakers[0]"), ("dry_sequence_breakers", [""], "dry_sequence_breakers[0]"),
    ("logit_bias", {"x": 1}, None), ("logit_bias", {"4096": 1}, None), ("logit_bias", {"1": 101}, "logit_bias.1"),
    ("logit_bias", [[1]], "logit_bias[0]"), ("logit_bias", 3, None), ("stream_options", True, None),
]
WRONG_CHAT = [
    ("messages", [], None), ("messages", "Hi", None), ("messages", [5], "messages[0]"),
    ("messages", [{"content": "Hi"}], "messages[0].role"), ("messages", [{"role": "wizard", "content": "Hi"}], "messages[0].role"),
    ("messages", [{"role": 5, "content": "Hi"}], "messages[0].role"), ("messages", [{"role": "user", "content": 5}], "messages[0].content"),
    ("messages", [{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0].type"),
    ("messages", [{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
    ("messages", [{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
    ("messages", [{"role": "user"}], "messages[0].content"), ("messages", [{"role": "tool", "name": "f"}], "messages[0].content"),
    ("messages", [{"role": "assistant", "tool_calls": [{"function": {}}]}], "messages[0].tool_calls[0].function.name"),
    ("top_logprobs", 21, None), ("top_logprobs", 2, None), ("logprobs", 3, None), ("tools", {}, None),
    ("chat_template_kwargs", [], None),
]
WRONG_TEXT = [
    ("prompt", 5, None), ("prompt", [], None), ("prompt", ["a", 5], "prompt[1]"), ("prompt", [1, -1], "prompt[1]"),
    ("prompt", [1, 4096], "prompt[1]"), ("prompt", [[1], ["x"]], "prompt[1][0]"), ("prompt", [True], "prompt[0]"),
    ("logprobs", 6, None), ("logprobs", True, None), ("best_of", 2, None), ("suffix", "end", None),
]


def test_wrong_fields_are_named():
    s = server()
    for path, ask, rows in ((CHAT, STORY, WRONG + WRONG_CHAT), (COMPLETIONS, TEXT, WRONG + WRONG_TEXT)):
        for field, value, param in rows:
            s.refused(path, {**ask, field: value}, 400, param or field)
    s.refused(CHAT, {}, 400, "messages", "missing_required_parameter")
    s.refused(COMPLETIONS, {}, 400, "prompt", "missing_required_parameter")
    s.refused(COMPLETIONS, {**TEXT, "echo": True, "logprobs": 1}, 400, "echo")


def test_bodies_that_are_no_json():                                  # B43
    s = server()
    rows = [(b"", 0), (b"{", 1), (b"[1]", None), (b"{\"prompt\": \"x\"", 14), (b"{\"prompt\": \"\xe4\xbd\"}", None),
            ("{\"prompt\": \"你好\"}".encode("gbk"), None), (b"{\"prompt\": \"\\ud800\"}", None), (b"{\"prompt\": \"\\udc00x\"}", None),
            (b"{\"prompt\": NaN}", None), (b"{\"prompt\": 'x'}", None), (b"\xff\xfe{}", None), (b"{\"prompt\": \"a\nb\"}", None),
            (b"[" * 100000, None), (b"{\"a\":" * 5000, None), (b"null", None), (b"{} {}", None)]
    for body, at in rows:
        error = s.refused(COMPLETIONS, body, 400, None)
        if at is not None:
            assert f"at byte {at}" in error["message"], (body, error)
    s.refused(COMPLETIONS, b"", 400, None, text="the body is empty")
    assert s.get("/health")[0] == 200


def test_prompts_that_do_not_fit():                                  # B44
    s = server()
    one = s.fine("/tokenize", {"content": " the"})["tokens"]
    assert len(one) == 1
    context = 1024
    for n in (context, context + 1, 10 * context):
        error = s.refused(COMPLETIONS, {"prompt": one * n}, 400, "prompt", "context_length_exceeded", "made for no more")
        assert error["n_prompt_tokens"] == n and error["n_ctx"] == context, error
    last = s.fine(COMPLETIONS, {"prompt": one * (context - 1), "max_tokens": 5, "ignore_eos": True})
    assert last["usage"]["prompt_tokens"] == context - 1 and last["usage"]["completion_tokens"] == 1, last["usage"]
    assert last["choices"][0]["finish_reason"] == "length"
    chat = {"messages": [{"role": "user", "content": " the" * 2000}]}
    s.refused(CHAT, chat, 400, "messages", "context_length_exceeded")


def test_bodies_that_are_too_long():
    with Server("--slots", "1", "--max-body", "1") as s:
        status, _, reply = s.post(COMPLETIONS, {"prompt": "x" * (2 << 20)})
        assert status == 413 and reply["error"]["code"] == "request_too_large", (status, reply)
        head = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n"
        assert b" 413 " in s.raw(head)[:20]
        part = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        part += (b"100000\r\n" + b"x" * 0x100000 + b"\r\n") * 2 + b"0\r\n\r\n"
        assert b" 413 " in s.raw(part, 3)[:20]
        assert s.get("/health")[0] == 200


def test_malformed_requests_end_nothing():
    s = server()
    for data in (b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00", b"POST /v1/completions HTTP/1.1\r\n\r\n",
                 b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n{}",
                 b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
        s.raw(data, 1)
    assert s.get("/health")[0] == 200


# ---- who may ask

def test_beyond_this_machine_asks_for_a_key():
    refused(lathe("serve", "--host", "0.0.0.0", "--port", "0", limit_s=120), 2, "--api-key", "--no-auth")
    with Server("--slots", "1", "--host", "0.0.0.0", "--no-auth") as s:
        assert s.get("/health")[0] == 200


def test_keys():
    with temporary() as folder:
        path = os.path.join(folder, "keys")
        with open(path, "w", encoding="utf-8") as file:
            file.write("first key\nsecond\n")
        with Server("--slots", "1", "--api-key", "@" + path) as s:
            assert s.get("/health")[0] == 200
            for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer secon"}, {"Authorization": "Bearer seconds"},
                            {"Authorization": "second"}, {"x-api-key": "SECOND"}):
                status, got, reply = s.get("/v1/models", headers)
                assert status == 401 and got["WWW-Authenticate"] == "Bearer", (headers, status)
                assert reply["error"]["code"] == "invalid_api_key" and reply["error"]["type"] == "authentication_error"
                assert s.post(COMPLETIONS, TEXT, headers)[0] == 401
            for headers in ({"Authorization": "Bearer second"}, {"authorization": "bearer first key"}, {"x-api-key": "second"}):
                assert s.get("/v1/models", headers)[0] == 200, headers


def test_other_origins_get_nothing():
    s = server()
    mine = f"127.0.0.1:{s.port}"
    assert s.get("/v1/models", {"Origin": f"http://{mine}", "Host": mine})[0] == 200
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}):
        status, got, _ = s.get("/v1/models", headers)
        assert status == 403 and got["Access-Control-Allow-Origin"] is None, headers
    with Server("--slots", "1", "--cors", "https://app.example") as open_one:
        ask = {"Origin": "https://app.example"}
        status, got, _ = open_one.ask("OPTIONS", CHAT, None, {**ask, "Access-Control-Request-Method": "POST"})
        assert status == 204 and got["Access-Control-Allow-Origin"] == "https://app.example"
        status, got, _ = open_one.get("/v1/models", ask)
        assert status == 200 and got["Access-Control-Allow-Origin"] == "https://app.example"
        assert open_one.get("/v1/models", {"Origin": "https://evil.example"})[0] == 403


def test_tls():
    import ssl                                 # pylint: disable=import-outside-toplevel
    import urllib.request                      # pylint: disable=import-outside-toplevel
    with temporary() as folder:
        pem = os.path.join(folder, "both.pem")
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                               "-keyout", pem + ".key", "-out", pem + ".crt"], capture_output=True, check=False)
        if made.returncode:
            raise harness.Skip("openssl is not here")
        with open(pem, "wb") as file:
            for part in (".key", ".crt"):
                with open(pem + part, "rb") as one:
                    file.write(one.read())
        with Server("--slots", "1", "--tls", pem) as s:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with urllib.request.urlopen(s.url + "/health", context=context) as reply:
                assert json.load(reply) == {"status": "ok"}


# ---- the queue, leaving, the end

def hold(s, n=1, **body):
    """Opens n streams that go on for long, and returns their sockets."""
    out = []
    for _ in range(n):
        sock = socket.create_connection((s.host, s.port))
        data = json.dumps({**TEXT, "max_tokens": 900, "ignore_eos": True, "temperature": 1, "stream": True, **body}).encode()
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        out.append(sock)
    return out


def test_a_full_queue_says_when_to_come_back():
    with Server("--slots", "1", "--queue", "1") as s:
        held = hold(s, 1)
        s.wait_for("slots_busy", 1)
        held += hold(s, 1)
        s.wait_for("queue_length", 1)
        status, headers, reply = s.post(COMPLETIONS, {**TEXT, "max_tokens": 1})
        for sock in held:
            sock.close()
        assert status == 429 and int(headers["Retry-After"]) >= 1 and reply["error"]["code"] == "queue_full", reply
        s.wait_for("slots_busy", 0)
        assert s.post(COMPLETIONS, {**TEXT, "max_tokens": 1})[0] == 200


def test_who_leaves_frees_the_slot():                                # B49
    s = server()
    alone = s.fine(CHAT, {**STORY, "max_tokens": 30, "temperature": 0})
    held = hold(s, 3)
    for sock in held:
        assert sock.recv(300)
    s.wait_for("slots_busy", 3)
    slow = []
    other = threading.Thread(target=lambda: slow.append(s.fine(CHAT, {**STORY, "max_tokens": 30, "temperature": 0})))
    other.start()
    cancelled = s.metric('answers_total{end="cancelled"}')
    begin = time.monotonic()
    for sock in held:
        sock.close()
    s.wait_for('answers_total{end="cancelled"}', cancelled + 3)
    assert time.monotonic() - begin < 1
    other.join()
    assert answer(slow[0]) == answer(alone)
    s.wait_for("slots_busy", 0)


def test_who_waits_whole_may_leave_too():
    s = server()
    cancelled = s.metric('answers_total{end="cancelled"}')
    held = hold(s, 1, stream=False)
    s.wait_for("slots_busy", 1)
    held[0].close()
    s.wait_for('answers_total{end="cancelled"}', cancelled + 1, 2)


def test_sigterm_lets_answers_end():                                 # B49
    s = Server("--slots", "2")
    got = []
    thread = threading.Thread(target=lambda: got.append(s.fine(COMPLETIONS, {**TEXT, "max_tokens": 300, "ignore_eos": True})))
    thread.start()
    s.wait_for("slots_busy", 1)
    assert s.end(40) == 0
    thread.join()
    assert got[0]["usage"]["completion_tokens"] == 300


def test_sigterm_refuses_what_is_new():
    s = Server("--slots", "2")
    was_open = s.connect()
    was_open.request("GET", "/health")
    assert was_open.getresponse().read() == b'{"status":"ok"}'
    got, refusals = [], []
    thread = threading.Thread(target=lambda: got.append(s.fine(COMPLETIONS, {**TEXT, "max_tokens": 1000, "ignore_eos": True})))
    thread.start()
    s.wait_for("slots_busy", 1)
    s.process.send_signal(signal.SIGTERM)
    while thread.is_alive() and not refusals:                        # until the signal has come through it answers as before
        was_open.request("POST", COMPLETIONS, json.dumps({**TEXT, "max_tokens": 0}))
        reply = was_open.getresponse()
        said = json.loads(reply.read())
        refusals += [said] if reply.status == 503 else []
    assert refusals and "about to end" in refusals[0]["error"]["message"], refusals
    try:
        s.get("/health")
        raise AssertionError("a new connection was taken")
    except OSError:
        pass
    thread.join()
    assert got[0]["usage"]["completion_tokens"] == 1000 and s.end() == 0


def test_answers_have_a_time_limit():
    with Server("--slots", "1", "--timeout", "1", "--context", "1024") as s:
        held = hold(s, 1)
        s.wait_for("slots_busy", 1)
        bodies = [{**TEXT, "max_tokens": 1000, "ignore_eos": True, "temperature": 1} for _ in range(3)]
        got = []
        threads = [threading.Thread(target=lambda b=b: got.append(s.post(COMPLETIONS, b))) for b in bodies]
        told = []
        # Its answer cannot end early, should it be the first to get the slot.
        long_text = {"type": "object", "properties": {"a": {"type": "string", "minLength": 3000}}, "required": ["a"]}
        item_body = {"input": "Hi", "max_output_tokens": 1000, "stream": True,
                     "text": {"format": {"type": "json_schema", "name": "long", "schema": long_text}}}
        threads.append(threading.Thread(target=lambda: told.append(s.post("/v1/responses", item_body))))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        held[0].close()
        late = [reply for status, _, reply in got if status == 504]
        assert late and all("--timeout" in reply["error"]["message"] for reply in late), got
        last = told[0][2].decode().strip().split("\n\n")[-1].split("\n")
        failed = json.loads(last[1][6:])
        assert last[0] == "event: response.failed" and failed["response"]["status"] == "failed", last
        assert failed["response"]["error"]["code"] == "server_error" and "--timeout" in failed["response"]["error"]["message"], failed


# ---- the cache

def test_cached_tokens_are_honest():                                 # B54
    with Server("--slots", "2") as s:
        ids = s.fine("/tokenize", {"content": " the quick brown fox jumps over the lazy dog" * 12})["tokens"][:100]
        ask = {"max_tokens": 20, "temperature": 0, "logprobs": 5}

        def go(prompt):
            reply = s.fine(COMPLETIONS, {**ask, "prompt": prompt})
            usage = reply["usage"]
            assert usage["prompt_tokens"] == len(prompt) and reply["timings"]["cache_n"] == usage["prompt_tokens_details"]["cached_tokens"]
            return usage["prompt_tokens_details"]["cached_tokens"], reply["choices"][0]

        cold = go(ids)
        warm = go(ids)
        assert cold[0] == 0 and warm[0] == len(ids) - 1, (cold[0], warm[0])
        assert warm[1] == cold[1]                                    # B104: text and every bit of the log-probabilities
        half = go(ids[:70] + [5, 6, 7])
        assert half[0] == 70
        assert go([9] + ids)[0] == 0


def test_generated_tokens_are_found_again():                         # B55, by ids
    s = server()
    first = {"messages": [{"role": "user", "content": "Tell me a story about a dragon and a small bird."}]}
    reply = s.fine(CHAT, {**first, "max_tokens": 60, "temperature": 0})
    used = reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"]
    more = {"messages": [*first["messages"], {"role": "assistant", "content": answer(reply)},
                         {"role": "user", "content": "And then?"}]}
    again = s.fine(CHAT, {**more, "max_tokens": 4, "temperature": 0})
    cached = again["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached >= used - 8, (cached, used)


def test_the_cache_outlives_the_server():                            # after a restart: the same bits, and nothing evaluated
    ask = {"prompt": "A rabbit and a fox lived in the forest. " * 12, "max_tokens": 12, "temperature": 0, "logprobs": 5}
    with temporary() as folder:
        # A name of its own, so that no other test finds the file; kernels stay where they are.
        model = os.path.join(folder, "restarted.gguf")
        os.symlink(harness.MODEL, model)
        replies = []
        for _ in range(2):
            with Server("--slots", "2", "--cache-size", "64", model=model) as s:
                replies.append(s.fine(COMPLETIONS, ask))
    first, second = replies
    assert second["choices"] == first["choices"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == first["usage"]["prompt_tokens"] - 1


def test_the_page_is_one_file():
    status, headers, page = server().get("/")
    assert status == 200 and headers["Content-Type"].startswith("text/html") and b"<title>" in page
    assert b"http://" not in page.replace(b"http://www.w3.org/", b"") and b"https://" not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_zz_end():
    """Last: the server of all tests ends as it should, and nothing hangs."""
    if _server is not None:
        assert _server.metric("slots_busy") == 0 and _server.metric("queue_length") == 0
        assert _server.end() == 0, _server.said()


if __name__ == "__main__":
    try:
        harness.main(sys.modules[__name__])
    finally:
        if _server is not None and _server.process.poll() is None:
            _server.process.kill()
