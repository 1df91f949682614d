// cstyle_memory: loads and stores. In: LOAD and STORE of neighbouring elements. Out: an expression, a statement.
// Invariant: where a language wants elements at multiples of their size, what is not known to lie there is read in units
// of the largest size that is: known from the factors of the address and from what the target promises of buffers.
// Example: 4 lanes of u32 at 144·r + 18·b + 2 → as_uint4(vload8(0, (const __global ushort *)…))
#include "ir/bounds.h"
#include "ir/linear.h"
#include "render/cstyle_private.h"

// Where the memory is, in the dialect's words.
static const char *space_of(const Renderer *r, UOp *index) {
    Op op = (Op)uop_buffer_of(index)->op;
    return op == OP_DEFINE_ARRAY ? r->dialect->array_space : op == OP_DEFINE_LOCAL ? r->dialect->local_space : r->dialect->space;
}

// Constants are left to the addressing mode: neighbouring loads share one computed base.
const char *address_text(Renderer *r, UOp *index, bool is_const) {
    int64_t offset, more;
    UOp *b = uop_buffer_of(index), *at = index_base(index->src[1], &offset);
    int64_t held = dtype_bytes(b->dtype);
    bool is_fixed = uop_is_int_const(at, &more);
    const char *base = arena_printf(r->arena, "((%s%s%s *)%s", is_const ? "const " : "", space_of(r, index), element_name(r, DT_U8), value_name(r, b));
    if (is_fixed) return arena_printf(r->arena, "%s + %lld)", base, (long long)((offset + more) * held));
    return arena_printf(r->arena, "%s + (%s)(%s) * %d + %lld)", base, element_name(r, DT_I64), value_name(r, at), (int)held, (long long)(offset * held));
}

enum { MOST_ALIGNED = 16 };

static int64_t largest_power(int64_t n) { return n & -n; }

// The largest power of two, up to `most`, that divides the address.
static int address_alignment(const Renderer *r, UOp *index, int most) {
    UOp *at = index->src[1];
    int64_t held = dtype_bytes(uop_buffer_of(index)->dtype), all = r->target->param_alignment, constant;
    Linear sum;
    if (uop_is_int_const(at, &constant)) all |= constant * held;
    else if (!linear_of(at, &sum)) all |= held;
    else {
        all |= sum.constant * held;
        for (int i = 0; i < sum.n; i++) all |= sum.at[i].factor * held;
    }
    int64_t power = largest_power(all);
    return power && power < most ? (int)power : most;
}

// Fills one of the three forms of an access. element: the type of one lane in memory, of nbytes.
static const char *access_text(Renderer *r, UOp *index, const char *element, int nbytes, int lanes, const char *const forms[3],
                               const char *at, const char *stored) {
    Arena *arena = r->arena;
    const char *type = vector_name(r, element, lanes), *count = arena_printf(arena, "%d", lanes);
    const char *divides = arena_printf(arena, "%d", address_alignment(r, index, MOST_ALIGNED));
    int aligned = forms[2] ? address_alignment(r, index, nbytes) : nbytes;
    if (aligned == nbytes) return template_filled(arena, forms[lanes > 1], "type", type, "element", element, "lanes", count, "at", at, "space", space_of(r, index), "0", stored, "aligned", divides);
    DType unit = aligned == 1 ? DT_U8 : aligned == 2 ? DT_U16 : DT_U32;
    int units = nbytes * lanes / aligned;
    return template_filled(arena, forms[2], "type", type, "row", vector_name(r, element_name(r, unit), units),
                           "count", arena_printf(arena, "%d", units), "unit", element_name(r, unit), "at", at, "space", space_of(r, index), "0", stored);
}

const char *load_text(Renderer *r, UOp *u) {
    const Dialect *d = r->dialect;
    const char *const forms[3] = {d->load, d->load_lanes, d->load_units};
    UOp *b = uop_buffer_of(u->src[0]);
    if (b->op == OP_DEFINE_REG) return value_name(r, b);
    const char *element = element_name(r, u->dtype != DT_BOOL ? (DType)u->dtype : u->lanes == 1 ? DT_U8 : DT_I8);
    const char *text = access_text(r, u->src[0], element, dtype_bytes(u->dtype), u->lanes, forms, address_text(r, u->src[0], true), "");
    if (u->dtype == DT_BOOL && u->lanes > 1) text = arena_printf(r->arena, "(-%s)", text);
    if (u->n_src == 1) return text;
    if (u->lanes == 1) return arena_printf(r->arena, "(%s ? %s : 0)", value_name(r, u->src[1]), text);
    const char *whole = type_name(r, u, u->lanes);   // without the load type's alignment: both sides must agree
    const char *zero = template_filled(r->arena, d->literal_open, "type", whole);
    return arena_printf(r->arena, "(%s ? (%s)%s : %s0%s)", value_name(r, u->src[1]), whole, text, zero, d->literal_close);
}

static const char *atomic_text(Renderer *r, UOp *u) {
    CHECK(r->dialect->atomic_add);
    return template_filled(r->arena, r->dialect->atomic_add, "at", address_text(r, u->src[0], false), "0", value_name(r, u->src[1]));
}

const char *store_text(Renderer *r, UOp *u) {
    if (u->op == OP_ATOMIC_ADD) return atomic_text(r, u);
    const Dialect *d = r->dialect;
    const char *const forms[3] = {d->store, d->store_lanes, d->store_units};
    UOp *b = uop_buffer_of(u->src[0]), *v = u->src[1];
    const char *text = value_name(r, v);
    if (b->op == OP_DEFINE_REG) return arena_printf(r->arena, "%s = %s;\n", value_name(r, b), text);
    const char *element = element_name(r, v->dtype == DT_BOOL ? DT_U8 : (DType)v->dtype);
    if (v->dtype == DT_BOOL && v->lanes > 1)
        text = template_filled(r->arena, d->convert, "type", vector_name(r, element, v->lanes), "0", arena_printf(r->arena, "-%s", text));
    return access_text(r, u->src[0], element, dtype_bytes(v->dtype), v->lanes, forms, address_text(r, u->src[0], false), text);
}
