// device_roof: see device_roof.h.
#include "app/device_roof.h"

#include "app/figures.h"
#include "app/roof.h"
#include "tensor/tensor.h"

enum { ROUNDS = 5, STAGES_MOST = 16 };
static const int64_t row_cells[] = {1 << 12, 1 << 14, 1 << 16};

static size_t bytes_to_read(const Engine *engine) {
    size_t left = 0;
    const char *name;
    return engine_memory_room(engine, &left, &name) ? roof_bytes(left) : roof_default_bytes();
}

// Seconds that the kernels of a step take, without what starting it costs.
static bool step_seconds(Step *step, double *seconds, Error *err) {
    uint64_t stage_us[STAGES_MOST], sum = 0;
    int n = step_stage_count(step);
    if (n > STAGES_MOST) return fail(err, LATHE_UNSUPPORTED, "a sum of rows takes %d kernels", n);
    TRY(step_run_timed(step, stage_us, err));
    for (int i = 0; i < n; i++) sum += stage_us[i];
    *seconds = (double)sum / 1e6;
    return true;
}

static bool rows_read(Engine *engine, int64_t buffer, int64_t rows, int64_t cells, double *gb_s, Error *err) {
    Arena *nodes = arena_create();
    Graph *g = graph_create(nodes);
    Tensor sums = tensor_sum(tensor_buffer(g, buffer, DT_F32, 0, 0, dims(rows, cells)), -1);
    Step *step = NULL;
    double seconds[ROUNDS];
    bool ok = engine_compile(engine, &sums, 1, &step, err) && step_seconds(step, &seconds[0], err);   // the first is a warm-up
    for (int i = 0; i < ROUNDS && ok; i++) ok = step_seconds(step, &seconds[i], err);
    double median = ok ? median_of(seconds, ROUNDS) : 0;
    *gb_s = median > 0 ? (double)(rows * cells) * sizeof(float) / median / 1e9 : 0;
    if (step) step_destroy(step);
    arena_destroy(nodes);
    return ok;
}

double device_roof_gb_s(const Engine *engine) {
    Engine *own = NULL;                // its memory is gone with it
    Error err = {0};
    double best = 0;
    int64_t buffer, cells = (int64_t)(bytes_to_read(engine) / sizeof(float));
    bool ok = engine_open(&own, engine_device(engine)->name, NULL, 0, &err) &&
              engine_buffer_alloc(own, (size_t)cells * sizeof(float), &buffer, &err);
    for (size_t i = 0; ok && i < sizeof row_cells / sizeof *row_cells; i++) {
        double gb_s = 0;
        if (cells < row_cells[i]) break;
        ok = rows_read(own, buffer, cells / row_cells[i], row_cells[i], &gb_s, &err);
        if (gb_s > best) best = gb_s;
    }
    if (own) engine_close(own);
    return best;
}
