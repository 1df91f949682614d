// generate: one sequence's life: prompt in, tokens out, one at a time.
// In: token ids. Out: the next token. The session owns its slot's history and knows how much of it is in the cache.
// Invariant: cached ≤ length; the newest token's keys are written when the token after it is asked for, so what a
// resumed session reuses is exactly what was written. session_step builds no graph and allocates nothing.
// Example: TRY(session_open(&s, model, 0, &options, err)); TRY(session_prompt(s, ids, n, NULL, NULL, err));
//          while (session_room(s) > 0) { TRY(session_step(s, &token, err)); if (is_end(token)) break; }
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "models/model.h"
#include "models/pages.h"
#include "nn/dry.h"
#include "nn/sampling.h"

typedef struct Session Session;
// Told of tokens of the new part. False stops the prompt: session_cached says how much of it is there.
typedef bool (*PromptProgress)(void *context, int64_t done, int64_t total);

bool session_open(Session **session, Model *model, int slot, const SamplingOptions *options, Error *err) MUST_CHECK;
void session_close(Session *session);                              // NULL is allowed
bool session_set_sampling(Session *session, const SamplingOptions *options, Error *err) MUST_CHECK;

// The history becomes tokens[0..n), n ≥ 1; the longest common beginning with the old history is reused from the
// cache. Evaluates all but the last token. Errors: LATHE_BAD_REQUEST where n exceeds the context (the text has both
// numbers) or a token is out of range; then the history is as before.
bool session_prompt(Session *session, const int32_t *tokens, int64_t n, PromptProgress progress, void *context,
                    Error *err) MUST_CHECK;
// The same in parts, so that other sequences may have their turn in between: session_begin sets the history and finds what
// of it is cached; session_fill evaluates up to `most` tokens of it, until session_unfilled (all but the last token) is 0.
bool session_begin(Session *session, const int32_t *tokens, int64_t n, Error *err) MUST_CHECK;
bool session_fill(Session *session, int64_t most, Error *err) MUST_CHECK;
int64_t session_unfilled(const Session *session);
// Chooses the next token and appends it. Errors: LATHE_BAD_REQUEST where nothing was prompted or session_room is 0.
bool session_step(Session *session, int32_t *token, Error *err) MUST_CHECK;
// The same for several sessions of one model at once, which read each weight once: 1 ≤ n ≤ SESSIONS_AT_ONCE, all filled and
// with room. Session i draws from row i of the logits. False: nothing was computed. A draw that fails (logits that are no
// numbers, nothing allowed) leaves tokens[i] at -1 and says why in errors[i]; the others go on.
enum { SESSIONS_AT_ONCE = 16 };
bool sessions_step(Session *const *sessions, int n, int32_t *tokens, Error *errors, Error *err) MUST_CHECK;
// From now on the session shares the pages of pool with other slots. NULL: it keeps its slot's own.
void session_share(Session *session, PagePool *pool);
void session_set_allowed(Session *session, const uint8_t *allowed);   // [vocab], for all later draws; NULL: everything
typedef struct TokenBias { int32_t token; float bias; } TokenBias;
// Replaces the biases of the session; finite numbers. n 0: none. list is copied.
bool session_set_bias(Session *session, const TokenBias *list, size_t n, Error *err) MUST_CHECK;
// What ends repetitions for the dry_ fields of the sampling. At first: nothing does. The texts must outlive the draws.
void session_set_breakers(Session *session, const DryBreakers *breakers);
void session_logits(const Session *session, float *out);           // [vocab] that the last step drew from, unscaled

int64_t session_length(const Session *session);                    // tokens of prompt + generated
int64_t session_cached(const Session *session);                    // of these, in the cache
int64_t session_reused(const Session *session);                    // of the last prompt, found in the cache
int64_t session_room(const Session *session);                      // tokens that may still be generated
const int32_t *session_tokens(const Session *session);             // [session_length]
void session_truncate(Session *session, int64_t length);           // forgets everything behind the first length tokens
