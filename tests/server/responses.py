#!/usr/bin/env python3
"""responses: /v1/responses by hand and by OpenAI's own client, on the scripted model of clients.py."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness                              # noqa: E402 pylint: disable=wrong-import-position
from harness import Skip                    # noqa: E402 pylint: disable=wrong-import-position
import clients                              # noqa: E402 pylint: disable=wrong-import-position
from clients import CHAT, TOOLS, openai, server, story_server     # noqa: E402 pylint: disable=wrong-import-position

RESPONSES = "/v1/responses"
FUNCTIONS = [{"type": "function", **tool["function"]} for tool in TOOLS]


def play(script, **more):
    return {"model": "any", "input": "Hi", "chat_template_kwargs": {"script": script}, **more}


def events(s, body):
    """(name, data) of each event of a stream."""
    status, headers, data = s.post(RESPONSES, {**body, "stream": True})
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream"), (status, data)
    out = []
    for block in data.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            assert lines[0].startswith("event: ") and lines[1].startswith("data: ") and len(lines) == 2, block
            out.append((lines[0][7:], json.loads(lines[1][6:])))
    return out


def same(response):
    """Without what differs from request to request."""
    text = json.dumps({k: v for k, v in response.items() if k not in ("id", "created_at", "timings", "usage")})
    return text.replace(response["id"].split("_")[1], "")


def items(response):
    """(type, text or call) of each item of the output."""
    out = []
    for item in response["output"]:
        if item["type"] == "function_call":
            out.append((item["type"], item["name"], json.loads(item["arguments"])))
        else:
            out.append((item["type"], "".join(part["text"] for part in item["content"])))
    return out


HERMES = [("reasoning", "Hm."), ("message", "Wait."), ("function_call", "weather", {"city": "Zürich"}), ("function_call", "time", {})]


def test_whole_answers():
    s = server("hermes")
    reply = s.fine(RESPONSES, play("default", instructions="Be brief.", metadata={"a": "b"}, temperature=0.5))
    assert items(reply) == [("message", "Hi there!")] and reply["status"] == "completed" and reply["object"] == "response", reply
    assert reply["error"] is None and reply["incomplete_details"] is None and reply["metadata"] == {"a": "b"} and reply["store"] is False
    assert reply["instructions"] == "Be brief." and reply["temperature"] == 0.5 and reply["tool_choice"] == "auto" and reply["tools"] == []
    usage = reply["usage"]
    assert usage["output_tokens"] == 4 and usage["total_tokens"] == usage["input_tokens"] + 4 and usage["output_tokens_details"] == {"reasoning_tokens": 0}
    again = s.fine(RESPONSES, play("default", instructions="Be brief."))["usage"]
    assert again["input_tokens_details"]["cached_tokens"] == usage["input_tokens"] - 1
    message = reply["output"][0]
    assert message["role"] == "assistant" and message["status"] == "completed" and message["id"].startswith("msg_")
    assert message["content"] == [{"type": "output_text", "text": "Hi there!", "annotations": [], "logprobs": []}]
    cut = s.fine(RESPONSES, play("default", max_output_tokens=2))
    assert cut["status"] == "incomplete" and cut["incomplete_details"] == {"reason": "max_output_tokens"} and items(cut) == [("message", "Hi there")]
    assert cut["output"][0]["status"] == "incomplete" and cut["usage"]["output_tokens"] == 2
    none = s.fine(RESPONSES, play("default", max_output_tokens=0))
    assert none["output"] == [] and none["status"] == "incomplete"


def test_thinking_and_calls_are_items():
    s = server("hermes")
    reply = s.fine(RESPONSES, play("hermes", tools=FUNCTIONS))
    assert items(reply) == HERMES and reply["status"] == "completed", reply
    assert reply["output"][0]["summary"] == [] and reply["usage"]["output_tokens_details"]["reasoning_tokens"] == 2
    calls = reply["output"][2:]
    assert len({c["call_id"] for c in calls}) == len({c["id"] for c in calls}) == 2 and all(c["status"] == "completed" for c in calls)
    less = s.fine(RESPONSES, play("hermes", tools=FUNCTIONS, thinking_budget_tokens=1))
    assert items(less)[0] == ("reasoning", "Hm") and less["usage"]["output_tokens_details"]["reasoning_tokens"] == 1
    none = s.fine(RESPONSES, play("hermes", reasoning={"effort": "none"}))
    assert items(none)[0][0] == "message", none


def test_streams_are_the_whole_in_events():
    s = server("hermes")
    for body in (play("default"), play("hermes", tools=FUNCTIONS), play("emoji"), play("default", max_output_tokens=2), play("default", max_output_tokens=0)):
        whole, told = s.fine(RESPONSES, body), events(s, body)
        assert all(name == data["type"] for name, data in told) and [data["sequence_number"] for _, data in told] == list(range(len(told)))
        assert [name for name, _ in told[:2]] == ["response.created", "response.in_progress"] and told[0][1]["response"]["output"] == []
        assert told[-1][0] == "response." + whole["status"] and same(told[-1][1]["response"]) == same(whole), told[-1]
        begun, texts, done = [], {}, []
        for name, data in told:
            place = data.get("output_index")
            if name == "response.output_item.added":
                assert place == len(begun) == len(done) and data["item"]["status"] == "in_progress"
                begun.append(data["item"])
                texts[place] = ""
            elif name.endswith(".delta"):
                assert place == len(begun) - 1 and data["item_id"] == begun[-1]["id"]
                texts[place] += data["delta"]
            elif name.endswith(("text.done", "arguments.done")):
                assert texts[place] == data.get("text", data.get("arguments")), data
            elif name == "response.output_item.done":
                assert data["item"]["id"] == begun[place]["id"]
                done.append(data["item"])
        assert done == told[-1][1]["response"]["output"], done


def test_histories_are_the_chats():
    s = server("hermes")
    asked = play("default", tools=FUNCTIONS, instructions="Be brief.", input=[
        {"role": "developer", "content": "now"}, {"role": "user", "content": [{"type": "input_text", "text": "g"}, {"type": "input_text", "text": "o"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "ok", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": "{\"city\": \"Rome\"}"},
        {"type": "function_call", "call_id": "c2", "name": "time", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "noon"}]},
        {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "and?"}])
    prompt = ("[system] Be brief.\n[system] now\n[user] go\n[assistant] okweathertime\n[tool] sunny\n[tool] noon\n[assistant] Sunny.\n"
              "[user] and?\n[tools 2]<|default|>")
    usage = s.fine(RESPONSES, asked)["usage"]
    assert usage["input_tokens"] == len(s.fine("/tokenize", {"content": prompt})["tokens"]), usage
    # The same prompt as a chat's, so all of it is found in the cache.
    chat = s.fine(CHAT, {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x"}], "max_tokens": 1})
    assert s.fine(RESPONSES, {"input": "x", "instructions": "Be brief."})["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]


def test_what_is_not_known_is_named():
    s = server("hermes")
    rows = [({}, "input"), ({"input": 5}, "input"), ({"input": []}, "input"), ({"input": [5]}, "input[0]"),
            ({"input": [{"role": "wizard", "content": "x"}]}, "input[0].role"), ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
            ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0].type"),
            ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
            ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"), ({"input": [{"type": "function_call", "arguments": "{}"}]}, "input[0].name"),
            ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].arguments"), ({"input": [{"type": "function_call_output"}]}, "input[0].output"),
            ({"previous_response_id": "resp_1"}, "previous_response_id"), ({"conversation": "c"}, "conversation"), ({"background": True}, "background"),
            ({"truncation": "auto"}, "truncation"), ({"include": ["message.output_text.logprobs"]}, "include[0]"), ({"top_logprobs": 2}, "top_logprobs"),
            ({"prompt": {"id": "x"}}, "prompt"), ({"max_tool_calls": 1}, "max_tool_calls"), ({"max_output_tokens": -1}, "max_output_tokens"),
            ({"temperature": 9}, "temperature"), ({"tools": [{"type": "web_search"}]}, "tools[0].type"), ({"tools": [{"type": "function"}]}, "tools[0].name"),
            ({"tools": FUNCTIONS, "tool_choice": {"type": "file_search"}}, "tool_choice"), ({"tool_choice": "required"}, "tool_choice"),
            ({"text": {"format": {"type": "xml"}}}, "text.format.type"), ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
            ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "text"}}}}, "text.format.schema.type"),
            ({"text": {"verbosity": "low"}}, "text.verbosity"), ({"reasoning": {"effort": 5}}, "reasoning.effort"), ({"instructions": 5}, "instructions")]
    for body, param in rows:
        s.refused(RESPONSES, body if param == "input" else {"input": "Hi", **body}, 400, param)
    s.refused(RESPONSES, {"input": "x" * 3000}, 400, "input", "context_length_exceeded")
    fine = {"input": "Hi", "max_output_tokens": 1, "store": False, "include": ["reasoning.encrypted_content"], "truncation": "disabled", "background": False,
            "parallel_tool_calls": True, "service_tier": "auto", "previous_response_id": None, "text": {"format": {"type": "text"}, "verbosity": "medium"}}
    assert s.post(RESPONSES, fine)[1]["X-Lathe-Warning"] is None


def test_answers_are_held_to_text_format():
    s = story_server()
    schema = {"type": "object", "properties": {"kind": {"enum": ["fox", "hen"]}, "n": {"type": "integer", "minimum": 1, "maximum": 20}}, "required": ["kind", "n"],
              "additionalProperties": False}
    reply = s.fine(RESPONSES, {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "x", "strict": True, "schema": schema}}})
    value = json.loads(reply["output"][0]["content"][0]["text"])
    assert value["kind"] in ("fox", "hen") and 1 <= value["n"] <= 20, value
    forced = s.fine(RESPONSES, {"input": "Hi", "tools": FUNCTIONS, "tool_choice": {"type": "function", "name": "time"}})
    assert items(forced) == [("function_call", "time", {})], forced


def test_the_client():
    if not openai:
        raise Skip("the openai package is not installed")
    client = openai.OpenAI(base_url=server("hermes").url + "/v1", api_key="none", max_retries=0)
    whole = client.responses.create(model="any", input="Hi", instructions="Be brief.")
    assert whole.output_text == "Hi there!" and whole.status == "completed" and whole.usage.output_tokens == 4
    extra = {"chat_template_kwargs": {"script": "hermes"}}
    with client.responses.stream(model="any", input="Hi", tools=FUNCTIONS, extra_body=extra) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed" and "response.function_call_arguments.delta" in kinds, kinds
    assert [item.type for item in final.output] == [item[0] for item in HERMES]
    assert final.output_text == "Wait." and json.loads(final.output[2].arguments) == {"city": "Zürich"}
    text = ""
    for event in client.responses.create(model="any", input="Hi", stream=True):
        text += event.delta if event.type == "response.output_text.delta" else ""
    assert text == "Hi there!"
    history = [{"role": "user", "content": "Hi"}, *[item.model_dump(exclude_none=True) for item in final.output],
               {"type": "function_call_output", "call_id": final.output[2].call_id, "output": "sunny"}]
    assert client.responses.create(model="any", input=history, tools=FUNCTIONS).output_text == "Hi there!"
    with client.responses.stream(model="any", input="Hi", max_output_tokens=1) as stream:
        last = list(stream)[-1]
    assert last.type == "response.incomplete" and last.response.incomplete_details.reason == "max_output_tokens"
    try:
        client.responses.create(model="any", input="Hi", previous_response_id="resp_x")
        raise AssertionError("no error")
    except openai.BadRequestError as error:
        assert error.param == "previous_response_id", error


def test_zz_end():
    clients.test_zz_end()


if __name__ == "__main__":
    try:
        harness.main(sys.modules[__name__])
    finally:
        clients.leave()
