// eval_machine: the instructions of the linear program interpreter. See eval_machine.h.
// Invariant: a tile is run alone, in program order; BARRIER and AFTER mean nothing then.
// Example: RANGE sets its value to 0; END(range) adds 1 and jumps behind RANGE, or goes on behind itself.
#include "ir/eval_machine.h"

#include <stdio.h>
#include <string.h>

bool run_elementwise(Machine *m, const Instruction *in) {
    (void)m;
    in->loop(&in->operands, in->out);
    if (in->rounds)
        numbers_round(in->dtype, in->out, in->lanes);
    else if (in->wraps)
        numbers_wrap(in->dtype, in->out, in->lanes);
    return true;
}

bool run_cast(Machine *m, const Instruction *in) {
    (void)m;
    numbers_cast(in->source, in->dtype, in->operands.at[0], in->out, in->lanes);
    return true;
}

// In pieces of whole elements of both types, so that a small buffer is enough for any number of lanes.
bool run_bitcast(Machine *m, const Instruction *in) {
    (void)m;
    DType from = in->source;
    size_t from_bytes = (size_t)dtype_bytes(from), to_bytes = (size_t)dtype_bytes(in->dtype);
    size_t piece = from_bytes > to_bytes ? from_bytes : to_bytes, total = in->lanes * to_bytes;
    uint8_t bytes[16];
    for (size_t at = 0; at < total; at += piece) {
        numbers_store(from, bytes, in->operands.at[0] + at / from_bytes, piece / from_bytes);
        numbers_load(in->dtype, bytes, in->out + at / to_bytes, piece / to_bytes);
    }
    return true;
}

bool run_dot4(Machine *m, const Instruction *in) {
    (void)m;
    const Number *acc = in->operands.at[0], *a = in->operands.at[1], *b = in->operands.at[2];
    for (uint32_t i = 0; i < in->lanes; i++) {
        int64_t sum = acc[i].i;
        for (uint32_t k = 4 * i; k < 4 * i + 4; k++)
            sum += a[k].i * b[k].i;
        in->out[i] = number_wrap(in->dtype, (Number){.i = sum});
    }
    return true;
}

bool run_copy(Machine *m, const Instruction *in) {
    (void)m;
    memcpy(in->out, in->operands.at[0], in->operands.n * sizeof *in->out);
    return true;
}

bool run_shuffle(Machine *m, const Instruction *in) {
    (void)m;
    for (uint32_t i = 0; i < in->lanes; i++)
        in->out[i] = in->operands.at[0][in->arg[i]];
    return true;
}

bool run_lookup(Machine *m, const Instruction *in) {
    for (uint32_t i = 0; i < in->lanes; i++) {
        int64_t at = in->operands.at[1][i].i;
        if (at < 0 || (size_t)at >= in->target)
            return fail(m->err, LATHE_DEVICE, "lookup of lane %lld in a table of %zu", (long long)at, in->target);
        in->out[i] = in->operands.at[0][at];
    }
    return true;
}

bool run_bits(Machine *m, const Instruction *in) {
    (void)m;
    for (uint32_t i = 0; i < in->lanes; i++) {
        uint64_t word = 0;
        for (uint32_t k = 0; k < 8; k++) word |= (uint64_t)in->operands.at[0][i / 8 * 8 + k].i << 8 * k;
        uint32_t place = in->operands.at[1][i].i & 63;
        in->out[i].i = (word >> place | word << (-place & 63)) & UINT8_MAX;
    }
    return true;
}

// The fixed tree of reductions.def: the upper half of a group is added to its lower half, until one lane is left.
bool run_hfold(Machine *m, const Instruction *in) {
    (void)m;
    Monoid monoid = (Monoid)in->arg[0];
    size_t group = (size_t)in->arg[1];
    Number part[HFOLD_MAX];
    for (uint32_t i = 0; i < in->lanes; i++) {
        memcpy(part, in->operands.at[0] + i * group, group * sizeof *part);
        for (size_t n = group; n > 1;) {
            size_t low = (n + 1) / 2;
            for (size_t k = low; k < n; k++)
                part[k - low] = monoid_combine(monoid, in->dtype, part[k - low], part[k]);
            numbers_round(in->dtype, part, low);
            n = low;
        }
        in->out[i] = part[0];
    }
    return true;
}

bool run_special(Machine *m, const Instruction *in) {
    in->out->i = m->tile;
    return true;
}

bool run_range(Machine *m, const Instruction *in) {
    in->out->i = 0;
    if (in->operands.at[0]->i <= 0)
        m->at = in->target;
    return true;
}

bool run_end(Machine *m, const Instruction *in) {
    const Instruction *range = in->range;
    if (++range->out->i < range->operands.at[0]->i)
        m->at = in->target;
    return true;
}

bool run_define(Machine *m, const Instruction *in) {
    (void)m;
    Cells *cells = in->cells;
    size_t count = (size_t)(cells->nbytes / cells->width);
    if (cells->numbers)
        memset(cells->numbers, 0, count * sizeof *cells->numbers);
    else
        memset(cells->bytes, 0, (size_t)cells->nbytes);
    return true;
}

static bool bad_access(const Machine *m, const Instruction *in, int64_t index, size_t nbytes) {
    const Cells *c = in->cells;
    char limit[64] = "of unknown size";
    if (c->nbytes >= 0)
        snprintf(limit, sizeof limit, "of %lld bytes", (long long)c->nbytes);
    return fail(m->err, LATHE_DEVICE, "%s of %zu bytes at element %lld (%d bytes each) of %s %lld %s, tile %lld: "
                "the kernel reads or writes outside of its memory", op_info[in->op].name, nbytes, (long long)index,
                (int)c->width, op_info[c->op].name, (long long)c->id, limit, (long long)m->tile);
}

// The place of an element: a byte address, or for REG a Number. NULL where nbytes from there are not all inside.
static void *cell(const Machine *m, const Instruction *in, int64_t index, size_t nbytes) {
    const Cells *c = in->cells;
    int64_t at;
    if (index < 0 || __builtin_mul_overflow(index, c->width, &at) ||
        (c->nbytes >= 0 && (at > c->nbytes || (int64_t)nbytes > c->nbytes - at))) {
        (void)bad_access(m, in, index, nbytes);
        return NULL;
    }
    return c->numbers ? (void *)(c->numbers + index) : (void *)(c->bytes + at);
}

// Tiles run one after the other: the count is enough.
bool run_last_tile(Machine *m, const Instruction *in) {
    uint8_t *at = cell(m, in, in->operands.at[0]->i, in->width);
    if (!at) return false;
    Number n = number_load(DT_I32, at);
    bool is_last = ++n.i == in->arg[0];
    if (is_last) n.i = 0;
    number_store(DT_I32, at, n);
    if (!is_last) m->at = m->n_code;
    return true;
}

bool run_load_one(Machine *m, const Instruction *in) {
    const uint8_t *from = cell(m, in, in->operands.at[0]->i, in->width);
    if (!from)
        return false;
    *in->out = in->cells->numbers ? *(const Number *)(const void *)from : number_load(in->dtype, from);
    return true;
}

bool run_store_one(Machine *m, const Instruction *in) {
    uint8_t *to = cell(m, in, in->operands.at[0]->i, in->width);
    if (!to)
        return false;
    if (in->cells->numbers)
        *(Number *)(void *)to = *in->operands.at[1];
    else
        number_store(in->dtype, to, *in->operands.at[1]);
    return true;
}

// A sum as its type holds it, as if the adds of all tiles came one after the other.
bool run_add(Machine *m, const Instruction *in) {
    Number sum;
    uint8_t *cell_at = cell(m, in, in->operands.at[0]->i, in->width);
    if (!cell_at)
        return false;
    numbers_load(in->dtype, cell_at, &sum, 1);
    sum.f += in->operands.at[1]->f;
    numbers_round(in->dtype, &sum, 1);
    number_store(in->dtype, cell_at, sum);
    return true;
}

// operands: index, valid (or NULL). An index with one lane reads neighbours; with n lanes, each lane its own element.
bool run_load(Machine *m, const Instruction *in) {
    const Number *index = in->operands.at[0], *valid = in->operands.at[1];
    bool is_gather = in->operands.step[0] != 0;
    uint32_t n = is_gather || (valid && in->operands.step[1]) ? 1 : in->lanes;
    size_t width = in->width;
    for (uint32_t i = 0; i < in->lanes; i += n) {
        if (valid && !valid[i * in->operands.step[1]].i) {
            memset(in->out + i, 0, n * sizeof *in->out);
            continue;
        }
        size_t first = is_gather ? 0 : i;
        const uint8_t *from = cell(m, in, index[is_gather ? i : 0].i, (first + n) * width);
        if (!from)
            return false;
        if (in->cells->numbers)
            memcpy(in->out + i, (const Number *)(const void *)from + first, n * sizeof *in->out);
        else
            numbers_load(in->dtype, from + first * width, in->out + i, n);
    }
    return true;
}

// operands: index, value.
bool run_store(Machine *m, const Instruction *in) {
    bool is_scatter = in->operands.step[0] != 0;
    uint32_t n = is_scatter ? 1 : in->lanes;
    for (uint32_t i = 0; i < in->lanes; i += n) {
        const Number *value = in->operands.at[1] + i;
        uint8_t *to = cell(m, in, in->operands.at[0][i].i, n * (size_t)in->width);
        if (!to)
            return false;
        if (!in->cells->numbers)
            numbers_store(in->dtype, to, value, n);
        else
            memcpy(to, value, n * sizeof *value);
    }
    return true;
}
