// logits: the model's raw output for given token ids, for tests and for other programs.
// In: --tokens "1 2 3". Out: with --json an array with one row of [vocab] numbers a position (one row with --last),
// 9 significant digits; with --hash a hash of each row's bits; else its likeliest tokens. No token is added.
// --decode N computes the last N positions one at a time, as generating does.
// Invariant: the same bytes whatever the chunk, the threads or the cache. Example: lathe logits --tokens "1 2" --json
#include <stdio.h>
#include <string.h>

#include "app/loaded.h"
#include "app/terminal.h"
#include "base/map.h"

enum { LIKELIEST = 5 };

static void row_print_json(const float *row, int64_t vocab) {
    putchar('[');
    for (int64_t i = 0; i < vocab; i++) printf(i ? ",%.9g" : "%.9g", (double)row[i]);
    putchar(']');
}

static void row_print(const float *row, int64_t vocab, int64_t position) {
    int64_t best[LIKELIEST];
    int n = 0;
    for (int64_t i = 0; i < vocab; i++) {
        int at = n;
        while (at > 0 && row[i] > row[best[at - 1]]) at--;
        if (at == LIKELIEST) continue;
        if (n < LIKELIEST) n++;
        memmove(best + at + 1, best + at, (size_t)(n - at - 1) * sizeof *best);
        best[at] = i;
    }
    printf("%6lld ", (long long)position);
    for (int i = 0; i < n; i++) printf("  %lld: %.6g", (long long)best[i], (double)row[best[i]]);
    putchar('\n');
}

// One row in the form that the flags ask for; is_first: nothing was printed before.
static void row_write(const Options *o, const float *row, int64_t vocab, int64_t position, bool is_first) {
    if (option_given(o, OPTION_hash)) {
        printf("%016llx\n", (unsigned long long)hash_bytes(row, (size_t)vocab * sizeof *row, 0));
    } else if (option_given(o, OPTION_json)) {
        fputs(is_first ? "[" : ",\n", stdout);
        row_print_json(row, vocab);
    } else {
        row_print(row, vocab, position);
    }
}

// Rows are computed a part at a time, so that long inputs need no memory for all of them.
enum { ROWS_AT_ONCE = 512 };

static bool rows_print(Loaded *l, const Options *o, const int32_t *tokens, int n, Error *err) {
    int64_t vocab = model_vocab_size(l->model), context = model_context(l->model);
    if (n > context)
        return fail(err, LATHE_BAD_REQUEST, "%d tokens do not fit the context of %lld; see --context", n, (long long)context);
    bool last_only = option_given(o, OPTION_last);
    int together = n - (int)option_int(o, OPTION_decode);
    if (together < 0)
        return fail(err, LATHE_BAD_REQUEST, "--decode %d: there are only %d tokens", n - together, n);
    int at_once = last_only ? 1 : n < ROWS_AT_ONCE ? n : ROWS_AT_ONCE;
    float *rows = arena_alloc(o->arena, (size_t)at_once * (size_t)vocab * sizeof *rows);
    if (!rows) return fail(err, LATHE_NO_MEMORY, "no memory for %d rows of %lld logits", at_once, (long long)vocab);
    for (int begin = 0, count; begin < n; begin += count) {
        int left = together - begin;
        count = left < 1 ? 1 : last_only || left < at_once ? left : at_once;
        bool is_end = begin + count == n;
        LogitRows wanted = !last_only ? LOGITS_ALL : is_end ? LOGITS_LAST : LOGITS_NONE;
        Progress progress = {0};
        if (begin == 0) progress_compiling(&progress);
        bool ok = model_eval(l->model, 0, tokens + begin, count, begin, wanted, rows, err);
        progress_end(&progress);
        TRY(ok);
        if (last_only && is_end) row_write(o, rows, vocab, n - 1, true);
        for (int r = 0; r < count && !last_only; r++)
            row_write(o, rows + (int64_t)r * vocab, vocab, begin + r, begin + r == 0);
    }
    if (option_given(o, OPTION_json) && !option_given(o, OPTION_hash)) puts("]");
    return true;
}

bool command_logits(const Options *o, Error *err) {
    int64_t *numbers = NULL;
    int n = 0;
    Loaded loaded;
    if (!option_given(o, OPTION_tokens))
        return fail(err, LATHE_BAD_REQUEST, "--tokens is missing; for example: lathe logits --tokens \"1 2 3\" --json");
    TRY(numbers_read(o->arena, "--tokens", option_text(o, OPTION_tokens), &numbers, &n, err));
    int32_t *tokens = arena_new(o->arena, (size_t)n * sizeof *tokens);
    for (int i = 0; i < n; i++) {
        if (numbers[i] > INT32_MAX) return fail(err, LATHE_BAD_REQUEST, "--tokens: %lld is no token id", (long long)numbers[i]);
        tokens[i] = (int32_t)numbers[i];
    }
    LoadOptions load = load_options(o, 0);
    TRY(loaded_open(&loaded, o->arena, &load, err));
    bool ok = rows_print(&loaded, o, tokens, n, err);
    loaded_close(&loaded);
    return ok;
}
