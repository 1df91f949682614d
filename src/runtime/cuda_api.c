// cuda_api: see cuda_api.h.
#include "runtime/cuda_api.h"

#include <string.h>

#include "base/os.h"
#include "base/settings.h"

static const char *const drivers[] = {"libcuda.so.1", "libcuda.so"};
static const char *const compilers[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so", "/usr/local/cuda/lib/libnvrtc.so"};

// The library at `wanted`, or the first of several that is there. They stay loaded: they keep threads and handlers of their own.
static void *library_of(const char *wanted, const char *const *names, size_t n, Error *why) {
    Error other = {0};
    if (*wanted) return library_open(wanted, why);
    for (size_t i = 0; i < n; i++) {
        void *library = library_open(names[i], i == 0 ? why : &other);
        if (library) return library;
    }
    return NULL;
}

bool cuda_api_open(CudaApi *api, Error *err) {
    Error why = {0};
    void *driver = library_of(setting_text(SETTING_CUDA), drivers, sizeof drivers / sizeof *drivers, &why);
    if (!driver) return fail(err, LATHE_DEVICE, "no CUDA: %s; install the driver of your NVIDIA GPU, or set LATHE_CUDA", why.text);
    void *compiler = library_of(setting_text(SETTING_NVRTC), compilers, sizeof compilers / sizeof *compilers, &why);
    if (!compiler)
        return fail(err, LATHE_DEVICE, "no compiler for CUDA: %s; install NVRTC (pip install nvidia-cuda-nvrtc-cu12, or the CUDA toolkit) "
                    "or set LATHE_NVRTC to its library", why.text);
#define CUDA_FUNCTION(name, symbol, ...) \
    { \
        void *found = library_symbol(driver, symbol); \
        if (!found) return fail(err, LATHE_DEVICE, "this machine's CUDA driver lacks " symbol ", which version 12 has; update it"); \
        memcpy(&api->name, &found, sizeof found); \
    }
#define NVRTC_FUNCTION(name, symbol, ...) \
    { \
        void *found = library_symbol(compiler, symbol); \
        if (!found) return fail(err, LATHE_DEVICE, "this machine's NVRTC lacks " symbol ", which version 12 has; update it"); \
        memcpy(&api->nvrtc##name, &found, sizeof found); \
    }
#include "runtime/cuda_api.def"
#undef CUDA_FUNCTION
#undef NVRTC_FUNCTION
    return true;
}

const char *cuda_status_name(const CudaApi *api, int32_t status) {
    const char *name = NULL;
    return api->GetErrorName(status, &name) == CUDA_SUCCESS && name ? name : "an unknown error of CUDA";
}
