// cstyle_values: what a node computes, as an expression over the names of its sources. See cstyle.h.
// In: a node of a linear program. Out: an expression; what a dialect has no row for is written lane by lane.
// Invariant: each operand is a name or a constant, so that an expression may name it twice.
// Example: add of v3 and v4 → (v3+v4); cast[i32] of a vector v5 of f32 → __builtin_convertvector(v5, i32x8)
#include <string.h>

#include "ir/bounds.h"
#include "render/cstyle_private.h"

// Text with $0 … $2 replaced by the operands.
static const char *filled(Renderer *r, const char *text, UOp *const *src, int n) {
    TextBuilder b = builder(r->arena);
    for (const char *c = text; *c; c++) {
        if (*c == '$' && c[1] >= '0' && c[1] < '0' + n) builder_cstring(&b, value_name(r, src[*++c - '0']));
        else builder_char(&b, *c);
    }
    return builder_cstr(&b);
}

static const char *same_bits_lanes(Renderer *r, const char *to, const char *text) { return same_bits_text(r, "", to, 2, text); }

static const char *converted(Renderer *r, const char *to, const char *text) {
    return template_filled(r->arena, r->dialect->convert, "type", to, "0", text);
}

static const char *mask_of(Renderer *r, UOp *cond, int nbytes) {
    const char *text = value_name(r, cond);
    return mask_bytes(cond) == nbytes ? text : converted(r, ints_name(r, nbytes, cond->lanes), text);
}

// ---------------------------------------------------------------- lanes

static const char *lanes_literal(Renderer *r, UOp *u, const char *(*lane)(Renderer *, UOp *, int)) {
    TextBuilder b = builder(r->arena);
    builder_cstring(&b, template_filled(r->arena, r->dialect->literal_open, "type", type_name(r, u, u->lanes)));
    for (int i = 0; i < u->lanes; i++) builder_printf(&b, "%s%s", i ? ", " : "", lane(r, u, i));
    builder_cstring(&b, r->dialect->literal_close);
    return builder_cstr(&b);
}

static const char *lane_of(Renderer *r, UOp *u, int k) {   // lane k of any value
    if (u->lanes == 1) return value_name(r, u);
    if (u->op == OP_VCONST) return number_text(r, u->dtype, u->arg[k]);
    return template_filled(r->arena, r->dialect->lane, "0", value_name(r, u), "k", arena_printf(r->arena, "%d", k), "digit",
                           arena_printf(r->arena, "%x", (unsigned)k));
}

// A lane of a vector literal: a scalar bool becomes a mask.
static const char *literal_lane(Renderer *r, UOp *u, int k) {
    const char *text = lane_of(r, u, k);
    return u->dtype == DT_BOOL && u->lanes == 1 ? arena_printf(r->arena, "-(%s)", text) : text;
}

static const char *cat_lane(Renderer *r, UOp *u, int k) {
    for (int i = 0; i < u->n_src; k -= u->src[i++]->lanes) if (k < u->src[i]->lanes) return literal_lane(r, u->src[i], k);
    BUG("no lane");
}

// Two vectors of `lanes` lanes, any lanes of both; map NULL: joined.
static const char *shuffle_two(Renderer *r, UOp *u, int lanes, const char *a, const char *b, const int64_t *map) {
    TextBuilder places = builder(r->arena);
    bool is_int = u->dtype == DT_I32 || u->dtype == DT_U32;
    for (int i = 0; i < u->lanes; i++) builder_printf(&places, ", %d", map ? (int)map[i] : i);
    return template_filled(r->arena, is_int ? r->dialect->shuffle_ints : r->dialect->shuffle, "0", a, "1", b, "places", builder_cstr(&places),
                           "type", type_name(r, u, u->lanes), "floats", vector_name(r, element_name(r, DT_F32), lanes));
}

static const char *shuffle_lane(Renderer *r, UOp *u, int k) {
    UOp *v = u->src[0];
    return v->op == OP_VCAT ? cat_lane(r, v, (int)u->arg[k]) : literal_lane(r, v, v->lanes == 1 ? 0 : (int)u->arg[k]);
}

// A shuffle of bytes of one vector that keeps words together, as one of words: what all compilers do by one instruction.
// NULL where it does not.
static const char *words_text(Renderer *r, UOp *u) {
    UOp *v = u->src[0];
    int64_t word[32];
    int n = u->lanes / 4;
    if (dtype_bytes(u->dtype) != 1 || u->dtype == DT_BOOL || u->lanes % 4 || n < 2 || n > 32 || v->lanes % 4 || v->op == OP_VCAT) return NULL;
    for (int i = 0; i < u->lanes; i++) {
        if (i % 4 ? u->arg[i] != u->arg[i - 1] + 1 : u->arg[i] % 4 != 0) return NULL;
        word[i / 4] = u->arg[i] / 4;
    }
    const char *from = same_bits_lanes(r, vector_name(r, element_name(r, DT_U32), v->lanes / 4), value_name(r, v));
    TextBuilder places = builder(r->arena);
    for (int i = 0; i < n; i++) builder_printf(&places, ", %d", (int)word[i]);
    const char *text = template_filled(r->arena, r->dialect->shuffle_ints, "0", from, "1", from, "places", builder_cstr(&places), "type",
                                       vector_name(r, element_name(r, DT_U32), n), "floats", vector_name(r, element_name(r, DT_F32), v->lanes / 4));
    return same_bits_lanes(r, type_name(r, u, u->lanes), text);
}

static const char *shuffle_text(Renderer *r, UOp *u) {
    UOp *v = u->src[0];
    if (u->lanes == 1) {   // a scalar bool is 0 or 1, a mask's lane 0 or −1
        const char *lane = v->op == OP_VCAT ? cat_lane(r, v, (int)u->arg[0]) : lane_of(r, v, (int)u->arg[0]);
        return u->dtype == DT_BOOL ? arena_printf(r->arena, "(%s & 1)", lane) : lane;
    }
    if (!r->dialect->shuffle) return lanes_literal(r, u, shuffle_lane);
    const char *words = words_text(r, u);
    if (words) return words;
    if (uop_is_pair(v) && v->dtype != DT_BOOL) return shuffle_two(r, u, v->src[0]->lanes, value_name(r, v->src[0]), value_name(r, v->src[1]), u->arg);
    if (v->lanes == 1 || v->op == OP_VCAT) return lanes_literal(r, u, shuffle_lane);
    return shuffle_two(r, u, v->lanes, value_name(r, v), value_name(r, v), u->arg);
}

// Parts of equal width are joined two by two; anything else lane by lane.
static const char *cat_text(Renderer *r, UOp *u) {
    if (!r->dialect->shuffle) return lanes_literal(r, u, cat_lane);
    if (uop_is_pair(u) && u->dtype != DT_BOOL) return shuffle_two(r, u, u->src[0]->lanes, value_name(r, u->src[0]), value_name(r, u->src[1]), NULL);
    if (u->n_src == 4 && u->dtype != DT_BOOL && u->src[0]->lanes > 1 && u->src[0]->lanes == u->src[1]->lanes &&
        u->src[2]->lanes == u->src[3]->lanes && u->src[0]->lanes == u->src[2]->lanes) {
        const char *half[2];
        for (int h = 0; h < 2; h++) {
            UOp *pair = uop_new(u->graph, OP_VCAT, u->dtype, 1, u->src + 2 * h, 2, NULL, 0);
            half[h] = shuffle_two(r, pair, u->src[0]->lanes, value_name(r, u->src[2 * h]), value_name(r, u->src[2 * h + 1]), NULL);
        }
        return shuffle_two(r, u, 2 * u->src[0]->lanes, half[0], half[1], NULL);
    }
    return lanes_literal(r, u, cat_lane);
}

static const char *const_lane(Renderer *r, UOp *u, int k) {
    return u->dtype == DT_BOOL ? (u->arg[k] ? "-1" : "0") : number_text(r, u->dtype, u->arg[k]);
}

static bool is_half(const UOp *u) { return u->dtype == DT_F16 || u->dtype == DT_BF16; }

static const char *half_lane(Renderer *r, UOp *u, int k) {   // one lane of a conversion, as the dialect does one
    UOp *lane = uop_new(u->graph, OP_SHUFFLE, u->src[0]->dtype, 1, u->src, 1, (int64_t[]){k}, 1);
    UOp *one = uop_new(u->graph, OP_CAST, u->dtype, 1, &lane, 1, NULL, 0);
    uop_map_put(&r->names, lane, (void *)(uintptr_t)lane_of(r, u->src[0], k));
    TextBuilder text = builder(r->arena);
    UOp *operands[DIALECT_OPERANDS] = {lane};
    CHECK(r->dialect->vector_op(&text, one, r->target, operands));
    return filled(r, builder_cstr(&text), operands, 1);
}

static const char *cast_text(Renderer *r, UOp *u) {
    UOp *a = u->src[0];
    const char *to = type_name(r, u, u->lanes), *text = value_name(r, a);
    if (u->lanes > 1 && (is_half(u) || is_half(a))) return lanes_literal(r, u, half_lane);
    if (u->lanes == 1) {
        if (u->dtype == DT_BOOL) return arena_printf(r->arena, "(%s != 0)", text);
        return arena_printf(r->arena, "(%s)%s", to, text);
    }
    if (u->dtype == DT_BOOL)
        return arena_printf(r->arena, "(%s != %s)", text, template_filled(r->arena, r->dialect->zero, "type", type_name(r, a, a->lanes)));
    if (a->dtype == DT_BOOL) {
        const char *ints = ints_name(r, dtype_bytes(u->dtype), u->lanes);
        text = arena_printf(r->arena, "(-(%s))", mask_of(r, a, dtype_bytes(u->dtype)));
        return converted(r, to, same_bits_lanes(r, ints, text));
    }
    if (dtype_bytes(a->dtype) == dtype_bytes(u->dtype) && !dtype_is_float(a->dtype) && !dtype_is_float(u->dtype))
        return same_bits_lanes(r, to, text);
    return converted(r, to, text);
}

static const char *bitcast_text(Renderer *r, UOp *u) {
    UOp *a = u->src[0];
    const char *to = type_name(r, u, u->lanes);
    if (u->lanes > 1 || a->lanes > 1) return same_bits_lanes(r, to, value_name(r, a));
    if (!dtype_is_float(u->dtype) && !dtype_is_float(a->dtype)) return arena_printf(r->arena, "(%s)%s", to, value_name(r, a));
    if (dtype_bytes(u->dtype) == 2) return value_name(r, a);
    return same_bits_text(r, type_name(r, a, 1), to, 1, value_name(r, a));
}

static const char *where_text(Renderer *r, UOp *u) {
    const char *a = value_name(r, u->src[1]), *b = value_name(r, u->src[2]);
    if (u->lanes == 1) return arena_printf(r->arena, "(%s ? %s : %s)", value_name(r, u->src[0]), a, b);
    int nbytes = u->dtype == DT_BOOL ? mask_bytes(u) : dtype_bytes(u->dtype);
    const char *m = mask_of(r, u->src[0], nbytes), *ints = ints_name(r, nbytes, u->lanes);
    const char *bits = arena_printf(r->arena, "((%s & %s) | (~%s & %s))", m, same_bits_lanes(r, ints, a), m, same_bits_lanes(r, ints, b));
    return same_bits_lanes(r, type_name(r, u, u->lanes), bits);
}

static const char *extreme_text(Renderer *r, UOp *u) {   // MAX and MIN: a where a beats b, else b
    const char *sign = u->op == OP_MAX ? ">" : "<", *a = value_name(r, u->src[0]), *b = value_name(r, u->src[1]);
    if (u->lanes == 1) return arena_printf(r->arena, "(%s %s %s ? %s : %s)", a, sign, b, a, b);
    const char *ints = ints_name(r, dtype_bytes(u->dtype), u->lanes);
    const char *m = same_bits_lanes(r, ints, arena_printf(r->arena, "(%s %s %s)", a, sign, b));
    const char *bits = arena_printf(r->arena, "((%s & %s) | (~%s & %s))", m, same_bits_lanes(r, ints, a), m, same_bits_lanes(r, ints, b));
    return same_bits_lanes(r, type_name(r, u, u->lanes), bits);
}

// ---------------------------------------------------------------- lane by lane, for what neither C nor the dialect has

// The functions of the mathematics library, as their headers call them.
static const char *function_name(Op op) {
    switch (op) {
    case OP_SQRT: return "sqrt";
    case OP_EXP: return "exp";
    case OP_LOG: return "log";
    case OP_SIN: return "sin";
    case OP_COS: return "cos";
    case OP_FLOOR: return "floor";
    case OP_ROUND: return "rint";
    case OP_MULADD: return "fma";
    default: return NULL;
    }
}

static const char *scalar_call(Renderer *r, UOp *u, const char *const *args) {
    const char *name = function_name((Op)u->op);
    if (name) {
        TextBuilder b = builder(r->arena);
        builder_cstring(&b, template_filled(r->arena, r->dialect->function, "name", name, "suffix", u->dtype == DT_F64 ? "" : "f"));
        for (int i = 0; i < u->n_src; i++) builder_printf(&b, "%s%s", i ? ", " : "(", args[i]);
        builder_char(&b, ')');
        return builder_cstr(&b);
    }
    switch (u->op) {
    case OP_IDIV: case OP_MOD: {
        bool plain = bounds_of(u->src[0]).lo >= 0 && bounds_of(u->src[1]).lo > 0;
        if (plain) return arena_printf(r->arena, "(%s %s %s)", args[0], u->op == OP_IDIV ? "/" : "%", args[1]);
        return arena_printf(r->arena, "(%s)%s(%s, %s)", type_name(r, u, 1), u->op == OP_IDIV ? "floor_div" : "floor_mod", args[0], args[1]);
    }
    default: BUG("no text for %s:%s on %s", op_info[u->op].name, dtype_info[u->dtype].name, r->target->name);
    }
}

static const char *by_lane(Renderer *r, UOp *u, int k) {
    const char *args[3];
    for (int i = 0; i < u->n_src; i++) args[i] = lane_of(r, u->src[i], k);
    return scalar_call(r, u, args);
}

static const char *dot_lane(Renderer *r, UOp *u, int k) {
    TextBuilder b = builder(r->arena);
    const char *i32 = element_name(r, DT_I32);
    builder_printf(&b, "(%s", lane_of(r, u->src[0], k));
    for (int i = 0; i < 4; i++) builder_printf(&b, " + (%s)%s * (%s)%s", i32, lane_of(r, u->src[1], 4 * k + i), i32, lane_of(r, u->src[2], 4 * k + i));
    builder_char(&b, ')');
    return builder_cstr(&b);
}

static const char *lookup_lane(Renderer *r, UOp *u, int k) {
    return arena_printf(r->arena, "%s[%s]", value_name(r, u->src[0]), lane_of(r, u->src[1], k));
}

static const char *logic_text(Renderer *r, UOp *u) {   // AND OR XOR EQ NE of vector bools: masks of one width
    int nbytes = mask_bytes(u->src[0]);
    const char *a = value_name(r, u->src[0]), *b = mask_of(r, u->src[1], nbytes), *op = op_info[u->op].pattern;
    if (u->op == OP_EQ) return arena_printf(r->arena, "(~(%s ^ %s))", a, b);
    if (u->op == OP_NE) op = "^";
    return arena_printf(r->arena, "(%s %s %s)", a, op, b);
}

static const char *thread_xor_lane(Renderer *r, UOp *u, int k) {
    const char *type = u->dtype == DT_BOOL ? ints_name(r, 4, 1) : element_name(r, u->dtype);
    return template_filled(r->arena, r->dialect->thread_xor, "type", type, "0", lane_of(r, u->src[0], k), "distance",
                           arena_printf(r->arena, "%d", (int)u->arg[0]), "width", arena_printf(r->arena, "%d", (int)u->arg[1]));
}

const char *value_text(Renderer *r, UOp *u) {
    TextBuilder special = builder(r->arena);
    UOp *operands[DIALECT_OPERANDS] = {NULL};
    for (int i = 0; i < u->n_src && i < DIALECT_OPERANDS; i++) operands[i] = u->src[i];
    if (u->n_src && r->dialect->vector_op(&special, u, r->target, operands))
        return filled(r, builder_cstr(&special), operands, DIALECT_OPERANDS);
    switch (u->op) {
    case OP_VCONST: return lanes_literal(r, u, const_lane);
    case OP_SHUFFLE: return shuffle_text(r, u);
    case OP_VCAT: return cat_text(r, u);
    case OP_CAST: return cast_text(r, u);
    case OP_BITCAST: return bitcast_text(r, u);
    case OP_WHERE: return where_text(r, u);
    case OP_LOAD: return load_text(r, u);
    case OP_MAX: case OP_MIN: return extreme_text(r, u);
    case OP_NOT: return arena_printf(r->arena, u->lanes > 1 ? "(~%s)" : "(!%s)", value_name(r, u->src[0]));
    case OP_DOT4: return u->lanes == 1 ? dot_lane(r, u, 0) : lanes_literal(r, u, dot_lane);
    case OP_THREAD_XOR: return u->lanes == 1 ? thread_xor_lane(r, u, 0) : lanes_literal(r, u, thread_xor_lane);
    case OP_LOOKUP: return u->lanes == 1 ? lookup_lane(r, u, 0) : lanes_literal(r, u, lookup_lane);
    case OP_NEG: return arena_printf(r->arena, "(%s)(-%s)", type_name(r, u, u->lanes), value_name(r, u->src[0]));
    case OP_SHL: case OP_SHR: {
        bool is_uniform = u->src[1]->op == OP_VCONST;
        for (int i = 1; is_uniform && i < u->src[1]->n_arg; i++) is_uniform = u->src[1]->arg[i] == u->src[1]->arg[0];
        const char *amount = is_uniform ? lane_of(r, u->src[1], 0) : value_name(r, u->src[1]);
        if (u->src[1]->op == OP_SHUFFLE && u->src[1]->src[0]->lanes == 1)   // one amount that is data
            amount = arena_printf(r->arena, "(%s)%s", element_name(r, (DType)u->dtype), value_name(r, u->src[1]->src[0]));
        return arena_printf(r->arena, "(%s)(%s %s %s)", type_name(r, u, u->lanes), value_name(r, u->src[0]), op_info[u->op].pattern, amount);
    }
    case OP_LT: case OP_EQ: case OP_NE: case OP_AND: case OP_OR: case OP_XOR:
        if (u->lanes > 1 && u->src[0]->dtype == DT_BOOL) return logic_text(r, u);
        return arena_printf(r->arena, "(%s %s %s)", value_name(r, u->src[0]), op_info[u->op].pattern, value_name(r, u->src[1]));
    case OP_ADD: case OP_SUB: case OP_MUL:   // small integers are promoted by C: wrap them back
        if (u->lanes == 1 && dtype_bytes(u->dtype) < 4)
            return arena_printf(r->arena, "(%s)%s", type_name(r, u, 1), filled(r, op_info[u->op].c_text, u->src, u->n_src));
        break;
    default: break;
    }
    if (op_info[u->op].c_text) return filled(r, op_info[u->op].c_text, u->src, u->n_src);
    return u->lanes == 1 ? by_lane(r, u, 0) : lanes_literal(r, u, by_lane);
}
