// cstyle_names: how types, constants and values are spelled. In: a node. Out: a name.
// Invariant: a node has one name; booleans of vectors are masks as wide as the compared elements (0 or −1), as the vector
// extensions of C and OpenCL make them.
// Example: f32, 8 lanes → f32x8 in C, float8 in OpenCL; a comparison of them → i32x8, int8
#include <math.h>
#include <string.h>

#include "ir/eval.h"
#include "render/cstyle_private.h"

int mask_bytes(const UOp *u) {
    if (op_info[u->op].traits & TRAIT_COMPARE) return dtype_bytes(u->src[0]->dtype) == 1 && u->src[0]->dtype == DT_BOOL ? mask_bytes(u->src[0]) : dtype_bytes(u->src[0]->dtype);
    if (u->op == OP_LOAD || u->op == OP_VCONST || u->n_src == 0 || u->src[0]->lanes == 1) return 1;
    if (u->op == OP_CAST) return dtype_bytes(u->src[0]->dtype);
    return mask_bytes(u->src[u->op == OP_WHERE ? 1 : 0]);
}

const char *element_name(const Renderer *r, DType dtype) {
    return r->dialect->types[dtype] ? r->dialect->types[dtype] : dtype_info[dtype].c_type;
}

const char *vector_name(Renderer *r, const char *element, int lanes) {
    if (lanes == 1) return element;
    return template_filled(r->arena, r->dialect->vector_type, "element", element, "lanes", arena_printf(r->arena, "%d", lanes));
}

const char *ints_name(Renderer *r, int nbytes, int lanes) {
    DType dtype = nbytes == 1 ? DT_I8 : nbytes == 2 ? DT_I16 : nbytes == 4 ? DT_I32 : DT_I64;
    return vector_name(r, element_name(r, dtype), lanes);
}

const char *type_name(Renderer *r, const UOp *u, int lanes) {
    if (u->dtype == DT_BOOL) return ints_name(r, lanes == 1 ? 4 : mask_bytes(u), lanes);
    return vector_name(r, element_name(r, u->dtype), lanes);
}

const char *number_text(Renderer *r, DType dtype, int64_t bits) {
    const Dialect *d = r->dialect;
    if (!dtype_is_float(dtype)) {
        const char *digits = arena_printf(r->arena, "%lld", (long long)bits);
        if (dtype == DT_I64 || dtype == DT_U64) {
            if (bits != INT64_MIN) return template_filled(r->arena, d->int64, "0", digits);
            return arena_printf(r->arena, "(%s - 1)", template_filled(r->arena, d->int64, "0", "-9223372036854775807"));
        }
        return bits == INT32_MIN ? "(-2147483647 - 1)" : dtype == DT_U32 ? arena_printf(r->arena, "%su", digits) : digits;
    }
    double x;
    memcpy(&x, &bits, sizeof x);
    if (dtype == DT_F16 || dtype == DT_BF16) {   // halves are held as their bits
        uint16_t half;
        number_store(dtype, &half, (Number){.f = x});
        return arena_printf(r->arena, "0x%04x", half);
    }
    if (isnan(x)) return d->nan;
    if (isinf(x)) return x > 0 ? d->infinity : arena_printf(r->arena, "(-%s)", d->infinity);
    if (dtype == DT_F64) return arena_printf(r->arena, "%a", x);
    return arena_printf(r->arena, "%af", x);
}

const char *value_name(Renderer *r, UOp *u) {
    if (u->op == OP_CONST) return u->dtype == DT_BOOL ? (u->arg[0] ? "1" : "0") : number_text(r, u->dtype, u->arg[0]);
    const char *name = uop_map_get(&r->names, u);
    if (!name) BUG("%s is used before it is computed", op_info[u->op].name);
    return name;
}

const char *same_bits_text(Renderer *r, const char *from, const char *to, int lanes, const char *text) {
    const char *form = lanes > 1 ? r->dialect->same_bits_vector : r->dialect->same_bits;
    return template_filled(r->arena, form, "from", from, "type", to, "0", text);
}
