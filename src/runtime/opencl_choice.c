// opencl_choice: see opencl_choice.h.
#include "runtime/opencl_choice.h"

#include <ctype.h>
#include <string.h>

#include "base/settings.h"
#include "base/text.h"
#include "base/vec.h"

typedef struct Candidate { OpenclPlatform platform; OpenclDevice device; const char *name; uint64_t type; bool fits; } Candidate;
typedef VEC(Candidate) Candidates;

static const char *platform_text(const OpenclApi *api, Arena *arena, OpenclPlatform platform, uint32_t what) {
    size_t nbytes = 0;
    if (api->GetPlatformInfo(platform, what, 0, NULL, &nbytes) != OPENCL_SUCCESS) return "";
    char *text = arena_new(arena, nbytes + 1);
    return api->GetPlatformInfo(platform, what, nbytes, text, NULL) == OPENCL_SUCCESS ? text : "";
}

static const char *device_text(const OpenclApi *api, Arena *arena, OpenclDevice device, uint32_t what) {
    size_t nbytes = 0;
    if (api->GetDeviceInfo(device, what, 0, NULL, &nbytes) != OPENCL_SUCCESS) return "";
    char *text = arena_new(arena, nbytes + 1);
    return api->GetDeviceInfo(device, what, nbytes, text, NULL) == OPENCL_SUCCESS ? text : "";
}

// A number of 4 or 8 bytes; 0 where the device does not say.
static uint64_t device_number(const OpenclApi *api, OpenclDevice device, uint32_t what) {
    uint64_t wide = 0;
    uint32_t narrow = 0;
    if (api->GetDeviceInfo(device, what, sizeof narrow, &narrow, NULL) == OPENCL_SUCCESS) return narrow;
    return api->GetDeviceInfo(device, what, sizeof wide, &wide, NULL) == OPENCL_SUCCESS ? wide : 0;
}

static void candidates_add(const OpenclApi *api, Arena *arena, OpenclPlatform platform, Candidates *all) {
    uint32_t n = 0;
    if (api->GetDeviceIDs(platform, OPENCL_ANY_TYPE, 0, NULL, &n) != OPENCL_SUCCESS || n == 0) return;
    OpenclDevice *devices = arena_new(arena, n * sizeof *devices);
    if (api->GetDeviceIDs(platform, OPENCL_ANY_TYPE, n, devices, NULL) != OPENCL_SUCCESS) return;
    for (uint32_t i = 0; i < n; i++) {
        Candidate c = {platform, devices[i], NULL, device_number(api, devices[i], OPENCL_TYPE), false};
        c.name = arena_printf(arena, "%s (%s)", device_text(api, arena, c.device, OPENCL_NAME),
                              platform_text(api, arena, platform, OPENCL_PLATFORM_NAME));
        c.fits = device_number(api, c.device, OPENCL_IS_AVAILABLE) && device_number(api, c.device, OPENCL_HAS_COMPILER) &&
                 device_number(api, c.device, OPENCL_IS_LITTLE_ENDIAN);
        vec_push(arena, all, c);
    }
}

static bool contains(const char *text, const char *part) {   // whatever the case
    for (;; text++) {
        size_t i = 0;
        while (part[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) i++;
        if (!part[i]) return true;
        if (!*text) return false;
    }
}

static const char *names_of(Arena *arena, const Candidates *all) {
    TextBuilder b = builder(arena);
    for (size_t i = 0; i < all->len; i++)
        builder_printf(&b, "%s\"%s\"%s", i ? ", " : "", all->at[i].name, all->at[i].fits ? "" : ", which is not available or has no compiler");
    return builder_cstr(&b);
}

static bool candidate_choose(Arena *arena, const Candidates *all, const Candidate **chosen, Error *err) {
    const char *wanted = setting_text(SETTING_OPENCL);
    *chosen = NULL;
    for (size_t i = 0; i < all->len; i++) {
        const Candidate *c = &all->at[i];
        if (!c->fits || !contains(c->name, wanted)) continue;
        if (!*chosen || (c->type & OPENCL_GPU && !((*chosen)->type & OPENCL_GPU))) *chosen = c;
    }
    if (*chosen) return true;
    if (*wanted)
        return fail(err, LATHE_BAD_REQUEST, "LATHE_OPENCL=%s: no OpenCL device that can be used has this in its name; there are: %s", wanted,
                    names_of(arena, all));
    return fail(err, LATHE_DEVICE, "no OpenCL device can be used; there are: %s", names_of(arena, all));
}

bool opencl_choose(const OpenclApi *api, Arena *arena, OpenclChoice *out, Error *err) {
    uint32_t n = 0;
    Candidates all = {0};
    const Candidate *c;
    if (api->GetPlatformIDs(0, NULL, &n) != OPENCL_SUCCESS) n = 0;
    OpenclPlatform *platforms = arena_new(arena, (n + 1) * sizeof *platforms);
    if (n && api->GetPlatformIDs(n, platforms, NULL) != OPENCL_SUCCESS) n = 0;
    for (uint32_t i = 0; i < n; i++) candidates_add(api, arena, platforms[i], &all);
    if (all.len == 0)
        return fail(err, LATHE_DEVICE, "no OpenCL %s: install the OpenCL driver of your GPU, or, to compute on this CPU, PoCL (Debian: "
                    "apt-get install pocl-opencl-icd)", n ? "device" : "platform");
    TRY(candidate_choose(arena, &all, &c, err));
    *out = (OpenclChoice){
        .device = c->device,
        .name = c->name,
        .identity = arena_printf(arena, "%s\n%s\n%s\n%s", c->name, platform_text(api, arena, c->platform, OPENCL_PLATFORM_VERSION),
                                 device_text(api, arena, c->device, OPENCL_VERSION), device_text(api, arena, c->device, OPENCL_DRIVER_VERSION)),
        .is_cpu = c->type & OPENCL_CPU,
        .shares_host_memory = device_number(api, c->device, OPENCL_SHARES_HOST_MEMORY),
        .rounds_division = device_number(api, c->device, OPENCL_SINGLE_CONFIG) & OPENCL_ROUNDS_DIVISION,
        .compute_units = (uint32_t)device_number(api, c->device, OPENCL_COMPUTE_UNITS),
        .largest_buffer = device_number(api, c->device, OPENCL_LARGEST_BUFFER),
        .local_bytes = device_number(api, c->device, OPENCL_LOCAL_BYTES),
        .parameter_bytes = (size_t)device_number(api, c->device, OPENCL_PARAMETER_BYTES),
    };
    return true;
}
