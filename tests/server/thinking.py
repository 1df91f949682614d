#!/usr/bin/env python3
"""thinking: budgets of tokens for thinking, on models whose answers are written down (scripted.py).

Each model thinks "one two three four", unless its budget ends that; what it says behind the closing marker is known.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness                              # noqa: E402 pylint: disable=wrong-import-position
import clients                              # noqa: E402 pylint: disable=wrong-import-position
import scripted                             # noqa: E402 pylint: disable=wrong-import-position
from clients import CHAT, HI, MESSAGES      # noqa: E402 pylint: disable=wrong-import-position

THOUGHT = ["one", " two", " three", " four"]
CALL = ["<tool_call>", "{\"name\": \"time\", ", "\"arguments\": {}}", "</tool_call>"]
TOOLS = [{"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}]
# One closing marker a model, so that what follows a forced one is known. spelled: the marker is no token of its own.
MODELS = {
    "marked": ({"default": ["<think>", *THOUGHT, "</think>", "\n\n", "Done", "."]}, {"<think>": 4, "</think>": 4}),
    "called": ({"default": ["<think>", *THOUGHT, "</think>", *CALL]}, {"<think>": 4, "</think>": 4, "<tool_call>": 4, "</tool_call>": 4}),
    "emoji": ({"default": ["<think>", b"\xf0\x9f", b"\x98\xb8", "x", "</think>", "Done", "."]}, {"<think>": 4, "</think>": 4}),
    "spelled": ({"default": ["<think>", *THOUGHT, "</th", "ink>", "Done", "."]}, {"<think>": 4}),
}


def server(kind, opens=False, *flags):
    """opens: the prompt ends with the opening marker."""
    scripts, specials = MODELS[kind]
    template = "{# <tool_call> </think> #}" + scripted.template_of(scripts) + ("<think>" if opens else "")
    return clients.scripted_server((kind, opens, flags), kind, scripts, specials, template, "--slots", "4", *flags)


def said(s, **more):
    """(thinking, content, calls) of a chat; the same streamed."""
    ask = {"messages": HI, **more}
    message = s.fine(CHAT, ask)["choices"][0]["message"]
    whole = (message.get("reasoning_content", ""), message["content"] or "", [c["function"]["name"] for c in message.get("tool_calls", [])])
    deltas = [c["choices"][0]["delta"] for c in s.events(CHAT, ask)]
    calls = [c["function"]["name"] for d in deltas for c in d.get("tool_calls", []) if "id" in c]
    streamed = tuple("".join(d.get(name) or "" for d in deltas) for name in ("reasoning_content", "content")) + (calls,)
    assert streamed == whole, (streamed, whole)
    return whole


def test_thinking_ends_after_its_budget():
    for opens in (False, True):
        s = server("marked", opens)
        for budget in range(6):
            want = ("".join(THOUGHT[:budget]), "Done.", [])
            for name in ("thinking_budget_tokens", "reasoning_budget_tokens"):
                assert said(s, **{name: budget}) == want, (opens, budget, said(s, **{name: budget}))
        for free in ({}, {"thinking_budget_tokens": -1}, {"thinking_budget_tokens": None}, {"thinking_budget_tokens": 1000}):
            assert said(s, **free) == ("".join(THOUGHT), "Done.", []), free
    usage = server("marked", True).fine(CHAT, {"messages": HI, "thinking_budget_tokens": 2})["usage"]
    assert usage["completion_tokens"] == 2 + 1 + 3 + 1, usage         # thought, marker, answer, end


def test_no_character_is_cut():
    assert said(server("emoji"), thinking_budget_tokens=1) == ("😸", "Done.", [])
    assert said(server("emoji"), thinking_budget_tokens=2) == ("😸", "Done.", [])


def test_markers_of_several_tokens():
    s = server("spelled", True)
    assert said(s) == ("".join(THOUGHT), "Done.", [])
    # Behind the marker's last byte the model, which never wrote it like this, says nothing.
    assert said(s, thinking_budget_tokens=2) == ("one two", "", [])


def test_budgets_beside_tools_and_constraints():
    s = server("called", True)
    for budget in (0, 3):
        assert said(s, tools=TOOLS, thinking_budget_tokens=budget) == ("".join(THOUGHT[:budget]), "", ["time"])
        assert said(s, tools=TOOLS, tool_choice="required", thinking_budget_tokens=budget) == ("".join(THOUGHT[:budget]), "", ["time"])
    for opens in (False, True):
        s = server("marked", opens)
        for grammar in ({"grammar": "root ::= \"Done\" [!]"}, {"regex": "^Done!$"}):
            for budget in (0, 1, 3):
                got = said(s, thinking_budget_tokens=budget, max_tokens=50, **grammar)
                # A grammar lets an answer begin at once where no thinking was opened.
                assert got[1].strip() == "Done!" and got[0] in ("".join(THOUGHT[:budget]), ""), (opens, budget, got)
                assert not opens or got[0] == "".join(THOUGHT[:budget]), got


def test_budgets_of_several_answers():
    s = server("marked", True)
    ask = {"messages": HI, "thinking_budget_tokens": 2, "logprobs": True, "top_logprobs": 3, "seed": 4}
    three = s.fine(CHAT, {**ask, "n": 3})["choices"]
    alone = s.fine(CHAT, ask)["choices"][0]
    for choice in three:
        assert {**choice, "index": 0} == alone, choice               # every bit of the log-probabilities too
    text = b"".join(bytes(t["bytes"]) for t in alone["logprobs"]["content"]).decode()
    assert text == "one two</think>\n\nDone.", text
    forced = [t for t in alone["logprobs"]["content"] if t["token"] == "</think>"][0]
    assert forced["top_logprobs"][0]["token"] == " three" and forced["logprob"] < forced["top_logprobs"][0]["logprob"], forced
    assert said(s) == ("".join(THOUGHT), "Done.", [])                 # no mask stays in the slot


def test_the_servers_budget_and_the_template():
    s = server("marked", True, "--reasoning-budget", "1")
    assert said(s) == ("one", "Done.", []) and said(s, thinking_budget_tokens=3) == ("one two three", "Done.", [])
    assert said(s, thinking_budget_tokens=-1) == ("".join(THOUGHT), "Done.", [])
    # The template is told where nothing may be thought, but for what the request itself tells it.
    plain, told = (s.fine(CHAT, {"messages": HI, **more})["usage"]["prompt_tokens"]
                   for more in ({}, {"thinking_budget_tokens": 0}))
    with_kwargs = s.fine("/apply-template", {"messages": HI, "chat_template_kwargs": {"enable_thinking": False}})["prompt"]
    assert told > plain and "[thinking False]" in with_kwargs
    assert told == len(s.fine("/tokenize", {"content": with_kwargs})["tokens"])
    own = s.fine(CHAT, {"messages": HI, "thinking_budget_tokens": 0, "chat_template_kwargs": {"enable_thinking": True}})
    assert own["usage"]["prompt_tokens"] == told - 1 and "reasoning_content" not in own["choices"][0]["message"]


def test_anthropics_budget():
    s = server("marked", True)

    def blocks(**thinking):
        reply = s.fine(MESSAGES, {"messages": HI, "max_tokens": 50, "thinking": thinking})
        return [b.get("thinking") or b.get("text") for b in reply["content"]]

    assert blocks(type="enabled", budget_tokens=2) == ["one two", "Done."]
    assert blocks(type="enabled") == blocks(type="adaptive") == ["".join(THOUGHT), "Done."]
    assert blocks(type="disabled") == blocks(type="enabled", budget_tokens=0) == ["Done."]
    for thinking, param in (({"type": "enabled", "budget_tokens": -1}, "thinking.budget_tokens"), ({"type": "sometimes"}, "thinking.type"),
                            ({"type": "enabled", "budget_tokens": "x"}, "thinking.budget_tokens"), ({}, "thinking.type")):
        status, _, reply = s.post(MESSAGES, {"messages": HI, "max_tokens": 5, "thinking": thinking})
        assert status == 400 and param in reply["error"]["message"], (thinking, reply)


def test_wrong_budgets_are_named():
    s = server("marked")
    for name in ("thinking_budget_tokens", "reasoning_budget_tokens"):
        for value in (-2, 1.5, "4", 2 ** 31, True):
            s.refused(CHAT, {"messages": HI, name: value}, 400, name)


def test_zz_end():
    clients.test_zz_end()


if __name__ == "__main__":
    try:
        harness.main(sys.modules[__name__])
    finally:
        clients.leave()
