#!/usr/bin/env python3
"""templates: `lathe template` on every published template and conversation of the shared cases, byte for byte.

One newline more at the end is let pass, and the text @@strftime(FORMAT)@@ stands for the time now. Where jinja2 raises,
the command must fail with a message.
"""
import json
import os
import re
import sys
import time

import harness
from harness import lathe, shared, temporary


def wanted_texts(case, name, conversation):
    """Every prompt that is right, or an empty list where the template must refuse."""
    texts = [case["expected"][name][conversation]]
    texts += case.get("also", {}).get(name, {}).get(conversation, [])
    return [t for t in texts if t is not None]


def time_filled(text, moment):
    return re.sub(r"@@strftime\((.*?)\)@@", lambda m: time.strftime(m[1], time.localtime(moment)), text)


def flags_write(folder, conversation):
    """The conversation as files, and the flags that name them."""
    flags = []
    for flag, key in (("--messages", "messages"), ("--tools", "tools")):
        if conversation.get(key) is not None:
            path = os.path.join(folder, key + ".json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(conversation[key], file)
            flags += [flag, path]
    if not conversation.get("add_generation_prompt", True):
        flags.append("--no-generation-prompt")
    if conversation.get("kwargs"):
        flags += ["--kwargs", json.dumps(conversation["kwargs"])]
    return flags


def pair_check(cases, name, conversation_name, folder):
    """What is wrong with this pair, or None."""
    flags = flags_write(folder, cases["conversations"][conversation_name])
    path = shared("templates", name + ".jinja")
    for _ in range(2):                      # the clock may jump to the next minute between the two
        moment = time.time()
        result = lathe("template", "--template-file", path, *flags)
        wanted = [time_filled(t, moment) for t in wanted_texts(cases, name, conversation_name)]
        if not wanted and result.code != 0 and result.err:
            return None
        if result.code == 0 and any(result.text() in (t, t + "\n") for t in wanted):
            return None
    return f"{name} / {conversation_name}: {result}\nwanted: {wanted[:1]}"


def test_every_pair():
    with open(shared("templates", "cases.json"), encoding="utf-8") as file:
        cases = json.load(file)
    wrong, n = [], 0
    with temporary() as folder:
        for name, by_conversation in cases["expected"].items():
            for conversation in by_conversation:
                n += 1
                problem = pair_check(cases, name, conversation, folder)
                wrong += [problem] if problem else []
    assert not wrong, f"{len(wrong)} of {n} pairs differ; the first: {wrong[0][:3000]}"
    print(f"{n} pairs hold")


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
