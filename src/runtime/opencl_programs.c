// opencl_programs: see opencl_programs.h. key → look → build the binary; else build the text → keep its binary.
#include "runtime/opencl_programs.h"

#include <string.h>

#include "base/text.h"

// Changing what a key means changes this text, and with it every key.
static const char FORMAT[] = "lathe OpenCL object 1\n";
static const char SUFFIX[] = ".clbin";
enum { QUOTED_BYTES = 600, GROUP_OF_A_GPU = 64, BYTES_OF_A_SLOT = 16, BYTES_OF_TILES = 4 };

// Numbers that were denormal stay, divisions and roots are rounded right where the device can.
void opencl_programs_open(OpenclPrograms *programs, Arena *arena, const OpenclApi *api, const OpenclChoice *choice, OpenclContext context) {
    *programs = (OpenclPrograms){.api = api, .choice = choice, .context = context};
    programs->options = arena_printf(arena, "-w -cl-std=CL1.2%s%s", choice->rounds_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
                                     choice->is_cpu ? " -DGROUP_ITEMS=1" : "");
    object_folder_open(&programs->folder, arena);
}

void opencl_programs_close(OpenclPrograms *programs) {
    if (atomic_load(&programs->compiled) > 0) object_folder_close(&programs->folder);
}

static SealKey key_of(const OpenclPrograms *p, Arena *arena, const char *text) {
    TextBuilder b = builder(arena);
    builder_printf(&b, "%s%s\n%s\n", FORMAT, p->options, p->choice->identity);
    builder_cstring(&b, text);
    return seal_key((Text){b.at, b.len});
}

static bool program_build(const OpenclPrograms *p, OpenclProgram program, int32_t *status) {
    *status = p->api->BuildProgram(program, 1, &p->choice->device, p->options, NULL, NULL);
    return *status == OPENCL_SUCCESS;
}

static OpenclProgram program_kept(OpenclPrograms *p, Arena *arena, SealKey key) {
    Text image;
    int32_t status, each;
    if (!object_folder_get(&p->folder, arena, key, SUFFIX, &image)) return NULL;
    const unsigned char *bytes = (const unsigned char *)image.at;
    OpenclProgram program = p->api->CreateProgramWithBinary(p->context, 1, &p->choice->device, &image.len, &bytes, &each, &status);
    if (status == OPENCL_SUCCESS && program_build(p, program, &status)) return program;
    object_folder_notice("lathe: a kernel kept in %s is compiled anew: %s\n", p->folder.path, opencl_status_name(status));
    if (program) p->api->ReleaseProgram(program);
    return NULL;
}

static void binary_keep(OpenclPrograms *p, Arena *arena, SealKey key, OpenclProgram program) {
    size_t nbytes = 0;
    if (p->api->GetProgramInfo(program, OPENCL_BINARY_SIZES, sizeof nbytes, &nbytes, NULL) != OPENCL_SUCCESS || nbytes == 0) return;
    char *image = arena_new(arena, nbytes);
    if (p->api->GetProgramInfo(program, OPENCL_BINARIES, sizeof image, &image, NULL) != OPENCL_SUCCESS) return;
    (void)object_folder_put(&p->folder, arena, key, SUFFIX, (Text){image, nbytes});   // if not, it is compiled again
}

static bool build_failed(const OpenclPrograms *p, Arena *arena, const KernelSource *source, SealKey key, OpenclProgram program,
                         int32_t status, Error *err) {
    size_t nbytes = 0;
    const char *log = "nothing";
    if (program && p->api->GetProgramBuildInfo(program, p->choice->device, OPENCL_BUILD_LOG, 0, NULL, &nbytes) == OPENCL_SUCCESS && nbytes > 1) {
        char *text = arena_new(arena, nbytes + 1);
        if (p->api->GetProgramBuildInfo(program, p->choice->device, OPENCL_BUILD_LOG, nbytes, text, NULL) == OPENCL_SUCCESS)
            log = text_cstr(arena, utf8_clean(arena, text_of(text)));
    }
    const char *kept = object_folder_keep_source(&p->folder, arena, key, opencl_dialect.suffix, source->text);
    return fail(err, LATHE_COMPILE, "kernel %s does not compile on %s (%s; its source: %s); the compiler said: %.*s", source->name,
                p->choice->name, opencl_status_name(status), kept ? kept : "not kept, the cache cannot be written to", QUOTED_BYTES, log);
}

static bool program_compile(OpenclPrograms *p, Arena *arena, const KernelSource *source, SealKey key, OpenclProgram *out, Error *err) {
    int32_t status;
    const char *text = source->text;
    *out = p->api->CreateProgramWithSource(p->context, 1, &text, NULL, &status);
    if (status == OPENCL_SUCCESS && program_build(p, *out, &status)) {
        atomic_fetch_add(&p->compiled, 1);
        binary_keep(p, arena, key, *out);
        return true;
    }
    (void)build_failed(p, arena, source, key, *out, status, err);
    if (*out) p->api->ReleaseProgram(*out);
    *out = NULL;
    return false;
}

// What the device may refuse at a launch is asked here.
static bool kernel_fits(const OpenclPrograms *p, const KernelSource *source, OpenclBuilt *built, Error *err) {
    const OpenclApi *api = p->api;
    OpenclDevice device = p->choice->device;
    uint32_t n_arguments = 0;
    size_t most_items = 0, declared[3] = {0}, wanted = p->choice->is_cpu ? 1 : GROUP_OF_A_GPU;
    uint64_t local_bytes = 0;
    if (api->GetKernelInfo(built->kernel, OPENCL_ARGUMENTS, sizeof n_arguments, &n_arguments, NULL) != OPENCL_SUCCESS || n_arguments % 2 == 0 ||
        api->GetKernelWorkGroupInfo(built->kernel, device, OPENCL_GROUP_ITEMS, sizeof most_items, &most_items, NULL) != OPENCL_SUCCESS ||
        api->GetKernelWorkGroupInfo(built->kernel, device, OPENCL_DECLARED_GROUP, sizeof declared, declared, NULL) != OPENCL_SUCCESS ||
        api->GetKernelWorkGroupInfo(built->kernel, device, OPENCL_KERNEL_LOCAL_BYTES, sizeof local_bytes, &local_bytes, NULL) != OPENCL_SUCCESS)
        return fail(err, LATHE_DEVICE, "kernel %s: %s does not say what it needs; update its driver", source->name, p->choice->name);
    built->n_slots = (n_arguments - 1) / 2;
    built->is_group = declared[0] > 1;
    if (built->is_group) wanted = declared[0];
    built->group_items = most_items < wanted ? most_items : wanted;
    size_t parameter_bytes = (size_t)built->n_slots * BYTES_OF_A_SLOT + BYTES_OF_TILES;
    if ((int)built->n_slots > source->n_params)
        return fail(err, LATHE_COMPILE, "kernel %s takes %u buffers and is given %d", source->name, built->n_slots, source->n_params);
    if (built->group_items == 0 || (built->is_group && built->group_items < wanted))
        return fail(err, LATHE_UNSUPPORTED, "kernel %s needs more registers than %s has; use another device", source->name, p->choice->name);
    if (local_bytes > p->choice->local_bytes)
        return fail(err, LATHE_UNSUPPORTED, "kernel %s needs %llu bytes of local memory, %s has %llu; use another device", source->name,
                    (unsigned long long)local_bytes, p->choice->name, (unsigned long long)p->choice->local_bytes);
    if (parameter_bytes > p->choice->parameter_bytes)
        return fail(err, LATHE_UNSUPPORTED, "kernel %s needs %zu bytes of arguments, %s takes %zu; use another device", source->name,
                    parameter_bytes, p->choice->name, p->choice->parameter_bytes);
    return true;
}

bool opencl_program_build(OpenclPrograms *p, const KernelSource *source, OpenclBuilt *out, Error *err) {
    int32_t status;
    Arena *arena = arena_create();
    SealKey key = key_of(p, arena, source->text);
    bool ok = true;
    *out = (OpenclBuilt){.program = program_kept(p, arena, key)};
    if (out->program) atomic_fetch_add(&p->hits, 1);
    else ok = program_compile(p, arena, source, key, &out->program, err);
    if (ok) {
        out->kernel = p->api->CreateKernel(out->program, source->name, &status);
        if (!out->kernel) ok = fail(err, LATHE_COMPILE, "kernel %s: its program has none of this name: %s", source->name, opencl_status_name(status));
    }
    ok = ok && kernel_fits(p, source, out, err);
    if (!ok) opencl_program_release(p, out);
    arena_destroy(arena);
    return ok;
}

void opencl_program_release(const OpenclPrograms *p, OpenclBuilt *built) {
    if (built->kernel) p->api->ReleaseKernel(built->kernel);
    if (built->program) p->api->ReleaseProgram(built->program);
    *built = (OpenclBuilt){0};
}
