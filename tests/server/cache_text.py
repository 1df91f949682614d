#!/usr/bin/env python3
"""cache_text: lathe serve --cache-text: a prompt whose text was evaluated in other tokens is found, and marked in usage."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness                              # noqa: E402 pylint: disable=wrong-import-position
from serving import Server                  # noqa: E402 pylint: disable=wrong-import-position

COMPLETIONS = "/v1/completions"
STORY = "The little rabbit reuses an old umbrella. " * 4


def letters(s, text):
    """The text in tokens of one character each, as no tokenizer would cut it."""
    ids = []
    for character in text:
        found = s.fine("/tokenize", {"content": character, "parse_special": False})["tokens"]
        assert len(found) == 1, (character, found)
        ids += found
    return ids


def details(reply):
    return reply["usage"]["prompt_tokens_details"]


def test_text_is_found_in_other_tokens():                            # B55
    with Server("--slots", "2", "--cache-text") as s:
        own = s.fine("/tokenize", {"content": STORY, "parse_special": False})["tokens"]
        cut = letters(s, STORY)
        assert len(cut) > 2 * len(own)
        ask = {"max_tokens": 8, "temperature": 0}
        first = s.fine(COMPLETIONS, {**ask, "prompt": cut})
        assert details(first) == {"cached_tokens": 0, "cached_by_text": 0}, first
        again = s.fine(COMPLETIONS, {**ask, "prompt": STORY})
        assert details(again)["cached_tokens"] >= len(cut) - 1 and details(again)["cached_by_text"] >= len(cut) - 2, again
        assert again["usage"]["prompt_tokens"] - len(cut) <= 1, again                  # a token that begins the text aside
        # The rest of a longer prompt keeps its own tokens.
        longer = s.fine(COMPLETIONS, {**ask, "prompt": STORY + "Then it rained."})
        assert details(longer)["cached_tokens"] >= len(cut) - 1 and details(longer)["cached_by_text"] > 0, longer
        more = s.fine("/tokenize", {"content": STORY + "Then it rained.", "parse_special": False})["tokens"]
        assert longer["usage"]["prompt_tokens"] < len(cut) + len(more) - len(own) + 3, longer
        # What was found by its own ids is not marked.
        plain = "A fox and a bird sat in a tree."
        s.fine(COMPLETIONS, {**ask, "prompt": plain})
        own_way = s.fine(COMPLETIONS, {**ask, "prompt": plain})
        assert details(own_way)["cached_by_text"] == 0 and details(own_way)["cached_tokens"] > 0, own_way


def test_every_endpoint_marks_it():
    story = STORY.strip()
    asks = (("/v1/chat/completions", {"messages": [{"role": "user", "content": story}]}, lambda u: u["prompt_tokens_details"]),
            ("/v1/messages", {"messages": [{"role": "user", "content": story}]}, lambda u: u),
            ("/v1/responses", {"input": story}, lambda u: u["input_tokens_details"]))
    for path, ask, place in asks:
        with Server("--slots", "1", "--cache-text") as s:
            head = s.fine("/apply-template", asks[0][1])["prompt"].split(story)[0]
            prompt = s.fine("/tokenize", {"content": head})["tokens"] + letters(s, story)
            s.fine(COMPLETIONS, {"prompt": prompt, "max_tokens": 1})
            usage = s.fine(path, {**ask, "max_output_tokens" if "input" in ask else "max_tokens": 1})["usage"]
            assert place(usage)["cached_by_text"] >= len(story) - 2, (path, usage)


def test_without_the_flag_ids_decide():
    with Server("--slots", "2") as s:
        ask = {"max_tokens": 8, "temperature": 0}
        alone = s.fine(COMPLETIONS, {**ask, "prompt": STORY})
        s.fine(COMPLETIONS, {**ask, "prompt": letters(s, STORY)})
        again = s.fine(COMPLETIONS, {**ask, "prompt": STORY})
        assert "cached_by_text" not in details(again) and again["choices"] == alone["choices"], again


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
