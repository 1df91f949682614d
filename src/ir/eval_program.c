// eval_program: makes a linear program ready for the machine, and runs it. See eval_program.h.
// In: a list of nodes in program order. Out: instructions with their places in the values.
// Invariant: PARAM, INDEX, AFTER and constants need no instruction: those who use them look through.
// Example: LOAD(INDEX(AFTER(reg, store), i)) becomes run_load with the cells of reg and the place of i.
#include "ir/eval_program.h"

#include "base/vec.h"
#include "ir/eval_machine.h"

struct EvalCode {
    Machine machine;
    Cells *cells;
    size_t n_cells;
};

typedef struct Maker {
    Arena *arena;
    UOpMap values;           // node → its Numbers
    UOpMap cells;            // PARAM and DEFINE → their Cells
    VEC(Instruction *) open; // RANGEs without their END yet, innermost last
    Instruction *code;
    size_t n_code;
    Cells *all_cells;
    size_t n_cells;
    Error *err;
} Maker;

// Behind AFTERs, which only order.
static UOp *plain(UOp *u) {
    while (u->op == OP_AFTER)
        u = u->src[0];
    return u;
}

static const Number *value_of(const Maker *k, UOp *u) { return uop_map_get(&k->values, plain(u)); }

static bool misses(const Maker *k, const UOp *u, int source) {
    return fail(k->err, LATHE_UNSUPPORTED, "linear program: source %d of %s is a %s that no earlier node computes",
                source, op_info[u->op].name, op_info[plain(u->src[source])->op].name);
}

static bool cells_make(Maker *k, UOp *u) {
    Cells *c = &k->all_cells[k->n_cells++];
    int64_t width = dtype_bytes((DType)u->dtype);
    bool states_bytes = u->op == OP_PARAM && u->n_arg > 1 && u->arg[1] > 0;
    *c = (Cells){.op = (Op)u->op, .id = u->arg[0], .dtype = (DType)u->dtype, .width = width,
                 .nbytes = states_bytes ? u->arg[1] : -1};
    uop_map_put(&k->cells, u, c);
    if (u->op == OP_PARAM)
        return true;
    if (u->arg[1] < 0 || u->arg[1] > INT32_MAX || width == 0)
        return fail(k->err, LATHE_UNSUPPORTED, "linear program: %s %lld has %lld elements of %s", op_info[u->op].name,
                    (long long)u->arg[0], (long long)u->arg[1], dtype_info[u->dtype].name);
    int64_t count = u->arg[1] * u->lanes;
    c->nbytes = count * width;
    c->bytes = u->op != OP_DEFINE_REG ? arena_alloc(k->arena, (size_t)c->nbytes) : NULL;
    c->numbers = u->op == OP_DEFINE_REG ? arena_alloc(k->arena, (size_t)count * sizeof *c->numbers) : NULL;
    if (!c->bytes && !c->numbers)
        return fail(k->err, LATHE_NO_MEMORY, "linear program: no memory for %lld elements", (long long)count);
    return true;
}

// An access of a REG as another type than its own makes bytes of it.
static void cells_meet(Maker *k, Cells *c, DType access) {
    if (!c->numbers || access == c->dtype)
        return;
    c->bytes = arena_new(k->arena, (size_t)c->nbytes);
    c->numbers = NULL;
}

static bool find_cells(Maker *k, const UOp *u, Instruction *in, DType access) {
    UOp *index = plain(u->src[0]);
    in->cells = index->op == OP_INDEX ? uop_map_get(&k->cells, plain(index->src[0])) : NULL;
    if (!in->cells)
        return misses(k, u, 0);
    cells_meet(k, in->cells, access);
    UOp *element = plain(index->src[1]);
    in->operands.at[0] = value_of(k, element);
    in->operands.step[0] = element->lanes > 1;
    if (!in->operands.at[0])
        return misses(k, index, 1);
    if (element->lanes > 1 && element->lanes != in->lanes)
        return fail(k->err, LATHE_UNSUPPORTED, "linear program: an index of %d lanes for %u values",
                    element->lanes, in->lanes);
    return true;
}

static bool take_sources(Maker *k, UOp *u, Instruction *in) {
    in->operands.n = in->lanes;
    for (int i = 0; i < 3; i++) {
        UOp *src = plain(u->src[i < u->n_src ? i : 0]);
        in->operands.at[i] = value_of(k, src);
        in->operands.step[i] = src->lanes > 1;
        if (!in->operands.at[i])
            return misses(k, u, i < u->n_src ? i : 0);
    }
    return true;
}

static bool make_store(Maker *k, UOp *u, Instruction *in) {
    UOp *value = plain(u->src[1]);
    in->lanes = value->lanes;
    in->dtype = (DType)value->dtype;
    in->width = (uint32_t)dtype_bytes(in->dtype);
    in->act = u->op == OP_ATOMIC_ADD ? run_add : in->lanes == 1 ? run_store_one : run_store;
    in->operands.at[1] = value_of(k, value);
    return in->operands.at[1] ? find_cells(k, u, in, in->dtype) : misses(k, u, 1);
}

static bool make_load(Maker *k, UOp *u, Instruction *in) {
    in->act = in->lanes == 1 && u->n_src == 1 ? run_load_one : run_load;
    if (u->n_src > 1) {
        in->operands.at[1] = value_of(k, u->src[1]);
        in->operands.step[1] = plain(u->src[1])->lanes > 1;
        if (!in->operands.at[1])
            return misses(k, u, 1);
    }
    return find_cells(k, u, in, in->dtype);
}

static bool make_end(Maker *k, UOp *u, Instruction *in) {
    Instruction *range = k->open.len ? k->open.at[--k->open.len] : NULL;
    if (!range || u->n_src == 0 || u->src[0]->op != OP_RANGE || range->arg[0] != range_id(u->src[0]))
        return fail(k->err, LATHE_UNSUPPORTED, "linear program: an END that does not close the innermost open RANGE");
    in->act = run_end;
    in->range = range;
    in->target = (size_t)(range - k->code) + 1;
    range->target = (size_t)(in - k->code) + 1;
    return true;
}

// One copy a source.
static bool make_vcat(Maker *k, UOp *u, Instruction *in) {
    Number *out = in->out;
    for (int i = 0; i < u->n_src; i++) {
        Instruction *part = i == 0 ? in : &k->code[k->n_code++];
        UOp *src = plain(u->src[i]);
        *part = (Instruction){.act = run_copy, .out = out, .op = OP_VCAT, .operands.n = src->lanes};
        part->operands.at[0] = value_of(k, src);
        if (!part->operands.at[0])
            return misses(k, u, i);
        out += src->lanes;
    }
    return true;
}

static bool make_hfold(Maker *k, UOp *u, Instruction *in) {
    in->act = run_hfold;
    if (u->arg[1] < 1 || u->arg[1] > HFOLD_MAX)
        return fail(k->err, LATHE_UNSUPPORTED, "linear program: HFOLD of groups of %lld lanes", (long long)u->arg[1]);
    return take_sources(k, u, in);
}

static bool make_lookup(Maker *k, UOp *u, Instruction *in) {
    in->act = run_lookup;
    in->target = u->src[0]->lanes;
    return take_sources(k, u, in);
}

static bool make_dot4(Maker *k, UOp *u, Instruction *in) {
    in->act = run_dot4;
    for (int i = 1; i < 3; i++)
        if (u->src[i]->lanes != 4 * u->lanes)
            return fail(k->err, LATHE_UNSUPPORTED, "linear program: DOT4 of %d and %d lanes", u->lanes,
                        u->src[i]->lanes);
    return take_sources(k, u, in);
}

static bool make_elementwise(Maker *k, UOp *u, Instruction *in) {
    in->loop = u->n_src ? op_loop((Op)u->op, op_operand_dtype(u)) : NULL;
    if (!in->loop)
        return fail(k->err, LATHE_UNSUPPORTED, "the program interpreter does not know %s: it runs linear "
                    "programs, after codegen", op_info[u->op].name);
    in->act = run_elementwise;
    bool is_narrow = !(op_info[u->op].traits & TRAIT_COMPARE) && dtype_bytes(in->dtype) < 8;
    in->wraps = is_narrow && !dtype_is_float(in->dtype);
    in->rounds = is_narrow && dtype_is_float(in->dtype);
    return take_sources(k, u, in);
}

// A constant needs no instruction, only its value in its place.
static void make_const(const UOp *u, Number *out) {
    DType type = (DType)u->dtype;
    for (int i = 0; i < u->lanes; i++) {
        out[i].i = u->arg[u->op == OP_VCONST ? i : 0];
        out[i] = dtype_is_float(type) ? number_cast(DT_F64, type, out[i]) : number_wrap(type, out[i]);
    }
}

static bool make_special(Maker *k, UOp *u, Instruction *in) {
    in->act = run_special;
    if (u->n_arg && u->arg[0] != 0)
        return fail(k->err, LATHE_UNSUPPORTED, "linear program: SPECIAL %lld; the interpreter runs one thread a "
                    "tile and knows only the tile index, SPECIAL 0", (long long)u->arg[0]);
    return true;
}

static bool make_define(Maker *k, UOp *u, Instruction *in) {
    in->act = run_define;
    TRY(cells_make(k, u));
    in->cells = uop_map_get(&k->cells, u);
    return true;
}

static bool make_range(Maker *k, UOp *u, Instruction *in) {
    in->act = run_range;
    vec_push(k->arena, &k->open, in);
    return take_sources(k, u, in);
}

static bool make_unary(Maker *k, UOp *u, Instruction *in, Action act) {
    in->act = act;
    return take_sources(k, u, in);
}

static bool make_node(Maker *k, UOp *u) {
    Number *out = NULL;
    if (u->dtype != DT_VOID && u->op != OP_PARAM && u->op != OP_INDEX && u->op != OP_AFTER) {
        out = arena_new(k->arena, u->lanes * sizeof *out);
        uop_map_put(&k->values, u, out);
    }
    switch (u->op) {
    case OP_CONST: case OP_VCONST: make_const(u, out); return true;
    case OP_PARAM: return cells_make(k, u);
    case OP_INDEX: case OP_AFTER: case OP_BARRIER: case OP_PREFETCH: case OP_PREFETCH_LATER: case OP_SINK: return true;
    default: break;
    }
    Instruction *in = &k->code[k->n_code++];
    *in = (Instruction){.op = (Op)u->op, .out = out, .lanes = u->lanes, .dtype = (DType)u->dtype,
                        .width = (uint32_t)dtype_bytes((DType)u->dtype),
                        .source = (DType)(u->n_src ? u->src[0]->dtype : DT_VOID),
                        .arg = arena_copy(k->arena, u->arg, u->n_arg * sizeof *u->arg)};
    switch (u->op) {
    case OP_CAST: return make_unary(k, u, in, run_cast);
    case OP_BITCAST: return make_unary(k, u, in, run_bitcast);
    case OP_SHUFFLE: return make_unary(k, u, in, run_shuffle);
    case OP_HFOLD: return make_hfold(k, u, in);
    case OP_LOOKUP: return make_lookup(k, u, in);
    case OP_BITS: return make_unary(k, u, in, run_bits);
    case OP_DOT4: return make_dot4(k, u, in);
    case OP_VCAT: return make_vcat(k, u, in);
    case OP_SPECIAL: return make_special(k, u, in);
    case OP_RANGE: return make_range(k, u, in);
    case OP_END: return make_end(k, u, in);
    case OP_DEFINE_REG: case OP_DEFINE_ARRAY: case OP_DEFINE_LOCAL: return make_define(k, u, in);
    case OP_LOAD: return make_load(k, u, in);
    case OP_STORE: case OP_ATOMIC_ADD: return make_store(k, u, in);
    case OP_LAST_TILE:
        in->act = run_last_tile;
        in->width = (uint32_t)dtype_bytes(DT_I32);
        return find_cells(k, u, in, DT_I32);
    default: return make_elementwise(k, u, in);
    }
}

EvalCode *eval_code_make(Arena *arena, const UOpList *program, Error *err) {
    Maker k = {.arena = arena, .err = err};
    size_t room = 0;
    for (size_t i = 0; i < program->len; i++)
        room += 1 + program->at[i]->n_src;
    k.code = arena_new(arena, room * sizeof *k.code);
    k.all_cells = arena_new(arena, program->len * sizeof *k.all_cells);
    uop_map_init(&k.values, arena);
    uop_map_init(&k.cells, arena);
    for (size_t i = 0; i < program->len; i++)
        if (!make_node(&k, program->at[i]))
            return NULL;
    if (k.open.len) {
        (void)fail(err, LATHE_UNSUPPORTED, "linear program: a RANGE has no END");
        return NULL;
    }
    EvalCode *code = arena_new(arena, sizeof *code);
    code->machine = (Machine){.code = k.code, .n_code = k.n_code};
    code->cells = k.all_cells;
    code->n_cells = k.n_cells;
    return code;
}

bool eval_code_run(EvalCode *code, void *const *params, long first, long end, Error *err) {
    Machine *m = &code->machine;
    m->err = err;
    for (size_t i = 0; i < code->n_cells; i++) {
        Cells *c = &code->cells[i];
        if (c->op != OP_PARAM)
            continue;
        c->bytes = params[c->id];
        if (!c->bytes)
            return fail(err, LATHE_DEVICE, "parameter %lld has no memory", (long long)c->id);
    }
    for (m->tile = first; m->tile < end; m->tile++)
        for (m->at = 0; m->at < m->n_code;) {
            const Instruction *in = &m->code[m->at++];
            if (!in->act(m, in))
                return false;
        }
    return true;
}

bool eval_program(Arena *arena, const UOpList *program, void *const *params, long first, long end, Error *err) {
    EvalCode *code = eval_code_make(arena, program, err);
    return code && eval_code_run(code, params, first, end, err);
}
