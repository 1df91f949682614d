#!/usr/bin/env python3
"""clients: the official Python clients of OpenAI and Anthropic drive the server, on a model whose answers are written down
(scripted.py), so that every text, cut and end is known; and what answers are held to, on the model inside the program.
"""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness                              # noqa: E402 pylint: disable=wrong-import-position
from harness import Skip                    # noqa: E402 pylint: disable=wrong-import-position
from serving import Server                  # noqa: E402 pylint: disable=wrong-import-position
import scripted                             # noqa: E402 pylint: disable=wrong-import-position

try:
    import anthropic
    import openai
except ImportError:
    anthropic = openai = None

CHAT, COMPLETIONS, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"
HI = [{"role": "user", "content": "Hi"}]
SPECIALS = {"<tool_call>": 4, "</tool_call>": 4, "<think>": 4, "</think>": 4, "<|python_tag|>": 3,
            "<｜tool▁calls▁begin｜>": 3, "<｜tool▁call▁begin｜>": 3, "<｜tool▁sep｜>": 3, "<｜tool▁call▁end｜>": 3,
            "<｜tool▁calls▁end｜>": 3}
SCRIPTS = {
    "default": ["Hi", " there", "!"],
    "emoji": [b"\xf0\x9f\x98", b"\xb8", " ", b"\xf0\x9f", b"\x98\xb8", "."],
    "broken": [b"\x80", b"\xc3", "(", b"\xe4\xbd"],
    "long_stop": ["A B C", " ", "O", " P", " Q", " R"],
    "alice": [" Alice", "!"],
    "half_stop": ["one", " <", "e", "n", "d", ">", " two"],
    "reuse": ["re", "use", " it"],
    "hermes": ["<think>", "Hm", ".", "</think>", "\n\n", "Wait.", "\n", "<tool_call>", "\n{\"name\": \"weather\", ", "\"arguments\": {\"ci",
               b"ty\": \"Z\xc3", b"\xbcrich\"}}\n", "</tool_call>", "\n", "<tool_call>", "{\"name\": \"time\", \"arguments\": {}}", "</tool_call>"],
    "glm": ["<think>", "a", "</think>", "<tool_call>", "weather", "<arg_key>", "city", "</arg_key>", "<arg_value>", "12", "</arg_value>",
            "<arg_key>days</arg_key><arg_value>3</arg_value>", "</tool_call>"],
    "llama": ["<|python_tag|>", "{\"name\": \"weather\", \"parameters\": {\"city\": \"Bern\"}}"],
    "deepseek": ["Fine.", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "weather", "<｜tool▁sep｜>", "{\"city\": ", "\"Bern\"}",
                 "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
    "quoted": ["hello ", "</think>", " world"],
}
MARKS = {"hermes": "{# <tool_call> </think> #}", "glm": "{# <arg_key> <tool_call> </think> #}",
         "llama": "{# {\"name\": function name #}", "deepseek": "{# <｜tool▁call▁begin｜> #}", "plain": ""}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
             "type": "object", "properties": {"city": {"type": "string", "enum": ["Bern", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
             "required": ["city"]}}},
         {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}]
_servers, _folder = {}, tempfile.TemporaryDirectory(prefix="lathe-test-")


def scripted_server(key, model, scripts, specials, template, *flags):
    """A server of a model that says what its scripts hold, started once for a key. model: name of its file."""
    if key not in _servers:
        path, file = os.path.join(_folder.name, model + ".gguf"), os.path.join(_folder.name, f"{len(_servers)}.jinja")
        if not os.path.exists(path):
            try:
                scripted.write(path, scripts, specials)
            except ImportError as why:
                raise Skip("gguf is not installed") from why
        with open(file, "w", encoding="utf-8") as out:
            out.write(template)
        _servers[key] = Server("--template-file", file, *flags, model=path)
    return _servers[key]


def server(kind="plain"):
    """The scripted model with a template of this kind."""
    return scripted_server(kind, "scripted", SCRIPTS, SPECIALS, MARKS[kind] + scripted.template_of(SCRIPTS), "--slots", "2")


def story_server():
    """The model inside the program, with a template that knows tools."""
    if "story" not in _servers:
        template = os.path.join(_folder.name, "story.jinja")
        with open(template, "w", encoding="utf-8") as file:
            file.write("{# <tool_call> #}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
                       "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
        _servers["story"] = Server("--slots", "4", "--template-file", template)
    return _servers["story"]


def play(script, kind="plain", **more):
    return {"messages": HI, "chat_template_kwargs": {"script": script}, **more}


def message(kind, script, **more):
    return server(kind).fine(CHAT, play(script, **more))["choices"][0]


def deltas(kind, script, **more):
    """The message that a stream's deltas make, and the end's reason."""
    out = {"content": "", "reasoning_content": "", "tool_calls": []}
    reason = None
    for chunk in server(kind).events(CHAT, play(script, **more)):
        delta = chunk["choices"][0]["delta"]
        for name in ("content", "reasoning_content"):
            out[name] += delta.get(name) or ""
        for call in delta.get("tool_calls", []):
            if call["index"] == len(out["tool_calls"]):
                out["tool_calls"].append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
            out["tool_calls"][call["index"]]["arguments"] += call["function"]["arguments"]
        reason = chunk["choices"][0]["finish_reason"]
    return out, reason


# ---- text as it comes

def test_characters_are_never_cut():                                # B27, B29
    for script, text in (("emoji", "😸 😸."), ("broken", "\ufffd\ufffd(\ufffd")):
        chunks = server().events(CHAT, play(script))
        parts = [c["choices"][0]["delta"].get("content", "") for c in chunks]
        assert "".join(parts) == text == message("plain", script)["message"]["content"], (script, parts)
        if script == "emoji":
            assert not any("\ufffd" in part for part in parts), parts
        logprobs = message("plain", script, logprobs=True)["logprobs"]["content"]
        assert b"".join(bytes(t["bytes"]) for t in logprobs).decode(errors="replace") == text


def test_stop_texts_across_tokens():                                # B32, B34, B35
    rows = [("long_stop", ["O P Q"], "A B C ", "stop"), ("alice", ["\n", "Alice:"], " Alice!", "stop"),
            ("half_stop", ["<end>"], "one ", "stop"), ("half_stop", ["<end!", "<endless"], "one <end> two", "stop"),
            ("long_stop", ["A"], "", "stop")]
    for script, stop, text, reason in rows:
        choice = message("plain", script, stop=stop)
        assert (choice["message"]["content"], choice["finish_reason"]) == (text, reason), (script, choice)
        assert deltas("plain", script, stop=stop)[0]["content"] == text
        prompt = {"prompt": f"<|{script}|>", "stop": stop}
        assert server().fine(COMPLETIONS, prompt)["choices"][0]["text"] == text
        parts = [c["choices"][0]["text"] for c in server().events(COMPLETIONS, prompt)]
        assert "".join(parts) == text, parts


def test_answers_are_cached_by_their_ids():                         # B55
    s = server()
    ids = s.fine("/tokenize", {"content": "reuse it"})["tokens"]
    first = s.fine(COMPLETIONS, {"prompt": "<|reuse|>", "logprobs": 0})
    tops = s.fine(COMPLETIONS, {"prompt": "<|reuse|>", "logprobs": 1})["choices"][0]["logprobs"]["tokens"]
    assert tops == ["re", "use", " it"]


def test_clients_whole_and_streamed():
    if not openai:
        raise Skip("the openai package is not installed")
    client = openai.OpenAI(base_url=server().url + "/v1", api_key="none", max_retries=0)
    assert [m.id for m in client.models.list()] == ["scripted"]
    whole = client.chat.completions.create(model="any", messages=HI)
    assert whole.choices[0].message.content == "Hi there!" and whole.choices[0].finish_reason == "stop"
    assert whole.usage.completion_tokens == 4 and whole.usage.prompt_tokens_details.cached_tokens >= 0
    stream = list(client.chat.completions.create(model="any", messages=HI, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in stream if c.choices) == "Hi there!"
    assert stream[-1].usage.completion_tokens == 4 and stream[-1].choices == []
    text = client.completions.create(model="any", prompt="<|default|>", logprobs=1)
    assert text.choices[0].text == "Hi there!" and text.choices[0].logprobs.tokens == ["Hi", " there", "!"]
    lines = client.completions.create(model="any", prompt="<|default|>", stream=True)
    assert "".join(c.choices[0].text for c in lines) == "Hi there!"
    logprobs = client.chat.completions.create(model="any", messages=HI, logprobs=True, top_logprobs=2).choices[0].logprobs
    assert [t.token for t in logprobs.content] == ["Hi", " there", "!"] and len(logprobs.content[0].top_logprobs) == 2
    try:
        client.chat.completions.create(model="any", messages=HI, temperature=9)
        raise AssertionError("no error")
    except openai.BadRequestError as error:
        assert error.param == "temperature" and error.code == "invalid_value", error
    try:
        client.completions.create(model="any", prompt="x" * 2000)
        raise AssertionError("no error")
    except openai.BadRequestError as error:
        assert error.code == "context_length_exceeded", error


# ---- tools and thinking

WANT = {
    "hermes": ("Hm.", "Wait.", [("weather", {"city": "Zürich"}), ("time", {})]),
    "glm": ("a", None, [("weather", {"city": "12", "days": 3})]),
    "llama": (None, None, [("weather", {"city": "Bern"})]),
    "deepseek": (None, "Fine.", [("weather", {"city": "Bern"})]),
}


def test_calls_of_every_format():
    for kind, (reasoning, content, calls) in WANT.items():
        choice = message(kind, kind, tools=TOOLS)
        got = choice["message"]
        assert got.get("reasoning_content") == reasoning and got["content"] == content, got
        assert [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in got["tool_calls"]] == calls, got
        assert choice["finish_reason"] == "tool_calls" and len({c["id"] for c in got["tool_calls"]}) == len(calls)
        streamed, reason = deltas(kind, kind, tools=TOOLS)
        assert reason == "tool_calls" and streamed["reasoning_content"] == (reasoning or "") and streamed["content"] == (content or "")
        assert [(c["name"], json.loads(c["arguments"])) for c in streamed["tool_calls"]] == calls, streamed
        assert len({c["id"] for c in streamed["tool_calls"]}) == len(calls)


def test_one_call_at_most_where_asked():
    for kind, (reasoning, content, calls) in WANT.items():
        choice = message(kind, kind, tools=TOOLS, parallel_tool_calls=False)
        got = choice["message"]
        assert [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in got["tool_calls"]] == calls[:1], got
        assert got.get("reasoning_content") == reasoning and got["content"] == content and choice["finish_reason"] == "tool_calls", choice
        streamed, reason = deltas(kind, kind, tools=TOOLS, parallel_tool_calls=False)
        assert reason == "tool_calls" and [(c["name"], json.loads(c["arguments"])) for c in streamed["tool_calls"]] == calls[:1], streamed
    assert len(WANT["hermes"][2]) == 2
    asked = {"max_tokens": 64, "messages": HI, "chat_template_kwargs": {"script": "hermes"},
             "tools": [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in TOOLS]}
    for is_single in (True, False):
        reply = server("hermes").fine(MESSAGES, {**asked, "tool_choice": {"type": "auto", "disable_parallel_tool_use": is_single}})
        assert len([b for b in reply["content"] if b["type"] == "tool_use"]) == 2 - is_single, reply
    status, _, reply = server("hermes").post(MESSAGES, {**asked, "tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}})
    assert status == 400 and "disable_parallel_tool_use" in reply["error"]["message"], reply
    assert "tool_calls" not in message("hermes", "default", tools=TOOLS, parallel_tool_calls=False)["message"]


def test_without_tools_nothing_is_a_call():
    got = message("hermes", "hermes")["message"]
    assert "tool_calls" not in got and got["reasoning_content"] == "Hm." and "<tool_call>" in got["content"], got
    assert "tool_calls" not in message("hermes", "hermes", tools=TOOLS, tool_choice="none")["message"]
    assert message("hermes", "quoted")["message"]["content"] == "hello </think> world"
    cut = message("hermes", "hermes", tools=TOOLS, max_tokens=9)     # its name is there, its arguments have not begun
    assert cut["finish_reason"] == "length" and "tool_calls" not in cut["message"], cut


def test_calls_come_in_pieces():                                     # B27: characters are not cut there either
    for kind in WANT:                        # how many there are depends on time: tests/unit/test_reply_scanner.c counts
        calls = []
        for chunk in server(kind).events(CHAT, play(kind, tools=TOOLS)):
            for call in chunk["choices"][0]["delta"].get("tool_calls", []):
                if call["index"] == len(calls):
                    assert call["type"] == "function" and call["id"] and call["function"]["name"] and call["function"]["arguments"] == "", call
                    calls.append("")
                    continue
                assert set(call) == {"index", "function"} and set(call["function"]) == {"arguments"} and call["function"]["arguments"], call
                calls[call["index"]] += call["function"]["arguments"]
        whole = message(kind, kind, tools=TOOLS)["message"]["tool_calls"]
        assert calls == [c["function"]["arguments"] for c in whole] and all(json.loads(c) is not None for c in calls), calls
        assert len(calls) == len(WANT[kind][2])
    # Cut in the middle: what is there of the arguments, and that it is not all.
    choice = message("hermes", "hermes", tools=TOOLS, max_tokens=10)
    got, reason = deltas("hermes", "hermes", tools=TOOLS, max_tokens=10)
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == got["tool_calls"][0]["arguments"] == "{\"ci", (choice, got)
    assert choice["finish_reason"] == reason == "length"
    cut = server("hermes").fine(MESSAGES, {"messages": HI, "max_tokens": 10, "chat_template_kwargs": {"script": "hermes"},
                                           "tools": [{"name": "weather", "input_schema": {"type": "object"}}]})
    assert cut["stop_reason"] == "max_tokens" and cut["content"][-1]["input"] == {}, cut


def test_clients_call_tools():
    if not openai:
        raise Skip("the openai package is not installed")
    client = openai.OpenAI(base_url=server("hermes").url + "/v1", api_key="none", max_retries=0)
    extra = {"chat_template_kwargs": {"script": "hermes"}}
    calls = client.chat.completions.create(model="any", messages=HI, tools=TOOLS, extra_body=extra).choices[0].message.tool_calls
    assert [c.function.name for c in calls] == ["weather", "time"] and json.loads(calls[0].function.arguments) == {"city": "Zürich"}
    history = [*HI, {"role": "assistant", "content": None, "tool_calls": [c.model_dump() for c in calls]},
               {"role": "tool", "tool_call_id": calls[0].id, "content": "sunny"}]
    assert client.chat.completions.create(model="any", messages=history, tools=TOOLS).choices[0].message.content == "Hi there!"
    prompt = server("hermes").fine("/apply-template", {"messages": history, "tools": TOOLS})["prompt"]
    assert "[assistant] weathertime" in prompt and "[tool] sunny" in prompt and "[tools 2]" in prompt, prompt


def test_wrong_tools_are_named():
    s = server("hermes")
    for field, value, param in (("tools", [5], "tools[0]"), ("tools", [{"type": "function", "function": {}}], "tools[0].function.name"),
                                ("tools", [{"type": "magic"}], "tools[0]"), ("tool_choice", "sometimes", "tool_choice"),
                                ("tool_choice", {"function": {"name": "none"}}, "tool_choice"), ("parallel_tool_calls", "no", "parallel_tool_calls"),
                                ("tools", [{"type": "function", "function": {"name": "f", "parameters": 5}}], "tools[0].function.parameters")):
        s.refused(CHAT, {"messages": HI, "tools": TOOLS, field: value}, 400, param)
    s.refused(CHAT, {"messages": HI, "tool_choice": "required"}, 400, "tool_choice")
    bare = os.path.join(_folder.name, "bare.jinja")
    with open(bare, "w", encoding="utf-8") as file:
        file.write("{% for m in messages %}{{ m.content }}{% endfor %}")
    with Server("--slots", "1", "--template-file", bare) as other:
        other.refused(CHAT, {"messages": HI, "tools": TOOLS}, 400, "tools")


# ---- Anthropic's form

def test_messages_whole_and_streamed():
    s = server("hermes")
    ask = {"messages": HI, "max_tokens": 50, "chat_template_kwargs": {"script": "hermes"}, "system": [{"type": "text", "text": "Be brief."}],
           "tools": [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in TOOLS]}
    whole = s.fine(MESSAGES, ask)
    assert [b["type"] for b in whole["content"]] == ["thinking", "text", "tool_use", "tool_use"], whole
    assert whole["content"][0]["thinking"] == "Hm." and whole["content"][1]["text"] == "Wait."
    assert whole["content"][2]["input"] == {"city": "Zürich"} and whole["content"][2]["name"] == "weather"
    assert whole["stop_reason"] == "tool_use" and whole["type"] == "message" and whole["role"] == "assistant"
    again = s.fine(MESSAGES, ask)["usage"]
    assert again["cache_read_input_tokens"] > 0 and again["input_tokens"] + again["cache_read_input_tokens"] == \
        whole["usage"]["input_tokens"] + whole["usage"]["cache_read_input_tokens"]
    stopped = s.fine(MESSAGES, {"messages": HI, "max_tokens": 50, "stop_sequences": ["zz", "re!"]})
    assert stopped["stop_reason"] == "stop_sequence" and stopped["stop_sequence"] == "re!" and stopped["content"][0]["text"] == "Hi the"
    assert s.fine(MESSAGES, {"messages": HI, "max_tokens": 2})["stop_reason"] == "max_tokens"
    assert s.fine(MESSAGES, {"messages": HI, "max_tokens": 9})["stop_reason"] == "end_turn"
    status, _, wrong = s.post(MESSAGES, {"messages": [{"role": "tool", "content": "x"}], "max_tokens": 5})
    assert status == 400 and wrong["type"] == "error" and wrong["error"]["type"] == "invalid_request_error", wrong
    for bad in ({"messages": []}, {}, {"messages": HI, "system": 5}, {"messages": HI, "max_tokens": -1},
                {"messages": [{"role": "user", "content": [{"type": "image"}]}]}, {"messages": HI, "temperature": "x"}):
        assert s.post(MESSAGES, {"max_tokens": 5, **bad})[0] == 400, bad


def test_messages_history_becomes_the_templates():
    s = server("hermes")
    history = {"max_tokens": 5, "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}, {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "sunny"}]},
                                     {"type": "text", "text": "and?"}]}]}
    same = [{"role": "user", "content": "go"},
            {"role": "assistant", "content": "ok", "tool_calls": [{"function": {"name": "weather", "arguments": "{}"}}]},
            {"role": "tool", "content": "sunny"}, {"role": "user", "content": "and?"}]
    prompt = "[user] go\n[assistant] okweather\n[tool] sunny\n[user] and?\n<|default|>"
    assert s.fine("/apply-template", {"messages": same})["prompt"] == prompt
    ids = s.fine("/tokenize", {"content": prompt})["tokens"]
    usage = s.fine(MESSAGES, history)["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == len(ids), (usage, len(ids))


def test_anthropics_client():
    if not anthropic:
        raise Skip("the anthropic package is not installed")
    client = anthropic.Anthropic(base_url=server("hermes").url, api_key="none", max_retries=0)
    whole = client.messages.create(model="any", max_tokens=20, messages=HI, system="Be brief.")
    assert whole.content[0].text == "Hi there!" and whole.stop_reason == "end_turn" and whole.usage.output_tokens == 4
    tools = [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in TOOLS]
    with client.messages.stream(model="any", max_tokens=50, messages=HI, tools=tools,
                                extra_body={"chat_template_kwargs": {"script": "hermes"}}) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds
    assert [b.type for b in final.content] == ["thinking", "text", "tool_use", "tool_use"] and final.content[2].input == {"city": "Zürich"}
    assert final.stop_reason == "tool_use" and final.usage.output_tokens > 10
    with client.messages.stream(model="any", max_tokens=20, messages=HI) as stream:
        assert "".join(stream.text_stream) == "Hi there!"
    try:
        client.messages.create(model="any", max_tokens=5, messages=[])
        raise AssertionError("no error")
    except anthropic.BadRequestError as error:
        assert error.body["error"]["type"] == "invalid_request_error", error


# ---- what answers are held to

SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 12}, "age": {"type": "integer", "minimum": 1, "maximum": 120},
                                           "kind": {"enum": ["fox", "hen"]}, "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}},
          "required": ["name", "age", "kind", "tags"], "additionalProperties": False}


def test_answers_are_held_to_a_schema():
    s = story_server()
    for seed in range(4):
        for ask in ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}}, {"json_schema": SCHEMA}):
            reply = s.fine(CHAT, {"messages": HI, "temperature": 1.5, "top_k": 0, "min_p": 0, "top_p": 1, "seed": seed, **ask})["choices"][0]
            value = json.loads(reply["message"]["content"])
            assert reply["finish_reason"] == "stop" and list(value) == ["name", "age", "kind", "tags"], value
            assert 1 <= len(value["name"]) <= 12 and 1 <= value["age"] <= 120 and value["kind"] in ("fox", "hen"), value
            assert len(value["tags"]) <= 3 and all(isinstance(t, bool) for t in value["tags"]), value
    free = s.fine(CHAT, {"messages": HI, "max_tokens": 300, "temperature": 0, "response_format": {"type": "json_object"}})["choices"][0]
    text = free["message"]["content"]
    assert text.startswith("{") and (free["finish_reason"] == "length" or isinstance(json.loads(text), dict)), text
    one = s.fine(COMPLETIONS, {"prompt": "x", "response_format": {"type": "regex", "pattern": "^[a-c]{3}-[0-9]{2}$"}})["choices"][0]
    assert re.fullmatch("[a-c]{3}-[0-9]{2}", one["text"]) and one["finish_reason"] == "stop", one
    both = s.fine(COMPLETIONS, {"prompt": "x", "regex": "^(yes|no)$", "n": 3, "seed": 1})["choices"]
    assert all(c["text"] in ("yes", "no") for c in both), both
    plain = s.fine(COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0})["choices"][0]["text"]
    assert plain == s.fine(COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0})["choices"][0]["text"]
    assert plain.strip() not in ("yes", "no")                        # no mask stays in the slot


def test_answers_are_held_to_a_grammar():
    s = story_server()
    grammar = "root ::= line{2,3}  # a few lines\nline ::= \"- \" [A-Z] [a-z]{2,8} (\", \" [0-9]+){0,2} \"\\n\""
    fits = re.compile(r"(- [A-Z][a-z]{2,8}(, [0-9]+){0,2}\n){2,3}")
    hot = {"temperature": 1.5, "top_k": 0, "min_p": 0, "top_p": 1, "max_tokens": 200}
    for seed in range(3):
        chat = {"messages": HI, "grammar": grammar, "seed": seed, **hot}
        reply = s.fine(CHAT, chat)["choices"][0]
        assert fits.fullmatch(reply["message"]["content"]) and reply["finish_reason"] == "stop", reply
        parts = [c["choices"][0]["delta"].get("content") or "" for c in s.events(CHAT, chat)]
        assert "".join(parts) == reply["message"]["content"]
        text = {"prompt": "A list:\n", "grammar": grammar, "seed": seed, "n": 2, **hot}
        choices = s.fine(COMPLETIONS, text)["choices"]
        assert all(fits.fullmatch(c["text"]) for c in choices), choices
        assert s.fine(COMPLETIONS, text)["choices"] == choices
    said = message("hermes", "hermes", grammar="root ::= \"4\" [0-9]{1,2} \"km\"")     # thinking is free
    assert said["message"]["reasoning_content"] and re.fullmatch("4[0-9]{1,2}km", said["message"]["content"].strip()), said
    free = {"messages": HI, "max_tokens": 8, "temperature": 0}
    assert s.fine(CHAT, {**free, "grammar": "", "response_format": {"type": "text"}})["choices"] == s.fine(CHAT, free)["choices"]


def test_calls_are_held_to_their_schema():                           # B45
    s = story_server()
    for choice, names in (("required", {"weather", "time"}), ({"type": "function", "function": {"name": "time"}}, {"time"})):
        for seed in range(3):
            reply = s.fine(CHAT, {"messages": HI, "tools": TOOLS, "tool_choice": choice, "seed": seed, "max_tokens": 400})["choices"][0]
            calls = reply["message"]["tool_calls"]
            assert reply["finish_reason"] == "tool_calls" and calls, reply
            for call in calls:
                arguments = json.loads(call["function"]["arguments"])
                assert call["function"]["name"] in names
                if call["function"]["name"] == "time":
                    assert arguments == {}
                else:
                    assert arguments["city"] in ("Bern", "Rome") and set(arguments) <= {"city", "days"} and arguments.get("days", 1) in range(1, 10)
    strict = [{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}]
    assert s.fine(CHAT, {"messages": HI, "tools": strict, "max_tokens": 12, "temperature": 0})["choices"][0]["message"]["content"]
    for kind in ("glm", "llama", "deepseek"):
        reply = server(kind).fine(CHAT, play("default", tools=TOOLS, tool_choice={"type": "function", "function": {"name": "weather"}}, max_tokens=300))
        call = reply["choices"][0]["message"]["tool_calls"][0]["function"]
        assert call["name"] == "weather" and json.loads(call["arguments"])["city"] in ("Bern", "Rome"), (kind, reply)


def test_what_cannot_be_held_to_is_refused():                        # B47, B48
    s = story_server()

    def schema(value):
        return {"messages": HI, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": value}}}

    s.refused(CHAT, schema({"type": "string", "pattern": "^hello there indeed\\!$"}), 400, "response_format.json_schema.schema.pattern")
    deep = {"type": "null"}
    for _ in range(70):
        deep = {"type": "array", "items": deep}
    assert s.refused(CHAT, schema(deep), 400)["param"].startswith("response_format.json_schema.schema.items.items")
    s.refused(CHAT, schema({"properties": {"a": {"not": {}, "if": {"type": "null"}}}}), 400, "response_format.json_schema.schema.properties.a.if")
    for wrong, param in (({"type": "json_schema"}, "response_format.json_schema.schema"), ({"type": "json_schema", "json_schema": {}}, "response_format.json_schema.schema"), ({"type": "xml"}, "response_format.type"), (5, "response_format"),
                         ({"type": "regex", "pattern": "("}, "response_format.pattern"), ({"type": "regex", "pattern": 5}, "response_format.pattern")):
        s.refused(CHAT, {"messages": HI, "response_format": wrong}, 400, param)
    for grammar, text in (("root ::= \"x\"\nroot ::= \"y\"", "line 2, column 1: the rule \"root\" is defined twice"), ("root ::= [z-a]", "line 1, column 11: "),
                          ("root ::= root \"x\" | \"y\"", "begins with itself"), ("root ::= other", "\"other\" is not defined"), (5, "string")):
        for path, ask in ((CHAT, {"messages": HI}), (COMPLETIONS, {"prompt": "x"})):
            s.refused(path, {**ask, "grammar": grammar}, 400, "grammar", text=text)
    s.refused(COMPLETIONS, {"prompt": "x", "regex": "a", "grammar": "root ::= \"x\""}, 400, "grammar", text="beside regex")
    s.refused(COMPLETIONS, {"prompt": "x", "json_schema": {}, "response_format": {"type": "json_object"}}, 400, "json_schema")
    s.refused(CHAT, {"messages": HI, "tools": TOOLS, "tool_choice": "required", "grammar": "root ::= \"x\""}, 400, "grammar")
    s.refused(CHAT, {"messages": HI, "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"pattern": "("}}}}}],
                     "tool_choice": "required"}, 400, "tools[0].function.parameters.properties.a.pattern")
    bad = {"type": "object", "properties": {"a": {"pattern": "("}}}      # each protocol has a place of its own for it
    s.refused("/v1/responses", {"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": bad}], "tool_choice": "required"}, 400,
              "tools[0].parameters.properties.a.pattern")
    for tool, place in (({"input_schema": bad}, "tools[0].input_schema.properties.a.pattern"), ({"input_schema": 5}, "tools[0].input_schema")):
        status, _, reply = s.post(MESSAGES, {"max_tokens": 4, "messages": HI, "tools": [{"name": "f", **tool}], "tool_choice": {"type": "any"}})
        assert status == 400 and place in reply["error"]["message"], reply
    digits = s.fine(CHAT, {**schema({"type": "string", "pattern": "^\\d{3}\\w\\s$"}), "seed": 1})["choices"][0]["message"]["content"]
    assert re.fullmatch(r"\d{3}\w\s", json.loads(digits), re.ASCII) or re.fullmatch(r"[0-9]{3}[0-9A-Za-z_]\s", json.loads(digits)), digits


def test_thinking_stands_before_what_is_held():
    reply = message("hermes", "default", response_format={"type": "json_schema", "json_schema": {"schema": {"const": 42}}})
    assert reply["message"]["content"].strip() == "42", reply


def test_zz_end():
    for one in _servers.values():
        assert one.end() == 0, one.said()


def leave():
    """Ends what tests left, where they failed."""
    for left in _servers.values():
        if left.process.poll() is None:
            left.process.kill()
    _folder.cleanup()


if __name__ == "__main__":
    try:
        harness.main(sys.modules[__name__])
    finally:
        leave()
