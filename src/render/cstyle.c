// cstyle: the one renderer. Each node becomes one line `const T vN = …;`, constants and addresses stand in place.
// See cstyle.h. Booleans of vectors are masks as wide as the compared elements (0 or −1), as the C extensions make them.
#include "render/cstyle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ir/bounds.h"
#include "ir/eval.h"

typedef struct Renderer {
    Arena *arena;
    TextBuilder out;
    const Dialect *dialect;
    const Target *target;
    UOpMap names;
    int n_values, depth;
    bool tile_open;
} Renderer;

static const char *value(Renderer *r, UOp *u);

static int mask_bytes(const UOp *u) {   // of a vector bool
    if (op_info[u->op].traits & TRAIT_COMPARE) return dtype_bytes(u->src[0]->dtype) == 1 && u->src[0]->dtype == DT_BOOL ? mask_bytes(u->src[0]) : dtype_bytes(u->src[0]->dtype);
    if (u->op == OP_LOAD || u->op == OP_VCONST || u->n_src == 0 || u->src[0]->lanes == 1) return 1;
    if (u->op == OP_CAST) return dtype_bytes(u->src[0]->dtype);
    return mask_bytes(u->src[u->op == OP_WHERE ? 1 : 0]);
}

static const char *int_type(int nbytes) { return nbytes == 1 ? "i8" : nbytes == 2 ? "i16" : nbytes == 4 ? "i32" : "i64"; }

static const char *type_name(Renderer *r, const UOp *u, int lanes) {
    if (u->dtype == DT_BOOL) return lanes == 1 ? "i32" : arena_printf(r->arena, "%sx%d", int_type(mask_bytes(u)), lanes);
    const char *name = dtype_info[u->dtype].c_type;
    return lanes == 1 ? name : arena_printf(r->arena, "%sx%d", name, lanes);
}

static const char *vector_type(Renderer *r, const char *element, int lanes) {
    return lanes == 1 ? element : arena_printf(r->arena, "%sx%d", element, lanes);
}

static const char *number(Renderer *r, DType dtype, int64_t bits) {
    if (!dtype_is_float(dtype)) {
        if (dtype == DT_I64 || dtype == DT_U64)
            return bits == INT64_MIN ? "(-9223372036854775807LL - 1)" : arena_printf(r->arena, "%lldLL", (long long)bits);
        return bits == INT32_MIN ? "(-2147483647 - 1)" : arena_printf(r->arena, dtype == DT_U32 ? "%lldu" : "%lld", (long long)bits);
    }
    double x;
    memcpy(&x, &bits, sizeof x);
    if (dtype == DT_F16 || dtype == DT_BF16) {   // halves are held as their bits
        uint16_t half;
        number_store(dtype, &half, (Number){.f = x});
        return arena_printf(r->arena, "0x%04x", half);
    }
    if (isnan(x)) return "__builtin_nanf(\"\")";
    if (isinf(x)) return x > 0 ? "__builtin_inff()" : "(-__builtin_inff())";
    if (dtype == DT_F64) return arena_printf(r->arena, "%a", x);
    return arena_printf(r->arena, "%af", x);
}

// Text with $0 … $2 replaced by the operands.
static void fill(Renderer *r, TextBuilder *out, const char *text, UOp *const *src, int n) {
    for (const char *c = text; *c; c++) {
        if (*c == '$' && c[1] >= '0' && c[1] < '0' + n) builder_cstring(out, value(r, src[*++c - '0']));
        else builder_char(out, *c);
    }
}

static const char *filled(Renderer *r, const char *text, UOp *const *src, int n) {
    TextBuilder b = builder(r->arena);
    fill(r, &b, text, src, n);
    return builder_cstr(&b);
}

static const char *mask_of(Renderer *r, UOp *cond, int nbytes) {
    const char *text = value(r, cond);
    if (mask_bytes(cond) == nbytes) return text;
    return arena_printf(r->arena, "__builtin_convertvector(%s, %s)", text, vector_type(r, int_type(nbytes), cond->lanes));
}

// ---------------------------------------------------------------- memory

// Constants are left to the addressing mode: neighbouring loads share one computed base.
static const char *address(Renderer *r, UOp *index, const char *type, bool is_const) {
    UOp *b = uop_buffer_of(index), *at = index->src[1];
    const char *name = value(r, b), *constness = is_const ? "const " : "";
    int64_t offset = 0, more;
    while (at->op == OP_ADD && uop_is_int_const(at->src[1], &more)) offset += more, at = at->src[0];
    if (uop_is_int_const(at, &more)) return arena_printf(r->arena, "(%s%s *)((%su8 *)%s + %lld)", constness, type, constness, name, (long long)(offset + more) * dtype_bytes(b->dtype));
    return arena_printf(r->arena, "(%s%s *)((%su8 *)%s + (i64)(%s) * %d + %lld)", constness, type, constness, name, value(r, at),
                        dtype_bytes(b->dtype), (long long)offset * dtype_bytes(b->dtype));
}

static const char *load_text(Renderer *r, UOp *u) {
    UOp *b = uop_buffer_of(u->src[0]);
    if (b->op == OP_DEFINE_REG) return value(r, b);
    const char *element = u->dtype == DT_BOOL ? (u->lanes == 1 ? "u8" : "i8") : dtype_info[u->dtype].c_type;
    const char *type = arena_printf(r->arena, "%s_u", vector_type(r, element, u->lanes));
    const char *text = arena_printf(r->arena, "*%s", address(r, u->src[0], type, true));
    if (u->dtype == DT_BOOL && u->lanes > 1) text = arena_printf(r->arena, "(-%s)", text);
    if (u->n_src == 1) return text;
    if (u->lanes == 1) return arena_printf(r->arena, "(%s ? %s : 0)", value(r, u->src[1]), text);
    const char *whole = type_name(r, u, u->lanes);   // without the load type's alignment: both sides must agree
    return arena_printf(r->arena, "(%s ? (%s)%s : (%s){0})", value(r, u->src[1]), whole, text, whole);
}

static void store_line(Renderer *r, UOp *u) {
    UOp *b = uop_buffer_of(u->src[0]), *v = u->src[1];
    if (b->op == OP_DEFINE_REG) { builder_printf(&r->out, "%s = %s;\n", value(r, b), value(r, v)); return; }
    const char *element = v->dtype == DT_BOOL ? "u8" : dtype_info[v->dtype].c_type;
    const char *type = arena_printf(r->arena, "%s_u", vector_type(r, element, v->lanes));
    const char *text = value(r, v);
    if (v->dtype == DT_BOOL && v->lanes > 1)
        text = arena_printf(r->arena, "__builtin_convertvector(-%s, %s)", text, vector_type(r, "u8", v->lanes));
    builder_printf(&r->out, "*%s = %s;\n", address(r, u->src[0], type, false), text);
}

// ---------------------------------------------------------------- values

static const char *lanes_literal(Renderer *r, UOp *u, const char *(*lane)(Renderer *, UOp *, int)) {
    TextBuilder b = builder(r->arena);
    builder_printf(&b, "(%s){", type_name(r, u, u->lanes));
    for (int i = 0; i < u->lanes; i++) builder_printf(&b, "%s%s", i ? ", " : "", lane(r, u, i));
    builder_char(&b, '}');
    return builder_cstr(&b);
}

static const char *lane_of(Renderer *r, UOp *u, int k) {   // lane k of any value
    if (u->lanes == 1) return value(r, u);
    if (u->op == OP_VCONST) return number(r, u->dtype, u->arg[k]);
    return arena_printf(r->arena, "%s[%d]", value(r, u), k);
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
    TextBuilder t = builder(r->arena);
    bool as_float = u->dtype == DT_I32 || u->dtype == DT_U32;   // the float shuffles take two sources at once
    const char *cast = as_float ? arena_printf(r->arena, "(%s)", vector_type(r, "f32", lanes)) : "";
    if (as_float) builder_printf(&t, "(%s)", type_name(r, u, u->lanes));
    builder_printf(&t, "__builtin_shufflevector(%s%s, %s%s", cast, a, cast, b);
    for (int i = 0; i < u->lanes; i++) builder_printf(&t, ", %d", map ? (int)map[i] : i);
    builder_char(&t, ')');
    return builder_cstr(&t);
}

static bool is_pair(const UOp *u) {
    return u->op == OP_VCAT && u->n_src == 2 && u->src[0]->lanes == u->src[1]->lanes && u->src[0]->lanes > 1;
}

static const char *shuffle_lane(Renderer *r, UOp *u, int k) {
    UOp *v = u->src[0];
    return v->op == OP_VCAT ? cat_lane(r, v, (int)u->arg[k]) : literal_lane(r, v, v->lanes == 1 ? 0 : (int)u->arg[k]);
}

static const char *shuffle_text(Renderer *r, UOp *u) {
    UOp *v = u->src[0];
    if (u->lanes == 1) {   // a scalar bool is 0 or 1, a mask's lane 0 or −1
        const char *lane = v->op == OP_VCAT ? cat_lane(r, v, (int)u->arg[0]) : lane_of(r, v, (int)u->arg[0]);
        return u->dtype == DT_BOOL ? arena_printf(r->arena, "(%s & 1)", lane) : lane;
    }
    if (is_pair(v) && v->dtype != DT_BOOL) return shuffle_two(r, u, v->src[0]->lanes, value(r, v->src[0]), value(r, v->src[1]), u->arg);
    if (v->lanes == 1 || v->op == OP_VCAT) return lanes_literal(r, u, shuffle_lane);
    return shuffle_two(r, u, v->lanes, value(r, v), value(r, v), u->arg);
}

// Parts of equal width are joined two by two; anything else lane by lane.
static const char *cat_text(Renderer *r, UOp *u) {
    if (is_pair(u) && u->dtype != DT_BOOL) return shuffle_two(r, u, u->src[0]->lanes, value(r, u->src[0]), value(r, u->src[1]), NULL);
    if (u->n_src == 4 && u->dtype != DT_BOOL && u->src[0]->lanes > 1 && u->src[0]->lanes == u->src[1]->lanes &&
        u->src[2]->lanes == u->src[3]->lanes && u->src[0]->lanes == u->src[2]->lanes) {
        const char *half[2];
        for (int h = 0; h < 2; h++) {
            UOp *pair = uop_new(u->graph, OP_VCAT, u->dtype, 1, u->src + 2 * h, 2, NULL, 0);
            half[h] = shuffle_two(r, pair, u->src[0]->lanes, value(r, u->src[2 * h]), value(r, u->src[2 * h + 1]), NULL);
        }
        return shuffle_two(r, u, 2 * u->src[0]->lanes, half[0], half[1], NULL);
    }
    return lanes_literal(r, u, cat_lane);
}

static const char *const_lane(Renderer *r, UOp *u, int k) {
    return u->dtype == DT_BOOL ? (u->arg[k] ? "-1" : "0") : number(r, u->dtype, u->arg[k]);
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
    const char *to = type_name(r, u, u->lanes), *text = value(r, a);
    if (u->lanes > 1 && (is_half(u) || is_half(a))) return lanes_literal(r, u, half_lane);
    if (u->lanes == 1) {
        if (u->dtype == DT_BOOL) return arena_printf(r->arena, "(%s != 0)", text);
        return arena_printf(r->arena, "(%s)%s", to, text);
    }
    if (u->dtype == DT_BOOL) return arena_printf(r->arena, "(%s != 0)", text);
    if (a->dtype == DT_BOOL) {
        const char *ints = vector_type(r, int_type(dtype_bytes(u->dtype)), u->lanes);
        text = arena_printf(r->arena, "(-(%s))", mask_of(r, a, dtype_bytes(u->dtype)));
        return arena_printf(r->arena, "__builtin_convertvector((%s)%s, %s)", ints, text, to);
    }
    if (dtype_bytes(a->dtype) == dtype_bytes(u->dtype) && !dtype_is_float(a->dtype) && !dtype_is_float(u->dtype))
        return arena_printf(r->arena, "(%s)%s", to, text);
    return arena_printf(r->arena, "__builtin_convertvector(%s, %s)", text, to);
}

static const char *bitcast_text(Renderer *r, UOp *u) {
    UOp *a = u->src[0];
    if (u->lanes > 1) return arena_printf(r->arena, "(%s)%s", type_name(r, u, u->lanes), value(r, a));
    if (!dtype_is_float(u->dtype) && !dtype_is_float(a->dtype)) return arena_printf(r->arena, "(%s)%s", type_name(r, u, 1), value(r, a));
    if (dtype_bytes(u->dtype) == 2) return value(r, a);
    return arena_printf(r->arena, "__extension__({ %s from = %s; %s to; __builtin_memcpy(&to, &from, sizeof to); to; })",
                        type_name(r, a, 1), value(r, a), type_name(r, u, 1));
}

static const char *where_text(Renderer *r, UOp *u) {
    const char *a = value(r, u->src[1]), *b = value(r, u->src[2]);
    if (u->lanes == 1) return arena_printf(r->arena, "(%s ? %s : %s)", value(r, u->src[0]), a, b);
    int nbytes = u->dtype == DT_BOOL ? mask_bytes(u) : dtype_bytes(u->dtype);
    const char *m = mask_of(r, u->src[0], nbytes), *ints = vector_type(r, int_type(nbytes), u->lanes);
    return arena_printf(r->arena, "(%s)((%s & (%s)%s) | (~%s & (%s)%s))", type_name(r, u, u->lanes), m, ints, a, m, ints, b);
}

static const char *extreme_text(Renderer *r, UOp *u) {   // MAX and MIN: a where a beats b, else b
    const char *sign = u->op == OP_MAX ? ">" : "<", *a = value(r, u->src[0]), *b = value(r, u->src[1]);
    if (u->lanes == 1) return arena_printf(r->arena, "(%s %s %s ? %s : %s)", a, sign, b, a, b);
    const char *ints = vector_type(r, int_type(dtype_bytes(u->dtype)), u->lanes), *type = type_name(r, u, u->lanes);
    return arena_printf(r->arena, "(%s)(((%s)(%s %s %s) & (%s)%s) | (~(%s)(%s %s %s) & (%s)%s))", type, ints, a, sign, b, ints, a,
                        ints, a, sign, b, ints, b);
}

// Lane by lane, for what neither C nor the dialect has on vectors.
static const char *scalar_call(Renderer *r, UOp *u, const char *const *args) {
    const char *suffix = u->dtype == DT_F64 ? "" : "f";
    switch (u->op) {
    case OP_SQRT: return arena_printf(r->arena, "__builtin_sqrt%s(%s)", suffix, args[0]);
    case OP_EXP: return arena_printf(r->arena, "__builtin_exp%s(%s)", suffix, args[0]);
    case OP_LOG: return arena_printf(r->arena, "__builtin_log%s(%s)", suffix, args[0]);
    case OP_SIN: return arena_printf(r->arena, "__builtin_sin%s(%s)", suffix, args[0]);
    case OP_COS: return arena_printf(r->arena, "__builtin_cos%s(%s)", suffix, args[0]);
    case OP_FLOOR: return arena_printf(r->arena, "__builtin_floor%s(%s)", suffix, args[0]);
    case OP_ROUND: return arena_printf(r->arena, "__builtin_rint%s(%s)", suffix, args[0]);
    case OP_MULADD: return arena_printf(r->arena, "__builtin_fma%s(%s, %s, %s)", suffix, args[0], args[1], args[2]);
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
    builder_printf(&b, "(%s", lane_of(r, u->src[0], k));
    for (int i = 0; i < 4; i++) builder_printf(&b, " + (i32)%s * (i32)%s", lane_of(r, u->src[1], 4 * k + i), lane_of(r, u->src[2], 4 * k + i));
    builder_char(&b, ')');
    return builder_cstr(&b);
}

static const char *lookup_lane(Renderer *r, UOp *u, int k) {
    return arena_printf(r->arena, "%s[%s]", value(r, u->src[0]), lane_of(r, u->src[1], k));
}

static const char *logic_text(Renderer *r, UOp *u) {   // AND OR XOR EQ NE of vector bools: masks of one width
    int nbytes = mask_bytes(u->src[0]);
    const char *a = value(r, u->src[0]), *b = mask_of(r, u->src[1], nbytes), *op = op_info[u->op].pattern;
    if (u->op == OP_EQ) return arena_printf(r->arena, "(~(%s ^ %s))", a, b);
    if (u->op == OP_NE) op = "^";
    return arena_printf(r->arena, "(%s %s %s)", a, op, b);
}

static const char *expression(Renderer *r, UOp *u) {
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
    case OP_NOT: return arena_printf(r->arena, u->lanes > 1 ? "(~%s)" : "(!%s)", value(r, u->src[0]));
    case OP_DOT4: return u->lanes == 1 ? dot_lane(r, u, 0) : lanes_literal(r, u, dot_lane);
    case OP_LOOKUP: return u->lanes == 1 ? lookup_lane(r, u, 0) : lanes_literal(r, u, lookup_lane);
    case OP_NEG: return arena_printf(r->arena, "(%s)(-%s)", type_name(r, u, u->lanes), value(r, u->src[0]));
    case OP_SHL: case OP_SHR: {
        bool is_uniform = u->src[1]->op == OP_VCONST;
        for (int i = 1; is_uniform && i < u->src[1]->n_arg; i++) is_uniform = u->src[1]->arg[i] == u->src[1]->arg[0];
        const char *amount = is_uniform ? lane_of(r, u->src[1], 0) : value(r, u->src[1]);
        return arena_printf(r->arena, "(%s)(%s %s %s)", type_name(r, u, u->lanes), value(r, u->src[0]), op_info[u->op].pattern, amount);
    }
    case OP_LT: case OP_EQ: case OP_NE: case OP_AND: case OP_OR: case OP_XOR:
        if (u->lanes > 1 && u->src[0]->dtype == DT_BOOL) return logic_text(r, u);
        return arena_printf(r->arena, "(%s %s %s)", value(r, u->src[0]), op_info[u->op].pattern, value(r, u->src[1]));
    case OP_ADD: case OP_SUB: case OP_MUL:   // small integers are promoted by C: wrap them back
        if (u->lanes == 1 && dtype_bytes(u->dtype) < 4)
            return arena_printf(r->arena, "(%s)%s", type_name(r, u, 1), filled(r, op_info[u->op].c_text, u->src, u->n_src));
        break;
    default: break;
    }
    if (op_info[u->op].c_text) return filled(r, op_info[u->op].c_text, u->src, u->n_src);
    return u->lanes == 1 ? by_lane(r, u, 0) : lanes_literal(r, u, by_lane);
}

static const char *value(Renderer *r, UOp *u) {
    if (u->op == OP_CONST) return u->dtype == DT_BOOL ? (u->arg[0] ? "1" : "0") : number(r, u->dtype, u->arg[0]);
    const char *name = uop_map_get(&r->names, u);
    if (!name) BUG("%s is used before it is computed", op_info[u->op].name);
    return name;
}

// ---------------------------------------------------------------- lines

static void indent(Renderer *r) { builder_printf(&r->out, "%*s", 4 * r->depth, ""); }

static void declare(Renderer *r, UOp *u) {
    const char *name = arena_printf(r->arena, "v%d", r->n_values++), *text = expression(r, u);
    uop_map_put(&r->names, u, (void *)(uintptr_t)name);
    indent(r);
    builder_printf(&r->out, "const %s %s = %s;\n", type_name(r, u, u->lanes), name, text);
}

static void line(Renderer *r, UOp *u, UOpMap *only_shuffled) {
    switch (u->op) {
    case OP_CONST: case OP_INDEX: case OP_AFTER: case OP_SINK: return;
    case OP_PARAM: {
        int slot = (int)u->arg[0];
        uop_map_put(&r->names, u, (void *)(uintptr_t)arena_printf(r->arena, "p%d", slot));
        builder_printf(&r->out, "    u8 *restrict p%d = params[%d];\n", slot, slot);
        return;
    }
    case OP_SPECIAL:
        uop_map_put(&r->names, u, (void *)(uintptr_t)"tile");
        builder_cstring(&r->out, r->dialect->tile_open);
        r->tile_open = true;
        r->depth++;
        return;
    case OP_RANGE: {
        const char *name = arena_printf(r->arena, "n%lld", (long long)range_id(u));
        indent(r);
        builder_printf(&r->out, "for (i32 %s = 0; %s < %s; %s++) {\n", name, name, value(r, u->src[0]), name);
        uop_map_put(&r->names, u, (void *)(uintptr_t)name);
        r->depth++;
        return;
    }
    case OP_END:
        r->depth--;
        indent(r);
        builder_cstring(&r->out, "}\n");
        return;
    case OP_DEFINE_REG:
        uop_map_put(&r->names, u, (void *)(uintptr_t)arena_printf(r->arena, "r%lld", (long long)u->arg[0]));
        indent(r);
        builder_printf(&r->out, "%s r%lld;\n", type_name(r, u, (int)u->arg[1]), (long long)u->arg[0]);
        return;
    case OP_STORE: indent(r); store_line(r, u); return;
    case OP_PREFETCH:
        indent(r);
        builder_printf(&r->out, r->dialect->prefetch, address(r, u->src[0], "void", true));
        return;
    case OP_VCAT: if (uop_map_get(only_shuffled, u)) return; break;
    default: break;
    }
    declare(r, u);
}

// A VCAT that only SHUFFLEs read is written inside them.
static void find_shuffled(const UOpList *program, UOpMap *only_shuffled) {
    for (size_t k = 0; k < program->len; k++)
        if (program->at[k]->op == OP_VCAT && (is_pair(program->at[k]))) uop_map_put(only_shuffled, program->at[k], (void *)1);
    for (size_t k = 0; k < program->len; k++)
        for (int i = 0; i < program->at[k]->n_src; i++)
            if (program->at[k]->op != OP_SHUFFLE && uop_map_get(only_shuffled, program->at[k]->src[i]))
                uop_map_put(only_shuffled, program->at[k]->src[i], NULL);
}

static void typedefs(Renderer *r) {
    static const DType types[] = {DT_I8, DT_U8, DT_I16, DT_U16, DT_I32, DT_U32, DT_I64, DT_U64, DT_F16, DT_BF16, DT_F32, DT_F64};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int lanes = 2; lanes * dtype_bytes(types[i]) <= 2 * r->target->vector_bytes && lanes <= 128; lanes *= 2) {
            int nbytes = lanes * dtype_bytes(types[i]);
            const char *t = dtype_info[types[i]].c_type;
            builder_printf(&r->out, "typedef %s %sx%d __attribute__((vector_size(%d)));", t, t, lanes, nbytes);
            builder_printf(&r->out, " typedef %s %sx%d_u __attribute__((vector_size(%d), aligned(1), may_alias));\n", t, t, lanes, nbytes);
        }
}

const char *render(Arena *arena, const char *name, const UOpList *program, const Dialect *dialect, const Target *target) {
    Renderer r = {.arena = arena, .out = builder(arena), .dialect = dialect, .target = target, .depth = 1};
    uop_map_init(&r.names, arena);
    UOpMap only_shuffled;
    uop_map_init(&only_shuffled, arena);
    find_shuffled(program, &only_shuffled);
    builder_cstring(&r.out, dialect->prelude);
    typedefs(&r);
    for (const char *c = dialect->kernel_open; *c; c++) {
        if (!strncmp(c, "$name", 5)) builder_cstring(&r.out, name), c += 4;
        else builder_char(&r.out, *c);
    }
    for (size_t k = 0; k < program->len; k++) line(&r, program->at[k], &only_shuffled);
    if (!r.tile_open) builder_cstring(&r.out, "    (void)first; (void)end;\n");
    if (r.tile_open) builder_cstring(&r.out, dialect->tile_close);
    builder_cstring(&r.out, dialect->kernel_close);
    return builder_cstr(&r.out);
}
