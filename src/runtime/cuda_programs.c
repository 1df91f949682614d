// cuda_programs: see cuda_programs.h. key → look → the image; else compile the text → keep its image. Modules are loaded by
// the caller's thread, in whose context they are.
#include "runtime/cuda_programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/settings.h"
#include "base/text.h"
#include "runtime/program_batch.h"

// Changing what a key means changes this text, and with it every key.
static const char FORMAT[] = "lathe CUDA object 1\n";
static const char SUFFIX[] = ".cubin";
enum { QUOTED_BYTES = 600, DEBUG_REPORTS = 2 };

void cuda_programs_open(CudaPrograms *p, Arena *arena, const CudaApi *api, const char *architecture) {
    int32_t major = 0, minor = 0;
    *p = (CudaPrograms){.api = api};
    if (api->nvrtcVersion(&major, &minor) != CUDA_SUCCESS) major = minor = 0;
    // Nothing is contracted, denormal numbers stay. Divisions and roots are off by two units in the last place at most: right ones
    // have branches, behind which loads of weights would wait.
    p->options[p->n_options++] = arena_printf(arena, "--gpu-architecture=%s", architecture);
    p->options[p->n_options++] = "--std=c++17";
    p->options[p->n_options++] = "--fmad=false";
    p->options[p->n_options++] = "--prec-div=false";
    p->options[p->n_options++] = "--prec-sqrt=false";
    p->options[p->n_options++] = "--device-as-default-execution-space";
    p->options[p->n_options++] = "--disable-warnings";
    p->identity = arena_printf(arena, "%s\nNVRTC %d.%d\n", architecture, major, minor);
    object_folder_open(&p->folder, arena);
}

void cuda_programs_close(CudaPrograms *p) {
    if (atomic_load(&p->compiled) > 0) object_folder_close(&p->folder);
}

static SealKey key_of(const CudaPrograms *p, Arena *arena, const char *text) {
    TextBuilder b = builder(arena);
    builder_printf(&b, "%s%s", FORMAT, p->identity);
    for (int i = 0; i < p->n_options; i++) builder_printf(&b, "%s\n", p->options[i]);
    builder_cstring(&b, text);
    return seal_key((Text){b.at, b.len});
}

static const char *log_of(const CudaPrograms *p, Arena *arena, NvrtcProgram program) {
    size_t nbytes = 0;
    if (p->api->nvrtcGetProgramLogSize(program, &nbytes) != CUDA_SUCCESS || nbytes < 2) return "nothing";
    char *text = arena_new(arena, nbytes + 1);
    if (p->api->nvrtcGetProgramLog(program, text) != CUDA_SUCCESS) return "nothing";
    return text_cstr(arena, utf8_clean(arena, text_of(text)));
}

// LATHE_DEBUG=2 shows what the assembler says of registers, shared memory and spills.
static bool text_compile(CudaPrograms *p, Arena *arena, const KernelSource *source, SealKey key, Text *image, Error *err) {
    const char *options[sizeof p->options / sizeof *p->options + 1];
    NvrtcProgram program = NULL;
    int n = p->n_options;
    bool reports = setting_int(SETTING_DEBUG) >= DEBUG_REPORTS;
    memcpy(options, p->options, sizeof p->options);
    if (reports) options[n++] = "--ptxas-options=-v";
    int32_t status = p->api->nvrtcCreateProgram(&program, source->text, source->name, 0, NULL, NULL);
    if (status == CUDA_SUCCESS) status = p->api->nvrtcCompileProgram(program, n, options);
    if (status == CUDA_SUCCESS) status = p->api->nvrtcGetCUBINSize(program, &image->len);
    if (status == CUDA_SUCCESS) {
        char *at = arena_new(arena, image->len + 1);
        image->at = at;
        status = p->api->nvrtcGetCUBIN(program, at);
    }
    if (status != CUDA_SUCCESS) {
        const char *kept = object_folder_keep_source(&p->folder, arena, key, cuda_dialect.suffix, source->text);
        (void)fail(err, LATHE_COMPILE, "kernel %s does not compile (NVRTC's status %d; its source: %s); the compiler said: %.*s", source->name,
                   status, kept ? kept : "not kept, the cache cannot be written to", QUOTED_BYTES, program ? log_of(p, arena, program) : "nothing");
    } else if (reports) fprintf(stderr, "-- %s\n%s\n", source->name, log_of(p, arena, program));
    if (program) (void)p->api->nvrtcDestroyProgram(&program);
    if (status != CUDA_SUCCESS) return false;
    atomic_fetch_add(&p->compiled, 1);
    (void)object_folder_put(&p->folder, arena, key, SUFFIX, *image);   // if not, it is compiled again
    return true;
}

typedef struct Image { Text bytes; bool is_kept; } Image;

typedef struct Batch {
    CudaPrograms *programs;
    const KernelSource *sources;
    Image *images;
    Arena **arenas;                    // of each source, where its image lies
    int n;
    bool is_fresh;                     // what is kept is not taken
} Batch;

static bool image_get(void *context, int i, Error *err) {
    const Batch *batch = context;
    CudaPrograms *p = batch->programs;
    const KernelSource *source = &batch->sources[i];
    if (!source->text) return fail(err, LATHE_COMPILE, "kernel %s has no text", source->name);
    if (source->n_params > CUDA_MOST_PARAMS)
        return fail(err, LATHE_UNSUPPORTED, "kernel %s takes %d buffers, a card takes %d; use another device", source->name, source->n_params, CUDA_MOST_PARAMS);
    SealKey key = key_of(p, batch->arenas[i], source->text);
    if (!batch->is_fresh && object_folder_get(&p->folder, batch->arenas[i], key, SUFFIX, &batch->images[i].bytes)) {
        batch->images[i].is_kept = true;
        atomic_fetch_add(&p->hits, 1);
        return true;
    }
    batch->images[i].is_kept = false;
    return text_compile(p, batch->arenas[i], source, key, &batch->images[i].bytes, err);
}

static bool kernel_load(CudaPrograms *p, const KernelSource *source, const Image *image, CudaBuilt *built, Error *err) {
    const CudaApi *api = p->api;
    int32_t threads = 0, registers = 0, local_bytes = 0, shared_bytes = 0;
    int32_t status = api->ModuleLoadData(&built->module, image->bytes.at);
    if (status == CUDA_SUCCESS) status = api->ModuleGetFunction(&built->function, built->module, source->name);
    if (status == CUDA_SUCCESS) status = api->FuncGetAttribute(&threads, CUDA_FUNCTION_THREADS, built->function);
    if (status == CUDA_SUCCESS) status = api->FuncGetAttribute(&registers, CUDA_FUNCTION_REGISTERS, built->function);
    if (status == CUDA_SUCCESS) status = api->FuncGetAttribute(&local_bytes, CUDA_FUNCTION_LOCAL_BYTES, built->function);
    if (status == CUDA_SUCCESS) status = api->FuncGetAttribute(&shared_bytes, CUDA_FUNCTION_SHARED_BYTES, built->function);
    if (status != CUDA_SUCCESS)
        return fail(err, LATHE_DEVICE, "kernel %s cannot be loaded: %s; update the driver", source->name, cuda_status_name(api, status));
    built->threads = (unsigned)threads;
    if (setting_int(SETTING_DEBUG) >= 1)
        fprintf(stderr, "lathe: kernel %s: %d threads, %d registers, %d bytes of local and %d of shared memory\n", source->name, threads,
                registers, local_bytes, shared_bytes);
    return threads > 0 || fail(err, LATHE_DEVICE, "kernel %s can be run by no thread", source->name);
}

static bool kernels_load(Batch *batch, CudaBuilt *built, Error *err) {
    CudaPrograms *p = batch->programs;
    for (int i = 0; i < batch->n; i++) {
        if (kernel_load(p, &batch->sources[i], &batch->images[i], &built[i], err)) continue;
        if (!batch->images[i].is_kept) return false;
        object_folder_notice("lathe: a kernel kept in %s is compiled anew: %s\n", p->folder.path, err->text);
        cuda_program_release(p, &built[i]);
        batch->is_fresh = true;
        if (!image_get(batch, i, err) || !kernel_load(p, &batch->sources[i], &batch->images[i], &built[i], err)) return false;
    }
    return true;
}

bool cuda_programs_build(CudaPrograms *p, const KernelSource *sources, int n, CudaBuilt *built, Error *err) {
    Arena *own = arena_create();
    Batch batch = {.programs = p, .sources = sources, .n = n};
    batch.images = arena_new(own, (size_t)(n + 1) * sizeof *batch.images);
    batch.arenas = arena_new(own, (size_t)(n + 1) * sizeof *batch.arenas);
    for (int i = 0; i < n; i++) batch.arenas[i] = arena_create(), built[i] = (CudaBuilt){0};
    bool ok = parallel_run(n, program_threads(), image_get, &batch, err) && kernels_load(&batch, built, err);
    for (int i = 0; i < n && !ok; i++) cuda_program_release(p, &built[i]);
    for (int i = 0; i < n; i++) arena_destroy(batch.arenas[i]);
    arena_destroy(own);
    return ok;
}

void cuda_program_release(const CudaPrograms *p, CudaBuilt *built) {
    if (built->module) (void)p->api->ModuleUnload(built->module);
    *built = (CudaBuilt){0};
}
