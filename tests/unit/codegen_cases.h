// codegen_cases: graphs of the kinds that models use, for the tests of backends: each is compiled, run and compared with
// eval_graph. In: an engine on any device. Out: a failed check of cmocka where the device computes something else.
// Example: for (size_t i = 0; i < N_CODEGEN_CASES; i++) codegen_cases[i].run(&compare);
#pragma once
#include "compare.h"

static void elementwise(Compare *c) {
    Tensor x = compare_buffer(c, DT_F32, 0, 0, dims(3, 40)), y = compare_buffer(c, DT_F32, 0, 0, dims(40));
    compare_run(c, "add", tensor_add(x, y), 1e-6);
    compare_run(c, "exp", tensor_unary(OP_EXP, tensor_mul_const(x, 60)), 1e-5);
    compare_run(c, "silu", tensor_silu(tensor_mul_const(x, 9)), 1e-6);
    compare_run(c, "gelu", tensor_gelu_tanh(tensor_mul_const(x, 3)), 1e-6);
    compare_run(c, "transposed", tensor_contiguous(tensor_transpose(tensor_mul(x, y), 0, 1)), 1e-6);
    compare_run(c, "padded", tensor_pad(tensor_slice(x, 1, 3, 17), 1, 2, 5), 1e-6);
    compare_run(c, "concat", tensor_concat(x, tensor_mul_const(x, 2), 1), 1e-6);
    compare_run(c, "flip", tensor_add(tensor_flip(x, 1), y), 1e-6);
    compare_run(c, "round", tensor_unary(OP_ROUND, tensor_mul_const(x, 50)), 1e-6);
    compare_run(c, "to i8", tensor_cast(tensor_unary(OP_ROUND, tensor_mul_const(x, 100)), DT_I8), 0);
    static const DType small[] = {DT_I8, DT_U8, DT_I16, DT_U16};
    for (int i = 0; i < 4; i++)   // past both ends, where an integer of 32 bits would wrap
        compare_run(c, "to the nearest of a small type", tensor_cast(tensor_mul_const(x, dtype_bytes(small[i]) > 1 ? 9e4 : 400), small[i]), 0);
    compare_run(c, "to f16", tensor_cast(tensor_mul_const(x, 100), DT_F16), 0);
    compare_run(c, "to bf16", tensor_cast(tensor_mul_const(x, 100), DT_BF16), 0);
    compare_run(c, "less", tensor_less(x, y), 0);
}

static void reductions(Compare *c) {
    static const int64_t sizes[] = {1, 2, 5, 8, 15, 16, 17, 24, 31, 32, 33, 48, 100, 256, 1000};
    static const int64_t shared[] = {501, 997, 2035};   // threads that share them have unequal parts: cells behind the end are nobody's
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        for (int rows = 1; rows <= 3; rows += 2) {
            Tensor n = compare_buffer(c, DT_I32, 1, 9, dims(rows, shared[i])), x = compare_buffer(c, DT_F32, 0, 0, dims(rows, shared[i]));
            compare_run(c, "least of unequal parts", tensor_reduce(MONOID_MIN, 1, n, dims(-1)), 0);
            compare_run(c, "sum of unequal parts", tensor_sum(tensor_add_const(n, 1), -1), 0);
            compare_run(c, "float sum of unequal parts", tensor_sum(tensor_add_const(x, 1), -1), 1e-5);
        }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Tensor x = compare_buffer(c, DT_F32, 0, 0, dims(3, sizes[i]));
        char what[64];
        snprintf(what, sizeof what, "sum of %d", (int)sizes[i]);
        compare_run(c, what, tensor_sum(x, 1), 1e-5);
        snprintf(what, sizeof what, "max of %d", (int)sizes[i]);
        compare_run(c, what, tensor_max(x, 1), 0);
        Tensor n = compare_buffer(c, DT_I8, -128, 127, dims(3, sizes[i]));
        snprintf(what, sizeof what, "integer sum of %d", (int)sizes[i]);
        compare_run(c, what, tensor_sum(tensor_cast(n, DT_I32), 1), 0);
        compare_run(c, "argmax", tensor_argmax(x), 0);
        // Sums that end at a loop's own place: of no step, of one, of many.
        Tensor place = tensor_iota(c->graph, sizes[i]), is_earlier = tensor_less(place, tensor_reshape(place, dims(sizes[i], 1)));
        Tensor counts = compare_buffer(c, DT_I32, 0, 99, dims(sizes[i])), zero = tensor_const(c->graph, DT_I32, 0);
        if (sizes[i] <= 256) compare_run(c, "sums of what is earlier", tensor_sum(tensor_where(is_earlier, counts, zero), -1), 0);
    }
}

// Sums whose terms lie side by side along the last axis, of lengths that fill all chains and that do not; o[r, j] = Σ_p w Σ_k s·v,
// whose v is more than near caches hold.
static void sums_beside(Compare *c) {
    static const int64_t sizes[] = {1, 7, 16, 17, 48, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Tensor x = compare_buffer(c, DT_F32, 0, 0, dims(3, sizes[i], 24)), y = compare_buffer(c, DT_F32, 0, 0, dims(5, sizes[i]));
        Tensor ends = compare_buffer(c, DT_I32, 0, sizes[i], dims(24)), nth = tensor_reshape(tensor_iota(c->graph, sizes[i]), dims(-1, 1));
        compare_run(c, "sums beside", tensor_sum(x, 1), 1e-5);
        compare_run(c, "maxima beside", tensor_max(x, 1), 0);
        compare_run(c, "products beside", tensor_sum(tensor_mul(tensor_unsqueeze(x, 1), tensor_unsqueeze(y, -1)), 2), 1e-5);
        Tensor seen = tensor_where(tensor_less(nth, ends), x, tensor_const(c->graph, DT_F32, 0)); // a lane's own end
        compare_run(c, "sums of different lengths beside", tensor_sum(seen, 1), 1e-5);
    }
    enum { H = 64, R = 8, P = 17, K = 32, J = 32 };
    Tensor w = compare_buffer(c, DT_F32, 0, 0, dims(H, R, P, 1)), s = compare_buffer(c, DT_F32, 0, 0, dims(H, R, P, K, 1));
    Tensor v = compare_buffer(c, DT_F32, 0, 0, dims(H, 1, P, K, J)), n = compare_buffer(c, DT_I32, 0, P, dims(1));
    Tensor part = tensor_reduce(MONOID_SUM, 1, tensor_mul(s, v), dims(3)), terms = tensor_mul(w, part);
    compare_run(c, "sums of sums", tensor_contiguous(tensor_reduce(MONOID_SUM, 1, terms, dims(2))), 1e-5);
    Tensor is_there = tensor_less(tensor_reshape(tensor_iota(c->graph, P), dims(P, 1)), n);
    terms = tensor_where(is_there, terms, tensor_const(c->graph, DT_F32, 0));
    compare_run(c, "sums of sums that end at data", tensor_contiguous(tensor_reduce(MONOID_SUM, 1, terms, dims(2))), 1e-5);
}

// Rows that a condition leaves out are a constant, whose sums take no step: a condition on the row's place, on its data.
static void chosen_rows(Compare *c) {
    static const int64_t sizes[][2] = {{40, 96}, {33, 7}, {64, 2048}, {5, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t rows = sizes[i][0], cols = sizes[i][1];
        Tensor x = compare_buffer(c, DT_F32, 0, 0, dims(rows, cols)), w = compare_buffer(c, DT_F32, 0, 0, dims(3, cols));
        Tensor sums = tensor_sum(tensor_mul(tensor_reshape(x, dims(rows, 1, cols)), w), -1), none = tensor_const(c->graph, DT_F32, -5);
        Tensor count = compare_buffer(c, DT_I32, 0, rows, dims(1)), marks = compare_buffer(c, DT_I32, 0, 99, dims(rows));
        Tensor is_first = tensor_less(tensor_reshape(tensor_iota(c->graph, rows), dims(rows, 1)), count);
        Tensor is_marked = tensor_less(tensor_reshape(marks, dims(rows, 1)), tensor_const(c->graph, DT_I32, 50));
        compare_run(c, "first rows", tensor_where(is_first, sums, none), 1e-5);
        compare_run(c, "marked rows", tensor_where(is_marked, sums, none), 1e-5);
        compare_run(c, "marked sums", tensor_where(tensor_reshape(is_marked, dims(rows)), tensor_sum(x, -1), none), 1e-5);
    }
}

// A sum that says where to read: it has lanes of its own beside those of the elements.
static void places_counted(Compare *c) {
    static const int64_t sizes[] = {1, 5, 16, 24, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Tensor marks = compare_buffer(c, DT_I32, 0, 99, dims(sizes[i])), own = compare_buffer(c, DT_I32, 0, 99, dims(3, 32));
        Tensor table = compare_buffer(c, DT_F32, 0, 0, dims(sizes[i] + 1)), rows = compare_buffer(c, DT_F32, 0, 0, dims(sizes[i] + 1, 24));
        Tensor is_less = tensor_less(marks, tensor_unsqueeze(own, -1));
        Tensor place = tensor_sum(tensor_cast(is_less, DT_I32), -1);   // [3, 32]
        compare_run(c, "elements of counted places", tensor_gather(table, place), 0);
        compare_run(c, "rows of counted places", tensor_gather(rows, place), 0);
        compare_run(c, "sums of rows of counted places", tensor_sum(tensor_gather(rows, place), -1), 1e-5);
        compare_run(c, "elements behind them", tensor_add(tensor_gather(table, place), tensor_gather(table, tensor_max(place, 0))), 1e-6);
    }
}

static void products(Compare *c) {
    Tensor x = compare_buffer(c, DT_F32, 0, 0, dims(4, 96)), w = compare_buffer(c, DT_F32, 0, 0, dims(40, 96));
    Tensor y = tensor_sum(tensor_mul(tensor_reshape(x, dims(4, 1, 96)), w), -1);
    compare_run(c, "product", y, 1e-5);
    Tensor mean = tensor_mul_const(tensor_sum(tensor_mul(x, x), -1), 1.0 / 96);
    Tensor inv = tensor_unary(OP_RECIP, tensor_unary(OP_SQRT, tensor_add_const(mean, 1e-5)));
    compare_run(c, "norm", tensor_mul(x, tensor_reshape(inv, dims(4, 1))), 1e-5);
    compare_run(c, "softmax", tensor_softmax(x, NULL), 1e-5);
    Tensor bytes = compare_buffer(c, DT_U8, 0, 255, dims(40, 96)), q = compare_buffer(c, DT_I8, -127, 127, dims(4, 96));
    Tensor a = tensor_cast(tensor_binary_const(OP_AND, bytes, 15), DT_I32), b = tensor_cast(tensor_reshape(q, dims(4, 1, 96)), DT_I32);
    compare_run(c, "integer product", tensor_sum(tensor_mul(a, b), -1), 0);
}

// Bit fields ((x >> down) & mask) << up of bytes: downs apart by row and within 8 neighbours, as values and in products
// of signed bytes. Masks are of one bit, of many, with holes, and wider than what the shift leaves.
static void fields(Compare *c) {
    static const int masks[] = {1, 3, 15, 85, 192, 255}, ups[] = {0, 1, 4, 7};
    Tensor bytes = compare_buffer(c, DT_U8, 0, 255, dims(3, 8, 32)), few = compare_buffer(c, DT_U8, 0, 255, dims(3, 32, 1));
    Tensor q = compare_buffer(c, DT_I8, -127, 127, dims(3, 8, 32));
    Tensor ladder = tensor_cast(tensor_iota(c->graph, 8), DT_U8);
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        Tensor sums[3] = {NULL}, by_row = tensor_reshape(ladder, dims(8, 1)), close = ladder;
        for (size_t u = 0; u < sizeof ups / sizeof *ups; u++) {
            Tensor apart = tensor_binary_const(OP_AND, tensor_binary(OP_SHR, bytes, by_row), masks[m]);
            Tensor near = tensor_binary_const(OP_AND, tensor_binary(OP_SHR, few, close), masks[m]);
            Tensor values[3] = {tensor_binary_const(OP_SHL, apart, ups[u]), tensor_binary_const(OP_SHL, near, ups[u])};
            for (int i = 0; i < 2; i++) values[i] = tensor_cast(tensor_reshape(values[i], dims(3, 8, 32)), DT_I32);
            values[2] = tensor_sum(tensor_mul(values[0], tensor_cast(q, DT_I32)), -1);
            for (int i = 0; i < 3; i++) {
                Tensor term = tensor_mul_const(values[i], (double)(2 * u + 1));
                sums[i] = sums[i] ? tensor_add(sums[i], term) : term;
            }
        }
        compare_run(c, "fields apart by row", sums[0], 0);
        compare_run(c, "fields of neighbours", sums[1], 0);
        compare_run(c, "products of fields", sums[2], 0);
    }
}

// Eight small numbers whose bits lie in 4 bytes and a word, each at its own place; what is shifted out of a byte is gone.
static void spread_bits(Compare *c) {
    Tensor bytes = compare_buffer(c, DT_U8, 0, 255, dims(5, 4, 1)), word = compare_buffer(c, DT_U16, 0, 65535, dims(5, 1));
    Tensor places = tensor_cast(tensor_mul_const(tensor_iota(c->graph, 2), 4), DT_U8);
    Tensor pairs = tensor_cast(tensor_mul_const(tensor_iota(c->graph, 8), 2), DT_U16);
    Tensor low = tensor_reshape(tensor_binary_const(OP_AND, tensor_binary(OP_SHR, bytes, places), 15), dims(5, 8));
    Tensor high = tensor_cast(tensor_binary(OP_SHR, word, pairs), DT_U8);
    for (int up = 0; up < 8; up += 3) {
        Tensor moved = tensor_binary_const(OP_SHL, high, up);
        compare_run(c, "bits joined", tensor_add_const(tensor_cast(tensor_binary(OP_OR, low, moved), DT_I32), -32), 0);
        compare_run(c, "bits apart", tensor_mul_const(tensor_cast(tensor_binary(OP_XOR, moved, low), DT_F32), 0.5), 0);
    }
}

// Fields of bits out of words that 2 to 4 bytes make, many of them across two bytes, as numbers and as places in a table.
static void packed_fields(Compare *c) {
    static const struct { int bytes, step, width, n; } shapes[] = {{3, 3, 3, 8}, {2, 4, 4, 4}, {3, 5, 6, 4}, {4, 7, 8, 4}, {4, 4, 3, 8}, {2, 1, 2, 8}, {3, 11, 8, 2}, {3, 5, 3, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int n = shapes[i].n, bits = shapes[i].width;
        Tensor bytes = tensor_cast(compare_buffer(c, DT_U8, 0, 255, dims(3, 32, shapes[i].bytes)), DT_U32), word = NULL;
        for (int k = 0; k < shapes[i].bytes; k++) {
            Tensor part = tensor_binary_const(OP_SHL, tensor_slice(bytes, -1, k, k + 1), 8 * k);
            word = word ? tensor_binary(OP_OR, word, part) : part;
        }
        Tensor places = tensor_cast(tensor_mul_const(tensor_iota(c->graph, n), shapes[i].step), DT_U32);
        Tensor code = tensor_binary_const(OP_AND, tensor_binary(OP_SHR, word, places), (1 << bits) - 1);
        Tensor turned = tensor_binary_const(OP_XOR, tensor_cast(code, DT_U8), 85);
        Tensor q = compare_buffer(c, DT_I8, -127, 127, dims(3, 32, n)), values[2] = {tensor_cast(turned, DT_I32), NULL};
        if (bits < 5) values[1] = tensor_cast(tensor_gather(compare_buffer(c, DT_I8, -127, 127, dims(1 << bits)), tensor_cast(code, DT_I32)), DT_I32);
        for (int k = 0; k < 2 && values[k]; k++) {
            compare_run(c, "packed fields", values[k], 0);
            Tensor scale = compare_buffer(c, DT_F32, 0, 0, dims(3, 32, 1)), f = tensor_cast(values[k], DT_F32);
            Tensor terms = tensor_mul(tensor_mul(scale, f), tensor_cast(q, DT_F32));
            compare_run(c, "scaled products of packed fields", tensor_reduce(MONOID_SUM, SUM_CHAINS, terms, dims(1, 2)), 1e-5);
            compare_run(c, "products of packed fields", tensor_sum(tensor_reshape(tensor_mul(values[k], tensor_cast(q, DT_I32)), dims(3, 32 * n)), -1), 0);
        }
    }
}

// Elements near each other, but not side by side: in pairs, in threes, turned round, a few of each row.
static void near_elements(Compare *c) {
    static const int64_t widths[] = {3, 5, 40};
    Tensor ladder = tensor_iota(c->graph, 48);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int is_float = 0; is_float < 2; is_float++) {
            Tensor x = compare_buffer(c, is_float ? DT_F32 : DT_U8, 0, 255, dims(2, 64 * widths[i]));
            Tensor rows = tensor_slice(tensor_reshape(x, dims(2, 64, widths[i])), -1, 0, 3), whole = is_float ? x : tensor_cast(x, DT_I32);
            Tensor three = is_float ? rows : tensor_cast(tensor_binary_const(OP_AND, rows, 15), DT_I32);
            Tensor pairs = tensor_gather(tensor_permute(whole, dims(1, 0)), tensor_binary_const(OP_SHR, tensor_mul_const(ladder, 3), 1));
            Tensor turned = tensor_gather(tensor_permute(whole, dims(1, 0)), tensor_binary_const(OP_XOR, ladder, 24));
            compare_run(c, "three of a row", tensor_sum(tensor_reshape(tensor_mul(three, three), dims(2, 16, 12)), -1), 1e-5);
            compare_run(c, "neighbours twice", tensor_sum(pairs, 0), 1e-5);
            compare_run(c, "eights turned round", tensor_sum(tensor_mul(turned, turned), 0), 1e-5);
        }
}

// Tables of bytes at indices that are data: small ones fit a register; the largest does not.
static void tables(Compare *c) {
    static const int sizes[] = {1, 3, 8, 16, 17};
    Tensor bytes = compare_buffer(c, DT_U8, 0, 255, dims(3, 96)), q = compare_buffer(c, DT_I8, -127, 127, dims(3, 96));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char what[32];
        Tensor place = tensor_binary(OP_MOD, tensor_cast(bytes, DT_I32), tensor_const(c->graph, DT_I32, sizes[i]));
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            Tensor table = is_signed ? compare_buffer(c, DT_I8, -128, 127, dims(sizes[i])) : compare_buffer(c, DT_U8, 0, 255, dims(sizes[i]));
            Tensor found = tensor_cast(tensor_gather(table, place), DT_I32);
            snprintf(what, sizeof what, "table of %d", sizes[i]);
            compare_run(c, what, found, 0);
            compare_run(c, what, tensor_sum(tensor_mul(found, tensor_cast(q, DT_I32)), -1), 0);
        }
    }
}

static void gathers(Compare *c) {
    Tensor table = compare_buffer(c, DT_F16, 0, 0, dims(10, 32)), id = compare_buffer(c, DT_I32, 0, 9, dims(5));
    compare_run(c, "gather", tensor_cast(tensor_gather(table, id), DT_F32), 1e-6);
    Tensor scores = compare_buffer(c, DT_F32, 0, 0, dims(3, 20));
    compare_run(c, "rank", tensor_rank(scores), 0);
}

// What chosen matrices make of a row each, weighted and added up: their rows are walked matrix by matrix.
static Tensor sum_of_chosen(Tensor x, Tensor w, Tensor id, Tensor a, Tensor share) {   // [r], [n, r, k], [e], [e, 1, k], [e, 1] → [r]
    Tensor each = tensor_sum(tensor_mul(tensor_gather(w, id), a), -1);
    return tensor_add(x, tensor_reduce(MONOID_SUM, 1, tensor_mul(each, share), dims(0)));
}

static void chosen_matrices(Compare *c) {
    Tensor w = compare_buffer(c, DT_F32, 0, 0, dims(10, 512, 64)), id = compare_buffer(c, DT_I32, 0, 9, dims(5));
    Tensor a = compare_buffer(c, DT_F32, 0, 0, dims(5, 1, 64)), share = compare_buffer(c, DT_F32, 0, 0, dims(5, 1));
    compare_run(c, "sum of chosen matrices", sum_of_chosen(compare_buffer(c, DT_F32, 0, 0, dims(512)), w, id, a, share), 1e-5);
}

static Tensor linear(Tensor x, Tensor w) {   // [m, k], [r, k] → [m, r]
    return tensor_sum(tensor_mul(tensor_reshape(x, dims(tensor_size(x, 0), 1, tensor_size(x, 1))), w), -1);
}

static Tensor norm(Tensor x) {
    Tensor mean = tensor_mul_const(tensor_sum(tensor_mul(x, x), -1), 1.0 / (double)tensor_size(x, -1));
    return tensor_mul(x, tensor_unsqueeze(tensor_unary(OP_RECIP, tensor_unary(OP_SQRT, tensor_add_const(mean, 1e-5))), -1));
}

// A chain as a transformer block has it: items join kernels in many ways, for few and for many rows.
static void blocks(Compare *c) {
    static const int64_t rows[] = {1, 2, 4, 16};
    for (size_t i = 0; i < 4; i++) {
        char what[32];
        Tensor x = compare_buffer(c, DT_F32, 0, 0, dims(rows[i], 64));
        Tensor up = compare_buffer(c, DT_F32, 0, 0, dims(128, 64)), gate = compare_buffer(c, DT_F32, 0, 0, dims(128, 64));
        Tensor down = compare_buffer(c, DT_F32, 0, 0, dims(64, 128));
        Tensor h = norm(x);
        Tensor y = tensor_add(x, linear(tensor_mul(tensor_silu(linear(h, gate)), linear(h, up)), down));
        snprintf(what, sizeof what, "block of %d rows", (int)rows[i]);
        compare_run(c, what, y, 1e-5);
        compare_run(c, what, norm(y), 1e-5);
        Tensor q = tensor_reshape(linear(norm(y), compare_buffer(c, DT_F32, 0, 0, dims(64, 64))), dims(rows[i], 4, 16));
        Tensor even = tensor_reshape(q, dims(rows[i], 4, 8, 2));
        Tensor turned = tensor_concat(tensor_slice(even, 3, 1, 2), tensor_slice(even, 3, 0, 1), 3);
        compare_run(c, "turned", tensor_add(tensor_mul_const(q, 0.5), tensor_reshape(turned, dims(rows[i], 4, 16))), 1e-5);
        Tensor keys = compare_buffer(c, DT_F32, 0, 0, dims(24, 16));
        Tensor scores = tensor_sum(tensor_mul(tensor_reshape(q, dims(rows[i], 4, 1, 16)), keys), -1);
        Tensor place = tensor_iota(c->graph, 24), last = compare_buffer(c, DT_I32, 0, 23, dims(rows[i]));
        Tensor mask = tensor_less(place, tensor_add_const(tensor_reshape(last, dims(rows[i], 1, 1)), 1));
        Tensor p = tensor_softmax(scores, tensor_expand(mask, dims(rows[i], 4, 24)));
        compare_run(c, "attention", tensor_sum(tensor_mul(tensor_unsqueeze(p, -1), keys), -2), 1e-5);
    }
}

// Four sums that read the same halves, in tiles enough for a whole card that share nothing else.
static void many_tiles(Compare *c) {
    Tensor q = compare_buffer(c, DT_F32, 0, 0, dims(1, 4, 64)), k = compare_buffer(c, DT_F16, 0, 0, dims(59049, 1, 64));
    compare_run(c, "four sums a row", tensor_sum(tensor_mul(q, tensor_cast(k, DT_F32)), 2), 1e-5);
}

typedef struct CodegenCase { const char *name; void (*run)(Compare *c); } CodegenCase;
// Little work behind much: ranks of scores; sums of a group's parts. Where tiles know that they are the last, these are ends of
// the kernels before them, which must find their counters at zero each time.
static void tails(Compare *c) {
    enum { COLS = 2048, SCORES = 64, PARTS = 16, GROUPS = 20, INNER = 8, WIDE = 1024, RUNS = 2 };
    Tensor w = compare_buffer(c, DT_F32, 0, 0, dims(SCORES, COLS)), x = compare_buffer(c, DT_F32, 0, 0, dims(COLS));
    Tensor score = tensor_contiguous(tensor_sum(tensor_mul(w, x), -1)), rank = tensor_contiguous(tensor_rank(score));
    Tensor nth = tensor_equal(tensor_unsqueeze(rank, 0), tensor_reshape(tensor_iota(c->graph, 4), dims(4, 1)));
    Tensor ids = tensor_max(tensor_where(nth, tensor_iota(c->graph, SCORES), tensor_const(c->graph, DT_I32, 0)), -1);
    compare_runs(c, "best of scores", ids, 0, RUNS);
    Tensor k = compare_buffer(c, DT_F32, 0, 0, dims(PARTS, 1, INNER, WIDE)), q = compare_buffer(c, DT_F32, 0, 0, dims(GROUPS, 1, WIDE));
    Tensor share = tensor_contiguous(tensor_unary(OP_EXP, tensor_mul_const(tensor_sum(tensor_mul(k, q), -1), 0.01)));     // [parts, groups, inner]
    Tensor part = tensor_contiguous(tensor_reduce(MONOID_SUM, 1, tensor_mul(tensor_unsqueeze(share, -1), k), dims(2)));   // [parts, groups, wide]
    Tensor total = tensor_contiguous(tensor_sum(tensor_sum(share, -1), 0));
    compare_runs(c, "sums of parts", tensor_contiguous(tensor_div(tensor_sum(part, 0), tensor_unsqueeze(total, -1))), 1e-5, RUNS);
}

static const CodegenCase codegen_cases[] = {
    {"elementwise", elementwise},
    {"reductions", reductions},
    {"sums beside", sums_beside},
    {"chosen rows", chosen_rows},
    {"places counted", places_counted},
    {"products", products},
    {"fields", fields},
    {"spread_bits", spread_bits},
    {"packed_fields", packed_fields},
    {"near_elements", near_elements},
    {"tables", tables},
    {"gathers", gathers},
    {"chosen matrices", chosen_matrices},
    {"blocks", blocks},
    {"many_tiles", many_tiles},
    {"tails", tails},
};
enum { N_CODEGEN_CASES = sizeof codegen_cases / sizeof *codegen_cases };

// What cmocka runs for a case: it is the test's state.
static inline void codegen_case_run(void **state, const char *device) {
    const CodegenCase *wanted = *state;
    Compare c = compare_open(device, NULL);
    wanted->run(&c);
    compare_close(&c);
}

// One test a case, named after it and the device.
typedef char CodegenNames[N_CODEGEN_CASES][40];
static inline void codegen_tests_fill(struct CMUnitTest *tests, CodegenNames names, const char *device, CMUnitTestFunction run) {
    for (size_t i = 0; i < N_CODEGEN_CASES; i++) {
        snprintf(names[i], sizeof names[i], "%s_%s", codegen_cases[i].name, device);
        tests[i] = (struct CMUnitTest){.name = names[i], .test_func = run, .initial_state = (void *)(uintptr_t)&codegen_cases[i]};
    }
}
