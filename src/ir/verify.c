// verify: the forms of nodes and the rules of each stage. See verify.h.
// In: a graph or a list. Out: the first thing that is wrong with it.
// Invariant: nothing is assumed about a node before its form was checked.
// Example: load(index(param0, r0)) under no FOLD or STORE over r0: "range r0 is never closed".
#include "ir/verify.h"

#include "base/map.h"
#include "base/settings.h"
#include "ir/eval.h"
#include "ir/textform.h"
#include "ir/verify_private.h"

typedef struct Form { int stages, least_src, most_src, least_arg, most_arg; bool exists; } Form;

enum {
    T = 1 << STAGE_TENSOR,
    I = 1 << STAGE_ITEMS,
    K = 1 << STAGE_KERNEL,
    L = 1 << STAGE_LOOPS,
    B = 1 << STAGE_BODY,
    V = 1 << STAGE_VECTOR,
    P = 1 << STAGE_PROGRAM,
    S = I | K | L | B,
    MANY = UINT16_MAX
};
static const Form forms[OP_COUNT] = {
#define FORM(op, stages, least_src, most_src, least_arg, most_arg) \
    [OP_##op] = {stages, least_src, most_src, least_arg, most_arg, true},
#include "ir/verify.def"
#undef FORM
};

// Where ranges of each kind may stand.
static const int range_stages[] = {
    [RANGE_GLOBAL] = I | K | L, [RANGE_LOOP] = S | V | P, [RANGE_REDUCE] = S | V | P,
    [RANGE_LANE] = L | B,       [RANGE_UNROLL] = K,
    [RANGE_SINGLE] = K | L | B | V | P,
};

bool verify_wanted(void) {
#ifdef LATHE_VERIFY
    return true;
#else
    return setting_int(SETTING_DEBUG) >= 2;
#endif
}

static Form form_of(Op op) {
    if (op_is_elementwise(op))
        return (Form){op == OP_DOT4 ? V | P : T | S | V | P, op_info[op].arity, op_info[op].arity, 0, 0, true};
    return forms[op];
}

// ---------------------------------------------------------------- one node

static bool are_ranges(UOp *const *src, int first, int end) {
    for (int i = first; i < end; i++) if (src[i]->op != OP_RANGE) return false;
    return true;
}

static const char *accum_problem(UOp *const *src, int n_src, const int64_t *arg) {
    for (int i = 2; i < 5; i++)
        if (arg[i] < (i == 4 ? -1 : 0) || arg[i] > n_src) return "wrong counts of ranges";
    int64_t inner = arg[2] + arg[3], tail = arg[4] < 0 ? 0 : arg[4] + 1;
    if (1 + inner + tail != n_src) return "counts of ranges that do not fit the sources";
    if (!are_ranges(src, 1, (int)inner + 1) || !are_ranges(src, (int)inner + 2, n_src))
        return "a source is no range";
    return arg[4] >= 0 && src[inner + 1]->dtype != src[0]->dtype ? "types of value and tail differ"
                                                                 : NULL;
}

static const char *access_problem(Op op, DType dtype, UOp *const *src, int n_src) {
    if (src[0]->op != OP_INDEX) return "the first source is no index";
    if (op == OP_LOAD) return n_src > 1 && src[1]->dtype != DT_BOOL ? "the condition is no bool"
                            : dtype == DT_VOID ? "has no type" : NULL;
    if (src[1]->dtype == DT_VOID) return "the value has no type";
    return are_ranges(src, 2, n_src) ? NULL : "closes something that is no range";
}

static const char *index_problem(UOp *const *src) {
    const UOp *b = src[0];
    while (b->op == OP_AFTER) b = b->src[0];
    if (b->op != OP_BUFFER && b->op != OP_PARAM && b->op != OP_DEFINE_LOCAL &&
        b->op != OP_DEFINE_REG && b->op != OP_DEFINE_ARRAY)
        return "the first source is no buffer";
    return dtype_is_int(src[1]->dtype) ? NULL : "the index is no integer";
}

// Ops that compute with the value of each source.
static bool needs_values(Op op) {
    OpKind kind = op_info[op].kind;
    return op_is_elementwise(op) || kind == KIND_MOVE || kind == KIND_REDUCE || kind == KIND_VECTOR ||
           op == OP_FOLD || op == OP_ACCUM || op == OP_CONTIGUOUS || op == OP_ASSIGN;
}

const char *verify_form(Op op, DType dtype, UOp *const *src, int n_src, const int64_t *arg,
                        int n_arg) {
    Form f = form_of(op);
    if (!f.exists) return "cannot stand in a graph";
    if (n_src < f.least_src || n_src > f.most_src) return "wrong number of sources";
    if (n_arg < f.least_arg || n_arg > f.most_arg) return "wrong number of args";
    for (int i = 0; i < n_src && needs_values(op); i++)
        if (src[i]->dtype == DT_VOID) return "a source has no value";
    bool has_monoid = op == OP_REDUCE || op == OP_FOLD || op == OP_ACCUM || op == OP_HFOLD;
    if (has_monoid && (arg[0] < 0 || arg[0] >= MONOID_COUNT)) return "unknown monoid";
    switch (op) {
    case OP_CONST: case OP_VCONST:
        for (int i = 0; i < n_arg && dtype_is_int(dtype); i++)
            if (number_wrap(dtype, (Number){.i = arg[i]}).i != arg[i]) return "is no value of its type";
        return dtype == DT_VOID ? "has no type" : NULL;
    case OP_BUFFER: case OP_PARAM: case OP_CAST: case OP_BITCAST:
        return dtype == DT_VOID ? "has no type" : NULL;
    case OP_IOTA: return arg[0] < 1 ? "needs a positive length" : NULL;
    case OP_RANGE:
        if (arg[1] < 0 || arg[1] > RANGE_SINGLE) return "unknown kind of range";
        return dtype_is_int(src[0]->dtype) && src[0]->dtype == dtype
                   ? NULL
                   : "range and end are not of one integer type";
    case OP_FOLD: return are_ranges(src, 1, n_src) ? NULL : "folds over something that is no range";
    case OP_ACCUM: return accum_problem(src, n_src, arg);
    case OP_HFOLD: return arg[1] < 1 ? "needs a positive group" : NULL;
    case OP_BITS:
        if (src[0]->dtype != DT_U8 || src[1]->dtype != DT_U8) return "needs bytes and their places as bytes";
        return src[0]->lanes % 8 || src[0]->lanes != src[1]->lanes ? "needs a place for each lane of groups of 8" : NULL;
    case OP_LOOKUP: return dtype_is_int(src[1]->dtype) ? NULL : "the index is no integer";
    case OP_INDEX: return index_problem(src);
    case OP_LOAD: case OP_STORE: case OP_ATOMIC_ADD: return access_problem(op, dtype, src, n_src);
    case OP_LAST_TILE: return src[0]->op != OP_INDEX || src[0]->dtype != DT_I32 ? "counts in something that is no i32" : arg[0] < 1 ? "waits for no tile" : NULL;
    case OP_END: {
        // In a graph: n stores, then the ranges of their nest, arg = n. In a program: one range.
        int64_t n = n_arg ? arg[0] : 0;
        if (n < 0 || n > n_src || (!n_arg && n_src != 1)) return "wrong number of stores";
        return are_ranges(src, (int)n, n_src) ? NULL : "ends something that is no range";
    }
    case OP_DOT4:
        for (int i = 0; i < 3; i++) if (!dtype_is_int(src[i]->dtype)) return "needs integers";
        if (src[1]->lanes != 4 * src[0]->lanes || src[2]->lanes != src[1]->lanes)
            return "needs 4 lanes for each sum";
        if (dtype_bytes(src[1]->dtype) != 1 || src[2]->dtype != DT_I8) return "needs bytes, the second ones signed";
        return NULL;
    default: return NULL;
    }
}

// ---------------------------------------------------------------- stages

static const char *const stage_names[] = {"tensor graph", "items", "kernel", "loops", "tile body", "vectors", "program"};

bool verify_wrong(Error *err, GraphStage stage, const UOp *u, const char *problem) {
    Arena *arena = arena_create();
    (void)fail(err, LATHE_UNSUPPORTED, "%s: %s %s: %.600s", stage_names[stage],
               op_info[u->op].pattern, problem, textform_expression(arena, u, 5));
    arena_destroy(arena);
    return false;
}

// What a LOAD, STORE or ATOMIC_ADD says of lanes must fit the memory that it touches.
static const char *lanes_problem(const UOp *u, GraphStage stage) {
    const UOp *buffer = uop_buffer_of(u->src[0]), *value = u->op == OP_LOAD ? u : u->src[1];
    if (uop_is_store(u) && buffer->dtype != value->dtype) return "stores another type";
    if (u->op == OP_ATOMIC_ADD && (value->dtype != DT_F32 || uop_is_own_memory(buffer))) return "adds to what is no f32 that tiles share";
    if (u->op == OP_ATOMIC_ADD && stage == STAGE_PROGRAM && value->lanes != 1) return "adds to several cells at once";
    if (stage < STAGE_VECTOR) return u->n_arg ? "names offsets of lanes" : NULL;
    if (buffer->op == OP_DEFINE_REG) {
        if (u->n_arg) return "names offsets of lanes in a register";
        return buffer->dtype != value->dtype || buffer->arg[1] != value->lanes ? "does not fit the register" : NULL;
    }
    if (u->n_arg && stage == STAGE_PROGRAM) return "names offsets of lanes";
    if (stage == STAGE_VECTOR && value->lanes != (u->n_arg ? u->n_arg : 1)) return "has not one offset for each lane";
    return u->op == OP_LOAD && u->n_src > 1 && u->src[1]->lanes != 1 ? "has a condition for each lane" : NULL;
}

bool verify_node(UOp *u, GraphStage stage, Error *err) {
    if (u->op == OP_POISON) return fail(err, LATHE_BAD_REQUEST, "%s", u->message);
    const char *problem = verify_form(u->op, u->dtype, u->src, u->n_src, u->arg, u->n_arg);
    if (problem) return verify_wrong(err, stage, u, problem);
    int stages = u->op == OP_RANGE ? range_stages[range_kind(u)] : form_of(u->op).stages;
    if (!(stages >> stage & 1)) return verify_wrong(err, stage, u, "may not stand here");
    if (stage < STAGE_VECTOR && u->lanes != 1) return verify_wrong(err, stage, u, "has several lanes");
    if (stage != STAGE_TENSOR && u->ndim != 0 && u->op != OP_BUFFER && u->op != OP_AFTER)
        return verify_wrong(err, stage, u, "has a shape");
    if (u->op == OP_INDEX && u->src[1]->lanes != 1) return verify_wrong(err, stage, u, "has an index for each lane");
    if (u->op == OP_LOAD || uop_is_store(u)) problem = lanes_problem(u, stage);
    return !problem || verify_wrong(err, stage, u, problem);
}

// Loops and memory are told apart by their ids: one id, one node. A BUFFER may be seen in several shapes, not types.
static bool ids_ok(const UOpList *order, GraphStage stage, Error *err) {
    Arena *arena = arena_create();
    Map seen;
    bool ok = true;
    map_init(&seen, arena);
    for (size_t k = 0; ok && k < order->len; k++) {
        UOp *u = order->at[k];
        if (u->op != OP_RANGE && u->op != OP_DEFINE_LOCAL && u->op != OP_DEFINE_REG && u->op != OP_DEFINE_ARRAY && u->op != OP_PARAM &&
            u->op != OP_BUFFER)
            continue;
        int64_t key[2] = {u->op == OP_RANGE ? 0 : u->op == OP_PARAM || u->op == OP_BUFFER ? 1 : 2, u->arg[0]};
        const UOp *other = map_get(&seen, key, sizeof key);
        if (!other) map_put(&seen, key, sizeof key, u);
        else if (u->op != OP_BUFFER) ok = verify_wrong(err, stage, u, "has the id of another one");
        else if (other->dtype != u->dtype) ok = verify_wrong(err, stage, u, "has the id of a buffer of another type");
    }
    arena_destroy(arena);
    return ok;
}

static bool statements_ok(Arena *arena, UOp *root, GraphStage stage, Error *err) {
    for (int i = 0; i < root->n_src; i++) {
        bool is_nest = root->src[i]->op == OP_END && stage >= STAGE_VECTOR;
        if (!uop_is_store(root->src[i]) && root->src[i]->op != OP_BARRIER && root->src[i]->op != OP_LAST_TILE && !is_nest) return verify_wrong(err, stage, root->src[i], "is no statement");
    }
    UOpList free_ranges = uop_free_ranges(arena, root);
    for (size_t i = 0; i < free_ranges.len; i++)
        if (range_kind(free_ranges.at[i]) != RANGE_GLOBAL) return verify_wrong(err, stage, free_ranges.at[i], "is never closed");
    return true;
}

bool verify(UOp *root, GraphStage stage, Error *err) {
    Arena *arena = arena_create();
    UOpList order = uop_toposort(arena, root);
    bool ok = true;
    for (size_t k = 0; ok && k < order.len; k++) ok = verify_node(order.at[k], stage, err);
    ok = ok && ids_ok(&order, stage, err);
    if (stage == STAGE_TENSOR) ok = ok && verify_assigns(arena, root, &order, err);
    else if (root->op == OP_SINK)
        ok = ok && statements_ok(arena, root, stage, err) && verify_loads(arena, root, stage, err);
    arena_destroy(arena);
    return ok;
}
