// codegen: graphs of the kinds that models use, compiled for the cpu and interpreted, against eval_graph; and what can be
// said of programs and texts without running them.
#include "codegen_cases.h"
#include "ir/verify.h"
#include "render/cstyle.h"
#include "runtime/gpu_target.h"
#include "unit/programs.h"

static void on_cpu(void **state) { codegen_case_run(state, "cpu"); }
static void on_eval(void **state) { codegen_case_run(state, "eval"); }

// A section works in its own tiles: what it reads and sums up stands in its guard, also where a loop outside would do.
// Elsewhere it would be computed in vain, from memory that another tile is writing.
static void test_guards_hold_their_work(void **state) {
    (void)state;
    enum { WIDTH = 256 };
    Error err = {0};
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    Tensor x = tensor_buffer(g, 0, DT_F32, 0, 0, dims(WIDTH)), w = tensor_buffer(g, 1, DT_F32, 0, 0, dims(2048, WIDTH));
    Tensor v = tensor_buffer(g, 2, DT_F32, 0, 0, dims(80, WIDTH));
    Tensor heads = tensor_contiguous(tensor_sum(tensor_mul(w, x), -1)), other = tensor_sum(tensor_mul(v, x), -1);
    Tensor squares = tensor_contiguous(tensor_sum(tensor_reshape(tensor_mul(heads, heads), dims(64, 32)), -1));
    Schedule schedule;
    KernelList kernels;
    Target target;
    UOpList program;
    assert_true(schedule_build(&schedule, arena, (Tensor[]){heads, squares, other}, 3, &err));
    assert_true(schedule_kernels(&schedule, &kernels, &err));
    assert_int_equal(kernels.len, 1);
    assert_true(cpu_target_find(&target, "native", &err));
    Canonical kernel = canonicalize(arena, &kernels.at[0], bytes_of_any, NULL);
    assert_true(codegen(arena, kernel.sink, &target, &program, &err));
    int open = 0, guards = 0, loads = 0;
    for (size_t k = 0; k < program.len; k++) {
        UOp *u = program.at[k], *range = u->op == OP_END ? u->src[0] : u;
        if (range->op == OP_RANGE && !range_is_static(range)) open += u->op == OP_END ? -1 : 1, guards += u->op == OP_RANGE;
        if (u->op != OP_LOAD || uop_buffer_of(u->src[0])->op != OP_PARAM) continue;
        assert_true(open > 0);
        loads++;
    }
    assert_true(guards >= 3 && loads > 0);
    arena_destroy(arena);
}

// Fails unless the only kernel of y compiles; gives its program.
static UOpList program_of(Arena *arena, Tensor y) {
    Error err = {0};
    Schedule schedule;
    KernelList kernels;
    Target target;
    UOpList program;
    assert_true(schedule_build(&schedule, arena, &y, 1, &err));
    assert_true(schedule_kernels(&schedule, &kernels, &err));
    assert_int_equal(kernels.len, 1);
    assert_true(cpu_target_find(&target, "avx2", &err));
    assert_true(codegen(arena, canonicalize(arena, &kernels.at[0], bytes_of_any, NULL).sink, &target, &program, &err));
    return program;
}

// o[h, r, j] = Σ_p w[h, r, p] Σ_k s[h, r, p, k] v[h, p, k, j]: v[h, p] is read for all rows before v[h, p + 1], in 17 steps around
// everything that a tile does.
static void test_shared_memory_is_walked_once(void **state) {
    (void)state;
    enum { H = 64, R = 8, P = 17, K = 32, J = 32 };   // heads are tiles enough
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    Tensor w = tensor_buffer(g, 0, DT_F32, 0, 0, dims(H, R, P, 1)), s = tensor_buffer(g, 1, DT_F32, 0, 0, dims(H, R, P, K, 1));
    Tensor v = tensor_buffer(g, 2, DT_F32, 0, 0, dims(H, 1, P, K, J));
    Tensor part = tensor_reduce(MONOID_SUM, 1, tensor_mul(s, v), dims(3));
    UOpList program = program_of(arena, tensor_reduce(MONOID_SUM, 1, tensor_mul(w, part), dims(2)));
    int depth = 0, inner = 0, loops = 0;
    int64_t outermost = 0;
    for (size_t k = 0; k < program.len; k++) {
        UOp *u = program.at[k];
        if (u->op == OP_RANGE && depth++ == 0) outermost = range_size(u), loops++;
        depth -= u->op == OP_END;
        inner += u->op == OP_RANGE && depth > 1 && range_size(u) == K;
    }
    assert_int_equal(loops, 2);          // zeros, then the steps
    assert_int_equal(outermost, P);
    assert_int_equal(inner, 1);
    arena_destroy(arena);
}

// Scores of 16 rows that lie side by side: registers of rows, nothing is summed across them.
static void test_sums_beside_need_no_shuffle(void **state) {
    (void)state;
    enum { KEYS = 64, D = 64, ROWS = 16 };
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    Tensor q = tensor_buffer(g, 0, DT_F32, 0, 0, dims(D, ROWS)), k = tensor_buffer(g, 1, DT_F32, 0, 0, dims(KEYS, D, 1));
    UOpList program = program_of(arena, tensor_sum(tensor_mul(k, q), 1));
    bool is_summed = false;
    for (size_t i = 0; i < program.len; i++) {
        assert_int_not_equal(program.at[i]->op, OP_HFOLD);
        bool spreads = program.at[i]->op == OP_SHUFFLE;   // one number to all lanes: what a product of rows needs
        for (int l = 0; spreads && l < program.at[i]->n_arg; l++) assert_int_equal(program.at[i]->arg[l], program.at[i]->arg[0]);
        is_summed |= program.at[i]->op == OP_LOAD && program.at[i]->lanes > 1 && uop_buffer_of(program.at[i]->src[0])->op == OP_DEFINE_ARRAY;
    }
    assert_true(is_summed);
    arena_destroy(arena);
}

// Sizes of the loops of the program's first nest, the outermost first.
static int loops_of(const UOpList *program, int64_t *sizes, int most) {
    int n = 0;
    for (size_t k = 0; k < program->len && program->at[k]->op != OP_END; k++)
        if (program->at[k]->op == OP_RANGE && n < most) sizes[n++] = range_size(program->at[k]);
    return n;
}

// Scores of pages that all heads share. Each key is read once for all heads, in copies of five, which are as many sums of two registers
// as sixteen registers have room for, as long as the heads' rows stay in
// the nearest cache: keys, then heads. Rows of 20 · 576 floats don't: heads, then the keys of a page, which the next cache holds;
// of a page of 1,024 keys it doesn't.
static void test_copies_walk_what_is_near(void **state) {
    (void)state;
    enum { PAGES = 64, HEADS = 20 };
    static const struct { int64_t d, keys, outer, inner; } rows[] = {
        {64, 64, 64, HEADS / 5}, {576, 64, HEADS / 5, 64}, {576, 1024, 1024, HEADS / 5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Arena *arena = arena_create();
        Graph *g = graph_create(arena);
        Tensor q = tensor_buffer(g, 0, DT_F32, 0, 0, dims(1, HEADS, 1, rows[i].d));
        Tensor k = tensor_buffer(g, 1, DT_F16, 0, 0, dims(PAGES, 1, rows[i].keys, rows[i].d));
        UOpList program = program_of(arena, tensor_sum(tensor_mul(q, tensor_cast(k, DT_F32)), -1));
        int64_t sizes[8] = {0};
        int n = loops_of(&program, sizes, 8);
        assert_true(n >= 3);
        assert_int_equal(sizes[n - 3], rows[i].outer);
        assert_int_equal(sizes[n - 2], rows[i].inner);
        assert_int_equal(sizes[n - 1], rows[i].d / 16);
        arena_destroy(arena);
    }
}

// How far behind what is read a kernel asks for memory of `type`, in bytes; 0: it asks for none.
static int64_t asked_ahead(Arena *arena, Tensor y, DType type) {
    UOpList program = program_of(arena, y);
    int64_t least = 0, at;
    for (size_t i = 0; i < program.len; i++) {
        UOp *u = program.at[i];
        if (u->op != OP_PREFETCH || u->src[0]->src[0]->dtype != type) continue;
        assert_true(uop_is_int_const(u->src[0]->src[1]->src[1], &at));
        if (!least || at * dtype_bytes(type) < least) least = at * dtype_bytes(type);
    }
    return least;
}

// Memory is asked for where the loops will be: 4 KiB on where steps lie side by side, and where they jump, from one head's 128
// bytes of a key to those of the next key, 16 keys on. What goes on by 4 bytes is left to hardware.
static void test_asks_where_loops_will_be(void **state) {
    (void)state;
    enum { KEYS = 4096, HEADS = 8, D = 64, WIDE = 16 };
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    Tensor q = tensor_buffer(g, 0, DT_F32, 0, 0, dims(D)), dense = tensor_buffer(g, 1, DT_F16, 0, 0, dims(KEYS, D));
    Tensor keys = tensor_reshape(tensor_slice(tensor_buffer(g, 2, DT_F16, 0, 0, dims(KEYS, HEADS, D)), 1, 3, 4), dims(KEYS, D));
    assert_int_equal(asked_ahead(arena, tensor_sum(tensor_mul(tensor_cast(dense, DT_F32), q), -1), DT_F16), 4096);
    assert_int_equal(asked_ahead(arena, tensor_sum(tensor_mul(tensor_cast(keys, DT_F32), q), -1), DT_F16), 3 * D * 2 + 16 * HEADS * D * 2);
    Tensor share = tensor_buffer(g, 3, DT_F32, 0, 0, dims(KEYS, 1)), values = tensor_buffer(g, 4, DT_F16, 0, 0, dims(KEYS, HEADS, WIDE));
    values = tensor_reshape(tensor_slice(values, 1, 0, 1), dims(KEYS, WIDE));
    Tensor sum = tensor_reduce(MONOID_SUM, 1, tensor_mul(share, tensor_cast(values, DT_F32)), dims(0));
    assert_int_equal(asked_ahead(arena, sum, DT_F16), 32 * HEADS * WIDE * 2);
    assert_int_equal(asked_ahead(arena, sum, DT_F32), 0);
    arena_destroy(arena);
}

// Products with block types that fit no register: what a block of 48 weights and codes of 3 bits need comes in words and
// registers, never byte by byte; and where bits of any place can be had, by those.
static void test_no_single_bytes(void **state) {
    (void)state;
    static const struct { const char *target; bool has_bits; } targets[] = {{"avx2", false}, {"avx512vl", false}, {"avx512vlvbmi", true}};
    assert_true(invented_register());
    for (uint32_t type = INVENTED_I5; type <= INVENTED_I3; type++)
        for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
            Arena *arena = arena_create();
            UOpList program = product_program(arena, quant_find(type), targets[i].target);
            for (size_t k = 0; k < program.len; k++) {
                UOp *u = program.at[k];
                if (u->op == OP_LOAD && dtype_bytes(u->dtype) * u->lanes < 2) compare_fail("%s: a load of one byte", quant_find(type)->name);
            }
            int dots = count_of(&program, OP_DOT4, DT_I32), bits = count_of(&program, OP_BITS, DT_U8);
            assert_true(dots > 0);
            assert_int_equal(bits, targets[i].has_bits ? dots : 0);
            // Blocks of 40 bytes: both scales of a block and the numbers of its groups lie in one word of 8.
            bool has_words = targets[i].has_bits && type == INVENTED_I5;
            assert_int_equal(count_of(&program, OP_LOAD, DT_F16) == 0, has_words);
            arena_destroy(arena);
        }
}

// Signed weights, from memory or looked up: one factor of vpdpbusd has no sign. They move by 128, and no sign moves; with pairs of
// products of 16 bits they may not, as 255 · 127 twice passes those.
static void test_signed_weights_move(void **state) {
    (void)state;
    static const uint32_t types[] = {8, 20, 23, 39};   // Q8_0, IQ4_NL, IQ4_XS, MXFP4
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int is_moved = 0; is_moved < 2; is_moved++) {
            Arena *arena = arena_create();
            const QuantType *t = quant_find(types[i]);
            assert_non_null(t);
            UOpList program = product_program(arena, t, is_moved ? "avx512vl" : "avx2");
            assert_true(count_of(&program, OP_DOT4, DT_I32) > 0);
            if ((count_of(&program, OP_MAX, DT_I8) == 0) != is_moved) compare_fail("%s: signs %s", t->name, is_moved ? "move" : "stay");
            arena_destroy(arena);
        }
}

// Lines of weights that a product of one row asks for, into the nearest cache or the one behind it; each once for all bytes of a row,
// those too that stand behind its last whole step.
static int lines_asked(uint32_t type, int64_t blocks, const char *target, bool is_far) {
    Arena *arena = arena_create();
    UOpList program = product_of_blocks(arena, quant_find(type), blocks, target);
    int n = 0, loops = 0;
    int64_t steps = 1;
    for (size_t k = 0; k < program.len; k++) {
        UOp *u = program.at[k];
        if (u->op == OP_PREFETCH && u->arg[0] == is_far) n += loops == 1 ? 1 : (int)steps;
        if (u->op == OP_RANGE && range_kind(u) == RANGE_REDUCE) steps = range_size(u), loops = 2;
        else if (u->op == OP_RANGE) loops = 1;
        else if (u->op == OP_END && loops == 2) loops = 1;
    }
    arena_destroy(arena);
    return n;
}

// What computes for long asks for memory far ahead, whole rows of it; what waits for memory asks near, or leaves it to hardware.
static void test_asks_far_ahead_where_it_computes(void **state) {
    (void)state;
    static const char *const targets[] = {"avx512vlvbmi", "zen4"};
    for (int k = 0; k < 2; k++) {
        for (int is_far = 0; is_far < 2; is_far++) {
            assert_int_equal(lines_asked(2, 64, targets[k], is_far), 20);          // Q4_0: 1,152 bytes in 4 steps of 288
            // 2 steps of 288, 216 behind them; registers of 64 bytes reach 32 bytes further in the last step, and 184 are left.
            assert_int_equal(lines_asked(2, 44, targets[k], is_far), k ? 13 : 14);
        }
        assert_int_equal(lines_asked(8, 64, targets[k], false), k ? 0 : 36);       // Q8_0: 2,176 bytes in 4 steps of 544
        assert_int_equal(lines_asked(8, 64, targets[k], true), 0);
    }
}

// Tiles that are a head's rows, behind which lie rows that this kernel does not read: what is asked for far ahead near their end is the next head's.
// Rows that go on from tile to tile are asked for as they lie.
static void test_asks_for_the_next_tile(void **state) {
    (void)state;
    enum { HEADS = 64, ROWS = 64, COLS = 2048 };
    Error err = {0};
    Target target;
    assert_true(cpu_target_find(&target, "zen4", &err));
    for (int n_gaps = 0; n_gaps < 3; n_gaps++) {
        Arena *arena = arena_create();
        Graph *g = graph_create(arena);
        Layers layers = {.graph = g, .tables = {book_of_any, NULL}};
        Weight w = {.type = quant_find(2), .buffer = 1, .count = 1, .rows = HEADS * ROWS, .cols = COLS};
        Tensor y = layers_linear(&layers, input_of(tensor_buffer(g, 0, DT_F32, 0, 0, dims(1, COLS))), &w);
        if (n_gaps) y = tensor_slice(tensor_reshape(y, dims(HEADS, ROWS)), 1, 0, ROWS / 2);
        if (n_gaps == 2) {          // two weights, and what their requests share stands there once
            w.buffer = 3;
            Tensor z = layers_linear(&layers, input_of(tensor_buffer(g, 0, DT_F32, 0, 0, dims(1, COLS))), &w);
            y = tensor_add(y, tensor_slice(tensor_reshape(z, dims(HEADS, ROWS)), 1, 0, ROWS / 2));
        }
        UOpList program = last_program_of(arena, y, &target);
        int choices = 0, far = 0;
        for (size_t k = 0; k < program.len; k++) {
            const UOp *u = program.at[k];
            choices += u->op == OP_WHERE && u->lanes == 1;
            far += u->op == OP_PREFETCH && u->arg[0] == 1;
        }
        assert_true(far > 0);
        assert_int_equal(choices, n_gaps);
        assert_true(verify_program(&program, &err));
        arena_destroy(arena);
    }
}

// What GF2P8AFFINEQB makes of a byte: bit i is the parity of the bits that row 7 − i chooses.
static int affine(uint64_t matrix, int byte) {
    int y = 0;
    for (int i = 0; i < 8; i++) y |= __builtin_parity((unsigned)(matrix >> 8 * (7 - i) & 0xff) & (unsigned)byte) << i;
    return y;
}

// A shift of wide lanes and a mask that keeps what came from the same byte are one instruction where there is such a one; its matrix gives
// the same for each byte. A mask that keeps bits of the neighbour stays a mask.
static void fields_are_one_instruction(int lanes) {
    Error err = {0};
    Target targets[2];
    assert_true(cpu_target_find(&targets[0], "avx512vlvbmi", &err) && cpu_target_find(&targets[1], "zen4", &err));
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *wide = uop_load(uop_index(uop_new(g, OP_PARAM, DT_U64, 1, NULL, 0, (int64_t[]){0, 64, 0, 0, 0}, 5), uop_int(g, DT_I32, 0)), DT_U64, NULL);
    UOp *all[8] = {wide, wide, wide, wide, wide, wide, wide, wide};
    wide = uop_new(g, OP_VCAT, DT_U64, lanes / 8, all, lanes / 8, NULL, 0);
    int n = 0;
    for (int k = -7; k <= 7; k++)
        for (int mask = 1; mask < 256 && k; mask++) {
            int64_t by[8], kept[64];
            for (int i = 0; i < lanes; i++) by[i / 8] = k < 0 ? -k : k, kept[i] = mask;
            UOp *src[] = {wide, uop_new(g, OP_VCONST, DT_U64, lanes / 8, NULL, 0, by, lanes / 8)}, *moved = uop_new(g, k < 0 ? OP_SHL : OP_SHR, DT_U64, lanes / 8, src, 2, NULL, 0);
            UOp *parts[] = {uop_new(g, OP_BITCAST, DT_U8, lanes, &moved, 1, NULL, 0), uop_new(g, OP_VCONST, DT_U8, lanes, NULL, 0, kept, lanes)};
            UOp *field = uop_new(g, OP_AND, DT_U8, lanes, parts, 2, NULL, 0);
            bool is_inside = k < 0 ? !(mask & ((1 << -k) - 1)) : mask <= 255 >> k;
            for (int t = 0; t < 2; t++) {
                UOp *operands[DIALECT_OPERANDS] = {field->src[0], field->src[1]};
                TextBuilder out = builder(arena);
                bool is_one = c_dialect.vector_op(&out, field, &targets[t], operands);
                assert_int_equal(is_one, is_inside && t == 1);
                if (!is_one) continue;
                assert_ptr_equal(operands[0], wide);
                uint64_t matrix = strtoull(strstr(builder_cstr(&out), "0x"), NULL, 16);
                for (int byte = 0; byte < 256; byte++) assert_int_equal(affine(matrix, byte), (k < 0 ? byte << -k : byte >> k) & mask);
                n++;
            }
        }
    assert_int_equal(n, 2 * (127 + 63 + 31 + 15 + 7 + 3 + 1));
    // Eight bytes each have a shift of their own: a matrix each.
    int64_t by[8], kept[64];
    for (int i = 0; i < lanes; i++) by[i / 8] = i / 8 % 2 * 4, kept[i] = 15;
    UOp *moved = uop_new(g, OP_SHR, DT_U64, lanes / 8, (UOp *[]){wide, uop_new(g, OP_VCONST, DT_U64, lanes / 8, NULL, 0, by, lanes / 8)}, 2, NULL, 0);
    UOp *parts[] = {uop_new(g, OP_BITCAST, DT_U8, lanes, &moved, 1, NULL, 0), uop_new(g, OP_VCONST, DT_U8, lanes, NULL, 0, kept, lanes)};
    UOp *operands[DIALECT_OPERANDS] = {parts[0], parts[1]};
    TextBuilder out = builder(arena);
    assert_true(c_dialect.vector_op(&out, uop_new(g, OP_AND, DT_U8, lanes, parts, 2, NULL, 0), &targets[1], operands));
    const char *text = builder_cstr(&out);
    for (int i = 0; i < lanes / 8; i++) {
        text = strstr(text, "0x");
        assert_non_null(text);
        uint64_t matrix = strtoull(text, NULL, 16);
        for (int byte = 0; byte < 256; byte++) assert_int_equal(affine(matrix, byte), byte >> by[i] & 15);
        text += 2;
    }
    arena_destroy(arena);
}

static void test_fields_are_one_instruction(void **state) {
    (void)state;
    fields_are_one_instruction(32);
    fields_are_one_instruction(64);
}

// Lines that a program asks for on behalf of later ones, in all its steps of a tile.
static int64_t lines_for_later(const UOpList *program) {
    int64_t n = 0, steps[16] = {1};
    int depth = 0;
    for (size_t k = 0; k < program->len; k++) {
        const UOp *u = program->at[k];
        if (u->op == OP_RANGE) steps[depth + 1] = steps[depth] * range_size(u), depth++;
        if (u->op == OP_END) depth--;
        if (u->op == OP_PREFETCH_LATER) n += steps[depth - 1] * ((range_size(u->src[0]) + u->arg[0] - 1) / u->arg[0]);
    }
    return n;
}

// Ten heads that share each key compute so long that memory could bring something else meanwhile, and the text says how much that may
// be. A product waits for its weights, and four heads a key for keys.
static void test_asks_for_later_where_memory_is_idle(void **state) {
    (void)state;
    enum { PAGES = 64, KEYS = 64, D = 576 };
    Error err = {0};
    Target target;
    assert_true(cpu_target_find(&target, "zen4", &err));
    for (int64_t heads = 4; heads <= 20; heads += 16) {
        Arena *arena = arena_create();
        Graph *g = graph_create(arena);
        Tensor q = tensor_buffer(g, 0, DT_F32, 0, 0, dims(1, heads, 1, D)), k = tensor_buffer(g, 1, DT_F16, 0, 0, dims(PAGES, 1, KEYS, D));
        UOpList program = last_program_of(arena, tensor_sum(tensor_mul(q, tensor_cast(k, DT_F32)), -1), &target);
        int64_t lines = lines_for_later(&program);
        assert_int_equal(lines > 0, heads == 20);
        const char *text = render(arena, "kernel", &program, &c_dialect, &target);
        const char *count = strstr(text, "const long kernel_asks = ");
        assert_int_equal(count != NULL, heads == 20);
        if (count) assert_int_equal(strtol(strchr(count, '=') + 1, NULL, 10), lines);
        arena_destroy(arena);
    }
    static const uint32_t types[] = {2, 8, 12, 14, 20};   // Q4_0, Q8_0, Q4_K, Q6_K, IQ4_NL
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        Arena *arena = arena_create();
        UOpList program = product_program(arena, quant_find(types[i]), "zen4");
        assert_int_equal(lines_for_later(&program), 0);
        arena_destroy(arena);
    }
}

// A statement without a loop stays before a loop that comes behind it: nothing but their order may keep them apart.
static void test_statements_keep_their_order(void **state) {
    (void)state;
    Error err = {0};
    Target target;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *a = uop_new(g, OP_PARAM, DT_F32, 1, NULL, 0, (int64_t[]){0, 64}, 2), *b = uop_new(g, OP_PARAM, DT_F32, 1, NULL, 0, (int64_t[]){1, 64}, 2);
    UOp *range = uop_range_const(g, 4, RANGE_LOOP), *first = uop_store(uop_index(a, uop_int(g, DT_I32, 0)), uop_float(g, DT_F32, 1), NULL, 0);
    UOp *inside = uop_store(uop_index(b, range), uop_float(g, DT_F32, 2), NULL, 0);
    UOp *loop = uop_new(g, OP_END, DT_VOID, 1, (UOp *[]){inside, range}, 2, (int64_t[]){1}, 1);
    assert_true(cpu_target_find(&target, "avx2", &err));
    UOpList lines = linearize(arena, uop_sink(g, (UOp *[]){first, loop}, 2), &target);
    size_t at_first = 0, at_loop = 0;
    for (size_t k = 0; k < lines.len; k++) {
        if (lines.at[k] == first) at_first = k;
        if (lines.at[k] == range) at_loop = k;
    }
    assert_true(at_first > 0 && at_first < at_loop);
    arena_destroy(arena);
}

// That of y for a card whose row of targets is known without one.
static UOpList card_program_of(Arena *arena, Tensor y, Target *target) {
    gpu_target_fill(target, gpu_target_find("sm_90a"));
    return last_program_of(arena, y, target);
}

// Threads with parts of a tile's sums share its elements out: an exchange for half of the sums that are left, not one for each sum, and no
// thread stores for the others.
static void test_elements_are_shared_out(void **state) {
    (void)state;
    enum { TOKENS = 64, ROWS = 2048, COLS = 2048 };
    Arena *arena = arena_create(), *nodes = arena_create();
    Layers layers = {.graph = graph_create(nodes), .tables = {book_of_any, NULL}};
    Weight w = {.type = quant_find(2), .buffer = 1, .count = 1, .rows = ROWS, .cols = COLS};
    Target target;
    UOpList program = card_program_of(arena, layers_linear(&layers, input_of(tensor_buffer(layers.graph, 0, DT_F32, 0, 0, dims(TOKENS, COLS))), &w), &target);
    int exchanges = 0, stored = 0, near = (int)target.shuffle_threads;
    for (size_t k = 0; k < program.len; k++) {
        UOp *u = program.at[k];
        if (u->op == OP_THREAD_XOR) exchanges += u->lanes, near = u->arg[1] < near ? (int)u->arg[1] : near;
        if (u->op == OP_STORE && !uop_is_own_memory(uop_buffer_of(u->src[0]))) stored += u->src[1]->lanes;
        assert_false(u->op == OP_RANGE && range_kind(u) == RANGE_SINGLE);
    }
    assert_true(stored > 0 && near > 1);
    assert_int_equal(exchanges, stored * (near - 1));   // n·(1/2 + 1/4 …) of the n = stored · near sums of a thread
    arena_destroy(nodes);
    arena_destroy(arena);
}

// What products of many rows with weights of any block type read on a GPU, each thread for several rows and tokens at once:
// at most 1.5 bytes for a product (3 where weights are plain numbers). One row and token at a time, it would be 1.8 (8).
static void test_threads_share_what_they_read(void **state) {
    (void)state;
    enum { TOKENS = 64, ROWS = 2048, BLOCKS = 32 };
    for (int i = 0; i < quant_count(); i++) {
        Arena *arena = arena_create(), *nodes = arena_create();
        Graph *g = graph_create(nodes);
        const QuantType *t = quant_at(i);
        bool is_plain = quant_is_plain(t);
        Layers layers = {.graph = g, .tables = {book_of_any, NULL}};
        Weight w = {.type = t, .buffer = 1, .count = 1, .rows = ROWS, .cols = BLOCKS * (is_plain ? 32 : t->block_elements)};
        Tensor y = layers_linear(&layers, input_of(tensor_buffer(g, 0, DT_F32, 0, 0, dims(TOKENS, w.cols))), &w);
        Target target;
        UOpList program = card_program_of(arena, y, &target);
        int64_t read = 0, multiplied = 0;
        for (size_t k = 0; k < program.len; k++) {
            UOp *u = program.at[k];
            if (u->op == OP_LOAD && uop_buffer_of(u->src[0])->op == OP_PARAM) read += dtype_bytes(u->dtype) * u->lanes;
            if (u->op == OP_DOT4) multiplied += 4 * u->lanes;
            if (u->op == OP_MULADD && is_plain) multiplied += 2 * u->lanes;
        }
        if (2 * read > 3 * multiplied) compare_fail("%s: %d bytes read for %d products", t->name, (int)read, (int)multiplied);
        arena_destroy(arena);
        arena_destroy(nodes);
    }
}

// How many neighbours at most exchange values inside of a loop over a sum's steps [1], and behind such loops [0].
static void widest_exchanges(const UOpList *program, int64_t *widest) {
    int open = 0;
    widest[0] = widest[1] = 0;
    for (size_t k = 0; k < program->len; k++) {
        UOp *u = program->at[k];
        if (u->op == OP_RANGE && range_kind(u) == RANGE_REDUCE) open++;
        if (u->op == OP_END && range_kind(u->src[0]) == RANGE_REDUCE) open--;
        if (u->op == OP_THREAD_XOR && u->arg[1] > widest[open > 0]) widest[open > 0] = u->arg[1];
    }
}

// Neighbouring threads of a product of many rows share a row of weights, which lies side by side in memory, and bring its sum
// together once. Sums of six blocks are too short: shared, each block's would be brought together on its own.
static void test_neighbours_read_a_row(void **state) {
    (void)state;
    static const struct { int blocks; bool is_shared; } cases[] = {{64, true}, {6, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *arena = arena_create(), *nodes = arena_create();
        Graph *g = graph_create(nodes);
        Layers layers = {.graph = g, .tables = {book_of_any, NULL}};
        Weight w = {.type = quant_find(2), .buffer = 1, .count = 1, .rows = 2048, .cols = cases[i].blocks * 32};
        Tensor y = layers_linear(&layers, input_of(tensor_buffer(g, 0, DT_F32, 0, 0, dims(512, w.cols))), &w);
        Target target;
        UOpList program = card_program_of(arena, y, &target);
        int64_t widest[2];
        widest_exchanges(&program, widest);
        if (cases[i].is_shared != (widest[0] >= 8) || widest[1] >= 8)
            compare_fail("%d blocks: %d and %d threads", cases[i].blocks, (int)widest[0], (int)widest[1]);
        arena_destroy(arena);
        arena_destroy(nodes);
    }
}

// Scores of keys in halves with queries in floats, four heads a key: with tiles for the whole card a thread takes all four heads,
// so that each key is read once; with few it takes one. Words are 16 bytes of the keys.
static void test_heads_share_keys(void **state) {
    (void)state;
    enum { HEADS = 4, WIDTH = 512 };
    static const struct { int keys, elements, products; } cases[] = {{59049, 8, 8 * HEADS}, {729, 8, 8}};   // powers of 3: threads do not share them
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *arena = arena_create(), *nodes = arena_create();
        Graph *g = graph_create(nodes);
        Tensor q = tensor_buffer(g, 0, DT_F32, 0, 0, dims(1, HEADS, WIDTH)), k = tensor_buffer(g, 1, DT_F16, 0, 0, dims(cases[i].keys, 1, WIDTH));
        Tensor y = tensor_sum(tensor_mul(q, tensor_cast(k, DT_F32)), 2);
        Target target;
        UOpList program = card_program_of(arena, y, &target);
        int elements = 0, products = 0;
        for (size_t n = 0; n < program.len; n++) {
            UOp *u = program.at[n];
            if (u->op == OP_LOAD && u->dtype == DT_F16) elements += u->lanes;
            if (u->op == OP_MULADD) products += u->lanes;
        }
        if (elements != cases[i].elements || products != cases[i].products)
            compare_fail("%d keys: %d elements of a key read for %d products", cases[i].keys, elements, products);
        arena_destroy(arena);
        arena_destroy(nodes);
    }
}

// y[r] = x[r] + Σ_e share[e] · Σ_k a[e, k] · W[chosen[e], r, k]: the loop of the five that are chosen goes around that of the rows of one,
// each stored three times: zero, what is added so far, and all.
static void test_chosen_are_walked_one_by_one(void **state) {
    (void)state;
    enum { CHOSEN = 5, ROWS = 512, COLS = 64 };
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    Tensor x = tensor_buffer(g, 0, DT_F32, 0, 0, dims(ROWS)), w = tensor_buffer(g, 1, DT_F32, 0, 0, dims(10, ROWS, COLS));
    Tensor id = tensor_buffer(g, 3, DT_I32, 0, 9, dims(CHOSEN)), a = tensor_buffer(g, 4, DT_F32, 0, 0, dims(CHOSEN, 1, COLS));
    UOpList program = program_of(arena, sum_of_chosen(x, w, id, a, tensor_buffer(g, 5, DT_F32, 0, 0, dims(CHOSEN, 1))));
    int depth = 0, found = -1, stores = 0;
    for (size_t k = 0; k < program.len; k++) {
        UOp *u = program.at[k];
        if (u->op == OP_RANGE && range_size(u) == CHOSEN) found = depth;
        depth += u->op == OP_RANGE ? 1 : u->op == OP_END ? -1 : 0;
        bool is_result = u->op == OP_STORE && uop_buffer_of(u->src[0])->op == OP_PARAM;
        if (is_result) stores |= found < 0 ? 1 : depth > 1 ? 2 : 4;
    }
    assert_int_equal(found, 0);
    assert_int_equal(stores, 7);
    arena_destroy(arena);
}

// A gated product that is rounded, on a GPU: gate and up are one statement, and the scale, the rounded values and their sums
// wait once, for the product, not for one another. On a CPU every value is stored and read.
static void test_statements_wait_once(void **state) {
    (void)state;
    enum { ROWS = 1536, COLS = 2048, NEXT = 64 };
    Error err = {0};
    for (int on_card = 0; on_card < 2; on_card++) {
        Arena *arena = arena_create(), *nodes = arena_create();
        Graph *g = graph_create(nodes);
        Layers layers = {.graph = g, .tables = {book_of_any, NULL}};
        Weight gate = {.type = quant_find(2), .buffer = 3, .count = 1, .rows = ROWS, .cols = COLS}, up = gate, down = gate;
        up.buffer = 4, down.buffer = 5, down.rows = NEXT, down.cols = ROWS;
        Input x = input_of(tensor_buffer(g, 0, DT_F32, 0, 0, dims(1, COLS)));
        Tensor hidden = tensor_mul(layers_activate(layers_linear(&layers, x, &gate), ACTIVATION_SILU), layers_linear(&layers, x, &up));
        Tensor y = layers_linear(&layers, input_of(hidden), &down);
        Schedule schedule;
        KernelList kernels;
        Target target;
        UOpList program;
        assert_true(cpu_target_find(&target, "avx2", &err));
        if (on_card) gpu_target_fill(&target, gpu_target_find("sm_90a"));
        assert_true(schedule_build(&schedule, arena, &y, 1, &err));
        schedule.wishes = target.tiles;
        assert_true(schedule_kernels(&schedule, &kernels, &err));
        assert_true(kernels.len >= 3);
        Kernel *gated = &kernels.at[kernels.len - 2];
        assert_int_equal(gated->stores.len, on_card ? 4 : 6);   // (gate, what it opens,) product, scales, rounded values, their sums
        Canonical kernel = canonicalize(arena, gated, bytes_of_any, NULL);
        assert_true(codegen(arena, kernel.sink, &target, &program, &err));
        int barriers = 0;
        for (size_t k = 0; k < program.len; k++) barriers += program.at[k]->op == OP_BARRIER;
        assert_int_equal(barriers, on_card);
        arena_destroy(arena);
        arena_destroy(nodes);
    }
}

// A kernel of few tiles says that a multiprocessor runs one of them, so that all loads of a thread may be under way at once; one
// whose threads compute tiles of elements says that two of its groups run side by side; others say nothing.
static void test_kernels_say_how_many_groups(void **state) {
    (void)state;
    static const struct { int tokens, rows; bool is_product; const char *bounds; } cases[] = {
        {1, 8192, true, "512, 1)"}, {2048, 8192, true, "256, 2)"}, {2048, 8192, false, "512)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *arena = arena_create(), *nodes = arena_create();
        Graph *g = graph_create(nodes);
        Layers layers = {.graph = g, .tables = {book_of_any, NULL}};
        Weight w = {.type = quant_find(2), .buffer = 1, .count = 1, .rows = cases[i].rows, .cols = 1024};
        Tensor x = tensor_buffer(g, 0, DT_F32, 0, 0, dims(cases[i].tokens, cases[i].is_product ? w.cols : w.rows));
        Tensor y = cases[i].is_product ? layers_linear(&layers, input_of(x), &w) : tensor_silu(x);
        Target target;
        UOpList program = card_program_of(arena, y, &target);
        const char *bounds = strstr(render(arena, "kernel_of_test", &program, &cuda_dialect, &target), "__launch_bounds__(");
        assert_non_null(bounds);
        bounds += strlen("__launch_bounds__(");
        if (strncmp(bounds, cases[i].bounds, strlen(cases[i].bounds)) != 0) compare_fail("case %d: %.10s", (int)i, bounds);
        arena_destroy(arena);
        arena_destroy(nodes);
    }
}

// Sums of 32 bytes for as many groups as a sum over data says: threads share the sums out, and the end of the loop stays that of its statement.
static void test_ends_of_loops_stay(void **state) {
    (void)state;
    enum { COUNTS = 64, MOST = 312, BYTES = 32 };
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    Target target;
    Error err = {0};
    UOpList program;
    gpu_target_fill(&target, gpu_target_find("sm_90a"));
    UOp *counts = uop_new(g, OP_PARAM, DT_I32, 1, NULL, 0, (int64_t[]){0, COUNTS, 0, 0, 0}, 5), *bytes = uop_new(g, OP_PARAM, DT_I8, 1, NULL, 0, (int64_t[]){1, MOST * BYTES, 0, 0, 0}, 5);
    UOp *sums = uop_new(g, OP_PARAM, DT_I32, 1, NULL, 0, (int64_t[]){2, MOST, 0, 0, 0}, 5);
    UOp *e = uop_range_const(g, COUNTS, RANGE_REDUCE), *j = uop_range_const(g, BYTES, RANGE_REDUCE);
    UOp *all = uop_fold(MONOID_SUM, 1, uop_load(uop_index(counts, e), DT_I32, NULL), &e, 1);
    UOp *group = uop_range_most(g, uop_binary(OP_MIN, all, uop_int(g, DT_I32, MOST)), MOST, RANGE_LOOP);
    UOp *at = uop_binary(OP_ADD, uop_binary(OP_MUL, group, uop_int(g, DT_I32, BYTES)), j);
    UOp *sum = uop_fold(MONOID_SUM, 1, uop_cast(uop_load(uop_index(bytes, at), DT_I8, NULL), DT_I32), &j, 1);
    UOp *store = uop_store(uop_index(sums, group), sum, &group, 1);
    if (!codegen(arena, uop_sink(g, &store, 1), &target, &program, &err)) compare_fail("%s", err.text);
    int exchanges = 0;
    for (size_t k = 0; k < program.len; k++) exchanges += program.at[k]->op == OP_THREAD_XOR;
    assert_int_equal(exchanges, 5);      // of 32 threads, for the sum of a group alone
    arena_destroy(arena);
}

// A thread's dot products of bytes add up in chains, and what it unpacks serves several tokens: of 32 weights of 4 bits and 8
// tokens 64 DOT4, no additions of integers beside those of the block's sum, and a third of an op that unpacks for each.
static void test_dots_are_chains(void **state) {
    (void)state;
    Arena *arena = arena_create(), *nodes = arena_create();
    Graph *g = graph_create(nodes);
    Layers layers = {.graph = g, .tables = {book_of_any, NULL}};
    Weight w = {.type = quant_find(2), .buffer = 1, .count = 1, .rows = 8192, .cols = 2048};
    Tensor y = layers_linear(&layers, input_of(tensor_buffer(g, 0, DT_F32, 0, 0, dims(512, w.cols))), &w);
    Target target;
    UOpList program = card_program_of(arena, y, &target);
    int dots = 0, added = 0, unpacked = 0;   // unpacked: words of 4 bytes
    for (size_t k = 0; k < program.len; k++) {
        UOp *u = program.at[k];
        if (u->op == OP_DOT4) dots += u->lanes;
        if ((u->op == OP_ADD || u->op == OP_SUB) && u->dtype == DT_I32 && u->lanes > 1) added += u->lanes;
        if ((u->op == OP_AND || u->op == OP_SHR) && u->lanes > 1) unpacked += u->lanes * dtype_bytes(u->dtype) / 4;
    }
    if (dots != 8 * target.thread_elements || added > target.thread_elements || 4 * unpacked > dots)
        compare_fail("%d dot products, %d additions, %d words unpacked", dots, added, unpacked);
    arena_destroy(arena);
    arena_destroy(nodes);
}

// A device without byte addresses of its own: words that do not lie at multiples of their size are read in halves, and
// nothing of C's extensions is in its text.
static void test_opencl_text_is_opencl(void **state) {
    (void)state;
    static const char *const foreign[] = {"__builtin", "_u *", "vector_size", "__extension__", "u8 ", "i32 ", "){"};
    enum { ROWS = 3, BLOCKS = 8, BLOCK_BYTES = 20 };   // words at 20·b + 2: at no multiple of 4
    Error err = {0};
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    Tensor bytes = tensor_buffer(g, 0, DT_U8, 0, 255, dims(ROWS, BLOCKS, BLOCK_BYTES)), x = tensor_buffer(g, 1, DT_F32, 0, 0, dims(BLOCKS * 8));
    Tensor words = tensor_bitcast(tensor_slice(bytes, 2, 2, 18), DT_I32), scale = tensor_bitcast(tensor_slice(bytes, 2, 0, 2), DT_F16);
    Tensor value = tensor_mul(tensor_cast(words, DT_F32), tensor_cast(scale, DT_F32));
    Tensor y = tensor_add(tensor_sum(tensor_reshape(value, dims(ROWS, BLOCKS * 4)), -1), tensor_sum(tensor_unary(OP_SQRT, x), -1));
    Schedule schedule;
    KernelList kernels;
    Target target = {.name = "none", .vector_bytes = 16, .n_vector_registers = 32, .has_fma = true, .has_f16_convert = true,
                     .has_byte_shuffle = true, .has_round = true, .max_load_bytes = 16, .param_alignment = 16};
    UOpList program;
    assert_true(schedule_build(&schedule, arena, &y, 1, &err));
    assert_true(schedule_kernels(&schedule, &kernels, &err));
    assert_true(kernels.len > 0);
    bool reads_halves = false;
    for (size_t k = 0; k < kernels.len; k++) {
        Canonical kernel = canonicalize(arena, &kernels.at[k], bytes_of_any, NULL);
        assert_true(codegen(arena, kernel.sink, &target, &program, &err));
        const char *text = render(arena, "kernel_of_test", &program, &opencl_dialect, &target), *body = strstr(text, "__kernel GROUP void kernel_of_test(");
        assert_non_null(body);
        for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
            if (strstr(body, foreign[i])) compare_fail("\"%s\" in\n%s", foreign[i], body);
        reads_halves |= strstr(body, "(const __global ushort *)") != NULL;
        assert_null(strstr(body, "(const __global int *)"));
    }
    assert_true(reads_halves);
    arena_destroy(arena);
}

int main(void) {
    struct CMUnitTest cases[2 * N_CODEGEN_CASES];
    const struct CMUnitTest programs[] = {
        cmocka_unit_test(test_guards_hold_their_work),
        cmocka_unit_test(test_shared_memory_is_walked_once),
        cmocka_unit_test(test_sums_beside_need_no_shuffle),
        cmocka_unit_test(test_copies_walk_what_is_near),
        cmocka_unit_test(test_asks_where_loops_will_be),
        cmocka_unit_test(test_no_single_bytes), cmocka_unit_test(test_signed_weights_move), cmocka_unit_test(test_asks_far_ahead_where_it_computes), cmocka_unit_test(test_asks_for_the_next_tile), cmocka_unit_test(test_asks_for_later_where_memory_is_idle), cmocka_unit_test(test_fields_are_one_instruction), cmocka_unit_test(test_statements_keep_their_order), cmocka_unit_test(test_elements_are_shared_out),
        cmocka_unit_test(test_threads_share_what_they_read),
        cmocka_unit_test(test_neighbours_read_a_row),
        cmocka_unit_test(test_heads_share_keys),
        cmocka_unit_test(test_chosen_are_walked_one_by_one),
        cmocka_unit_test(test_statements_wait_once),
        cmocka_unit_test(test_kernels_say_how_many_groups),
        cmocka_unit_test(test_ends_of_loops_stay),
        cmocka_unit_test(test_dots_are_chains),
        cmocka_unit_test(test_opencl_text_is_opencl),
    };
    static CodegenNames names[2];
    codegen_tests_fill(cases, names[0], "cpu", on_cpu);
    codegen_tests_fill(cases + N_CODEGEN_CASES, names[1], "eval", on_eval);
    int failed = cmocka_run_group_tests_name("codegen", cases, NULL, NULL);
    return failed + cmocka_run_group_tests_name("programs", programs, NULL, NULL);
}
