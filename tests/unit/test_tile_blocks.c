// test_tile_blocks: which tiles a worker takes, and what it may ask for ahead: its share of both.
// In: nothing. Out: one cmocka group.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/devices.h"
#include "runtime/later.h"
#include "runtime/tile_blocks.h"
#include "runtime/workers.h"
#undef fail // cmocka has its own
#include <cmocka.h>

enum { MOST_WORKERS = 7, STAGES = 60, TILES = 200 };

static void takes(TileBlock *blocks, int worker, int stage, long n_tiles, long want_first, long want_end) {
    long end = -1, first = tile_blocks_take(blocks, worker, 2, stage, n_tiles, &end);
    assert_int_equal(first, want_first);
    if (first >= 0) assert_int_equal(end, want_end);
}

// Halves of the own block from its beginning, then halves of the other's from its end, whether its worker has come or not.
static void own_tiles_first(void **state) {
    (void)state;
    TileBlock blocks[2];
    tile_blocks_reset(blocks, 2);
    static const long ends[] = {25, 38, 44, 47, 49, 50};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) takes(blocks, 0, 0, 100, i ? ends[i - 1] : 0, ends[i]);
    takes(blocks, 0, 0, 100, 75, 100);
    takes(blocks, 1, 0, 100, 50, 63);
    takes(blocks, 0, 0, 100, 69, 75);
    static const long rest[] = {66, 68, 69};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) takes(blocks, 1, 0, 100, i ? rest[i - 1] : 63, rest[i]);
    for (int worker = 0; worker < 2; worker++) takes(blocks, worker, 0, 100, -1, 0);
    takes(blocks, 1, 1, 1, 0, 1);
    takes(blocks, 0, 1, 1, -1, 0);
    takes(blocks, 0, 2, 0, -1, 0);
    takes(blocks, 0, 3, 1, 0, 1);   // of worker 1, which has not left the stage before
    takes(blocks, 1, 3, 1, -1, 0);
}

// More tiles than a word can count are taken several at once.
static void any_number_of_tiles(void **state) {
    (void)state;
    static const long numbers[] = {(1L << 22) - 1, 1L << 22, (1L << 22) + 1, (1L << 33) + 5};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        TileBlock blocks[3];
        long taken = 0, first, end;
        tile_blocks_reset(blocks, 3);
        while ((first = tile_blocks_take(blocks, 1, 3, TILE_STAGES_MAX - 1, numbers[i], &end)) >= 0) {
            assert_true(end > first && end <= numbers[i]);
            taken += end - first;
        }
        assert_int_equal(taken, numbers[i]);
    }
}

typedef struct Run { TileBlock blocks[MOST_WORKERS]; atomic_int taken[STAGES][TILES]; int late; } Run;

static void take_all(void *arg, int worker, int n_workers) {
    Run *run = arg;
    if (worker == run->late) usleep(2000);
    for (int s = 0; s < STAGES; s++)
        for (long first, end; (first = tile_blocks_take(run->blocks, worker, n_workers, s, (s * 37) % TILES, &end)) >= 0;)
            for (long t = first; t < end; t++) atomic_fetch_add(&run->taken[s][t], 1);
}

static void each_tile_is_taken_once(void **state) {
    (void)state;
    static Run run;
    for (int n = 1; n <= MOST_WORKERS; n++) {
        Workers *workers = workers_create(n);
        for (int round = 0; round < 50; round++) {
            memset(&run, 0, sizeof run);
            run.late = round % (n + 1);
            tile_blocks_reset(run.blocks, n);
            workers_run(workers, n, take_all, &run);
            for (int s = 0; s < STAGES; s++)
                for (int t = 0; t < TILES; t++) assert_int_equal(run.taken[s][t], t < (s * 37) % TILES);
        }
        workers_destroy(workers);
    }
}

// ---- what later stages read

static char weights[1 << 16];
static Span part(size_t from, size_t n) { return (Span){weights + from, weights + from + n}; }

static void piece_is(const Later *later, size_t from, size_t n) {
    assert_ptr_equal(later->piece.at, weights + from);
    assert_int_equal(later->piece.end - later->piece.at, n);
}

static void pieces_are_shares_in_order(void **state) {
    (void)state;
    const Span two[] = {part(0, 100), part(200, 1001)}, one = part(2000, 300), last = part(4000, 64);
    const Stage stages[] = {{.nbytes = 10}, {.reads = two, .n_reads = 2, .nbytes = 1200}, {.nbytes = 5000},
                            {.reads = &one, .n_reads = 1, .nbytes = 300}, {.reads = &last, .n_reads = 1, .nbytes = 64}};
    for (int worker = 0; worker < 2; worker++) {
        Stages all = {stages, 5, 6500};
        Later later = {0};
        later_refill(&later, &all, 0, worker, 2);
        piece_is(&later, worker ? 50 : 0, 50);
        later.piece.at += 20;
        later_refill(&later, &all, 0, worker, 2);   // what is left of a piece stays
        piece_is(&later, worker ? 70 : 20, 30);
        later.piece.at = later.piece.end;
        later_refill(&later, &all, 0, worker, 2);
        piece_is(&later, worker ? 700 : 200, worker ? 501 : 500);
        later.piece.at = later.piece.end;
        later_refill(&later, &all, 0, worker, 2);
        piece_is(&later, worker ? 2150 : 2000, 150);
        later.piece.at = later.piece.end;
        later_refill(&later, &all, 0, worker, 2);   // 6,500 bytes lie between: no cache holds more
        assert_ptr_equal(later.piece.at, later.piece.end);
        later_refill(&later, &all, 2, worker, 2);   // the piece of stage 3 was asked for
        piece_is(&later, worker ? 4032 : 4000, 32);
        later_refill(&later, &all, 4, worker, 2);   // nothing comes behind the last
        assert_ptr_equal(later.piece.at, later.piece.end);
    }
    Later later = {0};
    later_refill(&later, &(Stages){stages, 5, 0}, 0, 0, 2);
    assert_ptr_equal(later.piece.at, later.piece.end);
}

// A stage that asks is handed what the one behind it reads, each byte once, wherever its tiles run; tiles with nothing to do run, too.
static void stages_hand_it_out(void **state) {
    (void)state;
    enum { N = 40, OF_TILE = 192, EMPTY_FROM = 30, WHOLE = N * OF_TILE };
    const Device *cpu = device_find("cpu");
    Error err = {0};
    const KernelSource sources[] = {
        {.name = "asking", .n_params = 3,
         .text = "typedef struct span { const char *at, *end; } span;\n"
                 "void asking(void *const *p, long a, long b, span *later) {\n"
                 "    for (; a < b; a++) {\n"
                 "        ((int *)p[1])[a]++;\n"
                 "        for (int i = 0; i < 3 && a < 30 && later->at < later->end; i++, later->at += 64) {\n"
                 "            __atomic_fetch_add(&((char *)p[0])[(later->at - (const char *)p[2]) / 64], 1, 5);\n"
                 "        }\n"
                 "    }\n"
                 "}\n"
                 "const long asking_asks = 3;\n"},
        {.name = "reading", .n_params = 1, .text = "void reading(void *const *p, long a, long b, void *later) {}\n"}};
    for (int threads = 1; threads <= 3; threads++) {
        DeviceState *device;
        Program *programs[2];
        if (!cpu->open(&device, NULL, threads, &err) || !cpu->compile(device, sources, 2, programs, &err)) fail_msg("%s", err.text);
        char asked[WHOLE / 64] = {0};
        int ran[N] = {0};
        void *params[] = {asked, ran, weights};
        const Span reads = part(0, WHOLE);
        const Stage stages[] = {{.program = programs[0], .params = params, .tiles = N, .nbytes = 1},
                                {.program = programs[1], .params = params, .tiles = 1, .needs_barrier = true, .nbytes = WHOLE, .reads = &reads, .n_reads = 1}};
        assert_true(cpu->run(device, stages, 2, NULL, &err));
        long all = 0;
        for (int i = 0; i < N; i++) assert_int_equal(ran[i], 1);
        for (size_t i = 0; i < sizeof asked; i++) {
            assert_true(asked[i] <= 1);
            all += asked[i];
        }
        if (threads == 1) assert_int_equal(all, EMPTY_FROM * 3);
        else assert_in_range(all, 1, EMPTY_FROM * 3);
        for (int i = 0; i < 2; i++) cpu->unload(device, programs[i]);
        cpu->close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_tiles_first),
        cmocka_unit_test(any_number_of_tiles),
        cmocka_unit_test(each_tile_is_taken_once),
        cmocka_unit_test(pieces_are_shares_in_order),
        cmocka_unit_test(stages_hand_it_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
