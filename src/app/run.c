// run: answers one prompt (-p, or a pipe on standard input), or chats at the terminal.
// In: a model and a prompt. Out: the answer on standard output as it is generated; what it took on standard error.
// Invariant: standard output holds the answer and nothing else (with --json: one object).
// Example: lathe run -p "Tell me a story about a rabbit." --temp 0
#include <math.h>
#include <stdio.h>

#include "app/chat.h"
#include "app/conversation.h"
#include "app/escapes.h"
#include "app/interrupt.h"
#include "app/json_output.h"
#include "app/terminal.h"
#include "base/os.h"

enum { STDIN_FD = 0, STDERR_FD = 2 };

void figures_print(const Conversation *c, const Answer *a) {
    bool dim = wants_colour(STDERR_FD);
    double prompt_rate = answer_prompt_rate(a), generation_rate = answer_generation_rate(a);
    fprintf(stderr, "%s[prompt %lld tokens", dim ? "\033[2m" : "", (long long)a->prompt_tokens);
    if (a->reused_tokens) fprintf(stderr, " (%lld reused)", (long long)a->reused_tokens);
    if (!isnan(prompt_rate)) fprintf(stderr, ", %.1f tok/s", prompt_rate);
    fprintf(stderr, "; generated %lld", (long long)a->generated_tokens);
    if (!isnan(generation_rate)) fprintf(stderr, ", %.1f tok/s", generation_rate);
    fprintf(stderr, "; loaded in %.2f s, compiled in %.2f s", c->loaded->load_s, engine_compile_seconds(c->loaded->engine));
    if (c->options.sampling.temperature > 0) fprintf(stderr, "; seed %llu", (unsigned long long)c->options.sampling.seed);
    if (a->reason == STOP_LENGTH) fputs("; stopped by -n", stderr);
    if (a->reason == STOP_INTERRUPTED) fputs("; stopped by Ctrl-C", stderr);
    if (a->reason == STOP_CONTEXT)
        fprintf(stderr, "; the context of %lld tokens is full%s", (long long)model_context(c->loaded->model),
                model_context(c->loaded->model) < model_config(c->loaded->model)->context ? ", see --context" : "");
    fprintf(stderr, "]%s\n", dim ? "\033[0m" : "");
}

static void answer_print_json(const Conversation *c, const Answer *a) {
    json_print(json_pack("{s:o, s:s, s:I, s:I, s:I, s:o, s:o, s:f, s:f, s:I}", "text", json_words(a->text), "stop",
                         stop_reason_name(a->reason), "prompt_tokens", (json_int_t)a->prompt_tokens, "reused_tokens",
                         (json_int_t)a->reused_tokens, "generated_tokens", (json_int_t)a->generated_tokens,
                         "prefill_tok_s", json_number(answer_prompt_rate(a)),
                         "decode_tok_s", json_number(answer_generation_rate(a)), "load_s", c->loaded->load_s,
                         "compile_s", engine_compile_seconds(c->loaded->engine), "seed", (json_int_t)c->options.sampling.seed), 9);
}

bool part_print(void *context, Text part) {
    (void)context;
    return fwrite(part.at, 1, part.len, stdout) == part.len && fflush(stdout) == 0;
}

static bool part_drop(void *context, Text part) {
    (void)context;
    (void)part;
    return true;
}

static bool prompt_answer(Conversation *c, Text prompt, const Options *o, Error *err) {
    bool json = option_given(o, OPTION_json);
    Answer answer;
    interrupt_watch();
    TRY((option_given(o, OPTION_raw) ? conversation_continue : conversation_answer)
        (c, prompt, json ? part_drop : part_print, NULL, &answer, err));
    if (json) answer_print_json(c, &answer);
    else putchar('\n');
    TRY(output_flush(err));
    figures_print(c, &answer);
    return true;
}

// A pipe's last newline belongs to the line, not to the prompt.
static bool pipe_read(Arena *arena, Text *prompt, Error *err) {
    TRY(file_or_input_read(arena, "-", prompt, err));
    if (text_ends(*prompt, "\n")) prompt->len--;
    if (prompt->len == 0) return fail(err, LATHE_BAD_REQUEST, "there is nothing to answer: standard input is empty, and there is no -p");
    return true;
}

// Backslashes are text, unless --escape says otherwise.
static Text prompt_from(const Options *o, OptionId id) {
    Text text = text_of(option_given(o, id) ? option_text(o, id) : "");
    return option_given(o, OPTION_escape) ? text_unescape(o->arena, text) : text;
}

static bool loaded_run(Loaded *loaded, const Options *o, bool chats, Text prompt, Error *err) {
    json_t *kwargs = NULL;
    Conversation c;
    TRY(chat_kwargs_read(o, &kwargs, err));
    ConversationOptions options = {
        .sampling = sampling_from(o),
        .most_tokens = option_int(o, OPTION_n_tokens),
        .template_file = option_text(o, OPTION_template_file),
        .system = prompt_from(o, OPTION_system),
        .kwargs = kwargs,
    };
    bool ok = conversation_open(&c, loaded, &options, err);
    if (ok) {
        loaded_print(loaded);
        ok = chats ? chat_at_terminal(&c, err) : prompt_answer(&c, prompt, o, err);
        conversation_close(&c);
    }
    json_decref(kwargs);
    return ok;
}

bool command_run(const Options *o, Error *err) {
    bool has_prompt = option_given(o, OPTION_prompt), chats = !has_prompt && is_terminal(STDIN_FD);
    Text prompt = prompt_from(o, OPTION_prompt);
    LoadOptions load = load_options(o, 0);
    load.generates = true;
    Loaded loaded;
    if (!has_prompt && !chats) TRY(pipe_read(o->arena, &prompt, err));
    TRY(loaded_open(&loaded, o->arena, &load, err));
    bool ok = loaded_run(&loaded, o, chats, prompt, err);
    loaded_close(&loaded);
    return ok;
}
