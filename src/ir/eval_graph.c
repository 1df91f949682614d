// eval_graph: the value of a tensor graph, node by node. See eval.h.
// In: a root, the bytes behind its BUFFERs. Out: the root's elements; ASSIGN has written into those bytes.
// Invariant: nodes run sources first, and a value is a snapshot: BUFFER is read when it is reached, AFTER(view of a
// buffer, stores…) reads the bytes anew once its stores have run.
// Example: AFTER(b, ASSIGN(SHRINK(b, 0:1), 7)) over {1,2} is {7,2}.
#include <string.h>

#include "base/os.h"
#include "base/vec.h"
#include "ir/eval_moves.h"
#include "ir/eval_ops.h"

// A block of numbers that nodes share (RESHAPE aliases) and that returns to the pool with its last holder.
typedef struct Storage { Number *at; size_t room; int holders; } Storage;

typedef struct Node {
    UOp *u;
    int64_t count;
    Storage *value;      // NULL: not yet computed, or released
    bool is_needed;      // some node wants its value (ASSIGN: wants it to run)
    bool is_view;        // some ASSIGN or AFTER walks through it, by address
    bool is_kept;        // never released: the root, and indices that a later view may walk through again
    size_t users;        // nodes that still want the value
} Node;

typedef struct Eval {
    Arena *arena;
    const EvalBuffers *buffers;
    Node *nodes;         // in topological order
    size_t n_nodes;
    UOpMap at;           // node → its Node
    VEC(Storage *) pool;
    Error *err;
} Eval;

static Node *node_of(const Eval *e, const UOp *u) { return uop_map_get(&e->at, u); }
static const Number *numbers_of(const Eval *e, const UOp *u) { return node_of(e, u)->value->at; }

// ---- memory

static Storage *storage_take(Eval *e, int64_t count) {
    size_t room = count > 0 ? (size_t)count : 1, best = e->pool.len;
    for (size_t i = 0; i < e->pool.len; i++) {
        size_t have = e->pool.at[i]->room;
        if (have >= room && have / 4 <= room && (best == e->pool.len || have < e->pool.at[best]->room))
            best = i;
    }
    if (best < e->pool.len) {
        Storage *s = e->pool.at[best];
        e->pool.at[best] = e->pool.at[--e->pool.len];
        s->holders = 1;
        return s;
    }
    size_t nbytes = room * sizeof(Number);
    Storage *s = arena_new(e->arena, sizeof *s);
    bool is_large = nbytes > (size_t)64 << 20;
    s->at = is_large && nbytes > memory_available_bytes() ? NULL : arena_alloc(e->arena, nbytes);
    if (!s->at) {
        (void)fail(e->err, LATHE_NO_MEMORY, "the reference interpreter has no memory for %zu bytes: evaluate a smaller "
                   "graph", nbytes);
        return NULL;
    }
    s->room = room;
    s->holders = 1;
    return s;
}

static void storage_drop(Eval *e, Storage *s) {
    if (--s->holders == 0)
        vec_push(e->arena, &e->pool, s);
}

static void node_leave(Eval *e, Node *n) {
    CHECK(n->users > 0);
    if (--n->users == 0 && !n->is_kept && n->value) {
        storage_drop(e, n->value);
        n->value = NULL;
    }
}

// ---- views of buffers

static bool is_view_step(const UOp *u) {
    return op_info[u->op].kind == KIND_MOVE || u->op == OP_BITCAST || u->op == OP_AFTER;
}

// The BUFFER under a chain of movement, gather, bitcast and AFTER; NULL where there is none.
static UOp *view_buffer(UOp *u) {
    while (is_view_step(u))
        u = u->src[0];
    return u->op == OP_BUFFER ? u : NULL;
}

static void *buffer_address(Eval *e, const UOp *buffer) {
    void *at = e->buffers && e->buffers->address ? e->buffers->address(e->buffers->context, buffer->arg[0]) : NULL;
    if (!at)
        (void)fail(e->err, LATHE_BAD_REQUEST, "buffer %lld has no memory: give its bytes before evaluating",
                   (long long)buffer->arg[0]);
    return at;
}

static Storage *buffer_elements(Eval *e, const UOp *buffer, bool as_offsets) {
    int64_t count = node_of(e, buffer)->count;
    void *bytes = as_offsets ? NULL : buffer_address(e, buffer);
    Storage *s = as_offsets || bytes ? storage_take(e, count) : NULL;
    if (!s)
        return NULL;
    if (!as_offsets)
        numbers_load((DType)buffer->dtype, bytes, s->at, (size_t)count);
    for (int64_t i = 0; as_offsets && i < count; i++)
        s->at[i].i = i * dtype_bytes((DType)buffer->dtype);
    return s;
}

// One step of a chain applied to its source's elements.
static Storage *view_step(Eval *e, const UOp *u, Storage *in, bool as_offsets) {
    if (u->op == OP_AFTER || u->op == OP_RESHAPE) {
        in->holders++;
        return in;
    }
    Storage *out = storage_take(e, node_of(e, u)->count);
    DType from = (DType)u->src[0]->dtype, to = (DType)u->dtype;
    size_t n = (size_t)node_of(e, u->src[0])->count;
    Number padding = {.i = as_offsets ? MOVE_NOWHERE : 0};      // 0 is 0.0 as well
    bool done = out != NULL;
    if (done && u->op == OP_BITCAST)
        done = as_offsets ? bitcast_offsets(from, to, in->at, n, out->at, e->err)
                          : bitcast_values(e->arena, from, to, in->at, n, out->at, e->err);
    else if (done)
        done = move_elements(e->arena, u, in->at, padding, u->op == OP_GATHER ? numbers_of(e, u->src[1]) : NULL,
                             out->at, e->err);
    return done ? out : NULL;
}

// A whole chain from its buffer up: the bytes as they are now, or where its elements lie.
static Storage *view_elements(Eval *e, UOp *view, bool as_offsets) {
    VEC(UOp *) steps = {0};
    UOp *u = view;
    for (; is_view_step(u); u = u->src[0])
        vec_push(e->arena, &steps, u);
    Storage *s = buffer_elements(e, u, as_offsets);
    while (s && steps.len) {
        Storage *next = view_step(e, steps.at[--steps.len], s, as_offsets);
        storage_drop(e, s);
        s = next;
    }
    return s;
}

// ---- the ops

static Storage *elementwise(Eval *e, const UOp *u, int64_t count) {
    DType type = op_operand_dtype(u);
    OpLoop loop = op_loop((Op)u->op, type);
    OpOperands operands = {.n = (size_t)count};
    Storage *out = storage_take(e, count);
    if (!out)
        return NULL;
    for (int k = 0; k < 3; k++) {
        const UOp *src = u->src[k < u->n_src ? k : 0];
        operands.at[k] = numbers_of(e, src);
        operands.step[k] = 1;
    }
    if (!loop || (!loop(&operands, out->at) && count > 0)) {
        (void)fail(e->err, LATHE_UNSUPPORTED, "%s has no meaning on %s: cast its sources first", op_info[u->op].name,
                   dtype_info[type].name);
        return NULL;
    }
    if (!(op_info[u->op].traits & TRAIT_COMPARE))
        numbers_wrap((DType)u->dtype, out->at, (size_t)count);
    return out;
}

// Offsets into a's elements of every index over the axes that is_reduced selects (or not), row-major.
static Storage *axis_offsets(Eval *e, const UOp *a, uint64_t axes, int64_t *count) {
    *count = 1;
    for (int i = 0; i < a->ndim; i++)
        *count *= axes >> i & 1 ? a->shape[i] : 1;
    Storage *s = storage_take(e, *count);
    int64_t filled = 1, stride = 1;
    if (!s || *count == 0)
        return s;
    s->at[0].i = 0;
    for (int i = a->ndim; i-- > 0;) {
        if (axes >> i & 1) {
            for (int64_t k = 1; k < a->shape[i]; k++)
                for (int64_t j = 0; j < filled; j++)
                    s->at[k * filled + j].i = s->at[j].i + k * stride;
            filled *= a->shape[i];
        }
        stride *= a->shape[i];
    }
    return s;
}

static Storage *reduce(Eval *e, const UOp *u) {
    const UOp *a = u->src[0];
    DType type = (DType)u->dtype;
    Monoid monoid = (Monoid)u->arg[0];
    OpLoop loop = op_loop(monoid_info[monoid].combine, type);
    uint64_t gone = 0;
    int64_t n_out, n_in;
    for (int i = 2; i < u->n_arg; i++)
        gone |= UINT64_C(1) << u->arg[i];
    Storage *outer = axis_offsets(e, a, ~gone, &n_out), *inner = axis_offsets(e, a, gone, &n_in);
    Storage *out = storage_take(e, n_out);
    if (!outer || !inner || !out)
        return NULL;
    const Number *in = numbers_of(e, a);
    for (int64_t i = 0; i < n_out; i++) {
        Number sum = monoid_identity(monoid, type);
        OpOperands pair = {.at = {&sum, NULL, &sum}, .n = 1};
        for (int64_t j = 0; j < n_in; j++) {
            pair.at[1] = &in[outer->at[i].i + inner->at[j].i];
            loop(&pair, &sum);
            numbers_wrap(type, &sum, 1);
        }
        out->at[i] = sum;
    }
    storage_drop(e, outer);
    storage_drop(e, inner);
    return out;
}

static bool assign(Eval *e, const UOp *u) {
    UOp *buffer = view_buffer(u->src[0]);
    DType type = (DType)u->src[0]->dtype;
    if (!buffer)
        return fail(e->err, LATHE_BAD_REQUEST, "assign: the target is a %s, not a view of a buffer: realize it first",
                    op_info[u->src[0]->op].name);
    uint8_t *bytes = buffer_address(e, buffer);
    Storage *offsets = bytes ? view_elements(e, u->src[0], true) : NULL;
    if (!offsets)
        return false;
    const Number *value = numbers_of(e, u->src[1]);
    int64_t count = node_of(e, u->src[1])->count;
    for (int64_t i = 0; i < count; i++)
        if (offsets->at[i].i != MOVE_NOWHERE)
            number_store(type, bytes + offsets->at[i].i, value[i]);
    storage_drop(e, offsets);
    return true;
}

static Storage *leaf(Eval *e, const UOp *u, int64_t count) {
    if (u->op == OP_BUFFER)
        return buffer_elements(e, u, false);
    Storage *s = storage_take(e, count);
    for (int64_t i = 0; s && i < count; i++)
        s->at[i] = u->op == OP_CONST ? number_from_const(u) : (Number){.i = i};
    return s;
}

static Storage *node_value(Eval *e, UOp *u, int64_t count) {
    switch (u->op) {
    case OP_CONST: case OP_BUFFER: case OP_IOTA: return leaf(e, u, count);
    case OP_REDUCE: return reduce(e, u);
    case OP_SINK: return storage_take(e, 0);
    case OP_ASSIGN: return assign(e, u) ? storage_take(e, 0) : NULL;
    case OP_AFTER: if (view_buffer(u)) return view_elements(e, u, false); break;
    case OP_POISON: (void)fail(e->err, LATHE_BAD_REQUEST, "%s", u->message); return NULL;
    case OP_CAST: {
        Storage *s = storage_take(e, count);
        if (s)
            numbers_cast((DType)u->src[0]->dtype, (DType)u->dtype, numbers_of(e, u->src[0]), s->at, (size_t)count);
        return s;
    }
    default: break;
    }
    if (is_view_step(u) || u->op == OP_CONTIGUOUS) {
        Storage *in = node_of(e, u->src[0])->value;
        if (u->op == OP_CONTIGUOUS)
            in->holders++;
        return u->op == OP_CONTIGUOUS ? in : view_step(e, u, in, false);
    }
    if (op_loop((Op)u->op, u->n_src ? op_operand_dtype(u) : DT_VOID))
        return elementwise(e, u, count);
    (void)fail(e->err, LATHE_UNSUPPORTED, "the graph interpreter does not know %s: it evaluates tensor graphs, before "
               "they are cut into kernels", op_info[u->op].name);
    return NULL;
}

// ---- the order

// Whether a node asks for the value of source k (else it walks through it by address, or needs nothing of it).
static bool wants_value(UOp *u, int k) {
    if (k > 0)
        return true;
    return !(u->op == OP_ASSIGN || (u->op == OP_AFTER && view_buffer(u)));
}

static bool eval_prepare(Eval *e, UOp *root) {
    UOpList order = uop_toposort(e->arena, root);
    e->n_nodes = order.len;
    e->nodes = arena_new(e->arena, order.len * sizeof *e->nodes);
    uop_map_init(&e->at, e->arena);
    for (size_t i = 0; i < order.len; i++) {
        Node *n = &e->nodes[i];
        n->u = order.at[i];
        if (!shape_elements(n->u->ndim, n->u->shape, &n->count))
            return fail(e->err, LATHE_UNSUPPORTED, "%s: the shape is too large to evaluate", op_info[n->u->op].name);
        if (n->u->dtype == DT_VOID)          // ASSIGN and SINK run, they have no elements
            n->count = 0;
        uop_map_put(&e->at, n->u, n);
    }
    node_of(e, root)->is_needed = node_of(e, root)->is_kept = true;
    for (size_t i = order.len; i-- > 0;) {
        Node *n = &e->nodes[i];
        for (int k = 0; k < n->u->n_src; k++) {
            Node *src = node_of(e, n->u->src[k]);
            bool by_value = n->is_needed && wants_value(n->u, k);
            bool in_view = n->is_view && k > 0;      // a view's indices, and the stores that it comes after
            src->users += by_value;
            src->is_needed |= by_value || in_view;
            src->is_kept |= in_view;
            src->is_view |= (n->is_needed && !by_value) || (n->is_view && k == 0);
        }
    }
    return true;
}

bool eval_graph(Arena *arena, UOp *root, const EvalBuffers *buffers, EvalTensor *out, Error *err) {
    Eval e = {.arena = arena, .buffers = buffers, .err = err};
    TRY(eval_prepare(&e, root));
    for (size_t i = 0; i < e.n_nodes; i++) {
        Node *n = &e.nodes[i];
        if (!n->is_needed)
            continue;
        n->value = node_value(&e, n->u, n->count);
        if (!n->value)
            return false;
        for (int k = 0; k < n->u->n_src; k++)
            if (wants_value(n->u, k))
                node_leave(&e, node_of(&e, n->u->src[k]));
        if (n->users == 0 && !n->is_kept) {
            storage_drop(&e, n->value);
            n->value = NULL;
        }
    }
    *out = (EvalTensor){.dtype = (DType)root->dtype, .ndim = root->ndim, .shape = root->shape,
                        .count = node_of(&e, root)->count, .at = node_of(&e, root)->value->at};
    return true;
}
