// whole_registers: vectors of elements that lie apart, from registers of memory that hold them.
// In: a LOAD and the offsets of some of its lanes. Out: loads of whole registers, which neighbours take theirs from as well, and shuffles of
// two registers, for targets that have those. Invariant: as in near.c.
// Examples: four runs of 16 bytes, 18 apart, registers of 64 → two registers and one shuffle of both; headers of 8 bytes, 40 apart → words of
// five registers, side by side in one.
#include "codegen/vectorize_private.h"
#include "ir/linear.h"

// Where two registers of so many bytes start that hold all elements, at the largest power of two behind the index without its constant, so that
// neighbours have the same; where two are too few, that index.
static int64_t start_of_two(const int64_t *offset, int n, int size, int64_t constant, int bytes) {
    enum { LEAST = 8 };
    int64_t lo = offset[0], hi = offset[0];
    for (int i = 1; i < n; i++) lo = offset[i] < lo ? offset[i] : lo, hi = offset[i] > hi ? offset[i] : hi;
    for (int even = bytes; even >= LEAST; even /= 2) {
        int64_t start = floor_of(constant + lo, even) * even - constant;
        if (hi + size <= start + 2 * bytes) return start;
    }
    return -constant;
}

// Parts of a register, or numbers of 16 bits, that lie apart: registers of memory of so many bytes that hold them, up to `most`, counted from
// where a long run of them starts, else from the index without its constant, so that neighbours take theirs from the same ones, and a shuffle of
// two registers for each but the first. What lies from span_lo to span_hi may be read in any case. NULL where they lie in more registers, or not
// rising, or a register would reach out of what may be read.
static UOp *from_registers_of(Splitter *s, UOp *load, int64_t span_lo, int64_t span_hi, const int64_t *offset, int n, int bytes, int most) {
    enum { MOST = 6, BYTES = 64 };
    int size = dtype_bytes(load->dtype), lanes = bytes / size, n_from = 0, from[BYTES];
    int64_t constant, origin, start[MOST] = {0}, number[MOST], lane[BYTES], map[BYTES] = {0};
    base_of(load->src[0]->src[1], &constant);
    origin = run_start(s, load, offset[0], 1, 2 * BYTES, start_of_two(offset, n, size, constant, bytes));
    for (int i = 0; i < n; i++) {
        int64_t k = floor_of(offset[i] - origin, bytes);
        int r = n_from - 1;
        while (r >= 0 && number[r] != k) r--;
        if (r < 0) {
            if (n_from == most || (n_from > 0 && k < number[n_from - 1])) return NULL;
            int64_t first = k * bytes + origin;
            if (!is_in_buffer(load, first, bytes)) first = first < span_lo ? span_lo : first + bytes > span_hi + 1 ? span_hi + 1 - bytes : first;
            if (!may_read(load, span_lo, span_hi, first, bytes)) return NULL;
            r = n_from++;
            number[r] = k, start[r] = first;
        }
        int64_t at = offset[i] - start[r];
        if (at < 0 || at % size || at + size > bytes) return NULL;
        from[i] = r, lane[i] = at / size;
        if (from[i] == 0) map[i] = lane[i];
    }
    UOp *all = load_at(s, load, load->dtype, lanes, start[0]);
    if (n_from == 1) return pick(s, all, map, n);
    for (int r = 1; r < n_from; r++) {
        for (int i = 0; i < n; i++) if (from[i] == r) map[i] = lanes + lane[i];
        all = pick_pair(s, all, load_at(s, load, load->dtype, lanes, start[r]), map, r == n_from - 1 ? n : lanes);
        for (int i = 0; i < n; i++) if (from[i] <= r) map[i] = i;
    }
    return all;
}

// A register of words of 8 bytes: where registers are long from those of memory that hold them, else each loaded alone. NULL where one might lie
// outside of the buffer, or in too many registers.
static UOp *register_of_words(Splitter *s, UOp *load, const int64_t *at, int n) {
    enum { WORD = 8, ALONE = 4, REGISTERS = 6 };
    for (int k = 0; k < n; k++) if (!is_in_buffer(load, at[k], WORD)) return NULL;
    if (n > ALONE) {
        UOp *all = uop_new(s->graph, OP_LOAD, DT_U64, n, load->src, 1, at, n);
        return from_registers_of(s, all, at[0], at[n - 1] + WORD - 1, at, n, n * WORD, REGISTERS);
    }
    UOp *half[2];     // two by two: gcc takes four numbers through memory
    for (int k = 0; k < 2; k++) {
        UOp *two[2] = {load_at(s, load, DT_U64, 1, at[2 * k]), load_at(s, load, DT_U64, 1, at[2 * k + 1])};
        half[k] = uop_new(s->graph, OP_VCAT, DT_U64, 1, two, 2, NULL, 0);
    }
    return uop_new(s->graph, OP_VCAT, DT_U64, 1, half, 2, NULL, 0);
}

// Elements of blocks that lie at multiples of 8 bytes from each other: the words of 8 bytes that hold them, a block each, side by side in up to
// two registers, counted from the index without its constant: what other LOADs take from these words, they take from the same
// registers. NULL where elements lie otherwise, in too many blocks, or a word might lie outside of the buffer.
static UOp *words_of_blocks(Splitter *s, UOp *load, const int64_t *offset, int n) {
    enum { WORD = 8, MOST = 2, WORDS = 8 };
    int64_t constant, step = 0, map[64], first = 0, word[64], last = 0;
    int size = dtype_bytes(load->dtype), bytes = s->target->vector_bytes, blocks = bytes / WORD, lanes = bytes / size;
    UOp *part[MOST] = {NULL};
    bool is_long = blocks == WORDS;
    if (!s->target->has_bit_shuffle || load->n_src > 1 || load->dtype == DT_BOOL || (blocks != WORDS / 2 && !is_long)) return NULL;
    if (n < 8 || n > 64 || size > 2 || (is_long && n * size > bytes / 2) || dtype_bytes(load->src[0]->dtype) != 1) return NULL;
    base_of(load->src[0]->src[1], &constant);
    for (int i = 0; i < n; i++) {
        word[i] = floor_of(constant + offset[i], WORD);
        if ((constant + offset[i]) % size) return NULL;
        if (!step && word[i] != word[0]) step = word[i] - word[0];
    }
    if (step * blocks * WORD <= (is_long ? MOST : 1) * bytes) return NULL;      // long registers: two hold the elements themselves
    for (int i = 0; i < n; i++) {
        int64_t block = floor_of(word[i], step), at = constant + offset[i] - word[i] * WORD;
        if (!i) first = floor_of(block, blocks) * blocks;
        if (word[i] - block * step != word[0] - floor_of(word[0], step) * step || block < first || block >= first + MOST * blocks) return NULL;
        if (block - first > last) last = block - first;
        map[i] = (block - first) * (WORD / size) + at / size;
    }
    int n_parts = (int)(last / blocks) + 1;
    for (int q = 0; q < n_parts; q++) {
        int64_t at[WORDS];
        for (int k = 0; k < blocks; k++) at[k] = ((first + q * blocks + k) * step + word[0] - floor_of(word[0], step) * step) * WORD - constant;
        UOp *all = register_of_words(s, load, at, blocks);
        if (!all) return NULL;
        part[q] = uop_new(s->graph, OP_BITCAST, load->dtype, lanes, &all, 1, NULL, 0);
    }
    return n_parts == 1 ? pick(s, part[0], map, n) : pick_pair(s, part[0], part[1], map, n);
}

// Half a register comes from two of its own length where they hold it, else from whole ones, as a whole one does.
static UOp *from_whole_registers(Splitter *s, UOp *load, const int64_t *offset, int n) {
    enum { MOST = 6, BYTES = 64 };
    int size = dtype_bytes(load->dtype);
    if (!s->target->has_bit_shuffle || s->target->vector_bytes != BYTES || load->n_src > 1 || load->dtype == DT_BOOL) return NULL;
    if (size > 2 || n * size < (size == 2 ? BYTES / 4 : BYTES / 2) || n * size > BYTES || dtype_bytes(load->src[0]->dtype) != 1) return NULL;
    if (n * size == BYTES && is_run(offset, n / 2) && is_run(offset + n / 2, n / 2)) return NULL;
    int64_t lo, hi;
    span_of(load, &lo, &hi);
    hi += size - 1;
    UOp *half = n * size == BYTES / 2 ? from_registers_of(s, load, lo, hi, offset, n, BYTES / 2, 2) : NULL;
    return half ? half : from_registers_of(s, load, lo, hi, offset, n, BYTES, MOST);
}

UOp *bytes_from_registers(Splitter *s, UOp *load, const int64_t *offset, int n, int64_t lo, int64_t hi) {
    bool fits = s->target->has_bit_shuffle && n == s->target->vector_bytes && load->n_src == 1 && load->dtype == DT_U8 && load->src[0]->dtype == DT_U8;
    return fits ? from_registers_of(s, load, lo, hi, offset, n, n, 2) : NULL;
}

// A register of bytes, each of which one of two registers of memory has in its place. NULL: they come from more, or one would reach out of what
// may be read.
static UOp *from_either_register(Splitter *s, UOp *load, const int64_t *offset, int n) {
    enum { BYTES = 64, EITHER = 2 };
    int64_t start[EITHER], map[BYTES], span_lo, span_hi;
    int n_from = 0;
    if (!s->target->has_bit_shuffle || s->target->vector_bytes != BYTES || n != BYTES || load->n_src > 1 || load->dtype == DT_BOOL) return NULL;
    if (dtype_bytes(load->dtype) != 1 || dtype_bytes(load->src[0]->dtype) != 1) return NULL;
    span_of(load, &span_lo, &span_hi);
    for (int i = 0; i < n; i++) {
        int64_t first = offset[i] - i;
        int k = 0;
        for (int before = 0; before < i; before++) if (offset[before] == offset[i]) return NULL;     // shorter loads do, spread
        while (k < n_from && start[k] != first) k++;
        if (k == EITHER) return NULL;
        if (k == n_from) {
            if (!may_read(load, span_lo, span_hi, first, BYTES)) return NULL;
            start[n_from++] = first;
        }
        map[i] = k * BYTES + i;
    }
    if (n_from < EITHER) return NULL;
    return pick_pair(s, load_at(s, load, load->dtype, n, start[0]), load_at(s, load, load->dtype, n, start[1]), map, n);
}

// Numbers of 16 bits from places apart, half of them from two registers that span them. NULL where those do not, or only one
// number after the other can be taken.
static UOp *words_apart(Splitter *s, UOp *load, const int64_t *offset, int n) {
    enum { WORD = 2, WORDS = PACKED_LANES / WORD, COUNT = 8, HALF = COUNT / 2 };
    UOp *picked[2];
    if (!s->target->has_bit_shuffle || s->target->vector_bytes != PACKED_LANES || load->n_src > 1 || n != COUNT) return NULL;
    if (dtype_bytes(load->dtype) != WORD || dtype_bytes(load->src[0]->dtype) != 1) return NULL;
    for (int h = 0; h < 2; h++) {
        const int64_t *at = offset + h * HALF, first = at[0], second = at[HALF - 1] + WORD - PACKED_LANES;
        int64_t map[WORDS];
        if (second < first) return NULL;
        for (int i = 0; i < WORDS; i++) {
            int64_t place = at[i % HALF], is_second = place + WORD > first + PACKED_LANES, from = place - (is_second ? second : first);
            if (from < 0 || from % WORD || from > PACKED_LANES - WORD) return NULL;
            map[i] = is_second * WORDS + from / WORD;
        }
        picked[h] = pick_pair(s, load_at(s, load, load->dtype, WORDS, first), load_at(s, load, load->dtype, WORDS, second), map, WORDS);
    }
    return pick_pair(s, picked[0], picked[1], (int64_t[]){0, 1, 2, 3, WORDS, WORDS + 1, WORDS + 2, WORDS + 3}, COUNT);
}

UOp *piece_from_registers(Splitter *s, UOp *load, const int64_t *offset, int n) {
    UOp *made = words_of_blocks(s, load, offset, n);
    if (!made) made = from_either_register(s, load, offset, n);
    if (!made) made = words_apart(s, load, offset, n);
    return made ? made : from_whole_registers(s, load, offset, n);
}
