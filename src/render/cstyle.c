// cstyle: the one renderer. Each node becomes one line `const T vN = …;`, constants and addresses stand in place.
// See cstyle.h. The parts of a line stand in cstyle_names, cstyle_memory and cstyle_values.
#include <string.h>

#include "render/cstyle_private.h"

static void indent(Renderer *r) { builder_printf(&r->out, "%*s", 4 * r->depth, ""); }

static void declare(Renderer *r, UOp *u) {
    const char *name = arena_printf(r->arena, "v%d", r->n_values++), *text = value_text(r, u);
    uop_map_put(&r->names, u, (void *)(uintptr_t)name);
    indent(r);
    builder_printf(&r->out, "const %s %s = %s;\n", type_name(r, u, u->lanes), name, text);
}

static void declare_local(Renderer *r, UOp *u) {
    const char *name = arena_printf(r->arena, "l%lld", (long long)u->arg[0]);
    uop_map_put(&r->names, u, (void *)(uintptr_t)name);
    builder_cstring(&r->out, template_filled(r->arena, r->dialect->local_array, "element", element_name(r, u->dtype == DT_BOOL ? DT_U8 : (DType)u->dtype),
                                             "name", name, "count", arena_printf(r->arena, "%lld", (long long)u->arg[1])));
}

static void line(Renderer *r, UOp *u, UOpMap *only_shuffled) {
    switch (u->op) {
    case OP_CONST: case OP_INDEX: case OP_AFTER: case OP_SINK: return;
    case OP_PARAM: {
        int slot = (int)u->arg[0];
        uop_map_put(&r->names, u, (void *)(uintptr_t)arena_printf(r->arena, "p%d", slot));
        builder_cstring(&r->out, template_filled(r->arena, r->dialect->param, "slot", arena_printf(r->arena, "%d", slot)));
        return;
    }
    case OP_SPECIAL:
        uop_map_put(&r->names, u, (void *)(uintptr_t)(u->arg[0] ? "item" : "tile"));
        if (u->arg[0]) return;
        builder_cstring(&r->out, r->threads ? r->dialect->group_tile_open : r->dialect->tile_open);
        r->tile_open = true;
        r->depth++;
        return;
    case OP_RANGE: {
        const char *name = arena_printf(r->arena, "n%lld", (long long)range_id(u));
        indent(r);
        builder_printf(&r->out, "for (%s %s = 0; %s < %s; %s++) {\n", element_name(r, DT_I32), name, name, value_name(r, u->src[0]), name);
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
    case OP_DEFINE_LOCAL: declare_local(r, u); return;
    case OP_DEFINE_ARRAY:
        uop_map_put(&r->names, u, (void *)(uintptr_t)arena_printf(r->arena, "a%lld", (long long)u->arg[0]));
        indent(r);
        builder_printf(&r->out, "%s a%lld[%lld] __attribute__((aligned(64)));\n", element_name(r, (DType)u->dtype), (long long)u->arg[0], (long long)u->arg[1]);
        return;
    case OP_BARRIER: indent(r); builder_cstring(&r->out, r->dialect->barrier); return;
    case OP_LAST_TILE:
        indent(r);
        builder_cstring(&r->out, template_filled(r->arena, r->dialect->last_tile, "at", address_text(r, u->src[0], true), "count", arena_printf(r->arena, "%lld", (long long)u->arg[0])));
        return;
    case OP_STORE: case OP_ATOMIC_ADD: indent(r); builder_cstring(&r->out, store_text(r, u)); return;
    case OP_PREFETCH:
        if (!r->dialect->prefetch[u->arg[0]]) return;
        indent(r);
        builder_cstring(&r->out, template_filled(r->arena, r->dialect->prefetch[u->arg[0]], "at", address_text(r, u->src[0], true)));
        return;
    case OP_PREFETCH_LATER:
        if (!r->dialect->prefetch_later) return;
        indent(r);
        builder_cstring(&r->out, template_filled(r->arena, r->dialect->prefetch_later, "loop", value_name(r, u->src[0]), "every", arena_printf(r->arena, "%lld", (long long)u->arg[0])));
        return;
    case OP_VCAT: if (uop_map_get(only_shuffled, u)) return; break;
    default: break;
    }
    declare(r, u);
}

// A VCAT that only SHUFFLEs read is written inside them.
static void find_shuffled(const UOpList *program, UOpMap *only_shuffled) {
    for (size_t k = 0; k < program->len; k++)
        if (program->at[k]->op == OP_VCAT && uop_is_pair(program->at[k])) uop_map_put(only_shuffled, program->at[k], (void *)1);
    for (size_t k = 0; k < program->len; k++)
        for (int i = 0; i < program->at[k]->n_src; i++)
            if (program->at[k]->op != OP_SHUFFLE && uop_map_get(only_shuffled, program->at[k]->src[i]))
                uop_map_put(only_shuffled, program->at[k]->src[i], NULL);
}

static void typedefs(Renderer *r) {
    static const DType types[] = {DT_I8, DT_U8, DT_I16, DT_U16, DT_I32, DT_U32, DT_I64, DT_U64, DT_F16, DT_BF16, DT_F32, DT_F64};
    for (size_t i = 0; r->dialect->vector_typedef && i < sizeof types / sizeof *types; i++)
        for (int lanes = 2; lanes * dtype_bytes(types[i]) <= 2 * target_widest(r->target) && lanes <= 128; lanes *= 2) {
            const char *element = element_name(r, types[i]), *nbytes = arena_printf(r->arena, "%d", lanes * dtype_bytes(types[i]));
            builder_cstring(&r->out, template_filled(r->arena, r->dialect->vector_typedef, "element", element, "type",
                                                     vector_name(r, element, lanes), "bytes", nbytes));
        }
}

// The heads of all slots: a slot that no line reads has its place too.
static const char *params_text(Renderer *r, const UOpList *program) {
    TextBuilder b = builder(r->arena);
    int n = 0;
    for (size_t k = 0; k < program->len; k++)
        if (program->at[k]->op == OP_PARAM && program->at[k]->arg[0] >= n) n = (int)program->at[k]->arg[0] + 1;
    for (int i = 0; r->dialect->param_head && i < n; i++)
        builder_cstring(&b, template_filled(r->arena, r->dialect->param_head, "slot", arena_printf(r->arena, "%d", i)));
    return builder_cstr(&b);
}

static const UOp *special_of(const UOpList *program, int64_t which) {
    for (size_t k = 0; k < program->len; k++)
        if (program->at[k]->op == OP_SPECIAL && program->at[k]->arg[0] == which) return program->at[k];
    return NULL;
}

// How many tiles (0) or threads of one (1) a program is for, or `none`.
static int64_t places_of(const UOpList *program, int64_t which, int64_t none) {
    const UOp *special = special_of(program, which);
    return special ? special->arg[1] : none;
}

// For how many groups beside one another a processor's registers are. The loads of a kernel of few tiles had better all be
// under way at once: in registers of which other tiles have no need then.
static const char *groups_text(Renderer *r, const UOpList *program) {
    const UOp *thread = special_of(program, 1);
    bool has_few = target_has_few(r->target, (double)places_of(program, 0, 1));
    int64_t n = thread && thread->n_arg > 2 ? thread->arg[2] : has_few;
    if (!r->dialect->groups || n == 0) return "";
    return template_filled(r->arena, r->dialect->groups, "count", arena_printf(r->arena, "%lld", (long long)n));
}

// The most lines that a tile asks for later kernels.
static int64_t lines_for_later(const UOpList *program) {
    int64_t steps[128] = {1}, n = 0;
    int depth = 0;
    for (size_t k = 0; k < program->len; k++) {
        const UOp *u = program->at[k];
        if (u->op == OP_RANGE) {
            CHECK(depth < 127);
            steps[depth + 1] = steps[depth] * range_size(u);
            depth++;
        } else if (u->op == OP_END) {
            depth--;
        } else if (u->op == OP_PREFETCH_LATER) {
            n += steps[depth - 1] * ((range_size(u->src[0]) + u->arg[0] - 1) / u->arg[0]);
        }
    }
    return n;
}

static bool has_arrays(const UOpList *program) {
    for (size_t k = 0; k < program->len; k++) if (program->at[k]->op == OP_DEFINE_ARRAY) return true;
    return false;
}

const char *render(Arena *arena, const char *name, const UOpList *program, const Dialect *dialect, const Target *target) {
    Renderer r = {.arena = arena, .out = builder(arena), .dialect = dialect, .target = target, .depth = 1, .threads = (int)places_of(program, 1, 0)};
    uop_map_init(&r.names, arena);
    UOpMap only_shuffled;
    uop_map_init(&only_shuffled, arena);
    find_shuffled(program, &only_shuffled);
    if (dialect->array_prelude && has_arrays(program)) builder_cstring(&r.out, dialect->array_prelude);
    builder_cstring(&r.out, dialect->prelude);
    typedefs(&r);
    builder_cstring(&r.out, template_filled(arena, r.threads ? dialect->group_open : dialect->kernel_open, "name", name,
                                            "params", params_text(&r, program), "threads", arena_printf(arena, "%d", r.threads),
                                            "groups", groups_text(&r, program)));
    int64_t asked = dialect->prefetch_later ? lines_for_later(program) : 0;
    if (asked) builder_cstring(&r.out, dialect->later_open);
    for (size_t k = 0; k < program->len; k++) line(&r, program->at[k], &only_shuffled);
    builder_cstring(&r.out, r.tile_open ? dialect->tile_close : dialect->no_tile);
    if (asked) builder_cstring(&r.out, dialect->later_close);
    builder_cstring(&r.out, dialect->kernel_close);
    if (asked) builder_cstring(&r.out, template_filled(arena, dialect->later_count, "name", name, "count", arena_printf(arena, "%lld", (long long)asked)));
    return builder_cstr(&r.out);
}
