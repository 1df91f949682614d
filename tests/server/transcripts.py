#!/usr/bin/env python3
"""transcripts: what the official clients send, and what the server answers, byte for byte as far as it is the server's choice,
against tests/server/transcripts.json. The model is clients.py's, whose answers are written down.

In: the clients, or where they are not installed the recorded requests. Out: a difference is a failure; --bless writes the file
anew, for git diff to be looked at. Ids, times and what the cache had are left out; pieces of a stream that follow one another
are put together, and signs of life are left out, since how many there are depends on time.
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness                              # noqa: E402 pylint: disable=wrong-import-position
import clients                              # noqa: E402 pylint: disable=wrong-import-position
from clients import HI, TOOLS, anthropic, openai, server     # noqa: E402 pylint: disable=wrong-import-position

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transcripts.json")
FUNCTIONS = [{"type": "function", **tool["function"]} for tool in TOOLS]
INPUTS = [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in TOOLS]


def script(name, **more):
    return {"extra_body": {"chat_template_kwargs": {"script": name}, **more}}


def chat(c, **more):
    return c.chat.completions.create(model="any", messages=HI, **more)


# name: (kind of server, client, what it does)
PLAYS = {
    "models": ("plain", "openai", lambda c: c.models.list()),
    "chat": ("plain", "openai", lambda c: chat(c, temperature=0, max_tokens=20, stop=["zz"])),
    "chat, streamed": ("plain", "openai", lambda c: chat(c, stream=True, stream_options={"include_usage": True})),
    "chat, two answers": ("plain", "openai", lambda c: chat(c, n=2, seed=1)),
    "chat, log-probabilities": ("plain", "openai", lambda c: chat(c, logprobs=True, top_logprobs=1, max_tokens=1)),
    "chat, stopped by a text": ("plain", "openai", lambda c: chat(c, stop=["P Q"], stream=True, **script("long_stop"))),
    "chat, characters in halves": ("plain", "openai", lambda c: chat(c, stream=True, **script("emoji"))),
    "chat, no tokens": ("plain", "openai", lambda c: chat(c, max_tokens=0, stream=True)),
    "chat, a wrong field": ("plain", "openai", lambda c: chat(c, temperature=9)),
    "chat, too long": ("plain", "openai", lambda c: c.chat.completions.create(model="any", messages=[{"role": "user", "content": "x" * 600}])),
    "completion": ("plain", "openai", lambda c: c.completions.create(model="any", prompt="<|default|>", logprobs=1, echo=False)),
    "completion, streamed": ("plain", "openai", lambda c: c.completions.create(model="any", prompt="<|alice|>", stream=True)),
    "calls, streamed": ("hermes", "openai", lambda c: chat(c, tools=TOOLS, stream=True, **script("hermes"))),
    "calls of responses": ("hermes", "openai", lambda c: c.responses.create(model="any", input="Hi", tools=FUNCTIONS, **script("hermes"))),
    "calls of responses, streamed": ("hermes", "openai", lambda c: c.responses.create(model="any", input="Hi", tools=FUNCTIONS, stream=True, **script("hermes"))),
    "response that is cut": ("hermes", "openai", lambda c: c.responses.create(model="any", input=HI, instructions="Be brief.", max_output_tokens=2)),
    "calls of messages": ("hermes", "anthropic", lambda c: c.messages.create(model="any", max_tokens=50, messages=HI, tools=INPUTS, **script("hermes"))),
    "calls of messages, streamed": ("hermes", "anthropic", lambda c: c.messages.create(model="any", max_tokens=50, messages=HI, tools=INPUTS, stream=True, **script("hermes"))),
    "messages, a wrong field": ("hermes", "anthropic", lambda c: c.messages.create(model="any", max_tokens=5, messages=[])),
    "calls in pairs": ("glm", "openai", lambda c: chat(c, tools=TOOLS, **script("glm"))),
    "calls, bare": ("llama", "openai", lambda c: chat(c, tools=TOOLS, **script("llama"))),
    "calls, named": ("deepseek", "openai", lambda c: chat(c, tools=TOOLS, **script("deepseek"))),
    "thinking that is ended": ("hermes", "openai", lambda c: chat(c, max_tokens=4, **script("hermes", thinking_budget_tokens=1))),
}
TIMES = ("timings", "created", "created_at", "system_fingerprint", "seed", "size")
CACHED = ("cached_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def settled(value):
    """Without what differs from run to run."""
    if isinstance(value, list):
        return [settled(entry) for entry in value]
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, str):
        return re.sub("[0-9a-f]{24}", "#", value)
    if not isinstance(value, dict):
        return value
    out = {k: settled(v) for k, v in value.items() if k not in TIMES and k not in CACHED}
    if "cache_read_input_tokens" in value:
        out["input_tokens"] = value["input_tokens"] + value["cache_read_input_tokens"]
    return out


def joined(events):
    """Neighbours that differ in one text only, which is a piece of something, put together."""
    out = []
    for event in events:
        places = [p for p in pieces_of(event) if out and without(out[-1], p) == without(event, p)]
        if places:
            at(out[-1], places[0][:-1])[places[0][-1]] += at(event, places[0])
        else:
            out.append(event)
    return out


def at(value, place):
    for step in place:
        value = value[step]
    return value


def pieces_of(value, place=()):
    """Places of texts that may be pieces: under "delta", and text of completions."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield from pieces_of(v, (*place, k))
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from pieces_of(v, (*place, i))
    elif isinstance(value, str) and ("delta" in place or place[-1] == "text") and place[-1] not in ("type", "role", "name", "id"):
        yield place


def without(value, place):
    """A copy in which the text at this place is empty; numbers of events do not count."""
    copy = json.loads(json.dumps(value))
    copy.pop("sequence_number", None)
    try:
        at(copy, place[:-1])[place[-1]] = ""
    except (KeyError, IndexError, TypeError):
        return None
    return copy


def parsed(text):
    """An answer: JSON, or the events of a stream, which may begin with a sign of life."""
    if not text.startswith(("data: ", "event: ", ":")):
        return settled(json.loads(text))
    events = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        if "data" in lines and lines.get("event") != "ping":                     # no sign of life
            data = {"done": True} if lines["data"] == "[DONE]" else settled(json.loads(lines["data"]))
            events.append({"event": lines.get("event"), **data})
    events = joined(events)
    for event in events:
        event.pop("sequence_number", None)
    return events


def blocks_of(answer):
    """A recorded answer as a stream again, as a slow machine sends it: each text of more than one character in two pieces."""
    for event in answer:
        event = dict(event)
        name = event.pop("event")
        parts = [event]
        place = next((p for p in pieces_of(event) if len(at(event, p)) > 1), None)
        if place and name != "content_block_start":
            halves = at(event, place)[:1], at(event, place)[1:]
            parts = [json.loads(json.dumps(event)) for _ in halves]
            for part, half in zip(parts, halves):
                at(part, place[:-1])[place[-1]] = half
        for part in parts:
            data = "[DONE]" if part == {"done": True} else json.dumps(part)
            yield (f"event: {name}\n" if name else "") + f"data: {data}\n\n"


def recorded(name):
    """What a client sends, and what it gets."""
    kind, whose, play = PLAYS[name]
    seen = []

    def note(response):
        body = response.request.content
        seen.append({"request": {"method": response.request.method, "path": response.request.url.raw_path.decode(), "body": json.loads(body) if body else None},
                     "status": response.status_code, "answer": parsed(response.read().decode())})

    module = openai if whose == "openai" else anthropic
    with module.DefaultHttpxClient(event_hooks={"response": [note]}, timeout=120) as http:
        if whose == "openai":
            client = openai.OpenAI(base_url=server(kind).url + "/v1", api_key="none", max_retries=0, http_client=http)
        else:
            client = anthropic.Anthropic(base_url=server(kind).url, api_key="none", max_retries=0, http_client=http)
        try:
            answer = play(client)
            if hasattr(answer, "__iter__"):
                list(answer)
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            assert error.status_code == seen[-1]["status"] >= 400
    assert len(seen) == 1, seen
    return seen[0]


def replayed(name, request):
    status, _, answer = server(PLAYS[name][0]).ask(request["method"], request["path"], request["body"])
    text = answer.decode() if isinstance(answer, bytes) else json.dumps(answer)
    return {"request": request, "status": status, "answer": parsed(text)}


def golden():
    with open(PATH, encoding="utf-8") as file:
        return json.load(file)


def test_what_is_recorded_comes_again():
    rows = golden()
    assert set(rows) == set(PLAYS)
    for name, want in rows.items():
        got = replayed(name, want["request"])
        assert got == want, (name, got)


def test_the_clients_say_and_get_what_is_recorded():
    if not openai:
        raise harness.Skip("the official clients are not installed")
    rows = golden()
    for name in PLAYS:
        got = recorded(name)
        assert got == rows[name], (name, got)


def test_signs_of_life_and_cuts_are_no_difference():
    for name, row in golden().items():
        if not isinstance(row["answer"], list):
            continue
        blocks = list(blocks_of(row["answer"]))
        for sign in (": keep-alive\n\n", "event: ping\ndata: {\"type\": \"ping\"}\n\n"):
            assert parsed("".join(sign + block for block in blocks) + sign) == row["answer"], (name, sign)


def test_a_stream_begins_the_same_however_far_the_engine_is():
    """What is counted while the answer is made stands at the stream's end."""
    body = {"model": "any", "max_tokens": 3, "messages": [{"role": "user", "content": "x" * 200}], "stream": True}
    for _ in range(100):                          # from the second on, the cache has the prompt
        _, _, data = server("hermes").post("/v1/messages", body)
        begin, *_, end, _ = parsed(data.decode())
        usage = begin["message"]["usage"]
        assert usage == {"input_tokens": 209, "output_tokens": 0}, usage
        assert end["usage"] == {"input_tokens": 209, "output_tokens": 3}, end
    raw = data.decode()
    first, last = (json.loads(line[6:]) for line in raw.split("\n") if '"usage"' in line)
    assert first["message"]["usage"]["cache_read_input_tokens"] == 0, raw
    assert last["usage"]["cache_read_input_tokens"] > 0 and sum(last["usage"].values()) == 212, raw


def test_zz_end():
    clients.test_zz_end()


if __name__ == "__main__":
    try:
        if "--bless" in sys.argv:
            with open(PATH, "w", encoding="utf-8") as out_file:
                json.dump({name: recorded(name) for name in PLAYS}, out_file, ensure_ascii=False, indent=1, sort_keys=True)
                out_file.write("\n")
        else:
            harness.main(sys.modules[__name__])
    finally:
        clients.leave()
