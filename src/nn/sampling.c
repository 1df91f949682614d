// sampling: see sampling.h.
#include "nn/sampling.h"

#include <math.h>

#include "nn/dry.h"

SamplingOptions sampling_defaults(void) {
    return (SamplingOptions){.temperature = 0.7f,
                             .top_k = 40,
                             .top_p = 0.95f,
                             .min_p = 0.05f,
                             .repeat_penalty = 1,
                             .penalty_window = 64,
                             .dry_base = 1.75f,
                             .dry_allowed_length = 2,
                             .dry_window = -1};
}

bool sampling_check(const SamplingOptions *o, Error *err) {
    const struct {
        const char *name;
        double value, lo, hi;
    } rows[] = {
        {"temperature", (double)o->temperature, 0, 1e6},
        {"top_p", (double)o->top_p, 0, 1e6},
        {"min_p", (double)o->min_p, 0, 1},
        {"repeat_penalty", (double)o->repeat_penalty, 1e-6, 1e6},
        {"presence_penalty", (double)o->presence_penalty, -1e6, 1e6},
        {"frequency_penalty", (double)o->frequency_penalty, -1e6, 1e6},
        {"penalty_window", (double)o->penalty_window, 0, SAMPLING_WINDOW_MAX},
        {"dry_multiplier", (double)o->dry_multiplier, 0, 1e6},
        {"dry_base", (double)o->dry_base, 1, 1e6},
        {"dry_allowed_length", (double)o->dry_allowed_length, 0, INT32_MAX},
        {"dry_penalty_last_n", (double)o->dry_window, -1, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(rows[i].value >= rows[i].lo && rows[i].value <= rows[i].hi))
            return fail(err, LATHE_BAD_REQUEST, "%s is %g: it must lie between %g and %g",
                        rows[i].name, rows[i].value, rows[i].lo, rows[i].hi);
    return true;
}

bool sampling_is_greedy(const SamplingOptions *o) {
    return o->temperature == 0 || o->top_k == 1 || o->top_p == 0;
}

bool sampling_has_penalties(const SamplingOptions *o) {
    return o->penalty_window > 0 &&
           (o->repeat_penalty != 1 || o->presence_penalty != 0 || o->frequency_penalty != 0);
}

int sampling_parts(const SamplingOptions *o) {
    int bias = o->has_bias || dry_is_on(o) ? SAMPLING_BIAS : 0;   // DRY's penalties stand among the additions
    if (sampling_is_greedy(o)) return SAMPLING_GREEDY | bias;
    int top_k = o->top_k <= 0                  ? 0
                : o->top_k <= SAMPLING_FEW_MAX ? SAMPLING_TOP_K | SAMPLING_FEW
                                               : SAMPLING_TOP_K;
    return SAMPLING_RANDOM | top_k | bias | (o->top_p < 1 ? SAMPLING_TOP_P : 0);
}

void sampling_pack(const SamplingOptions *o, uint32_t draw, float params[SAMPLE_PARAMS],
                   uint32_t words[SAMPLE_WORDS]) {
    params[SAMPLE_TEMPERATURE] = o->temperature;
    params[SAMPLE_TOP_P] = o->top_p;
    params[SAMPLE_MIN_P] = o->min_p;
    params[SAMPLE_REPEAT] = o->repeat_penalty;
    params[SAMPLE_PRESENCE] = o->presence_penalty;
    params[SAMPLE_FREQUENCY] = o->frequency_penalty;
    words[SAMPLE_SEED_LOW] = (uint32_t)o->seed;
    words[SAMPLE_SEED_HIGH] = (uint32_t)(o->seed >> 32);
    words[SAMPLE_DRAW] = draw;
    words[SAMPLE_TOP_K] = o->top_k > 0 ? (uint32_t)o->top_k : INT32_MAX;
}

// ---------------------------------------------------------------- random numbers

static Tensor rotate(Tensor x, int places) {
    return tensor_binary(OP_OR, tensor_binary_const(OP_SHL, x, places),
                         tensor_binary_const(OP_SHR, x, 32 - places));
}

Tensor random_threefry(Tensor counter_low, Tensor counter_high, Tensor key_low, Tensor key_high) {
    static const int places[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    enum { ROUNDS = 20, PARITY = 0x1BD11BDA };
    Tensor parity = tensor_binary_const(OP_XOR, tensor_binary(OP_XOR, key_low, key_high), PARITY);
    Tensor key[3] = {key_low, key_high, parity};
    Tensor a = tensor_add(counter_low, key[0]), b = tensor_add(counter_high, key[1]);
    for (int r = 0; r < ROUNDS; r++) {
        a = tensor_add(a, b);
        b = tensor_binary(OP_XOR, rotate(b, places[r % 8]), a);
        if (r % 4 != 3) continue;
        int s = r / 4 + 1;
        a = tensor_add(a, key[s % 3]);
        b = tensor_add(b, tensor_add_const(key[(s + 1) % 3], s));
    }
    return a;
}

// ---------------------------------------------------------------- parts of the graph

// Tokens in rows of ROW, so that a row can fill vectors; behind the vocabulary stand forbidden ones. The few best rows are
// looked at again in shorter ones.
enum { ROW = 256, SHORT_ROW = 32 };
typedef struct Candidates {
    Tensor x, first;           // f32 [rows, cells], i32 [rows]: the id of each row's first token
} Candidates;

static Tensor at(Tensor list, int i) { return tensor_slice(list, 0, i, i + 1); } // [1]
static Tensor number(Tensor like, double v) { return tensor_const(like->graph, DT_F32, v); }
static Tensor at_least(Tensor a, Tensor b) { return tensor_unary(OP_NOT, tensor_less(a, b)); }

// Over all of x [rows, ROW]: [1].
static Tensor all_of(Tensor x, Monoid monoid, int chains) {
    return tensor_reshape(tensor_reduce(monoid, chains, x, dims(-2, -1)), dims(1));
}

// The largest or least of all of x [rows, cells], [1]: rows by whoever has them, and then these, as its order is no matter.
static Tensor extreme_of_rows(Tensor rows, Monoid monoid) { return tensor_reshape(tensor_reduce(monoid, 1, rows, dims(-1)), dims(1)); }
static Tensor rows_of(Tensor x, Monoid monoid) { return tensor_contiguous(tensor_reduce(monoid, 1, x, dims(-1))); }   // [rows]
static Tensor extreme_of(Tensor x, Monoid monoid) { return extreme_of_rows(rows_of(x, monoid), monoid); }

static Tensor in_rows(Tensor x) {
    int64_t n = tensor_size(x, 0), rows = (n + ROW - 1) / ROW;
    return tensor_reshape(tensor_pad(x, 0, 0, rows * ROW - n), dims(rows, ROW));
}

// Logits after mask, bias and penalties.
static Candidates adjusted(const SamplingInputs *in, int parts) {
    Tensor x = in_rows(in->logits), counts = in_rows(in->counts), allowed = in_rows(in->allowed);
    Tensor repeat = at(in->params, SAMPLE_REPEAT), zero = number(x, 0);
    if (parts & SAMPLING_BIAS) x = tensor_add(x, in_rows(in->bias));
    Tensor is_seen = tensor_less(tensor_const(x->graph, DT_I32, 0), counts);
    Tensor less = tensor_where(tensor_less(zero, x), tensor_div(x, repeat), tensor_mul(x, repeat));
    x = tensor_where(is_seen, tensor_sub(less, at(in->params, SAMPLE_PRESENCE)), x);
    x = tensor_sub(x, tensor_mul(tensor_cast(counts, DT_F32), at(in->params, SAMPLE_FREQUENCY)));
    x = tensor_where(tensor_binary_const(OP_NE, allowed, 0), x, number(x, -INFINITY));
    Tensor row = tensor_iota(x->graph, tensor_size(x, 0));
    return (Candidates){tensor_contiguous(x), tensor_mul_const(row, ROW)};
}

static Tensor ids_of(Candidates c) {   // [rows, cells]
    return tensor_add(tensor_unsqueeze(c.first, -1), tensor_iota(c.x->graph, tensor_size(c.x, -1)));
}

static Candidates in_shorter_rows(Candidates c, int64_t cells) {
    int64_t parts = tensor_size(c.x, -1) / cells, rows = tensor_size(c.x, 0) * parts;
    Tensor begin = tensor_mul_const(tensor_iota(c.x->graph, parts), (double)cells);
    return (Candidates){tensor_reshape(c.x, dims(rows, cells)),
                        tensor_reshape(tensor_add(tensor_unsqueeze(c.first, -1), begin), dims(rows))};
}

// The SAMPLING_FEW_MAX rows with the best maxima. A token of the k best, k ≤ SAMPLING_FEW_MAX, is at least the k-th
// best maximum, so it lies in one of them (or ties with a token that does).
static Candidates best_rows(Candidates all) {
    int64_t rows = tensor_size(all.x, 0);
    if (rows <= SAMPLING_FEW_MAX) return all;
    Graph *g = all.x->graph;
    Tensor rank = tensor_rank(tensor_contiguous(tensor_max(all.x, -1))); // [rows]
    Tensor place = tensor_reshape(tensor_iota(g, SAMPLING_FEW_MAX), dims(SAMPLING_FEW_MAX, 1));
    Tensor row = tensor_where(tensor_equal(rank, place), tensor_iota(g, rows),
                              tensor_const(g, DT_I32, 0));
    row = tensor_contiguous(tensor_reduce(MONOID_MAX, 1, row, dims(-1))); // [FEW]
    return (Candidates){tensor_contiguous(tensor_gather(all.x, row)), tensor_contiguous(tensor_gather(tensor_contiguous(all.first), row))};
}

// The id of the highest score, the lowest id among equals; at least the vocabulary's size where nothing compares.
static Tensor best_id(Candidates c) {
    Tensor none = tensor_const(c.x->graph, DT_I32, INT32_MAX), tops = rows_of(c.x, MONOID_MAX);
    Tensor ids = rows_of(tensor_where(tensor_equal(c.x, tensor_unsqueeze(tops, -1)), ids_of(c), none), MONOID_MIN);
    Tensor id = tensor_where(tensor_equal(tops, extreme_of_rows(tops, MONOID_MAX)), ids, none);
    return tensor_contiguous(extreme_of_rows(id, MONOID_MIN));
}

// The least threshold t ≥ 0 for which Σ_{cost_i ≤ t} weight_i ≥ target, [1]; the largest there is where no sum
// reaches it. cost: i32 ≥ 0, weight ≥ 0. Bits are settled from the top, STEP at a time: how many of the thresholds
// that end the first 2^STEP − 1 parts of the interval left fall short names the part. Sums of more terms are never
// smaller, in floats too, since each term has its place in a fixed tree.
static Tensor threshold(Tensor cost, Tensor weight, Tensor target) {
    enum { BITS = 32, STEP = 2, PARTS = 1 << STEP };
    Graph *g = cost->graph;
    int chains = dtype_is_float(weight->dtype) ? SUM_CHAINS : 1;
    Tensor zero = tensor_const(g, weight->dtype, 0), part = tensor_iota(g, PARTS - 1);
    Tensor settled = tensor_reshape(tensor_const(g, DT_I32, 0), dims(1));
    for (int shift = BITS - STEP; shift >= 0; shift -= STEP) {
        // The top part of the first step would pass INT32_MAX, which every cost lies below anyway.
        int parts = shift + STEP == BITS ? PARTS / 2 - 1 : PARTS - 1;
        Tensor first = tensor_mul_const(tensor_add_const(tensor_slice(part, 0, 0, parts), 1),
                                        (double)(1LL << shift));
        Tensor end = tensor_reshape(tensor_add(settled, first), dims(parts, 1, 1));
        Tensor is_in = tensor_less(tensor_unsqueeze(cost, 0), end); // [parts, rows, ROW]
        Tensor kept = tensor_where(is_in, tensor_unsqueeze(weight, 0), zero);
        if (uop_is_poison(kept)) return kept;
        Tensor sum = tensor_reduce(MONOID_SUM, chains, kept, dims(-2, -1));
        Tensor count = tensor_reshape(tensor_sum(tensor_cast(tensor_less(sum, target), DT_I32), 0),
                                      dims(1));
        settled = tensor_contiguous(
            tensor_add(settled, tensor_mul_const(count, (double)(1LL << shift))));
    }
    return settled;
}

// Which of them cost at most that threshold: those for which the weights of all that cost less fall short of target.
static Tensor is_within(Tensor cost, Tensor weight, Tensor target, int parts) {
    if (!(parts & SAMPLING_AT_ONCE && parts & SAMPLING_FEW)) return at_least(threshold(cost, weight, target), cost);
    int chains = dtype_is_float(weight->dtype) ? SUM_CHAINS : 1;
    int64_t rows = tensor_size(cost, 0), cells = tensor_size(cost, 1);
    Tensor own = tensor_reshape(cost, dims(rows * cells, 1, 1));
    Tensor less = tensor_where(tensor_less(tensor_unsqueeze(cost, 0), own), tensor_unsqueeze(weight, 0), tensor_const(cost->graph, weight->dtype, 0));
    Tensor is_short = tensor_less(tensor_reduce(MONOID_SUM, chains, less, dims(-2, -1)), target); // [rows · cells]
    return tensor_reshape(is_short, dims(rows, cells));
}

// Every token's time in the race of exponentials; the least wins. Weights are ≤ 1, kept ones > 0.
static Tensor race(const SamplingInputs *in, Tensor id, Tensor weight) {
    Tensor bits = random_threefry(tensor_cast(id, DT_U32), at(in->words, SAMPLE_DRAW),
                                  at(in->words, SAMPLE_SEED_LOW), at(in->words, SAMPLE_SEED_HIGH));
    Tensor u = tensor_mul_const(tensor_add_const(tensor_cast(bits, DT_F32), 0.5),
                                1.0 / 4294967296.0);
    // −ln(1 − u); its series near zero, where 1 − u would lose u's digits and rare tokens would win too often.
    Tensor series = tensor_add_const(tensor_mul_const(u, 0.25), 1.0 / 3);
    series = tensor_add_const(tensor_mul(series, u), 0.5);
    series = tensor_mul(tensor_add_const(tensor_mul(series, u), 1), u);
    Tensor direct = tensor_unary(
        OP_NEG, tensor_unary(OP_LOG, tensor_add_const(tensor_unary(OP_NEG, u), 1)));
    Tensor time = tensor_where(tensor_binary_const(OP_LT, u, 1.0 / 64), series, direct);
    return tensor_binary_const(OP_MIN, tensor_div(time, weight), 1e38);
}

// The winner among the tokens that temperature, top-k, top-p and min-p leave: scores whose argmax it is.
static Tensor random_scores(const SamplingInputs *in, Candidates c, Tensor top, int parts) {
    Tensor base = tensor_where(tensor_less(number(c.x, -INFINITY), top), top, number(c.x, 0));
    Tensor z = tensor_contiguous(
        tensor_div(tensor_sub(c.x, base), at(in->params, SAMPLE_TEMPERATURE))); // ≤ 0
    Tensor w = tensor_contiguous(tensor_unary(OP_EXP, z)), zero = number(c.x, 0);
    // For z ≤ 0 the bits without the sign rise as z falls.
    Tensor cost = tensor_binary_const(OP_AND, tensor_bitcast(z, DT_I32), INT32_MAX);
    Tensor is_kept = tensor_binary(OP_AND, tensor_less(zero, w),
                                   at_least(w, at(in->params, SAMPLE_MIN_P)));
    if (parts & SAMPLING_TOP_K) {
        Tensor one = tensor_expand(tensor_const(c.x->graph, DT_I32, 1), tensor_dims(cost));
        Tensor target = tensor_cast(at(in->words, SAMPLE_TOP_K), DT_I32);
        Tensor is_best = is_within(cost, one, target, parts);
        is_kept = tensor_binary(OP_AND, is_kept, is_best);
        w = tensor_contiguous(tensor_where(is_best, w, zero));
    }
    if (parts & SAMPLING_TOP_P) {
        Tensor target = tensor_mul(all_of(w, MONOID_SUM, SUM_CHAINS), at(in->params, SAMPLE_TOP_P));
        is_kept = tensor_binary(OP_AND, is_kept, is_within(cost, w, target, parts));
    }
    Tensor scores = tensor_where(is_kept, tensor_unary(OP_NEG, race(in, ids_of(c), w)),
                                 number(c.x, -INFINITY));
    return tensor_contiguous(scores);
}

Tensor sampling_graph(const SamplingInputs *in, int parts) {
    const Tensor inputs[] = {in->logits, in->counts, in->allowed, in->params, in->words};
    for (int i = 0; i < 5; i++)
        if (uop_is_poison(inputs[i])) return inputs[i];
    Graph *g = in->logits->graph;
    if (parts & SAMPLING_BIAS && uop_is_poison(in->bias)) return in->bias;
    Candidates all = adjusted(in, parts);
    if (uop_is_poison(all.x)) return all.x;
    Tensor below = tensor_cast(tensor_less(in_rows(in->logits), number(all.x, INFINITY)), DT_I32);
    Tensor is_finite = tensor_binary_const(OP_EQ, extreme_of(below, MONOID_MIN), 1);
    Candidates c = parts & SAMPLING_FEW ? best_rows(in_shorter_rows(best_rows(all), SHORT_ROW)) : all;
    Tensor top = tensor_contiguous(extreme_of(c.x, MONOID_MAX));
    Tensor any_left = tensor_less(number(all.x, -INFINITY), top);
    if (parts & SAMPLING_RANDOM) c.x = random_scores(in, c, top, parts);
    Tensor status = tensor_where(is_finite,
                                 tensor_where(any_left, tensor_const(g, DT_I32, SAMPLING_OK),
                                              tensor_const(g, DT_I32, SAMPLING_NONE_LEFT)),
                                 tensor_const(g, DT_I32, SAMPLING_NOT_FINITE));
    status = tensor_contiguous(status);
    Tensor id = tensor_where(tensor_binary_const(OP_EQ, status, SAMPLING_OK), best_id(c),
                             tensor_const(g, DT_I32, 0));
    return tensor_where(tensor_binary_const(OP_EQ, tensor_iota(g, 2), 0), id, status);
}
