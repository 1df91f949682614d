#!/usr/bin/env python3
"""answers: the commands that compute, on the model inside the program: run, logits, bench, profile, chats, caches.

Runs in minutes, most of it compiling kernels once. What a number must be is the goldens' business; here it is form:
valid JSON with the promised names, nothing but results on standard output, equal answers for equal seeds.
"""
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time

import harness
from harness import MODEL, PROGRAM, ROOT, TIME_LIMIT_S, environment, lathe, refused, temporary

STORY = "Tell me a story about a rabbit."
# Every token is as likely as any other, so the answer ends where the context does: long after a test stopped it.
ENDLESS = ("--temp", "100", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", "1")
BENCH_NAMES = ("prefill_tok_s", "decode_tok_s", "prompt_tokens", "generated_tokens", "depth", "threads", "device",
               "read_gb_s", "roof_gb_s", "roof_share", "load_s", "compile_s", "peak_rss_bytes")
PROFILE_NAMES = ("kernels_per_token", "kernels_per_layer", "distinct_kernels", "cache_hit_rate", "kernels", "step_us",
                 "step_gb_s", "step_roof_share")
KERNEL_NAMES = ("name", "calls", "time_us", "bytes", "gb_s", "roof_share")


def run(*flags, prompt=STORY, **changes):
    result = lathe("run", "-p", prompt, "-n", "16", "--temp", "0", *flags, **changes)
    assert result.code == 0, result
    return result


# ---- run

def test_run_keeps_the_streams_apart():
    result = run()
    assert result.text().strip() and result.text().endswith("\n"), result
    assert "tok/s" not in result.text() and "[prompt" in result.errors(), result
    assert re.search(r"generated 16, [\d.]+ tok/s; loaded in [\d.]+ s, compiled in [\d.]+ s", result.errors()), result
    assert b"\x1b" not in result.out + result.err
    assert "<|" not in result.text()
    assert "cache 3456 bytes a token" in result.errors(), result      # 6 blocks of one latent row: (256 + 32) values, 2 bytes each


def test_run_greedy_is_repeatable():
    first = run()
    for flags in ((), ("--threads", "1"), ("--chunk", "3"), ("--seed", "7"), ("--target", "native")):
        assert run(*flags).out == first.out, flags


def test_run_seed_is_repeatable():
    words = ("--temp", "1", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed")
    first, again, other = run(*words, "5"), run(*words, "5"), run(*words, "6")
    assert first.out == again.out and first.out != other.out, (first, other)
    assert "seed 5" in first.errors(), first


def test_run_json():
    result = run("--json")
    answer = json.loads(result.out)
    assert answer["text"] == run().text()[:-1], answer
    assert answer["generated_tokens"] == 16 and answer["stop"] == "length", answer
    assert answer["decode_tok_s"] > 0 and answer["load_s"] >= 0 and answer["compile_s"] >= 0, answer


def test_run_takes_a_pipe():
    piped = lathe("run", "-n", "16", "--temp", "0", stdin=STORY.encode() + b"\n")
    assert piped.code == 0 and piped.out == run().out, piped
    refused(lathe("run", stdin=b""), 2, "-p")


def test_run_zero_tokens():
    answer = json.loads(lathe("run", "-p", "x", "-n", "0", "--json").out)
    assert answer["text"] == "" and answer["generated_tokens"] == 0 and answer["stop"] == "length", answer


def test_run_backslashes_have_one_rule():
    def prompt_tokens(prompt, *flags):
        return json.loads(lathe("run", "-p", prompt, "-n", "0", "--json", "--raw", *flags).out)["prompt_tokens"]

    def text_tokens(text):
        return len(lathe("tokenize", "--ids", text).text().split())
    assert prompt_tokens("a\\nb") == text_tokens("a\\nb")
    assert prompt_tokens("a\\nb", "--escape") == text_tokens("a\nb")
    assert prompt_tokens("a\nb") == text_tokens("a\nb")
    assert text_tokens("a\\nb") != text_tokens("a\nb")


def test_run_specials_in_a_prompt_stay_text():
    def prompt_tokens(prompt):
        return json.loads(lathe("run", "-p", prompt, "-n", "0", "--json").out)["prompt_tokens"]
    one_word = prompt_tokens("A")
    assert prompt_tokens("A<|user|>") - one_word > 1


def test_run_raw_continues():
    result = run("--raw", prompt="Once upon a time")
    chat = run(prompt="Once upon a time")
    assert result.text() != chat.text(), result


def test_run_odd_prompts():
    for prompt in ("", " ", "\n", "é", "😸" * 20, "\\", "-n", "--help", "a" * 3000):
        result = lathe("run", "-n", "1", "--temp", "0", "-p", prompt)
        assert result.code == 0 or (result.code in (1, 2) and result.err), (prompt[:20], result)


def test_run_context_is_a_limit():
    refused(lathe("run", "-p", "word " * 3000, "-n", "1"), 2, "1024", "made for no more")
    refused(lathe("run", "-p", "word " * 30, "-n", "1", "--context", "8"), 2, "holds 8", "larger --context")
    refused(lathe("bench", "--depth", "2000", "-p", "1", "-n", "1"), 2, "2002 tokens", "at most 1024")
    answer = json.loads(lathe("run", "-p", "Once", "--raw", "--context", "32", "-n", "100", "--temp", "1", "--seed", "1",
                              "--json").out)
    assert answer["stop"] in ("context", "end"), answer
    assert answer["prompt_tokens"] + answer["generated_tokens"] <= 33, answer


def test_run_ends_at_the_end_of_turn():
    answer = json.loads(lathe("run", "-p", "Hello!", "--temp", "0", "--json").out)
    assert answer["stop"] == "end" and "<|" not in answer["text"], answer


def endless(action, **how):
    """Starts an answer without end, does action(process) at its first byte; returns exit code and standard error."""
    with subprocess.Popen([PROGRAM, "run", "--raw", "-p", "Once", *ENDLESS], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment(), **how) as process:
        assert process.stdout.read(1)
        action(process)
        err = process.stderr.read()
        process.wait(timeout=TIME_LIMIT_S)
    return process.returncode, err.decode()


def test_run_stops_at_ctrl_c():
    code, err = endless(lambda process: process.send_signal(signal.SIGINT))
    assert code == 0 and "stopped by Ctrl-C" in err, (code, err)


def test_run_closed_pipe():
    code, err = endless(lambda process: process.stdout.close())
    assert code == -signal.SIGPIPE and not [l for l in err.splitlines() if not l.startswith("[")], (code, err)


def test_run_closed_pipe_where_the_signal_is_ignored():
    code, err = endless(lambda process: process.stdout.close(), restore_signals=False,
                        preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
    assert code == 1 and "lathe run: cannot write to standard output: Broken pipe" in err, (code, err)


# ---- chat at a terminal

class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, *args, TERM="xterm", **changes):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execve(PROGRAM, [PROGRAM, *args], environment(TERM=TERM, **changes))
        self.seen = b""

    def wait_for(self, text, limit_s=TIME_LIMIT_S):
        """Reads on until the text comes, and forgets all up to it."""
        end = time.monotonic() + limit_s
        while text.encode() not in self.seen and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    break
        before, found, self.seen = self.seen.partition(text.encode())
        assert found, f"never saw {text!r} in {before[-2000:]!r}"
        return before.decode(errors="replace")

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self, limit_s=TIME_LIMIT_S):
        """Waits for the exit code, and reads what is still printed."""
        end = time.monotonic() + limit_s
        done = 0
        while not done and time.monotonic() < end:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if not done and select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    time.sleep(0.05)
        if not done:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
        assert done, f"did not end within {limit_s} s; last seen: {self.seen[-1000:]!r}"
        return os.waitstatus_to_exitcode(status)


def test_chat_answers_and_leaves():
    with temporary() as folder:
        chat = Terminal("run", "-n", "8", "--temp", "0", LATHE_CACHE_DIR=None, XDG_CACHE_HOME=folder)
        chat.wait_for("> ")
        chat.type("Hello!\r")
        chat.wait_for("generated 8")
        chat.wait_for("> ")
        chat.type("/clear\r")
        chat.wait_for("new conversation")
        chat.type("/exit\r")
        assert chat.end() == 0
        with open(os.path.join(folder, "lathe", "history"), encoding="utf-8") as file:
            assert "Hello!" in file.read()


def test_chat_keeps_slips_of_commands_from_the_model():
    chat = Terminal("run", "-n", "4", "--temp", "0")
    chat.wait_for("> ")
    chat.type("/quit\r")
    assert "generated" not in chat.wait_for("no command /quit; /help lists them")
    chat.wait_for("> ")
    chat.type("/etc/hosts\r")                 # a path is a text like any other
    chat.wait_for("generated ")
    chat.wait_for("> ")
    chat.type("/exit\r")
    assert chat.end() == 0


def test_waiting_shows_on_a_screen_only():
    """Every command that computes says at once that kernels are being compiled, and wipes it out; TERM=dumb knows no escapes."""
    text = os.path.join(harness.ROOT, "tests", "suites.tsv")
    for words in (("logits", "--tokens", "1", "--last"), ("profile",), ("bench", "-p", "2", "-n", "2", "-r", "1"),
                  ("perplexity", text, "--window", "256"), ("run", "-p", "x", "-n", "1")):
        screen = Terminal(*words)
        screen.wait_for("being compiled)\x1b[K")
        screen.wait_for("\r\x1b[K")
        assert screen.end() == 0, words
        plain = Terminal(*words, TERM="dumb")
        assert plain.end() == 0 and b"\x1b" not in plain.seen and len(plain.seen) > 20, (words, plain.seen)


UP, CTRL_C, CTRL_D = "\x1b[A", "\x03", "\x04"


def test_chat_recalls_what_was_typed_before():
    with temporary() as folder:
        for keys, shown, seen in (("/help", (), "this list"), ("/clear", (), "new conversation"),
                                  ((UP, UP), ("/clear", "help"), "this list")):
            chat = Terminal("run", LATHE_CACHE_DIR=folder)
            chat.wait_for("> ")
            for key, echo in zip(keys, shown):
                chat.type(key)
                chat.wait_for(echo)
            chat.type("\r" if shown else keys + "\r")
            chat.wait_for(seen)
            chat.wait_for("> ")
            chat.type(CTRL_D)
            assert chat.end() == 0
        assert os.stat(os.path.join(folder, "history")).st_mode & 0o777 == 0o600


def test_chat_ctrl_c():
    chat = Terminal("run", *ENDLESS)
    chat.wait_for("> ")
    for _ in range(2):                      # stops the answer, and only that
        chat.type("Tell me a story.\r")
        chat.wait_for("being compiled")
        chat.wait_for("\x1b[K")             # the note is wiped out at the first token
        chat.wait_for("\r\x1b[K")
        chat.type(CTRL_C)
        assert "stopped by Ctrl-C" in chat.wait_for("> ")
    chat.type("half a line" + CTRL_C)
    chat.wait_for("Ctrl-C again")
    chat.wait_for("> ")
    chat.type("/help\r")                    # the half line is gone
    chat.wait_for("this list")
    chat.wait_for("> ")
    chat.type(CTRL_C)
    chat.wait_for("Ctrl-C again")
    chat.type(CTRL_C)
    assert chat.end() == 0


def test_chat_ctrl_c_while_the_prompt_is_read():
    with temporary() as folder:             # an empty cache: the compiler is at work
        chat = Terminal("run", *ENDLESS, LATHE_CACHE_DIR=folder)
        chat.wait_for("> ")
        chat.type("Tell me a story.\r")
        chat.wait_for("being compiled")
        chat.type(CTRL_C)
        assert "generated 0; " in chat.wait_for("stopped by Ctrl-C")
        chat.wait_for("> ")
        chat.type(CTRL_D)
        assert chat.end() == 0


def test_chat_two_ctrl_c_leave_an_answer():
    with temporary() as folder:
        chat = Terminal("run", *ENDLESS, LATHE_CACHE_DIR=folder)
        chat.wait_for("> ")
        chat.type("Tell me a story.\r")
        chat.wait_for("being compiled")
        os.kill(chat.pid, signal.SIGINT)
        time.sleep(0.1)                     # two signals at once would be one
        os.kill(chat.pid, signal.SIGINT)
        assert chat.end() == 128 + signal.SIGINT


def test_chat_ends_with_ctrl_d():
    chat = Terminal("run")
    chat.wait_for("> ")
    chat.type(CTRL_D)
    assert chat.end() == 0


def test_chat_ends_where_the_terminal_does():
    chat = Terminal("run")
    chat.wait_for("> ")
    os.close(chat.fd)
    _, status = os.waitpid(chat.pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGHUP), status


# ---- logits

def test_logits_form():
    vocab = 4096
    rows = json.loads(lathe("logits", "--tokens", "1 2 3", "--json").out)
    assert len(rows) == 3 and all(len(r) == vocab for r in rows)
    last = json.loads(lathe("logits", "--tokens", "1,2,3", "--last", "--json").out)
    assert last == rows[-1:]
    text = lathe("logits", "--tokens", "1 2 3", "--last").text()
    best = max(range(vocab), key=lambda i: rows[-1][i])
    assert f" {best}: " in text, text


def test_logits_hash_and_decode():
    hashes = lathe("logits", "--tokens", "1 2 3 4", "--hash").out.split()
    assert len(set(hashes)) == 4 and all(len(h) == 16 for h in hashes), hashes
    assert lathe("logits", "--tokens", "1 2 3 4", "--hash", "--decode", "2").out.split() == hashes
    assert lathe("logits", "--tokens", "1 2 3 4", "--hash", "--decode", "4", "--last").out.split() == hashes[3:]
    assert lathe("logits", "--tokens", "1 2 3 5", "--hash").out.split()[:3] == hashes[:3]
    refused(lathe("logits", "--tokens", "1 2", "--decode", "3"), 2, "--decode 3", "only 2 tokens")


def test_logits_refusals():
    for tokens in ("4096", "-1", "1 x", "", "99999999999", "1.5"):
        result = lathe("logits", "--tokens", tokens, "--json")
        assert result.code == 2 and result.err, (tokens, result)
    refused(lathe("logits", "--tokens", "1 " * 1025, "--json"), 2, "1024")


def test_logits_same_bytes_cold_and_warm():
    with temporary() as folder:
        def logits(*flags):
            result = lathe("logits", "--tokens", "5 6 7 8", "--last", "--json", *flags, LATHE_CACHE_DIR=folder)
            assert result.code == 0, result
            return result.out
        cold = logits()
        assert logits() == cold
        for path, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(path, name), "r+b") as file:
                    file.truncate(100)
        assert logits() == cold
        results = []
        threads = [threading.Thread(target=lambda: results.append(logits())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [cold] * 3


def test_unwritable_cache():
    result = lathe("logits", "--tokens", "1", "--last", "--json", LATHE_CACHE_DIR="/proc/nowhere")
    assert result.code == 0 and json.loads(result.out), result


def test_missing_compiler_is_named():
    with temporary() as folder:
        result = lathe("logits", "--tokens", "1", "--json", LATHE_CC="no-such-compiler", LATHE_CACHE_DIR=folder)
        refused(result, 1, "no-such-compiler")
        refused(lathe("logits", "--tokens", "1", "--json", LATHE_CC="false", LATHE_CACHE_DIR=folder), 1, "status 1 and said nothing")


def test_perplexity():
    text = b"Once upon a time there was a little cat. The cat lived in a house with a girl. The girl loved the cat."
    report = json.loads(lathe("perplexity", "-", "--window", "16", "--json", stdin=text).out)
    assert 1 < report["perplexity"] < 200 and report["window"] == 16 and report["tokens"] >= 7, report
    assert report["kl_mean"] is None, report
    report = json.loads(lathe("perplexity", "-", "--window", "8", "--json", "--kl", stdin=text).out)
    assert 0 <= report["kl_mean"] < 0.05 and report["kl_mean"] <= report["kl_999"] <= report["kl_max"], report
    noise = json.loads(lathe("perplexity", "-", "--window", "16", "--json", stdin=bytes(range(33, 126)) * 2).out)
    assert noise["perplexity"] > report["perplexity"], noise
    refused(lathe("perplexity", "-", stdin=b"too short"), 2, "--window")


# ---- bench and profile

def test_bench_json():
    rows = json.loads(lathe("bench", "-p", "16", "-n", "8", "-r", "1", "--depth", "0,32", "--json").out)
    assert [r["depth"] for r in rows] == [0, 32], rows
    for row in rows:
        assert all(name in row for name in BENCH_NAMES), row
        assert row["prefill_tok_s"] > 0 and row["decode_tok_s"] > 0 and row["peak_rss_bytes"] > 0, row
        assert row["prompt_tokens"] == 16 and row["generated_tokens"] == 8, row


def test_bench_fills_with_other_threads():
    rows = json.loads(lathe("bench", "-p", "0", "-n", "4", "-r", "1", "--depth", "70", "-t", "1", "--fill-threads", "3",
                            "--json").out)
    assert [r["threads"] for r in rows] == [1] and rows[0]["decode_tok_s"] > 0, rows


def test_bench_leaves_out_what_was_not_measured():
    row = json.loads(lathe("bench", "-p", "16", "-n", "0", "-r", "1", "--json").out)[0]
    assert row["decode_tok_s"] is None and row["prefill_tok_s"] > 0, row


def test_bench_takes_turns():
    lines = lathe("bench", "-p", "8", "-n", "4", "-r", "2", "--turns", "--json", stdin=b"\n" * 4).text().splitlines()
    events, row = [json.loads(line) for line in lines[:-1]], json.loads(lines[-1])[0]
    for i, name in enumerate(("prefill_tok_s", "prefill_tok_s", "decode_tok_s", "decode_tok_s")):
        assert events[2 * i] == {"ready": name, "depth": 0} and events[2 * i + 1][name] > 0, events
    assert len(events) == 8, events
    low, high = sorted(event["decode_tok_s"] for event in events if "decode_tok_s" in event)
    assert low <= row["decode_tok_s"] <= high, (events, row)
    # No line, no repetition: it must not run unasked, and must not wait for ever.
    early = lathe("bench", "-p", "8", "-n", "4", "-r", "2", "--turns", stdin=b"\n\n")
    assert early.code == 2 and "--turns" in early.errors() and early.text().count("ready") == 3, early


OTHER_ENGINE = """
import json, sys
repeat = int(sys.argv[sys.argv.index("-r") + 1])
for rate in [4.0, 8.0, 16.0][:repeat]:
    print(json.dumps({"ready": "decode_tok_s", "depth": 0}), flush=True)
    sys.stdin.readline() or sys.exit("too few turns")
    print(json.dumps({"decode_tok_s": rate, "depth": 0}), flush=True)
print(json.dumps([{"load_s": 0.5}]), flush=True)
"""


def compare(*args):
    program = os.path.join(ROOT, "bench", "compare")
    return subprocess.run([sys.executable, program, MODEL, "--lathe", PROGRAM, "--no-peer", "-t", "1", *args],
                          capture_output=True, text=True, check=False)


def test_compare():
    with temporary() as folder:
        other = os.path.join(folder, "other.py")
        with open(other, "w", encoding="utf-8") as file:
            file.write(OTHER_ENGINE)
        done = compare("-p", "0", "-n", "4", "-r", "1", "-k", "3", "--json", "--program", f"other:{sys.executable} {other}")
        table, = json.loads(done.stdout)
        ours, theirs = table["sides"]
        rate, ratio = ours["decode_tok_s"], theirs["decode_tok_s"]["ratio"]["median"]
        assert (theirs["decode_tok_s"]["median"], theirs["decode_tok_s"]["high"], theirs["load_s"]) == (8, 12, 0.5), theirs
        assert rate["ratio"] == {"median": 1, "low": 1, "high": 1}, ours
        # A ratio is lathe's rate over the side's in the same turn, whichever of lathe's turns was the fastest.
        assert rate["low"] / 16 <= ratio <= rate["high"] / 4, table
        row, = json.loads(lathe("bench", "-p", "0", "-n", "4", "-r", "1", "-t", "1", "--json").out)
        gb_read = row["read_gb_s"] / row["decode_tok_s"]
        assert abs(theirs["roof_share"] * theirs["roof_gb_s"] / 8 / gb_read - 1) < 1e-4, table
        assert 0 < ours["roof_share"] < 2 and abs(row["read_gb_s"] / row["roof_gb_s"] / row["roof_share"] - 1) < 1e-4, (table, row)
        assert theirs["decode_tok_s"]["others_cores"] is None, "three turns of no time at all say nothing about others"
        failing = compare("-p", "0", "-n", "4", "-r", "1", "--program", f"broken:{sys.executable} /nowhere.py")
        assert failing.returncode == 1 and "broken ended before its last turn" in failing.stderr, failing
    assert compare("-p", "0", "-n", "0").returncode == 2


def test_bench_table():
    text = lathe("bench", "-p", "16", "-n", "4", "-r", "1").text()
    assert "depth" in text and "% of roof" in text and MODEL not in text, text


def test_profile_json():
    report = json.loads(lathe("profile", "--json").out)
    assert all(name in report for name in PROFILE_NAMES), report.keys()
    assert all(name in kernel for kernel in report["kernels"] for name in KERNEL_NAMES)
    assert sum(k["calls"] for k in report["kernels"]) == report["kernels_per_token"] > 0
    assert len(report["kernels"]) == report["distinct_kernels"]


def test_profile_of_a_piece_of_a_prompt():
    report = json.loads(lathe("profile", "--piece", "64", "--depth", "70", "--json").out)
    assert sum(k["calls"] for k in report["kernels"]) == report["kernels_per_token"] > 0
    refused(lathe("profile", "--piece", "64", "--rows", "2"), 2, "choose one")


def test_profile_names_tensors():
    """The hash comes last and is one kernel's; before it stands what the kernel works on, without block and suffix."""
    names = [k["name"].split() for k in json.loads(lathe("profile", "--json").out)["kernels"]]
    assert all(re.fullmatch("k[0-9a-f]{16}", name[-1]) for name in names), names
    assert len({name[-1] for name in names}) == len(names), names
    roles = {role for name in names for role in name[:-1]}
    assert {"token_embd", "attn_q_a", "keys", "ffn_gate_exps", "ffn_down_exps", "output", "output_norm"} <= roles, roles
    assert not any("blk." in role or role.endswith(".weight") for role in roles), roles


def test_profile_source():
    text = lathe("profile", "--source").text()
    report = json.loads(lathe("profile", "--json", "--source").out)
    for kernel in report["kernels"]:
        assert kernel["source"] and kernel["name"] in text


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
