// perplexity: how well a model predicts a text, and with --kl how far fast mode lies from exact mode on it.
// In: a text file (- is standard input), cut into windows of --window tokens. Out: exp(mean −log p) over the tokens of
// each window's second half, which have at least half a window before them (llama.cpp's method, so figures compare);
// with --kl: mean, 99.9 % and largest KL divergence of the fast from the exact distribution, in nats.
// Invariant: sums are in double; the last, shorter window is left out. Example: lathe perplexity m.gguf wiki.txt --json
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/json_output.h"
#include "app/loaded.h"
#include "app/terminal.h"
#include "base/os.h"
#include "text/tokenizer.h"

typedef struct Measure {
    Loaded loaded;
    Model *exact;                 // NULL without --kl
    int32_t *tokens;              // of one window; the first is BOS where the model wants one
    float *fast_rows, *exact_rows;
    int64_t window, vocab;
    double loss, kl_sum;
    double *kls;
    int64_t n_scored;
} Measure;

// log Σ exp(row), with the largest taken out.
static double log_sum_exp(const float *row, int64_t n) {
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) largest = row[i] > largest ? (double)row[i] : largest;
    for (int64_t i = 0; i < n; i++) sum += exp((double)row[i] - largest);
    return largest + log(sum);
}

// KL(exact ‖ fast) = Σ p_exact · (log p_exact − log p_fast).
static double row_divergence(const float *exact, const float *fast, int64_t n) {
    double exact_norm = log_sum_exp(exact, n), fast_norm = log_sum_exp(fast, n), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double p = (double)exact[i] - exact_norm, q = (double)fast[i] - fast_norm;
        sum += exp(p) * (p - q);
    }
    return sum > 0 ? sum : 0;
}

static bool window_score(Measure *m, Error *err) {
    TRY(model_eval(m->loaded.model, 0, m->tokens, m->window, 0, LOGITS_ALL, m->fast_rows, err));
    if (m->exact) TRY(model_eval(m->exact, 0, m->tokens, m->window, 0, LOGITS_ALL, m->exact_rows, err));
    for (int64_t at = m->window / 2; at + 1 < m->window; at++) {
        const float *row = m->fast_rows + at * m->vocab;
        m->loss += log_sum_exp(row, m->vocab) - (double)row[m->tokens[at + 1]];
        if (m->exact) {
            m->kls[m->n_scored] = row_divergence(m->exact_rows + at * m->vocab, row, m->vocab);
            m->kl_sum += m->kls[m->n_scored];
        }
        m->n_scored++;
    }
    return true;
}

static bool text_score(Measure *m, const Tokenizer *tokenizer, const TokenIds *ids, Arena *arena, Error *err) {
    bool with_bos = tokenizer_adds_bos(tokenizer);
    int64_t step = m->window - with_bos, n_windows = (int64_t)ids->len / step;
    if (n_windows == 0)
        return fail(err, LATHE_BAD_REQUEST, "the text has only %zu tokens; a window needs %lld (see --window)", ids->len,
                    (long long)step);
    m->kls = arena_new(arena, (size_t)(n_windows * m->window) * sizeof *m->kls);
    Progress progress = {0};
    bool ok = true;
    progress_compiling(&progress);
    for (int64_t w = 0; ok && w < n_windows; w++) {
        if (with_bos) m->tokens[0] = tokenizer_bos(tokenizer);
        memcpy(m->tokens + with_bos, ids->at + w * step, (size_t)step * sizeof *ids->at);
        ok = window_score(m, err);
        progress_show(&progress, "perplexity", w + 1, n_windows);
    }
    progress_end(&progress);
    return ok;
}

static int value_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_print(Measure *m, bool json) {
    double perplexity = exp(m->loss / (double)m->n_scored);
    double mean = NAN, most = NAN, tail = NAN;
    if (m->exact) {
        qsort(m->kls, (size_t)m->n_scored, sizeof *m->kls, value_compare);
        mean = m->kl_sum / (double)m->n_scored;
        tail = m->kls[(int64_t)((double)(m->n_scored - 1) * 0.999)];
        most = m->kls[m->n_scored - 1];
    }
    if (json) {
        json_print(json_pack("{s:s, s:o, s:I, s:I, s:o, s:o, s:o}", "model", m->loaded.path, "perplexity",
                             json_number(perplexity), "tokens", (json_int_t)m->n_scored, "window", (json_int_t)m->window,
                             "kl_mean", json_number(mean), "kl_999", json_number(tail), "kl_max", json_number(most)), 9);
        return;
    }
    printf("perplexity %.4f over %lld tokens in windows of %lld\n", perplexity, (long long)m->n_scored, (long long)m->window);
    if (m->exact) printf("KL divergence from --exact: mean %.6f, 99.9 %% %.4f, largest %.4f\n", mean, tail, most);
}

static bool measure_run(Measure *m, const Options *o, Text text, Error *err) {
    Tokenizer *tokenizer = NULL;
    TokenIds ids = {0};
    ModelOptions exact = {.exact = true, .context = m->window, .rest = m->loaded.rest, .first_blocks = (int)option_int(o, OPTION_gpu_layers)};
    m->vocab = model_vocab_size(m->loaded.model);
    size_t row_bytes = (size_t)m->window * (size_t)m->vocab * sizeof(float);
    m->tokens = arena_new(o->arena, (size_t)m->window * sizeof *m->tokens);
    m->fast_rows = arena_alloc(o->arena, row_bytes);
    m->exact_rows = option_given(o, OPTION_kl) ? arena_alloc(o->arena, row_bytes) : NULL;
    if (!m->fast_rows || (option_given(o, OPTION_kl) && !m->exact_rows))
        return fail(err, LATHE_NO_MEMORY, "no memory for a window of %lld rows of logits; choose a smaller --window",
                    (long long)m->window);
    bool ok = tokenizer_create(&tokenizer, &m->loaded.gguf, err) &&
              tokenizer_encode(tokenizer, o->arena, text, false, &ids, err) &&
              (!option_given(o, OPTION_kl) || model_load(&m->exact, &m->loaded.gguf, m->loaded.engine, &exact, err)) &&
              text_score(m, tokenizer, &ids, o->arena, err);
    if (ok) measure_print(m, option_given(o, OPTION_json));
    if (m->exact) model_free(m->exact);
    tokenizer_destroy(tokenizer);
    return ok;
}

bool command_perplexity(const Options *o, Error *err) {
    const char *file = o->words[o->n_words - 1];
    Measure m = {.window = option_int(o, OPTION_window)};
    LoadOptions load = load_options(o, m.window);
    Text text;
    load.model = o->n_words == 2 ? o->words[0] : NULL;
    TRY(file_or_input_read(o->arena, file, &text, err));
    TRY(loaded_open(&m.loaded, o->arena, &load, err));
    bool ok = measure_run(&m, o, text, err);
    loaded_close(&m.loaded);
    return ok;
}
