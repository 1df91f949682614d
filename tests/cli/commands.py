#!/usr/bin/env python3
"""commands: what every command must do without computing anything: flags, files, pipes, JSON, exit codes.

Runs in seconds. Exit code 2: what was asked for cannot be; 1: it failed. Errors stand on standard error.
"""
import json
import os
import random
import re
import struct
import subprocess
import sys
import threading

import harness
from harness import MODEL, PROGRAM, lathe, refused, temporary

COMMANDS = ("run", "serve", "bench", "profile", "check", "perplexity", "logits", "tokenize", "template",
            "models", "env")
# A call of each command that takes a MODEL, the model's place marked by None.
MODEL_CALLS = {
    "run": ("run", None, "-p", "x", "-n", "1"),
    "bench": ("bench", None, "-p", "1", "-n", "1"),
    "profile": ("profile", None),
    "check": ("check", None),
    "perplexity": ("perplexity", None, __file__),
    "logits": ("logits", None, "--tokens", "1"),
    "tokenize": ("tokenize", None, "x"),
    "template": ("template", None, "--messages", "-"),
}


def call(command, model, *more, **changes):
    words = [model if w is None else w for w in MODEL_CALLS[command]]
    return lathe(*words, *more, **changes)


# ---- help and flags

def test_no_arguments_shows_help_on_stderr():
    result = lathe()
    assert result.code == 2 and result.out == b"" and b"usage" in result.err, result


def test_help_fits_a_screen():
    for words in [("--help",), ("-h",), ("help",)] + [(c, "--help") for c in COMMANDS] + [("help", c) for c in COMMANDS]:
        result = lathe(*words)
        lines = result.text().splitlines()
        assert result.code == 0 and result.err == b"", result
        assert 5 <= len(lines) <= 42, (words, len(lines))
        assert max(map(len, lines)) <= 110, (words, max(lines, key=len))


def test_help_names_every_command():
    text = lathe("--help").text()
    for command in COMMANDS:
        assert f"\n  {command} " in text, command


def test_version():
    assert lathe("--version").text().startswith("lathe ")


def test_unknown_command_suggests():
    refused(lathe("rnu"), 2, "rnu", "did you mean run?")
    refused(lathe("tokenise", "x"), 2, "did you mean tokenize?")
    refused(lathe("zzzzzzzz"), 2, "lathe --help")
    refused(lathe(""), 2)


def test_unknown_flag_suggests():
    refused(lathe("run", "--tmp", "1"), 2, "--tmp", "did you mean --temp?", "lathe run --help")
    refused(lathe("run", "--temperature", "1"), 2, "did you mean --temp?")
    refused(lathe("logits", "--token", "1"), 2, "did you mean --tokens?")
    refused(lathe("env", "--zzzzzz"), 2, "unknown flag --zzzzzz")
    refused(lathe("models", "--temp", "1"), 2, "unknown flag --temp")
    refused(lathe("run", "-z"), 2, "unknown flag -z")


def test_values_are_checked():
    refused(lathe("run", "-p"), 2, "-p needs a value")
    refused(lathe("run", "-n", "many", "-p", "x"), 2, "whole number", "many")
    refused(lathe("run", "-n", "", "-p", "x"), 2, "whole number")
    refused(lathe("run", "-n", "9999999999999999999999", "-p", "x"), 2, "whole number")
    refused(lathe("run", "--temp", "nan", "-p", "x"), 2, "number")
    refused(lathe("run", "--temp", "-1", "-p", "x"), 2, "between")
    refused(lathe("run", "--top-p", "1.5", "-p", "x"), 2, "between")
    refused(lathe("bench", "--threads", "-3"), 2, "between")
    refused(lathe("logits", "--exact=1", "--tokens", "1"), 2, "takes no value")
    refused(lathe("bench", "-p", "0", "-n", "0"), 2, "nothing to measure")
    refused(lathe("bench", "--depth", "deep"), 2, "--depth", "deep")
    refused(lathe("run", "--cache-type", "f8", "-p", "x"), 2, "f8", "q8_0")
    refused(lathe("check", "--cache-type", "f8"), 2, "f8", "q8_0")
    refused(lathe("run", "--kwargs", "{", "-p", "x"), 2, "--kwargs")


def test_bounds_are_those_of_what_can_be_had():
    refused(lathe("run", "--chunk", "513", "-p", "x"), 2, "--chunk 513", "between 0 and 512")
    refused(lathe("run", "--repeat-last", "4097", "-p", "x"), 2, "--repeat-last 4097", "between 0 and 4096")


def test_empty_texts_are_refused():
    for flag in ("--cache-type", "--target", "--kwargs", "--template-file"):
        refused(lathe("run", flag, "", "-p", "x"), 2, flag, "empty")
    for flag in ("--messages", "--tools", "--template-file"):
        refused(template([], flag, ""), 2, flag, "empty")


def test_habits_of_other_programs_get_a_hint():
    with open(os.path.join(harness.ROOT, "src", "app", "habits.def"), encoding="utf-8") as file:
        rows = re.findall(r'^HABIT\("([^"]+)", +"([^"]+)"\)', file.read(), re.M)
    assert len(rows) > 20, rows
    for word, hint in rows:
        refused(lathe("run", word, "1") if word[0] == "-" else lathe(word), 2, word, "here it is " + hint)
    refused(lathe("-p", "x"), 2, "a command comes first", "lathe run -p")
    refused(lathe("model.gguf"), 2, "lathe run model.gguf")


def test_errors_send_no_control_bytes():
    result = refused(call("check", "a\x1b[31mb\x07c"), 1, "a\\x1b[31mb\\x07c")
    assert b"\x1b" not in result.err and b"\x07" not in result.err, result


def test_the_null_device_says_what_it_is():
    result = lathe("run", "--device", "null", "-p", "x", "-n", "1", "--threads", "1")
    assert result.code == 0 and "computes nothing" in result.errors() and ", 1 thread]" in result.errors(), result


def test_texts_of_any_target_need_no_card():
    """LATHE_TEXTS: a file a kernel, in the target's own language; also where the text comes from an earlier run."""
    with temporary() as folder:
        for target, suffix, word in (("avx2", ".c", b"void k"), ("opencl12", ".cl", b"__kernel"), ("opencl12-groups", ".cl", b"__local ulong exchange"),
                                     ("sm_80", ".cu", b"__launch_bounds__"), ("sm_90a", ".cu", b"__launch_bounds__"), ("metal", ".metal", b"[[kernel")):
            for turn in ("new", "kept"):
                texts = os.path.join(folder, f"{target}-{turn}")
                result = lathe("logits", "--tokens", "5", "--device", "null", "--target", target, LATHE_TEXTS=texts, LATHE_CACHE_DIR=folder)
                assert result.code == 0, result
                found = sorted(os.listdir(texts))
                assert len(found) > 4 and all(re.fullmatch(f"k[0-9a-f]{{16}}\\{suffix}", name) for name in found), (target, found)
                for name in found:
                    with open(os.path.join(texts, name), "rb") as file:
                        assert word in file.read(), (target, name)
        in_the_way = os.path.join(folder, "file")
        open(in_the_way, "w").close()
        result = lathe("logits", "--tokens", "5", "--device", "null", LATHE_TEXTS=in_the_way, LATHE_CACHE_DIR=folder)
        assert result.code == 1 and in_the_way in result.errors(), result


def test_debug_shows_how_a_kernel_came_about():
    """Each step of the integer form by name, with the line that takes it and what it changed."""
    with temporary() as folder:     # no text of an earlier run stands for a kernel
        result = lathe("logits", "--tokens", "5", "--device", "null", LATHE_DEBUG="6", LATHE_CACHE_DIR=folder)
    assert result.code == 0, result
    shown = result.err.decode()
    for step, change in (("factor: sum_fits_32_bits", r".*cast\[i32\].*\n  → fold"),
                         ("factor: same_for_a_loop_computed_once", r".*fold.*\n  → load\(index\(buffer"),
                         ("factor: terms_of_equal_scales_join", r".*\n  → \(fold"),
                         ("factor: scales_leave_exact_integer_sums", r".*fold.*\n  → .*cast\[f32\]\(.*fold"),
                         ("expand: products_of_bytes_add_up_by_fours", r".*\n  → dot4"),
                         ("simplify: sum_canonical", r".*\n  → ")):
        assert re.search(re.escape(step) + r" \(src/[a-z_/.]+:\d+\)\n    " + change, shown), step
    assert re.search(r"^-- kernel k[0-9a-f]{16}$", shown, re.M)


def test_device_and_target_are_checked():
    for command in COMMANDS:
        refused(lathe(command, "--device", "toaster"), 2, "toaster", "cpu", "cuda", "opencl", "eval", "null")
    refused(call("logits", MODEL, "--target", "toaster"), 2, "toaster")


def test_words_are_counted():
    refused(lathe("run", MODEL, "tell", "me"), 2, "one word too many", "usage")
    refused(lathe("models", "x"), 2, "one word too many")
    refused(lathe("tokenize"), 2, "usage")
    refused(lathe("logits"), 2, "--tokens")
    refused(lathe("template"), 2, "--messages")


def test_double_dash_ends_flags():
    result = lathe("tokenize", "--ids", "--", "--ids")
    assert result.code == 0 and lathe("tokenize", "--ids=", "x").code == 2, result
    assert result.text() == lathe("tokenize", "--ids", "-", stdin=b"--ids").text()


def test_flag_forms_are_equal():
    one = lathe("logits", "--device=eval", "--tokens", "x")
    two = lathe("logits", "--device", "eval", "--tokens", "x")
    assert (one.code, one.err) == (two.code, two.err) == (2, one.err), (one, two)


def test_malformed_setting_is_named():
    for name, value in (("DEBUG", "loud"), ("DEBUG", "7"), ("DEBUG", "-1"), ("EGRAPH", "2"), ("JIT", "-1"), ("THREADS", "1025"),
                        ("THREADS", "-5")):
        refused(lathe("models", **{"LATHE_" + name: value}), 2, "LATHE_" + name, value)


# ---- files

def test_missing_files():
    for command in MODEL_CALLS:
        refused(call(command, "/nowhere/model.gguf"), 1, "/nowhere/model.gguf")
        refused(call(command, ""), 2, "empty")


def test_known_name_says_where_to_get_it():
    with temporary() as folder:
        result = call("run", "qwen3-0.6b", LATHE_MODELS=folder, LATHE_CACHE_DIR=folder, cwd=folder)
        refused(result, 1, folder, "https://", "Qwen3-0.6B-Q8_0.gguf", "models")
        refused(call("run", "qwen-0.6b", cwd=folder), 1, "did you mean qwen3-0.6b?")


def test_names_are_found_in_folders():
    with temporary() as folder:
        os.symlink(MODEL, os.path.join(folder, "QWEN3-0.6b-some.gguf"))
        os.symlink(MODEL, os.path.join(folder, "tale.gguf"))
        for name in ("qwen3-0.6b", "tale.gguf", "tale", "Qwen3-0.6B"):
            result = call("tokenize", name, "--ids", LATHE_MODELS=folder)
            assert result.code == 0, result
        listed = json.loads(lathe("models", "--json", LATHE_MODELS=folder).out)
        paths = {row["name"]: row["path"] for row in listed}
        assert paths["qwen3-0.6b"].endswith("QWEN3-0.6b-some.gguf"), paths


def bad_files(folder):
    """Files that are no models, one of each kind."""
    with open(MODEL, "rb") as file:
        good = file.read()
    noise = random.Random(1)
    contents = {
        "empty.gguf": b"",
        "short.gguf": b"GGUF",
        "text.gguf": b"hello\n" * 100,
        "zeros.gguf": bytes(4096),
        "noise.gguf": noise.randbytes(10000),
        "old.gguf": b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
        "counts.gguf": b"GGUF" + struct.pack("<IQQ", 3, 2**63, 2**63),
        "nothing.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(64),
        "cut-header.gguf": good[:5000],
        "cut-data.gguf": good[:-1000],
    }
    for name, content in contents.items():
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        yield path
    yield folder
    yield "/dev/null"


def test_bad_files_are_refused():
    with temporary() as folder:
        for path in bad_files(folder):
            for command in MODEL_CALLS:
                if command != "check":
                    refused(call(command, path), 1)


def test_check_refuses_bad_files_in_its_own_form():
    with temporary() as folder:
        for path in bad_files(folder):
            result = lathe("check", path, "--json")
            assert result.code == 1 and result.err, result
            if result.out:
                report = json.loads(result.out)
                assert report["verdict"] == "refuse" and report["errors"], report


def gguf_bytes(**keys):
    """A file without tensors; keys are texts or lists of texts, __ in their names is a point."""
    def text(word):
        return struct.pack("<Q", len(word)) + word.encode()
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for key, value in keys.items():
        out += text("tokenizer." + key.replace("__", "."))
        if isinstance(value, list):
            out += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        else:
            out += struct.pack("<I", 8) + text(value)
    return out


def test_keys_of_the_wrong_type_are_refused():
    for key in ("tokenizer.ggml.pre=int:3", "tokenizer.ggml.bos_token_id=str:x", "tokenizer.ggml.eos_token_id=float:1.5",
                "tokenizer.ggml.add_bos_token=int:7", "tokenizer.ggml.add_space_prefix=str:no"):
        name = key.split("=")[0]
        refused(lathe("tokenize", "x", "--override-kv", key), 1, f"'{name}' is not")
        report = json.loads(lathe("check", "--json", "--override-kv", key).out)
        assert report["verdict"] == "refuse" and any(name in e for e in report["errors"]), report
    refused(template([], "--override-kv", "tokenizer.chat_template=int:1"), 1, "tokenizer.chat_template' is not a text")


def test_check_warns_of_what_was_taken_as_absent():
    report = json.loads(lathe("check", "--json", "--override-kv", "tokenizer.ggml.eos_token_id=int:4096").out)
    assert report["verdict"] == "warn", report
    assert any("eos_token_id' is 4096, outside of the vocabulary (0 to 4095)" in w for w in report["warnings"]), report
    for none in (-1, 2**32 - 1):            # as converters write "no such token"
        report = json.loads(lathe("check", "--json", "--override-kv", f"tokenizer.ggml.padding_token_id=int:{none}").out)
        assert report["verdict"] == "ok", report
    with temporary() as folder:
        path = os.path.join(folder, "words.gguf")
        with open(path, "wb") as file:
            file.write(gguf_bytes(ggml__model="gpt2", ggml__tokens=["a", "b"], ggml__merges=[], chat_template="{{ messages }}"))
        warnings = json.loads(lathe("check", path, "--json").out)["warnings"]
        for text in ("which tokens are special", "does not name its pre-tokenizer", "no token of the file ends an answer"):
            assert sum(text in w for w in warnings) == 1, (text, warnings)


def test_check_names_the_file_once():
    with temporary() as folder:
        path = os.path.join(folder, "short.gguf")
        with open(path, "wb") as file:
            file.write(b"GGUF")
        assert refused(call("tokenize", path), 1).errors().count(path) == 1
        assert lathe("check", path).errors().count(path) == 1


def test_overrides_are_checked():
    refused(call("tokenize", MODEL, "--override-kv", "nonsense"), 2, "nonsense")
    result = call("tokenize", MODEL, "--override-kv", "tokenizer.ggml.pre=str:unheard-of")
    refused(result, 1, "unheard-of")
    for key, is_new in (("tokenizer.ggml.bos_token_id", False), ("tokenizer.ggml.bos_token_di", True)):
        result = call("tokenize", MODEL, "--override-kv", f"{key}=int:1")
        assert result.code == 0 and (f"no key '{key}'" in result.errors()) == is_new, result


# ---- pipes

def test_a_pipe_is_no_model():
    with temporary() as folder:
        path = os.path.join(folder, "pipe.gguf")
        os.mkfifo(path)                     # nobody ever writes to it: waiting for that would be for ever
        for command in MODEL_CALLS:
            result = call(command, path)
            assert result.code == 1 and "not a regular file" in result.errors(), result


def test_empty_names_are_named():
    refused(lathe("template", "--messages", ""), 2, "empty")
    refused(template([], "--tools", ""), 2, "empty")


def test_full_disk_is_an_error():
    if not os.path.exists("/dev/full"):
        raise harness.Skip("/dev/full is missing")
    with open("/dev/full", "wb") as full:
        process = subprocess.run([PROGRAM, "models"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert process.returncode == 1 and b"standard output" in process.stderr, process


def test_closed_pipe_ends_quietly():
    process = subprocess.run(["sh", "-c", f"'{PROGRAM}' env | head -n 1"], capture_output=True, check=False)
    assert process.returncode == 0 and process.stderr == b"", process


def test_no_colour_in_pipes():
    for words in (("--help",), ("models",), ("env",), ("check",)):
        result = lathe(*words)
        assert b"\x1b" not in result.out + result.err, words
    assert b"\x1b" not in lathe("rnu").err


# ---- commands without computing

def test_env_says_what_an_opencl_device_needs():
    # Where no driver is registered; the two loaders of OpenCL that there are read this variable.
    report = json.loads(lathe("env", "--json", OCL_ICD_VENDORS="/nowhere").out)
    problem = next(d["problem"] for d in report["devices"] if d["name"] == "opencl")
    assert problem.startswith("no OpenCL") and "install" in problem, report
    refused(lathe("logits", "--tokens", "1", "--device", "opencl", OCL_ICD_VENDORS="/nowhere"), 1, "no OpenCL", "install")


def test_env_says_what_cuda_needs():
    for name in ("LATHE_CUDA", "LATHE_NVRTC"):
        driver = {"LATHE_CUDA": os.path.join(os.environ.get("LATHE_BUILD", "build"), "tests", "libfakecuda.so")}
        report = json.loads(lathe("env", "--json", **driver | {name: "/nowhere/lib.so"}).out)
        problem = next(d["problem"] for d in report["devices"] if d["name"] == "cuda")
        assert problem.startswith("no ") and "/nowhere/lib.so" in problem and name in problem, report


def test_env_prints_every_setting():
    report = json.loads(lathe("env", "--json").out)
    names = set()
    with open(os.path.join(harness.ROOT, "src", "base", "settings.def"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("SETTING("):
                names.add("LATHE_" + line[8:].split(",")[0])
    assert set(report["settings"]) == names, report
    assert {"cpu", "cuda", "opencl", "eval", "null"} <= {d["name"] for d in report["devices"]}, report
    # One that cannot be opened says why.
    assert all((d["target"] is None) != (d["problem"] is None) for d in report["devices"]), report
    text = lathe("env").text()
    assert all(name in text for name in names)


def test_models_is_a_table():
    rows = json.loads(lathe("models", "--json").out)
    assert [r for r in rows if r["name"] == "storyteller" and r["embedded"]], rows
    assert all(r["embedded"] or r["source"].startswith("https://") for r in rows), rows


def test_tokenize_forms():
    text = "Once upon a time, there was a cat.\n"
    ids = lathe("tokenize", "--ids", text)
    assert ids.code == 0 and ids.err == b"", ids
    numbers = [int(w) for w in ids.text().split()]
    assert ids.text().count("\n") == 1 and numbers, ids
    assert json.loads(lathe("tokenize", "--ids", "--json", text).out) == numbers
    table = json.loads(lathe("tokenize", "--json", text).out)
    assert [r["id"] for r in table] == numbers
    assert "".join(r["piece"] for r in table) == text
    assert len(lathe("tokenize", text).text().splitlines()) == len(numbers)
    for model in (MODEL, "storyteller"):
        assert lathe("tokenize", model, "--ids", text).out == ids.out
    assert lathe("tokenize", "--ids", "-", stdin=text.encode()).out == ids.out
    assert lathe("tokenize", "--ids", "").text() == "\n"


def test_tokenize_specials():
    plain = lathe("tokenize", "--ids", "<|user|>").text().split()
    special = lathe("tokenize", "--ids", "--special", "<|user|>").text().split()
    assert len(plain) > 1 and len(special) == 1, (plain, special)


def test_tokenize_takes_any_bytes():
    for data in (b"\xff\xfe\x00\x80", b"\xf0\x9f\x98", bytes(range(256)) * 4):
        result = lathe("tokenize", "--json", "-", stdin=data)
        assert result.code == 0, result
        json.loads(result.out)


def template(messages, *flags, **changes):
    with temporary() as folder:
        path = os.path.join(folder, "messages.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(messages if isinstance(messages, str) else json.dumps(messages))
        return lathe("template", "--messages", path, *flags, **changes)


def test_template_of_the_embedded_model():
    result = template([{"role": "user", "content": "Hi"}])
    assert result.code == 0 and result.err == b"", result
    assert result.text().rstrip("\n") == "[gMASK]<sop><|user|>\nHi<|assistant|>", result
    closed = template([{"role": "user", "content": "Hi"}], "--no-generation-prompt").text()
    assert closed.rstrip("\n") == "[gMASK]<sop><|user|>\nHi", closed


def test_template_file_tools_and_kwargs():
    with temporary() as folder:
        path, tools = os.path.join(folder, "t.jinja"), os.path.join(folder, "tools.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{{ messages|length }}{{ tools[0].name }}{{ extra }}{{ add_generation_prompt }}")
        with open(tools, "w", encoding="utf-8") as file:
            json.dump([{"name": "look"}], file)
        flags = ("--template-file", path, "--tools", tools, "--kwargs", '{"extra": 7}')
        assert template([], *flags).text().rstrip("\n") == "0look7True"


def test_template_refusals():
    refused(template("[{"), 1, "messages.json")
    refused(template('{"role": "user"}'), 1, "array")
    refused(template([], "--kwargs", "[1]"), 2, "--kwargs")
    refused(template([], "--template-file", "/nowhere.jinja"), 1, "/nowhere.jinja")
    refused(lathe("template", "--messages", "/nowhere.json"), 1, "/nowhere.json")
    with temporary() as folder:
        path = os.path.join(folder, "t.jinja")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{{ raise_exception('roles must alternate') }}")
        result = template([], "--template-file", path)
        assert result.code != 0 and "roles must alternate" in result.errors(), result


def test_template_computes_nothing():
    """What starts fast needs neither the compiler, nor threads, nor the cache."""
    with temporary() as folder:
        result = template([{"role": "user", "content": "Hi"}], LATHE_CACHE_DIR=folder, PATH="", LATHE_CC="/nowhere/cc")
        assert result.code == 0 and result.text().startswith("[gMASK]"), result
        assert os.listdir(folder) == [], os.listdir(folder)


def test_check_of_the_embedded_model():
    result = lathe("check", "--json")
    report = json.loads(result.out)
    assert result.code == 0 and report["verdict"] == "ok", report
    for name in ("verdict", "architecture", "inferred", "warnings", "errors", "cache_bytes_per_token"):
        assert name in report, name
    assert report["architecture"] == "deepseek2" and report["cache_bytes_per_token"] > 0, report
    text = lathe("check").text()
    assert "verdict: ok" in text and "deepseek2" in text


def test_check_knows_every_cache_type_of_the_help():
    types = re.search(r"--cache-type (\S+)", lathe("check", "--help").text()).group(1).split("|")
    sizes = {name: json.loads(lathe("check", "--json", "--cache-type", name).out)["cache_bytes_per_token"] for name in types}
    assert sizes["f32"] == 2 * sizes["f16"] and sizes["f16"] / 2 < sizes["q8_0"] < sizes["f16"] * 0.6, sizes
    for name in types:
        assert f"{sizes[name]} bytes a token in {name}" in lathe("check", "--cache-type", name).text(), name


def test_works_anywhere():
    with temporary() as folder:
        for changes in ({"HOME": None}, {"HOME": "/nowhere", "XDG_CACHE_HOME": None}, {"LANG": "C", "LC_ALL": "C"}):
            result = lathe("tokenize", "--ids", "Hi", cwd=folder, LATHE_CACHE_DIR=None, **changes)
            assert result.code == 0, result


def test_many_at_once():
    results = []
    threads = [threading.Thread(target=lambda: results.append(lathe("tokenize", "--ids", "Hi"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({r.out for r in results}) == 1 and all(r.code == 0 for r in results), results


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
