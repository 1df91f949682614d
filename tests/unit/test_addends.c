// addends: sums of few long steps in their three forms: the values of eval_graph, on devices whose tiles may share a sum; no add
// is lost where many tiles add to one cell; who must not add so does not.
// OpenCL cases are skipped by name where this machine has no such device.
#include "base/settings.h"
#include "compare.h"
#include "fake_card.h"
#include "ir/eval_program.h"
#include "codegen/codegen.h"
#include "engine/measure.h"
#include "runtime/devices.h"
#include "runtime/gpu_target.h"
#include "models/model.h"
#include "unit/model_files.h"

static const char *const forms[] = {"ordered-all", "parts-all", "atomic-all"};

static bool has_opencl(void) {
    DeviceState *d;
    Error err = {0};
    if (!opencl_device.open(&d, NULL, 0, &err)) {
        print_message("skipped: %s\n", err.text);
        return false;
    }
    opencl_device.close(d);
    return true;
}

static Compare opened(const char *device, const char *target, const char *form) {
    setting_override(SETTING_SUMS, form);
    Compare c = compare_open(device, target);
    setting_override(SETTING_SUMS, "");
    return c;
}

enum { ROWS = 2, DIM = 48, INNER = 64, USED = 4, EXPERTS = 7 };

// y[m, r] = x[m, r] + Σ_e g[m, e] · Σ_k w[id[m, e], r, k] · h[m, e, k] + Σ_k v[r, k] · h[m, 0, k], with or without what is beside it.
static Tensor mixture(Compare *c, bool has_rest) {
    Tensor x = compare_buffer(c, DT_F32, 0, 0, dims(ROWS, DIM)), g = compare_buffer(c, DT_F32, 0, 0, dims(ROWS, USED, 1));
    Tensor w = compare_buffer(c, DT_F32, 0, 0, dims(EXPERTS, DIM, INNER)), id = compare_buffer(c, DT_I32, 0, EXPERTS - 1, dims(ROWS, USED));
    Tensor h = compare_buffer(c, DT_F32, 0, 0, dims(ROWS, USED, 1, INNER)), v = compare_buffer(c, DT_F32, 0, 0, dims(DIM, INNER));
    Tensor each = tensor_sum(tensor_mul(tensor_gather(w, id), h), -1);   // [m, e, r]
    Tensor mixed = tensor_reduce(MONOID_SUM, 1, tensor_mul(each, g), dims(1));
    if (!has_rest) return mixed;
    Tensor beside = tensor_sum(tensor_mul(tensor_reshape(tensor_slice(h, 1, 0, 1), dims(ROWS, 1, INNER)), v), -1);
    return tensor_add(tensor_add(x, mixed), beside);
}

// Stages whose text holds a word, and all stages.
static int stages_with(Step *step, const char *word) {
    int n = 0;
    for (int i = 0; i < step_stage_count(step); i++) {
        const char *source = step_stage(step, i).source, *kernel = strstr(source, "__kernel");
        n += strstr(kernel ? kernel : source, word) != NULL;
    }
    return n;
}

static void forms_agree_on(const char *device, const char *target) {
    for (int form = 0; form < SUM_FORMS; form++)
        for (int has_rest = 0; has_rest < 2; has_rest++) {
            Error err;
            Step *step;
            Compare c = opened(device, target, forms[form]);
            assert_int_equal(engine_sums(c.engine), form);
            assert_false(engine_may_choose_sums(c.engine));
            Tensor y = mixture(&c, has_rest), squares = tensor_unsqueeze(tensor_sum(tensor_mul(y, y), -1), -1);
            Tensor read = tensor_div(y, tensor_add_const(squares, 1));   // a reader that needs all of a row
            compare_run(&c, forms[form], y, 1e-5);
            compare_run(&c, forms[form], read, 1e-5);
            if (!engine_compile(c.engine, &y, 1, &step, &err)) compare_fail("%s", err.text);
            assert_int_equal(step_shared_count(step), 1);
            int stages = step_stage_count(step);   // the sum of parts is little work, the end of the kernel before it where tiles know the last one
            assert_true(stages == (form == SUMS_ORDERED ? 1 : 2) || (form == SUMS_PARTS && stages == 1));
            if (strcmp(device, "opencl") == 0) assert_int_equal(stages_with(step, "add_to("), form == SUMS_ATOMIC);
            step_destroy(step);
            compare_close(&c);
        }
}

static void forms_agree_on_work_items(void **state) {
    (void)state;
    if (!has_opencl()) skip();
    forms_agree_on("opencl", "opencl12");
}

static void forms_agree_on_groups(void **state) {
    (void)state;
    if (!has_opencl()) skip();
    forms_agree_on("opencl", "opencl12-groups");
}

static void forms_agree_on_cuda(void **state) {
    (void)state;
    forms_agree_on("cuda", NULL);
}

// 16 steps add to each of few cells, at once on all cores, whole numbers that any order sums up alike: none may get lost.
static void no_add_is_lost(void **state) {
    (void)state;
    enum { STEPS = 16, CELLS = 3, TERMS = 40, RUNS = 200 };
    Error err;
    Step *step;
    if (!has_opencl()) skip();
    Compare c = opened("opencl", "opencl12-groups", "atomic-all");
    Tensor a = compare_buffer(&c, DT_I8, -100, 100, dims(STEPS, CELLS, TERMS)), b = compare_buffer(&c, DT_I8, -100, 100, dims(STEPS, 1, TERMS));
    Tensor each = tensor_sum(tensor_mul(tensor_cast(a, DT_F32), tensor_cast(b, DT_F32)), -1), sums = tensor_reduce(MONOID_SUM, 1, each, dims(0));
    double want[CELLS] = {0};
    const int8_t *left = c.host[a->arg[0]], *right = c.host[b->arg[0]];
    for (int s = 0; s < STEPS; s++)
        for (int r = 0; r < CELLS; r++)
            for (int k = 0; k < TERMS; k++) want[r] += left[(s * CELLS + r) * TERMS + k] * right[s * TERMS + k];
    if (!engine_compile(c.engine, &sums, 1, &step, &err)) compare_fail("%s", err.text);
    assert_int_equal(stages_with(step, "add_to("), 1);
    for (int i = 0; i < RUNS; i++) {
        float got[CELLS];
        if (!step_run(step, &err)) compare_fail("%s", err.text);
        engine_buffer_read(c.engine, step_output_buffer(step, 0), 0, got, sizeof got);
        for (int r = 0; r < CELLS; r++) if ((double)got[r] != want[r]) compare_fail("run %d: cell %d is %.9g, not %.9g", i, r, (double)got[r], want[r]);
    }
    step_destroy(step);
    compare_close(&c);
}

// Where the order is to be kept nothing is added in any order, whatever the environment says; on a CPU it never is.
static void order_is_kept(void **state) {
    (void)state;
    Compare c = opened("cpu", NULL, "atomic-all");
    assert_int_equal(engine_sums(c.engine), SUMS_ORDERED);
    engine_choose_sums(c.engine, SUMS_ATOMIC);
    assert_int_equal(engine_sums(c.engine), SUMS_ORDERED);
    compare_run(&c, "on a CPU", mixture(&c, true), 1e-5);
    compare_close(&c);
    c = opened("cuda", NULL, "atomic");
    assert_int_equal(engine_sums(c.engine), SUMS_ATOMIC);
    engine_keep_order(c.engine);
    assert_int_equal(engine_sums(c.engine), SUMS_ORDERED);
    compare_close(&c);
    c = opened("cuda", NULL, "");
    engine_choose_sums(c.engine, SUMS_PARTS);
    assert_int_equal(engine_sums(c.engine), SUMS_PARTS);
    engine_keep_order(c.engine);
    engine_choose_sums(c.engine, SUMS_ATOMIC);
    assert_int_equal(engine_sums(c.engine), SUMS_PARTS);
    compare_close(&c);
    Engine *engine;
    Error err = {0};
    static const char *const unknown[] = {"atomi", "atomic-", "atomic-all-", "fast"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        setting_override(SETTING_SUMS, unknown[i]);
        assert_false(engine_open(&engine, "cpu", NULL, 1, &err));
        assert_non_null(strstr(err.text, unknown[i]));
    }
    setting_override(SETTING_SUMS, "");
}

// 8 cells, to each of which 5 tiles add: as the interpreter runs what codegen made of it, and refused where a target has no such add.
static void kernels_add_as_the_interpreter_does(void **state) {
    (void)state;
    enum { TILES = 5, CELLS = 8 };
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    Error err = {0};
    UOpList program;
    float sums[CELLS], terms[TILES * CELLS];
    for (int i = 0; i < CELLS; i++) sums[i] = (float)i;
    for (int i = 0; i < TILES * CELLS; i++) terms[i] = (float)(i * i % 37);
    UOp *p0 = uop_new(g, OP_PARAM, DT_F32, 1, NULL, 0, (int64_t[]){0, sizeof sums, 1, 0, 0}, 5);
    UOp *p1 = uop_new(g, OP_PARAM, DT_F32, 1, NULL, 0, (int64_t[]){1, sizeof terms, 1, 0, 0}, 5);
    UOp *tile = uop_range_const(g, TILES, RANGE_GLOBAL), *cell = uop_range_const(g, CELLS, RANGE_LOOP);
    UOp *at = uop_binary(OP_ADD, uop_binary(OP_MUL, tile, uop_int(g, DT_I32, CELLS)), cell);
    UOp *src[3] = {uop_index(p0, cell), uop_load(uop_index(p1, at), DT_F32, NULL), cell};
    UOp *add = uop_new(g, OP_ATOMIC_ADD, DT_VOID, 1, src, 3, NULL, 0), *sink = uop_sink(g, &add, 1);
    Target target;
    gpu_target_fill(&target, gpu_target_find("opencl12"));
    if (!codegen(arena, sink, &target, &program, &err)) compare_fail("%s", err.text);
    int adds = 0;
    for (size_t i = 0; i < program.len; i++) adds += program.at[i]->op == OP_ATOMIC_ADD;
    assert_true(adds > 0);
    void *params[2] = {sums, terms};
    if (!eval_program(arena, &program, params, 0, TILES, &err)) compare_fail("%s", err.text);
    for (int r = 0; r < CELLS; r++) {
        float want = (float)r;
        for (int t = 0; t < TILES; t++) want += terms[t * CELLS + r];
        assert_true(sums[r] == want);
    }
    target.has_atomic_add = false;
    assert_false(codegen(arena, sink, &target, &program, &err));
    assert_non_null(strstr(err.text, "opencl12"));
    arena_destroy(arena);
}

typedef struct Opened { Arena *arena; Gguf gguf; Engine *engine; Model *model; } Opened;

// A tiny model on the eval device; shares: whose tiles may share sums, with nothing lost by starting a kernel.
static bool model_opened(Opened *m, bool shares) {
    Error err = {0};
    ModelOptions options = {.context = 64, .exact = true};
    *m = (Opened){.arena = arena_create()};
    const char *path = model_file(m->arena, "tiny-qwen3moe", "q4_0");
    if (!path) {
        arena_destroy(m->arena);
        return false;
    }
    if (!gguf_open(&m->gguf, path, &err) || !engine_open(&m->engine, "eval", NULL, 1, &err)) compare_fail("%s", err.text);
    Target *target = (Target *)(uintptr_t)engine_target(m->engine);
    if (shares) {
        target->has_atomic_add = true;
        target->tiles = (TileWishes){.work = 1024, .most = 64, .enough = 32, .few = 32, .width = 32, .sync_work = 1};
    }
    if (!model_load(&m->model, &m->gguf, m->engine, &options, &err)) compare_fail("%s", err.text);
    return true;
}

static void model_closed(Opened *m) {
    model_free(m->model);
    engine_close(m->engine);
    gguf_close(&m->gguf);
    arena_destroy(m->arena);
}

static SumTimes model_timed(Opened *m) {
    SumTimes times;
    Error err = {0};
    if (!model_measure_sums(m->model, &times, &err)) compare_fail("%s", err.text);
    assert_int_equal(engine_sums(m->engine), times.chosen);
    return times;
}

static float *logits_of(Opened *m, size_t *n) {
    static const int32_t tokens[] = {5, 6, 7};
    Error err = {0};
    *n = (size_t)model_vocab_size(m->model);
    float *logits = malloc(*n * sizeof *logits);
    if (!model_eval(m->model, 0, tokens, 3, 0, LOGITS_LAST, logits, &err)) compare_fail("%s", err.text);
    return logits;
}

// Each form of a whole model is timed where there is a choice, in between nothing that sequences see changes, and each gives
// the logits of the ordered one.
static void a_model_takes_what_is_fastest(void **state) {
    (void)state;
    Opened m;
    size_t n;
    if (!model_opened(&m, false)) skip();
    float *want = logits_of(&m, &n);
    assert_int_equal(model_timed(&m).us[SUMS_ORDERED], 0);   // no choice: nothing was timed
    model_closed(&m);
    for (int form = SUMS_PARTS; form < SUM_FORMS; form++) {
        assert_true(model_opened(&m, true));
        SumTimes times = model_timed(&m);
        for (int i = 0; i < SUM_FORMS; i++) assert_true(times.us[i] > 0);
        engine_choose_sums(m.engine, (SumForm)form);   // of the steps that are not compiled yet
        float *got = logits_of(&m, &n);
        double largest = 0;
        for (size_t i = 0; i < n; i++) if (fabs((double)want[i]) > largest) largest = fabs((double)want[i]);
        for (size_t i = 0; i < n; i++) assert_true(fabs((double)got[i] - (double)want[i]) <= 1e-4 * largest);
        free(got);
        model_closed(&m);
    }
    free(want);
}

int main(int argc, char **argv) {
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_agree_on_work_items),
        cmocka_unit_test(forms_agree_on_groups),
        cmocka_unit_test(forms_agree_on_cuda),
        cmocka_unit_test(no_add_is_lost),
        cmocka_unit_test(order_is_kept),
        cmocka_unit_test(kernels_add_as_the_interpreter_does),
        cmocka_unit_test(a_model_takes_what_is_fastest),
    };
    fake_card_use(argv[0]);
    return cmocka_run_group_tests_name("addends", tests, NULL, NULL);
}
