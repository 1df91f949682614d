// support: what the tests of rules share: random numbers, variables with stated bounds, values of
// scalar graphs.
// In: a seed; a graph of scalars whose leaves are variables or ranges. Out: the number that a node
// has.
// Example: UOp *x = variable(g, DT_I32, 0, 0, 9); the value of x + 1 where x = 4 is 5.
#pragma once
#include <stdlib.h>
#include <string.h>

#include "ir/bounds.h"
#include "ir/eval.h"
#include "ir/uop.h"

typedef struct Random { uint64_t state; } Random;

static inline uint64_t random_bits(Random *r) {
    uint64_t z = (r->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline int random_below(Random *r, int n) { return (int)(random_bits(r) % (uint64_t)n); }

// A number in lo..hi, often one of the ends or near zero.
static inline int64_t random_between(Random *r, int64_t lo, int64_t hi) {
    uint64_t width = (uint64_t)hi - (uint64_t)lo;
    uint64_t offset = width == UINT64_MAX ? random_bits(r) : random_bits(r) % (width + 1);
    int64_t near = random_below(r, 9) - 4;
    switch (random_below(r, 6)) {
    case 0: return lo;
    case 1: return hi;
    case 2: return near >= lo && near <= hi ? near : lo;
    default: return (int64_t)((uint64_t)lo + offset);
    }
}

// A scalar of a type, loaded from slot `slot`, stated to lie in lo..hi (floats: no statement).
static inline UOp *variable(Graph *g, DType dtype, int slot, int64_t lo, int64_t hi) {
    UOp *param = uop_new(g, OP_PARAM, dtype, 1, NULL, 0, (int64_t[]){slot, 0, 1, lo, hi}, 5);
    return uop_load(uop_index(param, uop_int(g, DT_I32, 0)), dtype, NULL);
}

static inline int variable_slot(const UOp *load) { return (int)load->src[0]->src[0]->arg[0]; }

typedef struct Values {
    Number slots[32];        // of variables
    Number ranges[32];       // of RANGEs, by id
} Values;

// The value of a scalar node. Elementwise ops, constants, ranges and variables only.
static inline Number value_of(Arena *arena, UOp *root, const Values *values) {
    UOpList order = uop_toposort(arena, root);
    UOpMap done;
    uop_map_init(&done, arena);
    Number result = {0};
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        Number args[3] = {{0}}, *out = arena_new(arena, sizeof *out);
        for (int i = 0; i < u->n_src && i < 3; i++)
            args[i] = *(Number *)uop_map_get(&done, u->src[i]);
        switch (u->op) {
        case OP_CONST: *out = number_from_const(u); break;
        case OP_RANGE: *out = values->ranges[range_id(u)]; break;
        case OP_LOAD: *out = values->slots[variable_slot(u)]; break;
        case OP_PARAM: case OP_INDEX: break;
        case OP_BITCAST: {
            uint64_t bytes = 0;
            number_store(u->src[0]->dtype, &bytes, args[0]);
            *out = number_load(u->dtype, &bytes);
            break;
        }
        case OP_CAST: *out = number_cast(u->src[0]->dtype, u->dtype, args[0]); break;
        default:
            if (!eval_op(u->op, u->src[u->op == OP_WHERE]->dtype, args, out))
                BUG("no value for %s", op_info[u->op].name);
            *out = number_wrap(u->dtype, *out);
        }
        uop_map_put(&done, u, out);
        result = *out;
    }
    return result;
}

static inline bool same_number(DType dtype, Number a, Number b) {
    if (!dtype_is_float(dtype)) return a.i == b.i;
    return (a.f != a.f && b.f != b.f) || !memcmp(&a.f, &b.f, sizeof a.f);
}
