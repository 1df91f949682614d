// lathe.h: the whole public API. In: a GGUF file. Out: tokens, logits, text.
// Everything that can fail returns false (or NULL) and writes why into LatheError; nothing aborts on bad input.
// A model is used by one thread at a time; different models are independent.
// Link with liblathe.a and: jansson utf8proc pcre2-8 edit xxhash microhttpd dl m pthread. C11, C++ compatible.
// Example:
//     LatheError why;
//     LatheModel *m = lathe_open(NULL, NULL, &why);               // the small model inside the library
//     if (!m || !lathe_answer(m, "Tell me a story.", NULL, print_text, NULL, &why)) puts(why.text);
//     lathe_close(m);
#ifndef LATHE_H
#define LATHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LATHE_VERSION "0.1.0"

typedef struct LatheError { char text[1024]; } LatheError;     // cause and next step; empty where nothing failed
typedef struct LatheModel LatheModel;

typedef struct LatheOptions {
    const char *device;        // "cpu", "eval", "null"; NULL: cpu
    const char *target;        // instruction set, for example "avx2"; NULL: what the machine has
    int threads;               // 0: all CPUs
    bool exact;                // reference mode: activations stay f32
    int64_t context;           // tokens that fit; 0: min(the model's, 8192, what memory allows)
    const char *cache_type;    // how the attention cache is kept: "f16", "f32", "q8_0" (half of f16); NULL: f16, f32 if exact
} LatheOptions;

typedef struct LatheSampling {
    float temperature;         // 0: always the likeliest token, the lowest id on ties
    int top_k;                 // 0: all
    float top_p, min_p;        // 1 and 0: all
    float repeat_penalty;      // 1: off
    float presence_penalty, frequency_penalty;
    int penalty_window;        // last tokens that the penalties see
    uint64_t seed;             // equal seeds give equal answers
    int64_t most_tokens;       // of an answer; negative: until the model ends or the context is full
} LatheSampling;

// path: a file, a name that `lathe models` lists, or NULL for the model inside the library. options may be NULL.
LatheModel *lathe_open(const char *path, const LatheOptions *options, LatheError *why);
void lathe_close(LatheModel *model);                           // NULL is allowed
int64_t lathe_vocabulary(const LatheModel *model);             // number of token ids
int64_t lathe_context(const LatheModel *model);                // tokens that fit

// Ids of a text (no BOS is added). Returns how many there are, and writes at most cap of them; -1 on failure.
// with_specials: names of special tokens in the text become those tokens.
int64_t lathe_tokenize(const LatheModel *model, const char *text, size_t nbytes, bool with_specials, int32_t *ids,
                       size_t cap, LatheError *why);
// The bytes of one token (not always whole characters). Returns their number, and writes at most cap of them.
size_t lathe_piece(const LatheModel *model, int32_t id, char *bytes, size_t cap);

// logits: [lathe_vocabulary] behind the last of n tokens, as if nothing had come before them.
bool lathe_logits(LatheModel *model, const int32_t *tokens, size_t n, float *logits, LatheError *why);

LatheSampling lathe_sampling(void);                            // the defaults of `lathe run`
// Receives whole characters as they are generated. Returning false stops the answer.
typedef bool LatheText(void *context, const char *text, size_t nbytes);
// Continues a raw text. sampling may be NULL.
bool lathe_continue(LatheModel *model, const char *text, const LatheSampling *sampling, LatheText *receive, void *context,
                    LatheError *why);
// Answers one message in the model's chat form; earlier messages and answers are remembered until lathe_forget.
bool lathe_answer(LatheModel *model, const char *message, const LatheSampling *sampling, LatheText *receive,
                  void *context, LatheError *why);
void lathe_forget(LatheModel *model);

#ifdef __cplusplus
}
#endif
#endif
