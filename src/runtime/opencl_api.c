// opencl_api: see opencl_api.h.
#include "runtime/opencl_api.h"

#include <string.h>

#include "base/os.h"

static const char *const library_names[] = {"libOpenCL.so.1", "libOpenCL.so", "/System/Library/Frameworks/OpenCL.framework/OpenCL"};

typedef struct StatusName { int32_t status; const char *name; } StatusName;
static const StatusName status_names[] = {
    {-1, "device not found"}, {-2, "device not available"}, {-3, "compiler not available"}, {-4, "no memory for a buffer"},
    {-5, "out of resources"}, {-6, "out of host memory"}, {-11, "the build failed"}, {-14, "a command failed"}, 
    {-36, "invalid queue"}, {-38, "invalid buffer"}, {-42, "invalid binary"}, {-45, "invalid program"}, {-46, "no kernel of this name"},
    {-52, "arguments are missing"}, {-54, "invalid size of a group"}, {-55, "invalid number of work items"}, {-61, "invalid size of a buffer"},
    {-1001, "no platform"},
};

const char *opencl_status_name(int32_t status) {
    for (size_t i = 0; i < sizeof status_names / sizeof *status_names; i++)
        if (status_names[i].status == status) return status_names[i].name;
    return "an OpenCL error";
}

// The library stays loaded: drivers keep threads and handlers of exit of their own.
bool opencl_api_open(OpenclApi *api, Error *err) {
    void *library = NULL;
    Error why = {0}, first = {0};
    for (size_t i = 0; !library && i < sizeof library_names / sizeof *library_names; i++) {
        library = library_open(library_names[i], &why);
        if (i == 0) first = why;
    }
    if (!library)
        return fail(err, LATHE_DEVICE, "no OpenCL: %s; install the driver of your GPU and ocl-icd-libopencl1, or, to compute on this CPU, "
                    "PoCL (Debian: apt-get install pocl-opencl-icd)", first.text);
#define OPENCL_FUNCTION(result, name, ...) \
    { \
        void *symbol = library_symbol(library, "cl" #name); \
        if (!symbol) return fail(err, LATHE_DEVICE, "this machine's OpenCL lacks cl" #name ", which version 1.2 has; update its driver"); \
        memcpy(&api->name, &symbol, sizeof symbol); \
    }
#include "runtime/opencl_api.def"
#undef OPENCL_FUNCTION
    return true;
}
