// sampling: from a row of logits to a token, as one graph for every device.
// In: logits [vocab], token counts of the penalty window, a mask, parameters and a draw's number as buffers.
// Out: the token's id and a status. Order: mask, bias (nn/dry's penalties are part of it), penalties, temperature, top-k, top-p, min-p, draw.
// Invariant: at least one candidate is left whatever the parameters say; greedy is the exact argmax, lowest id on
// ties; a draw depends on (seed, draw number, logits) only, never on threads, batch or time.
// Example: SamplingOptions o = sampling_defaults(); o.temperature = 0.8f; o.top_k = 40;
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "tensor/tensor.h"

typedef struct SamplingOptions {
    float temperature;         // ≥ 0; 0: greedy
    int top_k;                 // keep the k best; ≤ 0: all
    float top_p;               // keep the smallest best set with at least this share; ≥ 1: all; 0: the best alone
    float min_p;               // keep what has at least this share of the best one's probability; 0: all
    float repeat_penalty;      // > 0; logits of tokens seen are divided (or multiplied where negative) by it; 1: off
    float presence_penalty;    // subtracted once from tokens seen
    float frequency_penalty;   // subtracted for each time that a token was seen
    int penalty_window;        // last tokens of prompt + generated text that count as seen, 0..SAMPLING_WINDOW_MAX
    float dry_multiplier;      // nn/dry: what repeating a stretch of the allowed length costs; 0: off
    float dry_base;            // ≥ 1; so many times more for each token beyond that length
    int dry_allowed_length;    // ≥ 0 tokens may be repeated
    int dry_window;            // last tokens looked at; −1: all
    uint64_t seed;
    bool has_bias;             // the slot's own additions to logits count
} SamplingOptions;
enum { SAMPLING_WINDOW_MAX = 4096 };

SamplingOptions sampling_defaults(void);       // temperature 0.7, top_k 40, top_p 0.95, min_p 0.05, no penalties
bool sampling_check(const SamplingOptions *options, Error *err) MUST_CHECK;   // LATHE_BAD_REQUEST names the field
// Options that leave the best token alone (temperature 0, top_k 1, top_p 0).
bool sampling_is_greedy(const SamplingOptions *options);
bool sampling_has_penalties(const SamplingOptions *options);

// The i32 result of the graph: what became of the draw.
typedef enum SamplingStatus { SAMPLING_OK, SAMPLING_NOT_FINITE, SAMPLING_NONE_LEFT } SamplingStatus;

// Parameters as the graph reads them: f32 [SAMPLE_PARAMS], u32 [SAMPLE_WORDS].
enum { SAMPLE_TEMPERATURE, SAMPLE_TOP_P, SAMPLE_MIN_P, SAMPLE_REPEAT, SAMPLE_PRESENCE, SAMPLE_FREQUENCY,
       SAMPLE_PARAMS };
enum { SAMPLE_SEED_LOW, SAMPLE_SEED_HIGH, SAMPLE_DRAW, SAMPLE_TOP_K, SAMPLE_WORDS };
void sampling_pack(const SamplingOptions *options, uint32_t draw, float params[SAMPLE_PARAMS],
                   uint32_t words[SAMPLE_WORDS]);

typedef struct SamplingInputs {
    Tensor logits;             // f32 [vocab]; NaN or +inf anywhere: SAMPLING_NOT_FINITE
    Tensor counts;             // i32 [vocab], 0..SAMPLING_WINDOW_MAX: times seen in the window
    Tensor allowed;            // u8 [vocab]: 0 forbids a token
    Tensor params;             // f32 [SAMPLE_PARAMS]
    Tensor words;              // u32 [SAMPLE_WORDS]
    Tensor bias;               // f32 [vocab], finite, added to the logits before penalties; read with SAMPLING_BIAS only
} SamplingInputs;

// What a graph does beyond mask, penalties and choice. Leaving a part out costs nothing where options do not use it.
// SAMPLING_FEW: 1 ≤ top_k ≤ SAMPLING_FEW_MAX: the k best lie in the k rows of the vocabulary with the best maxima, and of these
// in the k shorter rows with the best, so that everything behind the penalties looks at those only.
// SAMPLING_AT_ONCE, with SAMPLING_FEW: each candidate adds up what is better than itself, where else an interval is halved again
// and again: the same tokens for many more additions, none of which waits for another. No option needs it, GPUs want it.
typedef enum SamplingParts { SAMPLING_GREEDY = 0, SAMPLING_RANDOM = 1, SAMPLING_TOP_K = 2, SAMPLING_TOP_P = 4,
                             SAMPLING_FEW = 8, SAMPLING_BIAS = 16, SAMPLING_VARIANTS = 32,
                             SAMPLING_AT_ONCE = 32 } SamplingParts;
enum { SAMPLING_FEW_MAX = 64 };   // SAMPLING_VARIANTS: of what options need
int sampling_parts(const SamplingOptions *options);        // bits that these options need
// i32 [2]: {token id, SamplingStatus}; where the status is not OK the id is 0. Temperature, min-p and the draw belong
// to SAMPLING_RANDOM; without it the result is the argmax. Tokens that tie with the last one kept by top-k or top-p
// are kept too. The draw is a race of exponentials: the kept token with the least −ln(1 − u_i) / w_i.
Tensor sampling_graph(const SamplingInputs *in, int parts);

// The counter-based generator: Threefry-2x32, 20 rounds (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011). counter and key words are u32 tensors that broadcast; returns the first output word.
Tensor random_threefry(Tensor counter_low, Tensor counter_high, Tensor key_low, Tensor key_high);
